"""Which tokens complete a match from the threads of a text.

Where no exception can still complete, threads do not see each other: what a state masks is what the vocabulary
completes by itself after its context, and what each thread completes, and each of these is found once. A thread is
walked over the vocabulary when it first comes up, or, where all of them are few, at once. With an exception under way a
state is walked as a whole (see `held_walks`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from policyengine.automata.anchored_tables import AnchoredTables
from policyengine.automata.column_trie import ColumnTrie
from policyengine.automata.held_walks import HeldWalks, bounded, judge_tail
from policyengine.automata.kept import Kept
from policyengine.automata.phrases import Bools, Ints, Longs
from policyengine.automata.thread_walks import EAGER, END, Events, Rows, TailJudge, ThreadWalks
from policyengine.automata.threads import BEGIN, State, ThreadAutomaton
from policyengine.automata.utf8 import REPLACEMENT

_MOST_AHEAD = 1 << 22  # threads times nodes up to which all threads are walked at once, before the first output
_NO_IDS: Ints = np.zeros(0, dtype=np.int32)
_NO_IDS.flags.writeable = False

_JOINED, _EDGE, _BEGIN = 0, 1, 2  # how a token starts where no thread is under way


class ThreadMasks:
    """One automaton on one vocabulary's columns. Caches fill as states come up."""

    def __init__(self, automaton: ThreadAutomaton, columns: ColumnTrie) -> None:
        self.automaton, self.columns = automaton, columns
        self._own: Kept[tuple[int, int], tuple[Events, Rows]] = Kept()
        self._own_ids: Kept[tuple[int, int, bool], Ints] = Kept()
        self._base_ids: dict[tuple[int, bool], Ints] = {}
        self._edge_ids: dict[tuple[int, bool], Ints] = {}
        anchored = automaton.anchored
        self._tables = AnchoredTables(anchored)
        self._walks = ThreadWalks(columns, self._tables)
        self._judge = TailJudge(columns, self._tables, self._completes_in)
        self._held: HeldWalks | None = None
        self._base_rows: dict[tuple[int, int], tuple[int, ...]] = {}  # by way of starting, and node with tails
        if anchored.has_exceptions:
            self._base = self._hold()
        else:
            self._base = self._walk_base()
            threads = np.flatnonzero(self._tables.live[:-1] & ~self._tables.minds_edge)
            if len(threads) * columns.n_nodes <= _MOST_AHEAD:
                self._walk(threads, 0)
        for context in {self._context(BEGIN), 0, 1 if anchored.needs_edges else 0}:
            for last in (False, True):
                self._base_mask(context, last)

    def _walk_base(self) -> Events:
        """What tokens complete where no thread is under way; origins are ways of starting."""
        anchored = self.automaton.anchored
        starts = [(_JOINED, anchored.start), (_EDGE, anchored.start)]
        if anchored.first != anchored.start:
            starts.append((_BEGIN, anchored.first))
        edges = np.ones(self.columns.n_columns, dtype=bool)
        found, tailed = [], []
        for way, start in starts:
            events, rows = self._walks.base(way, start, edges & (way != _JOINED))
            found.append(events)
            tailed.append(rows)
        self._base_rows = _by_node(tailed)
        return Events.of([*found, self._base_tails(way for way, _ in starts)])

    def _hold(self) -> Events:
        """The same where there are exceptions."""
        self._held = held = HeldWalks(self.automaton, self.columns, self._tables)
        self._base_rows = {
            (way, node): held.threads_at(way, node)
            for node in np.flatnonzero(self.columns.child_hi > self.columns.child_mid).tolist()
            for way in (_JOINED, _EDGE)
        }
        return Events.of([held.base, self._walks.at_root(_EDGE, self._tables.start)])

    @cached_property
    def minds_the_end(self) -> bool:
        """Whether it can matter that the output ends: to an edge, a pending match, or a U+FFFD that it makes."""
        if self._held is not None:
            return True
        tables = self._tables
        states = np.arange(tables.n_states)
        broken, edge = (
            np.full(len(states), self.automaton.anchored.column(ord(REPLACEMENT))),
            np.ones(len(states), dtype=bool),
        )
        goes_on = tables.next_many(states, broken, edge) >= 0
        return bool(goes_on.any() or tables.at_end.some.any() or tables.before[True].some.any())

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, state: State, run: Sequence[int]) -> tuple[State, set[int]]:
        """Read columns: the next state, and the patterns that come to count."""
        done: set[int] = set()
        for column in run:
            state, _, hits = self.automaton.read(state, column)
            done.update(hit.pattern for hit in hits)
        if self._held is not None:
            return bounded(self.automaton, state), done
        return (state[0], tuple(sorted(state[1]))), done  # the order matters to exceptions only

    def on_every_way(self, state: State, tail: int, *, moved: bool) -> set[int]:
        runs = self.columns.tails[tail].runs
        return judge_tail(state, runs, moved, lambda s, column: self.read(s, (column,)), self.automaton.waiting)

    # -- all tokens ----------------------------------------------------------------------------------------------------

    def parts(self, state: State, last: bool) -> tuple[Ints, ...]:
        """The ids that complete any pattern from a state, in parts that may overlap; `last` as in `TokenMatcher`."""
        if self._held is not None and self._is_held(state):
            events = self._held.walk(state, all_patterns=False)
            return some(self._painted_ids(events, last))
        context, threads = self._context(state[0]), state[1]
        parts = [self._base_mask(context, last)]
        # Behind what joins nothing there is an edge, so that nothing waits for one.
        before, both = self._tables.before, (False, True) if context else ()
        edges = [edge for edge in both if any(before[edge].some[thread] for thread in threads)]
        parts.extend(self._edge_tokens(context, edge) for edge in edges)
        parts.extend(self._own_mask(thread, context, last) for thread in threads)
        tails = self._tail_events(context, threads)
        if len(tails.lo):
            parts.append(frozen(np.unique(self._expand(tails)[0])))
        return tuple(part for part in parts if len(part))

    def pairs(self, state: State, last: bool) -> tuple[Ints, Ints]:
        """(ids, patterns): which token completes which from a state; without repeats, by pattern."""
        found = []
        if self._held is not None and self._is_held(state):
            found.append(self._expand(_counting(self._held.walk(state, all_patterns=True), last)))
        else:
            context, threads = self._context(state[0]), state[1]
            base = _counting(self._base, last)
            for way in (_JOINED, _EDGE, _BEGIN):
                ids, patterns = self._expand(base.where(base.origin == way))
                mine = self._ways(context)[self._tops[ids]] == way
                found.append((ids[mine], patterns[mine]))
            for thread in threads:
                found.append(self._expand(_counting(self._own_events(thread, context)[0], last)))
                for edge in (False, True) if context else ():
                    for pattern in self._tables.before[edge].pairs(np.array([thread]))[1].tolist():
                        ids = self._edge_tokens(context, edge).astype(np.int64)
                        found.append((ids, np.full(len(ids), pattern, dtype=np.int64)))
            found.append(self._expand(self._tail_events(context, threads)))
        return distinct_pairs(found)

    def _expand(self, events: Events) -> tuple[Longs, Longs]:
        """Events to ids, with the pattern of each."""
        columns = self.columns
        start, end = columns.start[events.lo].astype(np.int64), columns.start[events.hi].astype(np.int64)
        count = end - start
        place = np.arange(int(count.sum())) + np.repeat(start - (np.cumsum(count) - count), count)
        return columns.ids[place].astype(np.int64), np.repeat(events.pattern, count)

    def _painted(self, events: Events) -> Bools:
        """bool [nodes], by preorder number: whether an event covers it."""
        change = np.zeros(self.columns.n_nodes + 1, dtype=np.int64)
        change += np.bincount(events.lo, minlength=len(change)) - np.bincount(events.hi, minlength=len(change))
        painted: Bools = np.cumsum(change)[:-1] > 0
        return painted

    def _painted_ids(self, events: Events, last: bool) -> Ints:
        painted = self._painted(_counting(events, last))
        return frozen(self.columns.ids[painted[self.columns.places]])

    def _is_held(self, state: State) -> bool:
        """Whether an exception can still complete, so that threads act on what comes after them."""
        return any(thread < 0 or self._tables.live_exception[thread] for thread in state[1])

    # -- where nothing is held: what no thread, and what each, completes ----------------------------------------------

    def _context(self, context: int) -> int:
        """The start of an output is as any edge, unless a pattern asks for it."""
        anchored = self.automaton.anchored
        return 0 if context == BEGIN and anchored.first == anchored.start else context

    @cached_property
    def _tops(self) -> Ints:
        """int32 [size]: the first symbol's node of each id; 0 where there is none."""
        tops: Ints = self.columns.top[self.columns.node_of[np.maximum(self.columns.trie.node_of, 0)]]
        return tops

    def _ways(self, context: int) -> Longs:
        """int64 [nodes of depth one, and the root]: how tokens that begin there start."""
        if context == BEGIN:
            return np.full(self.columns.n_nodes, _BEGIN, dtype=np.int64)[: self._n_tops]
        ways = np.full(self._n_tops, _EDGE, dtype=np.int64)
        column = self.columns.column[: self._n_tops]
        ways[column >= 0] = self.columns.edge_after(context)[column[column >= 0]]
        return ways

    @cached_property
    def _n_tops(self) -> int:
        levels = self.columns.levels
        return levels[2] if len(levels) > 2 else 1

    @cached_property
    def _base_painted(self) -> list[Bools]:
        """bool [3, nodes] by way of starting and preorder number; the second with what counts at the end."""
        results = []
        for last in (False, True):
            events = _counting(self._base, last)
            results.append(np.stack([self._painted(events.where(events.origin == way)) for way in range(3)]))
        return results

    def _base_mask(self, context: int, last: bool) -> Ints:
        known = self._base_ids.get((context, last))
        if known is None:
            columns = self.columns
            ways = self._ways(context)[self._tops[columns.ids]]
            hit = self._base_painted[last][ways, columns.places]
            known = self._base_ids[context, last] = frozen(np.sort(columns.ids[hit]))
        return known

    def _edge_tokens(self, context: int, edge: bool) -> Ints:
        """The tokens whose first symbol has, or has not, an edge before it after that context."""
        known = self._edge_ids.get((context, edge))
        if known is None:
            starts = np.zeros(self._n_tops, dtype=bool)
            some = self.columns.column[: self._n_tops] >= 0
            starts[some] = self.columns.edge_after(context)[self.columns.column[: self._n_tops][some]] == edge
            ids = self.columns.ids
            known = self._edge_ids[context, edge] = frozen(np.sort(ids[starts[self._tops[ids]]]))
        return known

    def _own_key(self, thread: int, context: int) -> tuple[int, int]:
        return thread, context if self._tables.minds_edge[thread] else 0

    def _own_events(self, thread: int, context: int) -> tuple[Events, Rows]:
        key = self._own_key(thread, context)
        known = self._own.get(key)
        if known is None:
            self._walk(np.array([thread]), key[1])
            known = self._own[key]
        return known

    def _walk(self, threads: Longs, context: int) -> None:
        """Walk threads over the vocabulary, and keep what they complete."""
        events, rows = self._walks.own(threads, context)
        events, rows = events.where(np.argsort(events.origin, kind="stable")), rows.where(np.argsort(rows.origin))
        numbers = np.arange(len(threads) + 1)
        mine, tailed = np.searchsorted(events.origin, numbers), np.searchsorted(rows.origin, numbers)
        for i, thread in enumerate(threads.tolist()):
            some = np.arange(tailed[i], tailed[i + 1])
            own = events.where(slice(mine[i], mine[i + 1])), rows.where(some)
            self._own.keep((thread, context), own, (*own[0], *own[1]))

    def _own_mask(self, thread: int, context: int, last: bool) -> Ints:
        key = *self._own_key(thread, context), last
        known = self._own_ids.get(key)
        if known is None:
            events = _counting(self._own_events(thread, context)[0], last)
            ids = np.unique(self._expand(events)[0]) if len(events.lo) else _NO_IDS
            known = frozen(ids) if len(ids) else _NO_IDS
            self._own_ids.keep(key, known, (known,))
        return known

    # -- tails -----------------------------------------------------------------------------------------------------

    def _base_tails(self, ways: Iterable[int]) -> Events:
        """What tails below other nodes than the root complete where no thread was under way."""
        nodes = np.flatnonzero(self.columns.child_hi > self.columns.child_mid)
        found = []
        for way, node in itertools.product(ways, nodes[nodes > 0].tolist()):
            found += [(way, *event) for event in self._judged(node, self._base_rows.get((way, node), ()))]
        return _events(found)

    def _tail_events(self, context: int, threads: tuple[int, ...]) -> Events:
        """What tails complete, below the nodes where threads of this list still are, and below the root."""
        at: dict[int, list[int]] = {0: list(threads)}
        for thread in threads:
            rows = self._own_events(thread, context)[1]
            for node, state in zip(rows.node.tolist(), rows.state.tolist(), strict=True):
                if node:
                    at.setdefault(node, []).append(state)
        ways, found = self._ways(context), []
        for node, states in at.items():
            way = int(ways[self.columns.top[node]])
            more = self._base_rows.get((way, node), ()) if node else ()
            found += [(way, *e) for e in self._judged(node, (*states, *more), context)]
        return _events(found)

    def _judged(self, node: int, threads: tuple[int, ...], context: int = 0) -> list[tuple[int, int, int, int]]:
        """(lo, hi, pattern, kind) of the tails below a node that complete something; `context`: the root's."""
        columns, anchored = self.columns, self.automaton.anchored
        if node:
            context = int(columns.join[columns.column[node]])
        state: State = (context, threads)
        if self._held is not None and self._is_held(state):
            likely = list(range(int(columns.child_mid[node]), int(columns.child_hi[node])))
        else:
            start = anchored.first if context == BEGIN else anchored.start
            likely = self._judge.complete(node, state, start)
        found = []
        for tail in likely:
            lo, hi = int(columns.first[tail]), int(columns.last[tail])
            done = self.on_every_way(state, int(columns.tail[tail]), moved=node > 0)
            found += [(lo, hi, pattern, EAGER) for pattern in sorted(done)]
        return found

    def _completes_in(self, state: State, run: tuple[int, ...]) -> bool:
        after, done = self.read(state, run)
        return bool(done or self.automaton.waiting(after))

    def nbytes(self) -> int:
        """Bytes of the tables and of the cached answers."""
        cached: list[Ints | Longs] = [*self._own_ids.values(), *self._base_ids.values(), *self._edge_ids.values()]
        cached += [column for events, _ in self._own.values() for column in events]
        cached += [column for _, rows in self._own.values() for column in rows]
        held = self._held.nbytes() if self._held is not None else 0
        return self.columns.nbytes() + held + sum(a.nbytes for a in (*cached, *self._base))


def frozen(ids: Longs | Ints) -> Ints:
    """Ids as a read-only int32 array."""
    array = np.ascontiguousarray(ids, dtype=np.int32)
    array.flags.writeable = False
    return array


def some(ids: Ints) -> tuple[Ints, ...]:
    """The ids as the only part of a mask; no part where there are none."""
    return (ids,) if len(ids) else ()


def _counting(events: Events, last: bool) -> Events:
    return events if last else events.where(events.kind != END)


def _events(rows: list[tuple[int, int, int, int, int]]) -> Events:
    return Events(*np.array(rows, dtype=np.int64).reshape(-1, 5).T)


def _by_node(parts: list[Rows]) -> dict[tuple[int, int], tuple[int, ...]]:
    """The threads at each (origin, node)."""
    found: dict[tuple[int, int], tuple[int, ...]] = {}
    for rows in parts:
        for origin, node, state in zip(*(column.tolist() for column in rows), strict=True):
            found[origin, node] = (*found.get((origin, node), ()), state)
    return found


def distinct_pairs(found: list[tuple[Longs, Longs]]) -> tuple[Ints, Ints]:
    """(ids, patterns) of several such pairs of arrays, without repeats, by pattern."""
    ids, patterns = (np.concatenate(columns) for columns in zip(*found, strict=True))
    pairs = np.unique(patterns << 32 | ids)
    return frozen(pairs & 0xFFFFFFFF), frozen(pairs >> 32)


__all__ = ["ThreadMasks", "distinct_pairs", "frozen", "some"]
