"""What the visible text of a window is made of, and how it may end."""

from __future__ import annotations

from dataclasses import dataclass
from operator import sub
from typing import Any, NamedTuple

from policyengine.runtime.text_frontier import Cut


class Stop(NamedTuple):
    """The output ends. `rule` None: too much had to be held. `keep`: how many pieces of the stack stay."""

    rule: int | None
    keep: int


@dataclass(slots=True, eq=False)
class Piece:
    """A piece of the visible text. Never changed once it lies on a stack, so windows may share it.

    leader: None for a character; for a unit the (start, -end, rule) of the match whose replacement it shows.
    states, counts: by scanner, the state after the piece, and how many symbols were read up to there.
    cut: what a cut after the piece would bring back, once `text_frontier` asked.
    """

    start: int
    end: int
    text: str
    leader: tuple[int, int, int] | None
    sent: bool
    states: tuple[Any, ...] = ()
    counts: tuple[int, ...] = ()
    cut: Cut | None = None

    def moved(self, places: int, symbols: tuple[int, ...]) -> Piece:
        """The same piece of a character in a window that begins so much later. `symbols`: by scanner."""
        if not places:
            return self  # no character was released, so no symbol was
        counts = tuple(map(sub, self.counts, symbols))
        cut = self.cut and self.cut.moved(places)
        return Piece(self.start - places, self.end - places, self.text, None, False, self.states, counts, cut)
