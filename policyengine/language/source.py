"""A file as text, read once and strictly, and the sink for everything found on the way."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from policyengine.language import limits
from policyengine.language.diagnostics import Diagnostic, Label, diagnostic, visible
from policyengine.language.policyset import Span
from policyengine.language.render import Lines

_BOM = "\ufeff"


class Report:
    """Collects diagnostics, and the sources that they point into."""

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []
        self.sources: dict[str, str] = {}
        self._places: dict[tuple[str, int, int], str] = {}
        self._counts: dict[str, int] = {}

    def add(
        self,
        name: str,
        message: str,
        span: Span,
        *,
        hint: str | None = None,
        label: str = "",
        labels: Iterable[Label] = (),
    ) -> None:
        """Report under a registered name (`codes`). Beyond `limits.REPORTED` for a file only that there are more."""
        self.cover(span, name)
        count = self._counts[span.file] = self._counts.get(span.file, 0) + 1
        if count > limits.REPORTED.default:
            if count == limits.REPORTED.default + 1:
                message = f"more than {limits.REPORTED.default:,} {limits.REPORTED.unit}; the first ones are reported"
                self.diagnostics.append(diagnostic("over-limit", message, top(span.file)))
            return
        self.diagnostics.append(diagnostic(name, message, span, hint=hint, label=label, labels=labels))

    def cover(self, span: Span, name: str) -> None:
        """Take what starts here as reported under this name."""
        self._places.setdefault((span.file, span.line, span.column), name)

    def full(self, file: str) -> bool:
        """Whether more findings in this file would not be kept."""
        return self._counts.get(file, 0) > limits.REPORTED.default

    def reported_at(self, span: Span) -> str | None:
        """The name under which what starts here was reported, if it was: a second finding would only be noise."""
        return self._places.get((span.file, span.line, span.column))


class Source:
    """The text of one file. `name` is how people know it; a byte order mark is not part of `text`."""

    def __init__(self, name: str, path: Path, text: str) -> None:
        self.name = name
        self.path = path
        self.text = text
        self._lines: Lines | None = None

    @property
    def lines(self) -> Lines:
        """The text by lines; made when it is first asked for."""
        if self._lines is None:
            self._lines = Lines(self.text)
        return self._lines

    def span(self, start: int, end: int) -> Span:
        """The span of the code points from index `start` to before `end`."""
        return Span(self.name, *self.lines.position(start), *self.lines.position(end))


def top(file: str) -> Span:
    """The start of a file, for what is wrong with it as a whole."""
    return Span(file, 1, 1, 1, 1)


def read(path: Path, name: str, report: Report, *, blame: Span | None = None) -> Source | None:
    """Read a file as strict UTF-8. What is wrong is reported and gives None.

    `blame`: where a file that cannot be opened is reported; None: at the file itself.
    """
    try:
        data = _bytes(path)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        report.add("unreadable-file", f"cannot read `{visible(name)}`: {_lower(reason)}", blame or top(name))
        return None
    limit = limits.FILE_BYTES.default
    if len(data) > limit:
        message = f"`{visible(name)}` has more than {limit:,} {limits.FILE_BYTES.unit}"
        report.add("over-limit", message, blame or top(name), hint=limits.FILE_BYTES.reason)
        return None
    try:
        text = data.decode("utf-8").removeprefix(_BOM)
    except UnicodeDecodeError as error:
        _invalid(data, error, name, report)
        return None
    report.sources[name] = text
    return Source(name, path, text)


def _bytes(path: Path) -> bytes:
    """The content of a regular file, up to one byte over the limit. A pipe or a device could block for ever."""
    if path.is_dir():
        raise IsADirectoryError(None, "is a directory")
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(None, "not a regular file")
    with open(path, "rb", opener=_opener) as file:
        return file.read(limits.FILE_BYTES.default + 1)


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _invalid(data: bytes, error: UnicodeDecodeError, name: str, report: Report) -> None:
    text = data.decode("utf-8", errors="replace").removeprefix(_BOM)
    report.sources[name] = text
    index = len(data[: error.start].decode("utf-8").removeprefix(_BOM))
    hint = "save the file as UTF-8"
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        hint = "the file looks like UTF-16; save it as UTF-8"
    message = f"invalid UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}"
    report.add("invalid-encoding", message, Source(name, Path(), text).span(index, index + 1), hint=hint)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
