"""An anchored automaton for many states at once: what `anchored.Anchored` answers one by one, as arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from policyengine.automata.anchored import Anchored
from policyengine.automata.gap_phrases import GapPhrases
from policyengine.automata.phrases import Bools, Ints, Longs
from policyengine.automata.regex_dfa import Expressions

_NEVER = 1 << 30
_MOST_DENSE = 1 << 24  # entries of a dense table


class PerState:
    """A few patterns a state; `some`: bool [states + 1], whether there are any (the last entry is for state -1)."""

    def __init__(self, states: Longs, patterns: Longs, n_states: int) -> None:
        """Pairs in any order."""
        order = np.lexsort((patterns, states))
        self._patterns = patterns[order]
        self._start = np.searchsorted(states[order], np.arange(n_states + 1))
        self.some: Bools = np.append(np.diff(self._start) > 0, False)

    def pairs(self, at: Longs) -> tuple[Longs, Longs]:
        """(index into `at`, pattern) for every pattern of these states, none of them -1."""
        lo = self._start[at]
        count = self._start[at + 1] - lo
        which = np.repeat(np.arange(len(at)), count)
        place = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(lo, count)
        return which, self._patterns[place]

    def without(self, other: PerState) -> PerState:
        """The pairs that the other has not."""
        n_states = len(self._start) - 1
        (mine, pattern), (theirs, known) = (table.pairs(np.arange(n_states)) for table in (self, other))
        keep = ~np.isin(mine << 32 | pattern, theirs << 32 | known)
        return PerState(mine[keep], pattern[keep], n_states)

    def only(self, patterns: Bools) -> PerState:
        """Without the patterns for which this is false."""
        which, pattern = self.pairs(np.arange(len(self._start) - 1))
        keep = patterns[pattern]
        return PerState(which[keep], pattern[keep], len(self._start) - 1)


class AnchoredTables:
    """The tables; exceptions are not among the patterns.

    now, at_end: as in `Anchored`; before[edge] likewise. eager: those of `before[True]` that are eager. only_at_end:
    those of `at_end` that do not wait for just any edge.
    live, live_exception: bool [states + 1], the last entry, for state -1, false.
    need: int32 [states + 1], how many more symbols it takes at least until something ends; 0: it waits for an edge, or
    for the end.
    minds_edge: bool [states], whether what comes next may depend on the edge, other than that a pattern ends there.
    waits_in_words: whether a state with patterns that wait for an edge always comes after a word character.
    """

    def __init__(self, anchored: Anchored) -> None:
        self.anchored = anchored
        n = self.n_states = anchored.n_states
        self.start, self.first = anchored.start, anchored.first
        states = range(n)
        is_phrase = np.array([not anchored.is_exception(p) for p in range(anchored.n_patterns)], dtype=bool)
        is_eager = np.array([anchored.eager(p) for p in range(anchored.n_patterns)], dtype=bool)
        if isinstance(anchored, GapPhrases):
            end, ids, now = anchored.pattern_states, anchored.pattern_ids, anchored.pattern_now.astype(bool)
            self.now = PerState(end[now].astype(np.int64), ids[now].astype(np.int64), n).only(is_phrase)
            waiting = PerState(end[~now].astype(np.int64), ids[~now].astype(np.int64), n).only(is_phrase)
            nothing = PerState(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), n)
            self.before, self.at_end = (nothing, waiting), waiting
        else:
            self.now = _table(anchored.now, n, is_phrase)
            self.at_end = _table(anchored.at_end, n, is_phrase)
            self.before = (
                _table(lambda s: anchored.before(s, False), n, is_phrase),
                _table(lambda s: anchored.before(s, True), n, is_phrase),
            )
        self.eager = self.before[True].only(is_eager)
        self.only_at_end = self.at_end.without(self.before[True])
        self.live: Bools = np.array([*map(anchored.live, states), False], dtype=bool)
        self.live_exception: Bools = np.zeros(n + 1, dtype=bool)
        if anchored.has_exceptions:
            self.live_exception[:n] = [anchored.live_exception(s) for s in states]
        self.need = self._needs()
        self._rows: dict[int, Ints] = {}
        self.minds_edge: Bools = np.zeros(n, dtype=bool)
        if isinstance(anchored, GapPhrases):
            self.minds_edge[anchored.start] = True
        elif isinstance(anchored, Expressions) and anchored.needs_edges:
            rows = anchored.row_of
            self.minds_edge = (anchored.table[rows[:, 0]] != anchored.table[rows[:, 1]]).any(axis=1)
        elif anchored.needs_edges:
            self.minds_edge[:] = True
        self.waits_in_words = isinstance(anchored, GapPhrases)
        if not self.waits_in_words:
            self.minds_edge |= self.before[True].some[:-1]

    def _needs(self) -> Ints:
        need = np.full(self.n_states + 1, _NEVER, dtype=np.int32)
        waits = self.at_end.some | self.before[False].some | self.before[True].some | self.eager.some
        need[waits] = 0
        if not isinstance(self.anchored, GapPhrases | Expressions):
            return np.where(self.live, 0, need).astype(np.int32)
        states, targets = self.anchored.moves()
        ends = states[self.now.some[targets] | (need[targets] == 0)]
        need[ends] = np.minimum(need[ends], 1)
        reached = 1
        # Where a move leads to a state that needs so much, it is one more.
        order = np.argsort(targets, kind="stable")
        states, bounds = states[order], np.searchsorted(targets[order], np.arange(self.n_states + 1))
        fresh = np.flatnonzero(need[:-1] == reached)
        while fresh.size:
            count = (bounds[1:] - bounds[:-1])[fresh]
            place = np.arange(int(count.sum())) + np.repeat(bounds[fresh] - (np.cumsum(count) - count), count)
            reached += 1
            before = np.unique(states[place])
            fresh = before[need[before] > reached]
            need[fresh] = reached
        return need

    def next_many(self, states: Longs, columns: Longs, edge: Bools) -> Longs:
        """The next state of each; -1: none. Any state may be -1."""
        if isinstance(self.anchored, GapPhrases):
            return self.anchored.next_many(states, columns, edge).astype(np.int64)
        if isinstance(self.anchored, Expressions):
            rows = self.anchored.row_of[np.maximum(states, 0), edge.astype(np.int64)]
            return np.where(states < 0, -1, self.anchored.table[rows, columns]).astype(np.int64)
        result = np.full(len(states), -1, dtype=np.int64)
        for state in np.unique(states).tolist():
            if state >= 0:
                mine = states == state
                result[mine] = self._row(state)[edge[mine].astype(np.int64), columns[mine]]
        return result

    def _row(self, state: int) -> Ints:
        """int32 [2, columns], the next states by whether there is an edge."""
        known = self._rows.get(state)
        if known is None:
            columns, step = range(self.anchored.n_columns), self.anchored.next
            known = np.array([[step(state, c, bool(e)) for c in columns] for e in (0, 1)], dtype=np.int32)
            if len(self._rows) * known.size >= _MOST_DENSE:
                self._rows.clear()
            self._rows[state] = known
        return known


def _table(ask: Callable[[int], Sequence[int]], n_states: int, wanted: Bools) -> PerState:
    pairs = [(state, pattern) for state in range(n_states) for pattern in ask(state) if wanted[pattern]]
    flat = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return PerState(flat[:, 0], flat[:, 1], n_states)


__all__ = ["AnchoredTables", "PerState"]
