"""The questions a running output asks of an automaton of threads: what would complete a match, and where a token leads.

The same answers as `token_matcher.TokenMatcher` gives of an automaton of phrases. A position is (state, pending): the
context and the threads after the complete characters, and the bytes of one that is not complete yet.

Without exceptions threads do not see each other: what a position masks is what the vocabulary completes by itself after
its context, and what each thread completes, and each of these is found once. A thread is walked over the vocabulary
when it first comes up, or, where all of them are few, when the matcher is made. With exceptions a position is walked as
a whole (see `held_walks`).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from policyengine.automata import utf8
from policyengine.automata.anchored_tables import AnchoredTables
from policyengine.automata.column_trie import ColumnTrie
from policyengine.automata.held_walks import HeldWalks, bounded, judge_tail
from policyengine.automata.phrases import Bools, Ints, Longs
from policyengine.automata.thread_walks import ANY, EAGER, END, Events, Rows, TailJudge, ThreadWalks
from policyengine.automata.threads import BEGIN, State, ThreadAutomaton
from policyengine.automata.vocabulary_trie import NO_SYMBOL, VocabularyTrie

_MOST_CACHED = 1 << 14  # entries a cache; a bound against walks that never repeat, not a tuning knob
_MOST_AHEAD = 1 << 22  # threads times nodes up to which all threads are walked at once, before the first output
_NO_IDS: Ints = np.zeros(0, dtype=np.int32)
_NO_IDS.flags.writeable = False

Position = tuple[State, bytes]
# Patterns that a token completes: all that there is to be masked for, and those of them that it completes for certain.
_Completed = tuple[set[int], set[int]]
_JOINED, _EDGE, _BEGIN = 0, 1, 2  # how a token starts where no thread is under way


class ThreadMatcher:
    """One automaton on one vocabulary. Shared by all sessions; not thread-safe while caches fill."""

    START: Position = (ThreadAutomaton.START, b"")

    def __init__(self, automaton: ThreadAutomaton, trie: VocabularyTrie) -> None:
        if automaton.spec != trie.folding.spec:
            raise ValueError("the vocabulary was folded otherwise than the patterns")
        self.automaton, self.trie = automaton, trie
        self.columns = ColumnTrie(trie, automaton.anchored)
        self._broken = automaton.anchored.column(ord(utf8.REPLACEMENT))
        self._steps: dict[tuple[State, int], tuple[Position, bool]] = {}
        self._masks: dict[tuple[State, bool], tuple[Ints, ...]] = {}
        self._own: dict[tuple[int, int], tuple[Events, Rows]] = {}
        self._own_ids: dict[tuple[int, int, bool], Ints] = {}
        self._base_ids: dict[tuple[int, bool], Ints] = {}
        self._edge_ids: dict[tuple[int, bool], Ints] = {}
        self._open: dict[tuple[State, bytes, bool], tuple[Ints, Ints, Ints]] = {}
        self._held = HeldWalks(automaton, self.columns) if automaton.anchored.has_exceptions else None
        if self._held is None:
            self._walk_ahead()

    def _walk_ahead(self) -> None:
        anchored = self.automaton.anchored
        self._tables = AnchoredTables(anchored)
        self._walks = ThreadWalks(self.columns, self._tables)
        self._judge = TailJudge(self.columns, self._tables)
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
        found.append(self._base_tails())
        self._base = Events.of(found)
        threads = np.flatnonzero(self._tables.live[:-1] & ~self._tables.minds_edge)
        if len(threads) * self.columns.n_nodes <= _MOST_AHEAD:
            self._walk(threads, 0)
        for context in {self._context(BEGIN), 0, 1 if anchored.needs_edges else 0}:
            for last in (False, True):
                self._base_mask(context, last)

    # -- where a token leads ---------------------------------------------------------------------------------------

    def advance(self, position: Position, token: int) -> tuple[Position, bool]:
        """The position after a token, and whether the token completed a match. A padding id changes nothing."""
        state, pending = position
        if not pending:
            known = self._steps.get((state, token))
            if known is None:
                if len(self._steps) >= _MOST_CACHED * 16:
                    self._steps.clear()
                node = int(self.trie.node_of[token])
                completed = node >= 0 and bool(self._at_node(state, self._node(node), False)[0])
                known = self._steps[state, token] = self._follow(state, node), completed
            return known
        data = self.trie.tokens[token]
        if not data:
            return position, False
        completed = bool(self._open_token(state, pending, token, data, False)[0])
        character, used = utf8.finish(pending, data)
        if not character:
            return (state, pending + data), completed
        return self._follow(self._read(state, self._run(character))[0], self._rest(token, used)), completed

    def _follow(self, state: State, node: int) -> Position:
        """Where the symbols and the tail of a node of the vocabulary's trie lead."""
        if node < 0:
            return state, b""
        tail, mine = int(self.trie.tail_index[node]), self._node(node)
        path = self.columns.path(mine if tail < 0 else int(self.columns.parent[mine]))
        return self._read(state, path)[0], b"" if tail < 0 else self.trie.tails[tail]

    def _node(self, node: int) -> int:
        return int(self.columns.node_of[node])

    def _rest(self, token: int, used: int) -> int:
        return self.trie.rests[token, used] if used else int(self.trie.node_of[token])

    def _run(self, character: str) -> tuple[int, ...]:
        """The columns that a character is read as."""
        column = self.automaton.anchored.column
        return tuple(column(symbol) for symbol in self.automaton.folding.table[character])

    def _read(self, state: State, run: list[int] | tuple[int, ...]) -> tuple[State, set[int]]:
        """Read columns: the next state, and the patterns that come to count."""
        done: set[int] = set()
        for column in run:
            state, _, hits = self.automaton.read(state, column)
            done.update(hit.pattern for hit in hits)
        if self._held is not None:
            return bounded(self.automaton, state), done
        return (state[0], tuple(sorted(state[1]))), done  # the order matters to exceptions only

    def at_end(self, position: Position) -> tuple[int, ...]:
        """The patterns that are complete if the output ends here. An incomplete character shows as U+FFFD."""
        state, pending = position
        if not pending:
            return tuple(sorted(self.automaton.ends(state)))
        after, done = self._read(state, (self._broken,))
        return tuple(sorted(done | self.automaton.ends(after)))

    @cached_property
    def minds_the_end(self) -> bool:
        """Whether it can matter that the output ends: to an edge, a pending match, or a U+FFFD that it makes."""
        if self._held is not None:
            return True
        tables = self._tables
        states = np.arange(tables.n_states)
        broken, edge = np.full(len(states), self._broken), np.ones(len(states), dtype=bool)
        goes_on = tables.next_many(states, broken, edge) >= 0
        return bool(goes_on.any() or tables.at_end.some.any() or tables.before[True].some.any())

    # -- one token -------------------------------------------------------------------------------------------------

    def completes(self, position: Position, token: int, *, last: bool = False) -> set[int]:
        """The patterns that one token completes.

        A token that ends inside a character completes what all the characters that it can become do; if each of them
        completes something, but not the same, it is masked too, and this says all of that.
        """
        state, pending = position
        data = self.trie.tokens[token]
        if pending and data:
            return self._open_token(state, pending, token, data, last)[0]
        node = int(self.trie.node_of[token])
        if node < 0:
            return set()
        if pending:
            return set(self.at_end(position)) if last else set()
        return self._at_node(state, self._node(node), last)[0]

    def always_completes(self, token: int) -> set[int]:
        """The patterns that one token completes by itself, whatever stands before it; with exceptions, none."""
        node = int(self.trie.node_of[token])
        if self._held is not None or node < 0:
            return set()
        top = int(self.columns.top[self._node(node)])
        first = int(self.columns.join[self.columns.column[top]]) if top else NO_SYMBOL
        # A context that its first symbol joins to: the one that grants least.
        return self.completes(((first if first != NO_SYMBOL else 0, ()), b""), token)

    def _at_node(self, state: State, node: int, last: bool, *, opened: bool = False) -> _Completed:
        """What the symbols (and tail) of a node complete.

        opened: the token began inside a character, so that the text has only now come to where the state is.
        """
        tail = int(self.columns.tail[node])
        path = self.columns.path(node if tail < 0 else int(self.columns.parent[node]))
        state, done = self._read(state, path)
        if tail >= 0:
            return self._at_tail(state, tail, done, last, moved=bool(path) or opened)
        if path or opened:
            done.update(self.automaton.waiting(state))
        if last:
            done |= self.automaton.ends(state)
        return done, done

    def _at_tail(self, state: State, tail: int, done: set[int], last: bool, *, moved: bool) -> _Completed:
        some, common = judge_tail(self.automaton, state, self.columns.tails[tail].runs, moved)
        if last:
            done = done.union(self.at_end((state, b"?")))  # whatever is open
        return done | (common or some), done | common

    def _open_token(self, state: State, pending: bytes, token: int, data: bytes, last: bool) -> _Completed:
        """As `_at_node`, of a token that comes after an incomplete character."""
        character, used = utf8.finish(pending, data)
        if not character:
            return self._at_tail(state, self.columns.tail_of(pending + data), set(), last, moved=True)
        after, done = self._read(state, self._run(character))
        some, exactly = self._at_node(after, self._node(self._rest(token, used)), last, opened=True)
        return done | some, done | exactly

    # -- all tokens ------------------------------------------------------------------------------------------------

    def masks(self, position: Position, *, last: bool = False) -> tuple[Ints, ...]:
        """Ids, int32, in parts (not sorted, may overlap): the tokens that complete any pattern from here.

        last: nothing can follow the token, so those count too that leave the output ending in a match.
        The same position gives the same array objects as long as they stay cached.
        """
        state, pending = position
        if pending:
            return _some(self._from_open(state, pending, last)[0])
        known = self._masks.get((state, last))
        if known is None:
            if len(self._masks) >= _MOST_CACHED:
                self._masks.clear()
            known = self._masks[state, last] = self._parts(state, last)
        return known

    def _parts(self, state: State, last: bool) -> tuple[Ints, ...]:
        if self._held is not None:
            events = self._held.walk(state, all_patterns=False)
            return _some(self._painted_ids(events, last))
        context, threads = self._context(state[0]), state[1]
        parts = [self._base_mask(context, last)]
        before = self._tables.before
        edges = [edge for edge in (False, True) if any(before[edge].some[thread] for thread in threads)]
        parts.extend(self._edge_tokens(context, edge) for edge in edges)
        parts.extend(self._own_mask(thread, context, last) for thread in threads)
        tails = self._tail_events(context, threads)
        if len(tails.lo):
            parts.append(_frozen(np.unique(self._expand(tails)[0])))
        return tuple(part for part in parts if len(part))

    def completions(self, position: Position, *, last: bool = False) -> tuple[Ints, Ints]:
        """(ids, patterns), int32, pairs without repeats, by pattern: which token completes which. Not cached."""
        state, pending = position
        if pending:
            return self._from_open(state, pending, last)[1:]
        found = []
        if self._held is not None:
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
                for edge in (False, True):
                    for pattern in self._tables.before[edge].pairs(np.array([thread]))[1].tolist():
                        ids = self._edge_tokens(context, edge).astype(np.int64)
                        found.append((ids, np.full(len(ids), pattern, dtype=np.int64)))
            found.append(self._expand(self._tail_events(context, threads)))
        return _pairs(found)

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
        return _frozen(self.columns.ids[painted[self.columns.places]])

    # -- without exceptions: what no thread, and what each, completes ----------------------------------------------

    def _context(self, context: int) -> int:
        """The start of an output is as any edge, unless a pattern asks for it."""
        anchored = self.automaton.anchored
        return 0 if context == BEGIN and anchored.first == anchored.start else context

    @cached_property
    def _tops(self) -> Ints:
        """int32 [size]: the first symbol's node of each id; 0 where there is none."""
        tops: Ints = self.columns.top[self.columns.node_of[np.maximum(self.trie.node_of, 0)]]
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
            known = self._base_ids[context, last] = _frozen(np.sort(columns.ids[hit]))
        return known

    def _edge_tokens(self, context: int, edge: bool) -> Ints:
        """The tokens whose first symbol has, or has not, an edge before it after that context."""
        known = self._edge_ids.get((context, edge))
        if known is None:
            starts = np.zeros(self._n_tops, dtype=bool)
            some = self.columns.column[: self._n_tops] >= 0
            starts[some] = self.columns.edge_after(context)[self.columns.column[: self._n_tops][some]] == edge
            ids = self.columns.ids
            known = self._edge_ids[context, edge] = _frozen(np.sort(ids[starts[self._tops[ids]]]))
        return known

    def _own_key(self, thread: int, context: int) -> tuple[int, int]:
        return thread, context if self._tables.minds_edge[thread] else 0

    def _own_events(self, thread: int, context: int) -> tuple[Events, Rows]:
        key = self._own_key(thread, context)
        known = self._own.get(key)
        if known is None:
            if len(self._own) >= _MOST_CACHED * 4:
                self._own.clear()
            self._walk(np.array([thread]), key[1])
            known = self._own[key]
        return known

    def _walk(self, threads: Longs, context: int) -> None:
        """Walk threads over the vocabulary, and keep what they complete."""
        events, rows = self._walks.own(threads, self.columns.edge_after(context))
        events, rows = events.where(np.argsort(events.origin, kind="stable")), rows.where(np.argsort(rows.origin))
        numbers = np.arange(len(threads) + 1)
        mine, tailed = np.searchsorted(events.origin, numbers), np.searchsorted(rows.origin, numbers)
        for i, thread in enumerate(threads.tolist()):
            some = np.arange(tailed[i], tailed[i + 1])
            self._own[thread, context] = events.where(slice(mine[i], mine[i + 1])), rows.where(some)

    def _own_mask(self, thread: int, context: int, last: bool) -> Ints:
        key = *self._own_key(thread, context), last
        known = self._own_ids.get(key)
        if known is None:
            events = _counting(self._own_events(thread, context)[0], last)
            ids = np.unique(self._expand(events)[0]) if len(events.lo) else _NO_IDS
            if len(self._own_ids) >= _MOST_CACHED * 4:
                self._own_ids.clear()
            known = self._own_ids[key] = _frozen(ids) if len(ids) else _NO_IDS
        return known

    # -- tails -----------------------------------------------------------------------------------------------------

    def _base_tails(self) -> Events:
        """What tails below other nodes than the root complete where no thread was under way."""
        found = []
        for (way, node), states in self._base_rows.items():
            found += [(way, *event) for event in self._judged(way, node, states)]
        return _events(found)

    def _tail_events(self, context: int, threads: tuple[int, ...]) -> Events:
        """What tails complete, below the nodes where threads of this list still are, and below the root."""
        at: dict[int, set[int]] = {0: set(threads)}
        for thread in threads:
            rows = self._own_events(thread, context)[1]
            for node, state in zip(rows.node.tolist(), rows.state.tolist(), strict=True):
                at.setdefault(node, set()).add(state)
        ways, found = self._ways(context), []
        for node, states in at.items():
            way = int(ways[self.columns.top[node]])
            more = self._base_rows.get((way, node), ())
            found += [(way, *e) for e in self._judged(way, node, (*states, *more), context)]
        return _events(found)

    def _judged(
        self, way: int, node: int, states: tuple[int, ...], context: int = 0
    ) -> list[tuple[int, int, int, int]]:
        """(lo, hi, pattern, kind) of the tails below a node that complete something; `context`: the root's."""
        columns, anchored = self.columns, self.automaton.anchored
        if node:
            context = int(columns.join[columns.column[node]])
        state: State = (context, tuple(sorted(states)))
        start = anchored.first if context == BEGIN else anchored.start
        row = self._judge.row(start, context)
        for thread in states:
            row = row | self._judge.row(thread, context)
        found = []

        def reads(run: tuple[int, ...]) -> bool:
            return bool(judge_tail(self.automaton, state, (run,), moved=node > 0)[0])

        for tail in self._judge.complete(node, row, reads):
            runs = columns.tails[int(columns.tail[tail])].runs
            _, common = judge_tail(self.automaton, state, runs, moved=node > 0)
            lo, hi = int(columns.first[tail]), int(columns.last[tail])
            found += [(lo, hi, pattern, EAGER) for pattern in sorted(common) or [ANY]]
        return found

    # -- from inside a character -----------------------------------------------------------------------------------

    @cached_property
    def _silent(self) -> Bools:
        """bool [size]: ids without bytes."""
        return np.array([not t for t in self.trie.tokens], dtype=np.bool_)

    @cached_property
    def _goes_on(self) -> list[int]:
        """The ids whose first byte can go on with an open character."""
        return [i for i, t in enumerate(self.trie.tokens) if t and utf8.is_continuation(t[0])]

    def _from_open(self, state: State, pending: bytes, last: bool) -> tuple[Ints, Ints, Ints]:
        """`masks` and `completions` where a character is open. Slow, so cached."""
        key = state, pending, last
        known = self._open.get(key)
        if known is not None:
            return known
        # A token that cannot go on with the character turns it into U+FFFD.
        after, done = self._read(state, (self._broken,))
        others = ~self._silent
        others[self._goes_on] = False
        masked = np.zeros(len(others), dtype=bool)
        for part in self.masks((after, b""), last=last):
            masked[part] = True
        masked = (masked | bool(done)) & others
        ids, patterns = self.completions((after, b""), last=last)
        keep = others[ids]
        pairs = {(int(p), int(i)) for i, p in zip(ids[keep], patterns[keep], strict=True)}
        pairs.update((p, int(i)) for p in done for i in np.flatnonzero(others))
        memo: dict[tuple[tuple[int, ...] | bytes, int], _Completed] = {}
        for token in self._goes_on:
            data = self.trie.tokens[token] or b""
            character, used = utf8.finish(pending, data)
            what: tuple[tuple[int, ...] | bytes, int]
            what = (self._run(character), self._node(self._rest(token, used))) if character else (data, 0)
            verdict = memo.get(what)
            if verdict is None:
                verdict = memo[what] = self._open_token(state, pending, token, data, last)
            masked[token] = bool(verdict[0])
            pairs.update((p, token) for p in verdict[1])
        if last and (ends := self.at_end((state, pending))):
            silent = self._silent & (self.trie.node_of >= 0)
            masked |= silent
            pairs.update((p, int(i)) for p in ends for i in np.flatnonzero(silent))
        ordered = np.array(sorted(pairs), dtype=np.int32).reshape(-1, 2)
        known = _frozen(np.flatnonzero(masked)), _frozen(ordered[:, 1]), _frozen(ordered[:, 0])
        if len(self._open) >= _MOST_CACHED:
            self._open.clear()
        self._open[key] = known
        return known

    def nbytes(self) -> int:
        """Bytes of the tables and of the cached answers."""
        cached = [*self._own_ids.values(), *self._base_ids.values(), *self._edge_ids.values()]
        cached += [part for parts in self._masks.values() for part in parts] if self._held is not None else []
        held = self._held.nbytes() if self._held is not None else 0
        return self.columns.nbytes() + held + sum(a.nbytes for a in cached)


def _frozen(ids: Longs | Ints) -> Ints:
    array = np.ascontiguousarray(ids, dtype=np.int32)
    array.flags.writeable = False
    return array


def _some(ids: Ints) -> tuple[Ints, ...]:
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


def _pairs(found: list[tuple[Longs, Longs]]) -> tuple[Ints, Ints]:
    ids, patterns = (np.concatenate(columns) for columns in zip(*found, strict=True))
    pairs = np.unique((patterns << 32 | ids)[patterns != ANY])
    return _frozen(pairs & 0xFFFFFFFF), _frozen(pairs >> 32)


__all__ = ["Position", "ThreadMatcher"]
