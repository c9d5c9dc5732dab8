"""What an automaton must tell that says whether a pattern stands *at* a place; `threads` looks for it anywhere.

An anchored automaton is deterministic and knows only its own patterns: nothing of what stands before the place where a
match begins, but for the word edge, which is told to it. So it stays small where an automaton for "anywhere" would
explode, and two kinds can be searched with one engine: phrases with gaps (`gap_phrases`) and expressions (`regex_dfa`).

Symbols are folded code points. A *column* is a class of symbols that no pattern tells apart and, where word edges
matter, of one join class. Among the patterns may be *exceptions*: where one of them stands, the others do not count.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt


class Anchored(Protocol):
    """States and columns are ints from 0; a state of -1 is a match that failed. Immutable, safe to share."""

    @property
    def n_states(self) -> int:
        """How many states there are."""

    @property
    def n_patterns(self) -> int:
        """How many patterns there are, the exceptions among them."""

    @property
    def n_columns(self) -> int:
        """How many columns there are."""

    @property
    def start(self) -> int:
        """The state of a match that is about to begin."""

    @property
    def first(self) -> int:
        """The same before the first symbol of an output; another state only where a pattern asks for that place."""

    @property
    def needs_edges(self) -> bool:
        """Whether word edges matter at all. If not, any value may be given for `edge`."""

    @property
    def has_exceptions(self) -> bool:
        """Whether any pattern is an exception."""

    @property
    def column_join(self) -> Sequence[int]:
        """The join class of each column; all zero where edges do not matter."""

    def column(self, symbol: int) -> int:
        """The column of a symbol."""

    def next(self, state: int, column: int, edge: bool) -> int:
        """The state after a symbol; -1: none. `edge`: whether there is a word edge before the symbol."""

    def before(self, state: int, edge: bool) -> Sequence[int]:
        """The patterns that end in this state because of what follows: a symbol with, or without, an edge before it."""

    def now(self, state: int) -> Sequence[int]:
        """The patterns that end in this state whatever follows."""

    def at_end(self, state: int) -> Sequence[int]:
        """The patterns that end in this state if the output ends here, those of `now` not repeated."""

    def eager(self, pattern: int) -> bool:
        """Whether the token level already refuses to leave the text where the pattern only waits for an edge."""

    def is_exception(self, pattern: int) -> bool:
        """Whether the pattern only says where the others do not count."""

    def live(self, state: int) -> bool:
        """Whether a pattern other than an exception can still end; waiting for an edge counts."""

    def live_exception(self, state: int) -> bool:
        """Whether an exception can still end; waiting for an edge counts."""

    def reached(self, patterns: Collection[int]) -> Sequence[bool]:
        """By state: whether one of these patterns can still end; waiting for an edge counts."""

    def to_arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Everything, for a bundle."""


__all__ = ["Anchored"]
