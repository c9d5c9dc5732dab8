"""A character that does not show.

Zero-width spaces, soft hyphens, marks of direction and the like come along when text is copied. A reviewer cannot see
them: two phrases that look alike differ, or a line reads in another order than it is in the file. Remove them; where
one is meant, write it as an escape in double quotes. Joiners and variation selectors are left alone where they belong:
behind a letter or a sign that is not ASCII.

Wrong:

    rules:
      names: {ban: {phrases: [blue\u200bbird]}}

Right:

    rules:
      names: {ban: {phrases: [bluebird]}}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from policyengine.automata.unicode_data import is_invisible
from policyengine.lint.checked import Checked
from policyengine.lint.model import Edit, Finding, Fix

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_JOINERS = frozenset("\u200c\u200d\ufe0e\ufe0f")
_NAMES = {
    0xAD: "a soft hyphen",
    0x200B: "a zero-width space",
    0x200C: "a zero-width non-joiner",
    0x200D: "a zero-width joiner",
    0x2060: "a word joiner",
    0xFEFF: "a byte order mark",
    **dict.fromkeys((*range(0x200E, 0x2010), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "a mark of direction"),
    **dict.fromkeys(range(0xE0000, 0xE0080), "a tag character"),
}


def findings(checked: Checked) -> Iterator[Finding]:
    """One a run of such characters, in any file."""
    for file in checked.files:
        text = checked.sources[file]
        if text.isascii():
            continue
        dropped = _dropped(checked, file)
        for _, run in groupby(enumerate(_places(text)), key=lambda pair: pair[1] - pair[0]):
            places = [place for _, place in run]
            start, end = places[0], places[-1] + 1
            span = checked.source(file).span(start, end)
            code = ord(text[start])
            what = f"U+{code:04X}, {_NAMES.get(code, 'a character that does not show')}, stands here unseen"
            more = f" with {end - start - 1} more" if end - start > 1 else ""
            safe = _is_idle(text, start, end, dropped) and not checked.is_shared(file)
            fix = Fix(f"removed U+{code:04X}{more}", (Edit(file, start, end),), safe)
            yield Finding(what + more, span, "remove it, or write it as an escape in double quotes", fix=fix)


def _places(text: str) -> Iterator[int]:
    for found in _NOT_ASCII.finditer(text):
        for place in range(found.start(), found.end()):
            if is_invisible(ord(text[place])) and not _belongs(text, place):
                yield place


def _belongs(text: str, place: int) -> bool:
    """Whether it is a joiner that shapes what stands before it."""
    before = text[place - 1] if place else "\n"
    shapes = before in _JOINERS or not (before.isascii() or before.isspace() or is_invisible(ord(before)))
    return text[place] in _JOINERS and shapes


def _is_idle(text: str, start: int, end: int, dropped: list[tuple[int, int]]) -> bool:
    """Whether the phrase that a run stands in is read as it was without it.

    Between a space and a `#`, or before the `#` of a line, it is what keeps the rest from being a comment; in braces,
    what keeps them from being a variable; at an edge, white space from being stripped. So only letters and digits may
    stand around it.
    """
    for low, high in dropped:
        if low <= start and end <= high:
            quotes = text[low] in "'\"" and text[high - 1] == text[low]
            first, last = low + quotes, high - quotes
            begins, ends = start == first or text[start - 1].isalnum(), end == last or text[end].isalnum()
            return begins and ends and "{{" not in text[low:high]
    return False


def _dropped(checked: Checked, file: str) -> list[tuple[int, int]]:
    """Where phrases stand from which such characters are dropped before comparing."""
    return [
        checked.place(phrase.span)
        for _, phrase, options in checked.phrases()
        if phrase.span.file == file and "invisible" in options.normalize
    ]
