"""Threads with exceptions walked over a vocabulary: exact, state by state, since here threads act on each other.

An exception that can still complete holds back what is found inside it, also what begins later; when it fails, that
counts at once, and nearly every token may be one that lets it fail. So a list of threads is walked as a whole, one
depth of the trie a round and each (list, column) once, until it does what the empty list does: from there on, what
that one completes below the node is taken over. Nothing is taken over that began to count above it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from policyengine.automata.anchored_tables import AnchoredTables
from policyengine.automata.column_trie import ColumnTrie
from policyengine.automata.phrases import Bools, Longs
from policyengine.automata.thread_walks import EAGER, END, FIRE, Events
from policyengine.automata.threads import State, ThreadAutomaton
from policyengine.automata.utf8 import REPLACEMENT

JOINED, EDGE = 0, 1  # how a token starts when nothing is under way
_STARTS: tuple[State, State] = (1, ()), (0, ())  # contexts that do so with every word character
_MOST_STATES, _MOST_STEPS = 1 << 16, 1 << 21  # kept at a time, what the empty list comes to aside
_MOST_PENDING = 32
_FEW = 24  # children up to which a loop is quicker than arrays
S = TypeVar("S")


class HeldWalks:
    """Walks of one automaton over one vocabulary. What lists of threads do is remembered, within a bound.

    Walking from the empty list costs a step of Python for each distinct (list, column) of the whole vocabulary.
    """

    def __init__(self, automaton: ThreadAutomaton, trie: ColumnTrie, tables: AnchoredTables) -> None:
        self._automaton, self._trie, self._tables = automaton, trie, tables
        self._broken = trie.anchored.column(ord(REPLACEMENT))
        self._numbers: dict[State, int] = {}
        self._states: list[State] = []
        self._steps: dict[int, tuple[int, tuple[int, ...]]] = {}
        self._failing: dict[int, tuple[list[bool], list[bool], dict[bool, tuple[int, ...]]]] = {}
        self._goes_on: dict[tuple[int, int], Bools] = {}
        self._stops: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self._tails: dict[tuple[int, int, bool], tuple[int, ...]] = {}
        self._broken_ends: dict[int, tuple[int, ...]] = {}
        # int64 [ways, nodes]: the list of threads at each node, by how the token starts.
        self._base = np.full((2, trie.n_nodes), -1, dtype=np.int64)
        found = [self._walk_base(way) for way in (JOINED, EDGE)]
        # What tokens complete where no thread was under way; origins are ways. The root's tails are left out.
        self.base = Events.of(events._replace(origin=events.origin + way) for way, events in enumerate(found))
        self._fires = [_by_place(events.where(events.kind == FIRE)) for events in found]
        self._others = [_by_place(events.where(events.kind != FIRE)) for events in found]
        self._always = len(self._states)

    def nbytes(self) -> int:
        """Bytes of the arrays."""
        events = sum(column.nbytes for some in (*self._fires, *self._others) for column in some)
        return self._base.nbytes + events

    def threads_at(self, way: int, node: int) -> tuple[int, ...]:
        """The threads at a node where none was under way."""
        return self._states[int(self._base[way, node])][1]

    # -- walks -----------------------------------------------------------------------------------------------------

    def _walk_base(self, way: int) -> Events:
        trie, found = self._trie, list[Events]()
        at = self._base[way]
        at[0] = self._number(_STARTS[way])
        for lo, hi in zip(trie.levels[1:], trie.levels[2:], strict=False):
            node = np.arange(lo, hi)
            node = node[trie.tail[node] < 0]
            at[node], _ = self._read(found, at[trie.parent[node]], node)
            self._stop(found, at[node], node)
        return Events.of(found)

    def walk(self, state: State, *, all_patterns: bool) -> Events:
        """What tokens complete from a list of threads; origins are 0.

        all_patterns: otherwise only one pattern is named where a token completes several.
        """
        if len(self._states) > self._always + _MOST_STATES or len(self._steps) > _MOST_STEPS:
            self._forget()
        trie = self._trie
        context, found = max(state[0], 0), list[Events]()
        way_of = trie.edge_after(context).astype(np.int64)
        here = self._number((context, bounded(self._automaton, state)[1]))
        nodes, states = np.zeros(1, dtype=np.int64), np.array([here], dtype=np.int64)
        _add(found, [(0, 1, p, END) for p in self._stop_of(here)[1]])
        self._at_tails(found, here, 0)
        while nodes.size:
            lo = trie.child_lo[nodes]
            count = trie.child_mid[nodes] - lo
            if int(count.sum()) <= _FEW:
                nodes, states = self._one_by_one(found, nodes, states, way_of, all_patterns)
                continue
            child = np.arange(int(count.sum())) + np.repeat(lo - (np.cumsum(count) - count), count)
            after, fired = self._read(found, np.repeat(states, count), child)
            open_ = np.ones(len(child), dtype=bool) if all_patterns else ~fired
            way = way_of[trie.column[trie.top[child]]]
            same = after == self._base[way, child]
            for value in (JOINED, EDGE):
                self._take_over(found, value, child[open_ & same & (way == value)])
            nodes, states = child[open_ & ~same], after[open_ & ~same]
            self._stop(found, states, nodes)
        return Events.of(found)

    def _one_by_one(
        self, found: list[Events], nodes: Longs, states: Longs, way_of: Longs, all_patterns: bool
    ) -> tuple[Longs, Longs]:
        """As a round of `walk`, but follows a few rows all the way down, as long as they stay few."""
        trie, columns = self._trie, self._trie.n_columns
        left = list(zip(nodes.tolist(), states.tolist(), strict=True))
        fires: list[tuple[int, int, int, int]] = []
        same: tuple[list[int], list[int]] = ([], [])
        stops: list[tuple[int, int]] = []
        budget = 16 * _FEW
        while left and budget > 0:
            node, state = left.pop()
            lo, hi = int(trie.child_lo[node]), int(trie.child_mid[node])
            budget -= hi - lo
            for child, column in zip(range(lo, hi), trie.column[lo:hi].tolist(), strict=True):
                after, patterns = self._step(state * columns + column)
                if patterns:
                    place = int(trie.first[child]), int(trie.last[child])
                    fires += [(*place, pattern, FIRE) for pattern in patterns]
                    if not all_patterns:
                        continue
                way = int(way_of[trie.column[trie.top[child]]])
                if after == self._base[way, child]:
                    same[way].append(child)
                else:
                    stops.append((child, after))
                    left.append((child, after))
        _add(found, fires)
        for way in (JOINED, EDGE):
            self._take_over(found, way, np.array(same[way], dtype=np.int64))
        stopped = np.array(stops, dtype=np.int64).reshape(-1, 2)
        self._stop(found, stopped[:, 1], stopped[:, 0])
        rest = np.array(left, dtype=np.int64).reshape(-1, 2)
        return rest[:, 0], rest[:, 1]

    def _take_over(self, found: list[Events], way: int, nodes: Longs) -> None:
        """What the empty list completes below these nodes, or leaves at them."""
        first, last = self._trie.first[nodes].astype(np.int64), self._trie.last[nodes].astype(np.int64)
        for events, offset in ((self._fires[way], 1), (self._others[way], 0)):
            lo, hi = np.searchsorted(events.lo, first + offset), np.searchsorted(events.lo, last)
            some = np.flatnonzero(hi > lo)
            if some.size:
                count = (hi - lo)[some]
                place = np.arange(int(count.sum())) + np.repeat(lo[some] - (np.cumsum(count) - count), count)
                found.append(events.where(place))

    def _read(self, found: list[Events], states: Longs, nodes: Longs) -> tuple[Longs, Bools]:
        """The lists at the nodes, read from those at their parents, and whether something comes to count there."""
        trie = self._trie
        keys = states * trie.n_columns + trie.column[nodes]
        unique, inverse = np.unique(keys, return_inverse=True)
        steps = [self._step(key) for key in unique.tolist()]
        after = np.array([number for number, _ in steps], dtype=np.int64)[inverse]
        fires = np.array([bool(patterns) for _, patterns in steps], dtype=bool)[inverse]
        for place in np.flatnonzero(fires).tolist():
            lo, hi = int(trie.first[nodes[place]]), int(trie.last[nodes[place]])
            _add(found, [(lo, hi, pattern, FIRE) for pattern in steps[inverse[place]][1]])
        return after, fires

    def _stop(self, found: list[Events], states: Longs, nodes: Longs) -> None:
        """What it means to stop at these nodes, or at tails below them."""
        trie = self._trie
        unique, inverse = np.unique(states, return_inverse=True)
        stops = [self._stop_of(number) for number in unique.tolist()]
        some = np.array([bool(waiting or ends) for waiting, ends in stops], dtype=bool)[inverse]
        for place in np.flatnonzero(some).tolist():
            waiting, ends = stops[inverse[place]]
            lo = int(trie.first[nodes[place]])
            _add(found, [(lo, lo + 1, p, EAGER) for p in waiting] + [(lo, lo + 1, p, END) for p in ends])
        for place in np.flatnonzero(trie.child_hi[nodes] > trie.child_mid[nodes]).tolist():
            self._at_tails(found, int(states[place]), int(nodes[place]))

    def _at_tails(self, found: list[Events], number: int, node: int) -> None:
        trie = self._trie
        for tail in range(int(trie.child_mid[node]), int(trie.child_hi[node])):
            lo, hi = int(trie.first[tail]), int(trie.last[tail])
            _add(found, [(lo, hi, p, EAGER) for p in self._tail(number, int(trie.tail[tail]), node > 0)])
            _add(found, [(lo, hi, p, END) for p in self._broken_end(number)])

    # -- what lists of threads do ----------------------------------------------------------------------------------

    def _number(self, state: State) -> int:
        known = self._numbers.setdefault(state, len(self._states))
        if known == len(self._states):
            self._states.append(state)
        return known

    def _step(self, key: int) -> tuple[int, tuple[int, ...]]:
        known = self._steps.get(key)
        if known is None:
            number, column = divmod(key, self._trie.n_columns)
            failing = self._failing.get(number)
            if failing is None:
                failing = self._failing[number] = self._fails(self._states[number])
            goes_on, edges, patterns = failing
            edge = edges[column]
            if goes_on[column] or edge not in patterns:
                state, _, hits = self._automaton.read(self._states[number], column)
                known = self._number(bounded(self._automaton, state)), tuple({hit.pattern for hit in hits})
                if not goes_on[column]:
                    patterns[edge] = known[1]
            else:
                known = self._number((int(self._trie.join[column]), ())), patterns[edge]
            self._steps[key] = known
        return known

    def _fails(self, state: State) -> tuple[list[bool], list[bool], dict[bool, tuple[int, ...]]]:
        """By column: whether any thread goes on, or one begins; and whether an edge lies before it.

        Where none does, the columns do the same but for the context, and what that is, by the edge, is filled in later.
        """
        context, threads = state
        goes_on = self._over(self._tables.start, context)
        for thread in threads:
            if thread >= 0:
                goes_on = goes_on | self._over(thread, context)
        return goes_on.tolist(), self._trie.edge_after(context).tolist(), {}

    def _over(self, thread: int, context: int) -> Bools:
        """bool [columns]: whether a thread goes on behind a symbol of the column, or ends with it."""
        known = self._goes_on.get((thread, context))
        if known is None:
            n = self._trie.n_columns
            states = np.full(n, thread, dtype=np.int64)
            known = self._tables.next_many(states, np.arange(n), self._trie.edge_after(context)) >= 0
            self._goes_on[thread, context] = known
        return known

    def _stop_of(self, number: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The patterns that wait for an edge and are eager, and those that count at the end of the output."""
        known = self._stops.get(number)
        if known is None:
            state = self._states[number]
            known = self._stops[number] = self._automaton.waiting(state), tuple(self._automaton.ends(state))
        return known

    def _broken_end(self, number: int) -> tuple[int, ...]:
        known = self._broken_ends.get(number)
        if known is None:
            state, _, hits = self._automaton.read(self._states[number], self._broken)
            known = tuple({hit.pattern for hit in hits} | self._automaton.ends(state))
            self._broken_ends[number] = known
        return known

    def _tail(self, number: int, tail: int, moved: bool) -> tuple[int, ...]:
        known = self._tails.get((number, tail, moved))
        if known is None:
            runs, columns = self._trie.tails[tail].runs, self._trie.n_columns
            common = judge_tail(
                number, runs, moved, lambda n, column: self._step(n * columns + column), lambda n: self._stop_of(n)[0]
            )
            known = self._tails[number, tail, moved] = tuple(common)
        return known

    def _forget(self) -> None:
        """Forget everything but what the empty list comes to."""
        for state in self._states[self._always :]:
            del self._numbers[state]
        del self._states[self._always :]
        for memo in (self._steps, self._failing, self._goes_on, self._stops, self._tails, self._broken_ends):
            memo.clear()


def bounded(automaton: ThreadAutomaton, state: State) -> State:
    """The state as it is, or slim where very many matches are pending, so that there are not ever more states.

    A slim state tells exactly when a match comes to count next, so that what is permitted is; only after a match has
    come to count, and was not prevented, may it be silent about another one of the same pattern.
    """
    return automaton.slim(state) if sum(thread < 0 for thread in state[1]) > _MOST_PENDING else state


def judge_tail(
    state: S,
    runs: Iterable[Sequence[int]],
    moved: bool,
    read: Callable[[S, int], tuple[S, Iterable[int]]],
    waiting: Callable[[S], Iterable[int]],
) -> set[int]:
    """The patterns that each of these runs of columns completes.

    moved: whether the token has read a symbol, so that a word which the text ends in is one that it brought there.
    read: the state after a column, and the patterns that come to count. waiting: those that only wait for an edge.
    """
    common: set[int] | None = None
    for run in runs:
        done, here = set[int](), state
        for column in run:
            here, patterns = read(here, column)
            done.update(patterns)
        if run or moved:
            done.update(waiting(here))
        common = done if common is None else common & done
        if not common:
            break
    return common or set()


def _add(found: list[Events], rows: list[tuple[int, int, int, int]]) -> None:
    if rows:
        lo, hi, pattern, kind = np.array(rows, dtype=np.int64).T
        found.append(Events(np.zeros_like(lo), lo, hi, pattern, kind))


def _by_place(events: Events) -> Events:
    return events.where(np.argsort(events.lo, kind="stable"))


__all__ = ["HeldWalks", "bounded", "judge_tail"]
