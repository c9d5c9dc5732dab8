"""Lines, columns and excerpts of a text that goes by: enough of it is kept to say where a match stands."""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple


class Place(NamedTuple):
    """Line and column, from 1; the column in code points. A line ends with LF (a CR before it is part of the line)."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"


class Trail:
    """The last `kept` code points of a text, and the line breaks among them."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._text = ""
        self._start = 0  # where the kept text begins, in code points
        self._breaks: list[int] = []  # places of line breaks in the kept text
        self._lines = 0  # line breaks before the kept text
        self._line_start = 0  # where the line begins in which the kept text begins

    def add(self, piece: str) -> None:
        """The text goes on."""
        self._text += piece
        end = self._start + len(self._text)
        at = end - len(piece)
        found = piece.find("\n")
        while found >= 0:
            self._breaks.append(at + found)
            found = piece.find("\n", found + 1)
        if len(self._text) > 2 * self._kept:  # now and then, so that it costs little
            cut = end - self._kept
            self._text = self._text[cut - self._start :]
            self._start = cut
            gone = bisect_left(self._breaks, cut)
            if gone:
                self._lines += gone
                self._line_start = self._breaks[gone - 1] + 1
                del self._breaks[:gone]

    def place(self, offset: int) -> Place:
        """Where a code point of the kept text stands; of one before it, the first that is kept."""
        offset = max(offset, self._start)
        before = bisect_left(self._breaks, offset)
        start = self._breaks[before - 1] + 1 if before else self._line_start
        return Place(self._lines + before + 1, offset - start + 1)

    def excerpt(self, start: int, end: int) -> str:
        """The text between two offsets, as far as it is kept."""
        return self._text[max(start - self._start, 0) : max(end - self._start, 0)]
