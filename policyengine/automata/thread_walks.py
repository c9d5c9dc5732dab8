"""Threads walked over a vocabulary, many at once: which tokens they complete a match in.

Where no exception can still complete, threads do not see each other, so that what a list of threads completes is what
each of them does. A walk follows (thread, node) pairs through the trie, one depth a round, and notes *events*: ranges
of tokens that complete a pattern, by the preorder numbers of the trie's nodes.

    FIRE   [lo, hi): the node where the pattern completes, and all that is below it
    EAGER  the tokens that stop at the node, which leave the text in a word that only waits for an edge; or a tail
           where each character that it can become completes the pattern
    END    the tokens that stop there, if nothing can follow them
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from policyengine.automata.anchored_tables import AnchoredTables, PerState
from policyengine.automata.column_trie import ColumnTrie
from policyengine.automata.phrases import Bools, Longs
from policyengine.automata.threads import BEGIN, State
from policyengine.automata.utf8 import REPLACEMENT

FIRE, EAGER, END = 0, 1, 2
_FEW = 24  # children up to which a loop is quicker than arrays


Run = tuple[int, ...]


class Events(NamedTuple):
    """Parallel int64 arrays. `origin`: whose event it is; the caller numbers them."""

    origin: Longs
    lo: Longs
    hi: Longs
    pattern: Longs
    kind: Longs

    def where(self, chosen: Bools | Longs | slice) -> Events:
        """Those of a mask, of indices or of a slice."""
        return Events(*(column[chosen] for column in self))

    @classmethod
    def of(cls, parts: Iterable[Events]) -> Events:
        """One after the other."""
        some = [part for part in parts if len(part.lo)]
        if not some:
            return cls(*(np.zeros(0, dtype=np.int64) for _ in cls._fields))
        return cls(*(np.concatenate(columns) for columns in zip(*some, strict=True)))


class Rows(NamedTuple):
    """Threads that stand at nodes: parallel int64 arrays. A node may have several threads of one origin."""

    origin: Longs
    node: Longs
    state: Longs

    def where(self, chosen: Bools | Longs) -> Rows:
        """Those of a mask or of indices."""
        return Rows(*(column[chosen] for column in self))


class ThreadWalks:
    """Walks over one vocabulary's trie."""

    def __init__(self, trie: ColumnTrie, tables: AnchoredTables) -> None:
        self.trie, self.tables = trie, tables
        self._broken = trie.anchored.column(ord(REPLACEMENT))
        self._has_tails: Bools = trie.child_hi > trie.child_mid
        self._n_children: Longs = trie.child_mid - trie.child_lo
        # bool [nodes]: whether an edge follows whatever comes next.
        self._is_sure: Bools = (trie.join[trie.column] == 0) & trie.anchored.needs_edges
        # Preorder number of a node's first tail.
        self._first_tail: Longs = trie.first[np.minimum(trie.child_mid, trie.n_nodes - 1)].astype(np.int64)

    # -- the two kinds of walks ------------------------------------------------------------------------------------

    def own(self, states: Longs, context: int) -> tuple[Events, Rows]:
        """What each thread completes by itself; origins count `states`, none of which has a live exception.

        context: what the text ends in, for threads that mind. What a thread completes by an edge before the token is
        left out. The rows are the threads at nodes with tails, the root too.
        """
        edges = self.trie.edge_after(context)
        origin = np.arange(len(states))
        rows = Rows(origin, np.zeros_like(origin), states.astype(np.int64))
        found: list[Events] = []
        # Behind what joins nothing there is an edge: what waited for one is past.
        is_past = context == 0 and not self.tables.waits_in_words
        table = self.tables.only_at_end if is_past else self.tables.at_end
        which, pattern = table.pairs(rows.state)
        self._add(found, rows.where(which), 1, pattern, END)
        tailed = [self._at_tails(found, rows, is_past=is_past)]
        rows = rows.where(self._may_end(rows))
        first_edges: Bools | None = edges
        while len(rows.node):
            if first_edges is None and int(self._n_children[rows.node].sum()) <= _FEW:
                rows = self._one_by_one(found, tailed, rows)
            else:
                rows = self._down(found, rows, first_edges)
                tailed.append(self._settle(found, rows))
                rows = rows.where(self._may_end(rows))
            first_edges = None
        return Events.of(found), _rows(tailed)

    def _may_end(self, rows: Rows) -> Bools:
        """Whether what is below a row's node is long enough for something to end there."""
        enough: Bools = self.tables.need[rows.state] <= self.trie.height[rows.node]
        return enough

    def _one_by_one(self, found: list[Events], tailed: list[Rows], rows: Rows) -> Rows:
        """Follow a few rows all the way down, as long as they stay few; returns what is left.

        Long runs of white space are why: a round over two rows costs as much as one over hundreds.
        """
        trie, tables, step = self.trie, self.tables, self.trie.anchored.next
        left = [(int(o), int(n), int(s)) for o, n, s in zip(*rows, strict=True)]
        settled: list[tuple[int, int, int]] = []
        budget = 16 * _FEW
        while left and budget > 0:
            origin, node, state = left.pop()
            lo, hi = int(trie.child_lo[node]), int(trie.child_mid[node])
            budget -= hi - lo
            ends = tables.before[False].some[state], tables.before[True].some[state]
            columns, edges = trie.column[lo:hi].tolist(), trie.edge[lo:hi].tolist()
            for child, column, edge in zip(range(lo, hi), columns, edges, strict=True):
                if ends[edge]:
                    self._note(found, _row(origin, child, state), tables.before[edge], FIRE)
                after = step(state, column, edge)
                if after >= 0:
                    settled.append((origin, child, after))
                    if tables.need[after] <= trie.height[child]:
                        left.append((origin, child, after))
        if settled:
            tailed.append(self._settle(found, _of_rows(settled)))
        return _of_rows(left)

    def base(self, origin: int, start: int, edges: Bools) -> tuple[Events, Rows]:
        """What tokens complete without a thread before them; `start`: the state in which the first one begins.

        The tails of the root are left out of the rows, which hold all threads at nodes with tails.
        """
        trie, tables = self.trie, self.tables
        nothing = np.zeros(0, dtype=np.int64)
        rows, found, tailed = Rows(nothing, nothing, nothing), list[Events](), list[Rows]()
        found.append(self.at_root(origin, start))
        for depth, (lo, hi) in enumerate(zip(trie.levels[1:], trie.levels[2:], strict=False), start=1):
            rows = self._down(found, rows, edges if depth == 1 else None)
            node = np.arange(lo, hi)
            node = node[trie.tail[node] < 0]
            column = trie.column[node].astype(np.int64)
            edge = edges[column] if depth == 1 else trie.edge[node]
            begin = np.full(len(node), start if depth == 1 else tables.start, dtype=np.int64)
            after = tables.next_many(begin, column, edge)
            begun = Rows(np.full(len(node), origin, dtype=np.int64), node, after).where(after >= 0)
            rows = _distinct(_rows([rows, begun]), tables.n_states)
            tailed.append(self._settle(found, rows))
            at = node[self._has_tails[node]]
            fresh = np.full(len(at), tables.start, dtype=np.int64)
            self._at_tails(found, Rows(np.full(len(at), origin, dtype=np.int64), at, fresh))
            rows = rows.where(self._may_end(rows))
        return Events.of(found), _rows(tailed)

    def at_root(self, origin: int, start: int) -> Events:
        """What U+FFFD alone completes at the end of the output, which the root's tails become there."""
        found: list[Events] = []
        self._at_tails(found, _row(origin, 0, start))
        return Events.of(found)

    # -- one symbol ------------------------------------------------------------------------------------------------

    def _down(self, found: list[Events], rows: Rows, first_edges: Bools | None) -> Rows:
        """Every row at every child of its node. first_edges: for children of the root, where no pattern ends before."""
        trie, tables = self.trie, self.tables
        lo = trie.child_lo[rows.node]
        count = trie.child_mid[rows.node] - lo
        which = np.repeat(np.arange(len(count)), count)
        child = np.arange(len(which)) + np.repeat(lo - (np.cumsum(count) - count), count)
        state, column = rows.state[which], trie.column[child].astype(np.int64)
        edge = trie.edge[child] if first_edges is None else first_edges[column]
        below = Rows(rows.origin[which], child, state)
        if first_edges is None:
            for value in (False, True):
                self._note(found, below.where(edge == value), tables.before[value], FIRE)
        after = tables.next_many(state, column, edge)
        keep = np.flatnonzero(after >= 0)
        return Rows(below.origin[keep], child[keep], after[keep])

    def _settle(self, found: list[Events], rows: Rows) -> Rows:
        """Note what ends at the nodes, and return the rows that have tails below them."""
        self._note(found, rows, self.tables.now, FIRE)
        self._note(found, rows.where(self._is_sure[rows.node]), self.tables.before[True], FIRE)
        self._note(found, rows, self.tables.eager, EAGER)
        self._note(found, rows, self.tables.at_end, END)
        return self._at_tails(found, rows.where(self._may_end(rows)))

    def _at_tails(self, found: list[Events], rows: Rows, *, is_past: bool = False) -> Rows:
        """Note what the tails below complete if the output ends in them, which makes them U+FFFD; always an edge.

        is_past: leave out what only waited for that edge.
        """
        tables = self.tables
        rows = rows.where(self._has_tails[rows.node])
        if not len(rows.node):
            return rows
        column, edge = np.full(len(rows.node), self._broken), np.ones(len(rows.node), dtype=bool)
        after = tables.next_many(rows.state, column, edge)
        broken = Rows(rows.origin, rows.node, after)
        before = rows.where(np.full(len(rows.node), not is_past))
        for table, some in ((tables.before[True], before), (tables.now, broken), (tables.at_end, broken)):
            mine = some.where(table.some[some.state])
            which, pattern = table.pairs(mine.state)
            node = mine.node[which]
            lo, hi = self._first_tail[node], self.trie.last[node].astype(np.int64)
            found.append(Events(mine.origin[which], lo, hi, pattern, np.full(len(lo), END, dtype=np.int64)))
        return rows

    def _note(self, found: list[Events], rows: Rows, table: PerState, kind: int) -> None:
        some = np.flatnonzero(table.some[rows.state])
        if some.size:
            which, pattern = table.pairs(rows.state[some])
            self._add(found, rows.where(some[which]), None if kind == FIRE else 1, pattern, kind)

    def _add(self, found: list[Events], rows: Rows, size: int | None, pattern: Longs, kind: int) -> None:
        lo = self.trie.first[rows.node].astype(np.int64)
        hi = lo + size if size else self.trie.last[rows.node].astype(np.int64)
        found.append(Events(rows.origin, lo, hi, pattern, np.full(len(lo), kind, dtype=np.int64)))


class TailJudge:
    """Where every character that a tail can become may complete a pattern; whether it is the same is asked then.

    A thread's *row* says it of every column; a tail of single columns is judged by the rows of all its threads. Longer
    runs are read, but only where they have a chance: they complete something whatever stands before them, or a thread
    gets over their first column.
    """

    def __init__(self, trie: ColumnTrie, tables: AnchoredTables, reads: Callable[[State, Run], bool]) -> None:
        """reads: whether a state completes something in a run of columns."""
        self._trie, self._tables, self._reads = trie, tables, reads
        self._rows: dict[tuple[int, int], tuple[Bools, Bools]] = {}
        self._by_itself: dict[Run, bool] = {}
        self._needs: tuple[Bools, Bools, Bools] | None = None

    def row(self, state: int, context: int) -> tuple[Bools, Bools]:
        """bool [columns] each: whether a symbol of the column completes a pattern, or leaves the text in a word that
        only waits for an edge; and whether the thread goes on behind it."""
        known = self._rows.get((state, context))
        if known is None:
            tables, n = self._tables, self._trie.n_columns
            edge, states = self._trie.edge_after(context), np.full(n, state, dtype=np.int64)
            after = tables.next_many(states, np.arange(n), edge)
            done = tables.now.some[after] | tables.eager.some[after]
            if self._trie.anchored.needs_edges:
                done |= tables.before[True].some[after] & (self._trie.join[:-1] == 0)
            if context != 0:
                done |= np.where(edge, tables.before[True].some[state], tables.before[False].some[state])
            known = done, tables.live[after]
            if len(self._rows) * n >= 1 << 23:
                self._rows.clear()
            self._rows[state, context] = known
        return known

    def complete(self, node: int, state: State, start: int) -> list[int]:
        """The tail nodes below `node` all of whose characters complete something.

        state: all threads there; start: the anchored state of one that begins with the next symbol.
        """
        trie = self._trie
        lo, hi = int(trie.child_mid[node]), int(trie.child_hi[node])
        context, threads = state
        done = self.row(start, context)[0]
        goes_on = np.zeros_like(done)
        for thread in threads:
            mine = self.row(thread, context)
            done, goes_on = done | mine[0], goes_on | mine[1]
        singles, longer, dropped = self._needed()
        tails = trie.tail[lo:hi]
        failed = singles[tails][:, ~done].any(axis=1) | longer[tails][:, ~(done | goes_on)].any(axis=1)
        if not node or not any(self._tables.eager.some[thread] for thread in threads):
            failed |= dropped[tails]
        passed = np.flatnonzero(~failed).tolist()
        runs = [trie.tails[int(tails[place])].longer for place in passed]
        reads = self._reads
        return [lo + p for p, longer in zip(passed, runs, strict=True) if all(reads(state, run) for run in longer)]

    def _needed(self) -> tuple[Bools, Bools, Bools]:
        """By tail of the vocabulary, bool: its single columns; the columns that longer runs begin with, those left out
        that complete something by themselves; whether folding drops a character."""
        if self._needs is None:
            tails = self._trie.tails
            singles, longer = (np.zeros((len(tails), self._trie.n_columns), dtype=bool) for _ in range(2))
            for number, tail in enumerate(tails):
                singles[number, list(tail.singles)] = True
                longer[number, [run[0] for run in tail.longer if not self._always(run)]] = True
            self._needs = singles, longer, np.array([tail.dropped for tail in tails], dtype=bool)
        return self._needs

    def _always(self, run: Run) -> bool:
        """Whether a run may complete something with nothing before it, at an edge or not."""
        known = self._by_itself.get(run)
        if known is None:
            known = self._by_itself[run] = any(self._reads((context, ()), run) for context in (BEGIN, 0, 1))
        return known


def _rows(parts: Iterable[Rows]) -> Rows:
    return Rows(*(np.concatenate(columns).astype(np.int64) for columns in zip(*parts, strict=True)))


def _row(origin: int, node: int, state: int) -> Rows:
    return _of_rows([(origin, node, state)])


def _of_rows(rows: list[tuple[int, int, int]]) -> Rows:
    return Rows(*np.array(rows, dtype=np.int64).reshape(-1, 3).T)


def _distinct(rows: Rows, n_states: int) -> Rows:
    """Without repeats; all of one origin."""
    _, chosen = np.unique(rows.node * n_states + rows.state, return_index=True)
    return rows.where(chosen)


__all__ = ["EAGER", "END", "FIRE", "Events", "Rows", "TailJudge", "ThreadWalks"]
