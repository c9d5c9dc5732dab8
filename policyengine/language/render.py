"""Diagnostics as text: the message, the place, the source line with a caret, the other places, the help.

    error[PE003 duplicate-key]: `ban` is written twice
      --> policies/a.yaml:9:5
       |
     4 |     ban:
       |     --- first here
     9 |     ban:
       |     ^^^
       |
       = help: ...

Columns count code points. Wide characters take two cells and marks none, so that carets stand under what they mean;
a source line is clipped around the place, and what could play tricks with a terminal is replaced.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence

from policyengine.language import limits
from policyengine.language.diagnostics import Diagnostic, Label
from policyengine.language.policyset import Span

_WIDTH = 120  # code points of a source line that are shown
_BEFORE = 40  # of them before the place, where the line is longer
_TAB = 4
_BREAK = re.compile(r"\r\n|\n|\r")


class Lines:
    """A source text by lines. YAML's line breaks: LF, CRLF, CR."""

    def __init__(self, text: str) -> None:
        self._text = text
        breaks = list(_BREAK.finditer(text))
        self._starts = [0, *(found.end() for found in breaks)]
        self._ends = [*(found.start() for found in breaks), len(text)]

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, line: int) -> str:
        """The text of a line, counted from 1, without its break; empty past the end."""
        if not 1 <= line <= len(self._starts):
            return ""
        return self._text[self._starts[line - 1] : self._ends[line - 1]]

    def position(self, index: int) -> tuple[int, int]:
        """Line and column, from 1, of a code point of the text."""
        line = bisect_right(self._starts, index)
        return line, index - self._starts[line - 1] + 1

    def index(self, line: int, column: int) -> int:
        """The inverse of `position`."""
        return self._starts[line - 1] + column - 1


def render(diagnostics: Sequence[Diagnostic], sources: Mapping[str, str]) -> str:
    """Text for people: one block a diagnostic, the first `limits.SHOWN` of each file, then how many more there are."""
    lines: dict[str, Lines] = {}
    shown: dict[str, int] = {}
    blocks = []
    for found in diagnostics:
        file = found.span.file
        shown[file] = shown.get(file, 0) + 1
        if shown[file] <= limits.SHOWN.default:
            blocks.append("\n".join(_block(found, sources, lines)))
    for file, count in shown.items():
        if count > limits.SHOWN.default:
            blocks.append(f"{file}: {count - limits.SHOWN.default} more not shown")
    return "\n\n".join(blocks)


def _block(found: Diagnostic, sources: Mapping[str, str], cache: dict[str, Lines]) -> Iterator[str]:
    at = found.span
    here = [label for label in found.labels if label.span.file == at.file]
    elsewhere = [label for label in found.labels if label.span.file != at.file]
    width = max(len(str(span.line)) for span in (at, *(label.span for label in found.labels)))
    gutter = " " * width
    yield f"{found.severity}[{found.code} {found.name}]: {found.message}"
    yield f"{gutter} --> {at.file}:{at.line}:{at.column}"
    marks = [(at, "^", found.label), *((label.span, "-", label.text) for label in here)]
    yield from _snippet(marks, _lines(at.file, sources, cache), width)
    for file, labels in _by_file(elsewhere):
        first = labels[0].span
        yield f"{gutter} ::: {file}:{first.line}:{first.column}"
        marks = [(label.span, "-", label.text) for label in labels]
        yield from _snippet(marks, _lines(file, sources, cache), width)
    if found.help:
        first_line, *more = found.help.split("\n")
        yield f"{gutter} = help: {first_line}"
        yield from (f"{gutter}         {line}" for line in more)


def _by_file(labels: Iterable[Label]) -> list[tuple[str, list[Label]]]:
    files: dict[str, list[Label]] = {}
    for label in labels:
        files.setdefault(label.span.file, []).append(label)
    return list(files.items())


def _lines(file: str, sources: Mapping[str, str], cache: dict[str, Lines]) -> Lines | None:
    if file not in cache and file in sources:
        cache[file] = Lines(sources[file])
    return cache.get(file)


def _snippet(marks: list[tuple[Span, str, str]], lines: Lines | None, width: int) -> Iterator[str]:
    """The source lines of some marks in one file, each with its underlines. Nothing for a file that is not at hand."""
    if lines is None:
        return
    gutter = " " * width
    yield f"{gutter} |"
    last = 0
    for span, sign, label in sorted(marks, key=lambda mark: (mark[0].line, mark[0].column)):
        text, start, length = _clip(lines[span.line], span)
        if span.line != last:
            yield f"{span.line:>{width}} | {text}".rstrip()
            last = span.line
        yield f"{gutter} | {' ' * start}{sign * length} {label}".rstrip()
    yield f"{gutter} |"


def _clip(line: str, span: Span) -> tuple[str, int, int]:
    """A line as it is shown, the cell where its underline starts and the underline's length in cells."""
    begin = min(span.column - 1, len(line))
    end = min(max(begin, span.end_column - 1 if span.end_line == span.line else len(line)), len(line))
    low = max(0, begin - _BEFORE) if len(line) > _WIDTH else 0
    high = min(len(line), low + _WIDTH)
    shown, cells = ["…"] if low else [], [1 if low else 0]
    for ch in line[low:high]:
        text, size = _cell(ch, cells[-1])
        shown.append(text)
        cells.append(cells[-1] + size)
    start = cells[begin - low]
    length = max(1, cells[min(end, high) - low] - start)
    return "".join(shown) + ("…" if high < len(line) else ""), start, length


def _cell(ch: str, at: int) -> tuple[str, int]:
    """How a character is shown, and how many cells that takes."""
    if " " <= ch <= "~":
        return ch, 1
    if ch == "\t":
        size = _TAB - at % _TAB
        return " " * size, size
    category = unicodedata.category(ch)
    if category in ("Mn", "Me"):
        return ch, 0
    if category in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return "\ufffd", 1
    return ch, 2 if unicodedata.east_asian_width(ch) in "WF" else 1
