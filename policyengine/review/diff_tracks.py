"""The patterns of one rule, followed from where a match begins: what a search for differences asks of them.

A *track* is a state of an anchored automaton of which only the patterns of one rule count. Sets of tracks say what a
text may still become, whatever kind of automaton the rule has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np

from policyengine.automata import unicode_data
from policyengine.automata.anchored import Anchored
from policyengine.automata.folding import SPACE, FoldSpec
from policyengine.automata.gap_phrases import GapPhrases
from policyengine.automata.phrases import Pattern
from policyengine.automata.regex_dfa import Expressions


class Tracks(Protocol):
    """States and columns are ints from 0; -1: a match that failed, or that can no longer become one."""

    @property
    def spec(self) -> FoldSpec:
        """How text is folded."""

    @property
    def needs_edges(self) -> bool:
        """Whether edges matter at all."""

    @property
    def joins(self) -> Sequence[int]:
        """The join class of each column; all zero where edges do not matter."""

    def column(self, symbol: int) -> int:
        """The column of a folded symbol."""

    def named(self, column: int) -> bool:
        """Whether some track goes on, or begins, with the column."""

    def begin(self, column: int, edge: bool, first: bool) -> tuple[int, ...]:
        """The tracks that begin with a symbol; first: it is the first of the output."""

    def next(self, state: int, column: int, edge: bool) -> int:
        """The track after a symbol."""

    def now(self, state: int) -> bool:
        """Whether a pattern ends here, whatever follows."""

    def before(self, state: int, edge: bool) -> bool:
        """Whether a pattern ends here if the next symbol has an edge, or none, before it."""

    def at_end(self, state: int) -> bool:
        """Whether a pattern ends here if the output does."""

    def waits(self, state: int) -> bool:
        """Whether an eager pattern only waits for an edge."""

    def live(self, state: int) -> bool:
        """Whether something can still end; waiting counts."""

    def leaving(self, state: int) -> Iterable[int]:
        """The columns that do not end the track."""


class PhraseTracks:
    """Phrases with plain gaps: a trie. Where white space is collapsed, a node that it leads to stays with more of it.

    Tracks that need an edge on their left hang below a root of their own, so that two may begin at once.
    """

    needs_edges = True

    def __init__(self, spec: FoldSpec, patterns: Iterable[Pattern]) -> None:
        self.spec = spec
        self._column_of: dict[int, int] = {}
        self._children: list[dict[int, int]] = [{}, {}]
        self._now, self._waiting, self._eager = [False, False], [False, False], [False, False]
        for pattern in patterns:
            self._add(pattern)
        join = unicode_data.tables().join
        self._named = len(self._column_of)
        self.joins = [join[s] for s in self._column_of] + list(range(unicode_data.N_JOIN_CLASSES))
        self._join = join

    def _add(self, pattern: Pattern) -> None:
        node = int(pattern.left_edge)
        for symbol in pattern.symbols:
            column = self._column_of.setdefault(symbol, len(self._column_of))
            below = self._children[node].get(column)
            if below is None:
                below = self._children[node][column] = len(self._children)
                self._children.append({column: below} if symbol == SPACE and self.spec.collapse else {})
                for flags in (self._now, self._waiting, self._eager):
                    flags.append(False)
            node = below
        self._now[node] |= not pattern.right_edge
        self._waiting[node] |= pattern.right_edge
        self._eager[node] |= pattern.right_edge and pattern.eager

    @property
    def literals(self) -> Collection[int]:
        """The symbols that patterns name."""
        return self._column_of.keys()

    def column(self, symbol: int) -> int:
        """The column of a folded symbol."""
        known = self._column_of.get(symbol)
        return self._named + self._join[symbol] if known is None else known

    def named(self, column: int) -> bool:
        """Whether some track goes on, or begins, with the column."""
        return column < self._named

    def begin(self, column: int, edge: bool, first: bool) -> tuple[int, ...]:
        """The tracks that begin with a symbol."""
        anywhere, at_edge = self._children[0].get(column), self._children[1].get(column) if edge else None
        return tuple(state for state in (anywhere, at_edge) if state is not None)

    def next(self, state: int, column: int, edge: bool) -> int:
        """The track after a symbol."""
        return self._children[state].get(column, -1)

    def now(self, state: int) -> bool:
        """Whether a pattern ends here, whatever follows."""
        return self._now[state]

    def before(self, state: int, edge: bool) -> bool:
        """Whether a pattern ends here if the next symbol has an edge before it."""
        return edge and self._waiting[state]

    def at_end(self, state: int) -> bool:
        """Whether a pattern ends here if the output does."""
        return self._waiting[state]

    def waits(self, state: int) -> bool:
        """Whether an eager pattern only waits for an edge."""
        return self._eager[state]

    def live(self, state: int) -> bool:
        """Whether something can still end."""
        return bool(self._children[state]) or self._waiting[state]

    def leaving(self, state: int) -> Iterable[int]:
        """The columns that do not end the track."""
        return self._children[state]


class AnchoredTracks:
    """Some patterns of an anchored automaton, no exceptions among them: rules that have any are searched otherwise."""

    def __init__(self, spec: FoldSpec, anchored: Anchored, wanted: Collection[int]) -> None:
        self.spec, self.anchored = spec, anchored
        self.needs_edges = anchored.needs_edges
        self.joins = anchored.column_join
        self._wanted = frozenset(wanted)
        self._live = anchored.reached(self._wanted)
        self._ends: dict[tuple[int, int], bool] = {}
        self._leaving: dict[int, list[int]] = {}

    @property
    def literals(self) -> Collection[int]:
        """The symbols that patterns name; none of expressions, which name classes."""
        return self.anchored.literals.tolist() if isinstance(self.anchored, GapPhrases) else ()

    def column(self, symbol: int) -> int:
        """The column of a folded symbol."""
        return self.anchored.column(symbol)

    def named(self, column: int) -> bool:
        """Whether some track goes on, or begins, with the column."""
        return self._named[column]

    @cached_property
    def _named(self) -> list[bool]:
        if isinstance(self.anchored, Expressions):
            used = np.flatnonzero((self.anchored.table >= 0).any(axis=0))
            named: list[bool] = np.isin(np.arange(self.anchored.n_columns), used).tolist()
            return named
        assert isinstance(self.anchored, GapPhrases)
        count = len(self.anchored.literals)
        return [column < count or kind > 0 for column, kind in enumerate(self.anchored.column_kind)]

    def begin(self, column: int, edge: bool, first: bool) -> tuple[int, ...]:
        """The track that begins with a symbol, if one does."""
        anchored = self.anchored
        state = self._kept(anchored.next(anchored.first if first else anchored.start, column, edge))
        return (state,) if state >= 0 else ()

    def next(self, state: int, column: int, edge: bool) -> int:
        """The track after a symbol."""
        return self._kept(self.anchored.next(state, column, edge))

    def _kept(self, state: int) -> int:
        return state if state >= 0 and (self._live[state] or self.now(state)) else -1

    def _any(self, kind: int, state: int, patterns: Sequence[int]) -> bool:
        known = any(p in self._wanted for p in patterns)
        self._ends[kind, state] = known
        return known

    def now(self, state: int) -> bool:
        """Whether a pattern ends here, whatever follows."""
        known = self._ends.get((0, state))
        return self._any(0, state, self.anchored.now(state)) if known is None else known

    def before(self, state: int, edge: bool) -> bool:
        """Whether a pattern ends here if the next symbol has an edge, or none, before it."""
        known = self._ends.get((1 + edge, state))
        return self._any(1 + edge, state, self.anchored.before(state, edge)) if known is None else known

    def at_end(self, state: int) -> bool:
        """Whether a pattern ends here if the output does."""
        known = self._ends.get((3, state))
        return self._any(3, state, self.anchored.at_end(state)) if known is None else known

    def waits(self, state: int) -> bool:
        """Whether an eager pattern only waits for an edge."""
        known = self._ends.get((4, state))
        if known is None:
            known = self._any(4, state, [p for p in self.anchored.before(state, True) if self.anchored.eager(p)])
        return known

    def live(self, state: int) -> bool:
        """Whether something can still end."""
        return self._live[state]

    def leaving(self, state: int) -> Iterable[int]:
        """The columns that do not end the track."""
        known = self._leaving.get(state)
        if known is None:
            known = self._leaving[state] = self._columns_from(state)
        return known

    def _columns_from(self, state: int) -> list[int]:
        anchored = self.anchored
        if isinstance(anchored, Expressions):
            rows = anchored.table[anchored.row_of[state]]
            columns: list[int] = np.flatnonzero((rows >= 0).any(axis=0)).tolist()
            return columns
        assert isinstance(anchored, GapPhrases)
        count = anchored.n_columns
        lo, hi = np.searchsorted(anchored.keys, [state * count, (state + 1) * count])
        found = set((anchored.keys[lo:hi] - state * count).tolist())
        for kind in (1, 2):
            if anchored.gap_next[state, kind] >= 0:
                found.update(self._of_kind[kind])
        return sorted(found)

    @cached_property
    def _of_kind(self) -> dict[int, list[int]]:
        assert isinstance(self.anchored, GapPhrases)
        kinds = self.anchored.column_kind
        return {kind: [column for column, one in enumerate(kinds) if one == kind] for kind in (1, 2)}


__all__ = ["AnchoredTracks", "PhraseTracks", "Tracks"]
