"""The matches that decided something in a stretch of an output."""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple


class Found(NamedTuple):
    """A match that decided something. `start`, `end`: characters of the original text, from the window's position 0.

    grows: whether it is one match with those of the rule that begin there too and end later.
    """

    start: int
    end: int
    rule: int
    grows: bool = False


def rank(match: Found) -> tuple[int, int, int]:
    """Which of several redactions leads: the leftmost, then the longest, then the first rule."""
    return match.start, -match.end, match.rule


class Matches:
    """Matches in the order in which they were found, each once, however far it goes on, until somebody takes them."""

    __slots__ = ("_growing", "_taken", "_waiting")

    def __init__(self) -> None:
        self._waiting: list[Found] = []
        self._taken = 0
        self._growing: dict[tuple[int, int], int] = {}  # by rule and start: which match of all, taken ones included

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def report(self, match: Found) -> None:
        """A match was found, or one that was has grown."""
        waiting = self._waiting
        if match.grows:
            at = self._growing.setdefault((match.rule, match.start), self._taken + len(waiting)) - self._taken
            if at < len(waiting):
                waiting[at] = match._replace(end=max(match.end, waiting[at].end))
                return
        waiting.append(match)

    def take(self, live: Set[int]) -> list[Found]:
        """Those that do not grow any more, up to the first that may. `live`: where matches began that may grow."""
        waiting, count = self._waiting, len(self._waiting)
        if self._growing:
            count = next((i for i, match in enumerate(waiting) if match.grows and match.start in live), count)
            for match in waiting[:count]:
                self._growing.pop((match.rule, match.start), None)
        self._taken += count
        self._waiting = waiting[count:]
        return waiting[:count]
