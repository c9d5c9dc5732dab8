"""The questions a running output asks of an automaton of threads: what would complete a match, and where a token leads.

The same answers as `token_matcher.TokenMatcher` gives of an automaton of phrases. A position is (state, pending): the
context and the threads after the complete characters, and the bytes of one that is not complete yet.

Without exceptions threads do not see each other: what a position masks is what the vocabulary completes by itself after
its context, and what each thread completes, and each of these is found once. A thread is walked over the vocabulary
when it first comes up, or, where all of them are few, when the matcher is made. With exceptions a position is walked as
a whole (see `held_walks`).
"""

from __future__ import annotations

from collections.abc import Iterator
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
        self._open: dict[tuple[State, bytes, bool], Ints] = {}
        self._tables = AnchoredTables(automaton.anchored)
        self._walks = ThreadWalks(self.columns, self._tables)
        self._judge = TailJudge(self.columns, self._tables, self._completes_in)
        self._held: HeldWalks | None = None
        self._base_rows: dict[tuple[int, int], tuple[int, ...]] = {}  # by way of starting, and node with tails
        if automaton.anchored.has_exceptions:
            self._base = self._hold()
        else:
            self._base = self._walk_base()
            threads = np.flatnonzero(self._tables.live[:-1] & ~self._tables.minds_edge)
            if len(threads) * self.columns.n_nodes <= _MOST_AHEAD:
                self._walk(threads, 0)
        for context in {self._context(BEGIN), 0, 1 if automaton.anchored.needs_edges else 0}:
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
        return Events.of([*found, self._base_tails()])

    def _hold(self) -> Events:
        """The same where there are exceptions."""
        self._held = held = HeldWalks(self.automaton, self.columns, self._tables)
        self._base_rows = {
            (way, node): held.threads_at(way, node)
            for node in np.flatnonzero(self.columns.child_hi > self.columns.child_mid).tolist()
            for way in (_JOINED, _EDGE)
        }
        return Events.of([held.base, self._walks.at_root(_EDGE, self._tables.start)])

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
        some, common = self._at_tail_of(state, tail, moved=moved)
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
            return _some(self._open_mask(state, pending, last))
        known = self._masks.get((state, last))
        if known is None:
            if len(self._masks) >= _MOST_CACHED:
                self._masks.clear()
            known = self._masks[state, last] = self._parts(state, last)
        return known

    def _parts(self, state: State, last: bool) -> tuple[Ints, ...]:
        if self._held is not None and self._is_held(state):
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
            return self._open_pairs(state, pending, last)
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
            found += [(way, *event) for event in self._judged(node, states)]
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
            some, common = self._at_tail_of(state, int(columns.tail[tail]), moved=node > 0)
            lo, hi = int(columns.first[tail]), int(columns.last[tail])
            found += [(lo, hi, pattern, EAGER) for pattern in sorted(common) or [ANY] * bool(some)]
        return found

    def _at_tail_of(self, state: State, tail: int, *, moved: bool) -> _Completed:
        runs = self.columns.tails[tail].runs
        return judge_tail(state, runs, moved, lambda s, column: self._read(s, (column,)), self.automaton.waiting)

    def _completes_in(self, state: State, run: tuple[int, ...]) -> bool:
        after, done = self._read(state, run)
        return bool(done or self.automaton.waiting(after))

    # -- from inside a character -----------------------------------------------------------------------------------

    @cached_property
    def _silent(self) -> Bools:
        """bool [size]: ids without bytes."""
        return np.array([not t for t in self.trie.tokens], dtype=np.bool_)

    @cached_property
    def _says_nothing(self) -> Bools:
        """bool [size]: ids without bytes that stand for something."""
        return self._silent & (self.trie.node_of >= 0)

    @cached_property
    def _breaks(self) -> Bools:
        """bool [size]: ids that cannot go on with an open character, and turn it into U+FFFD."""
        breaks = ~self._silent
        breaks[self._goes_on] = False
        return breaks

    @cached_property
    def _goes_on(self) -> list[int]:
        """The ids whose first byte can go on with an open character."""
        return [i for i, t in enumerate(self.trie.tokens) if t and utf8.is_continuation(t[0])]

    def _open_mask(self, state: State, pending: bytes, last: bool) -> Ints:
        """`masks` where a character is open."""
        known = self._open.get((state, pending, last))
        if known is None:
            after, done = self._read(state, (self._broken,))
            masked = np.full(len(self._silent), bool(done))
            for part in self.masks((after, b""), last=last):
                masked[part] = True
            masked &= self._breaks
            for token, completed in self._going_on(state, pending, last):
                masked[token] = bool(completed[0])
            if last and self.at_end((state, pending)):
                masked |= self._says_nothing
            if len(self._open) >= _MOST_CACHED:
                self._open.clear()
            known = self._open[state, pending, last] = _frozen(np.flatnonzero(masked))
        return known

    def _open_pairs(self, state: State, pending: bytes, last: bool) -> tuple[Ints, Ints]:
        """`completions` where a character is open."""
        after, done = self._read(state, (self._broken,))
        ids, patterns = self.completions((after, b""), last=last)
        keep = self._breaks[ids]
        found = [(ids[keep].astype(np.int64), patterns[keep].astype(np.int64))]
        every = [(self._breaks, done)]
        if last:
            every.append((self._says_nothing, set(self.at_end((state, pending)))))
        for some, ends in every:
            mine = np.flatnonzero(some)
            found += [(mine, np.full(len(mine), pattern)) for pattern in ends]
        pairs = [(token, p) for token, completed in self._going_on(state, pending, last) for p in completed[1]]
        more = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return _pairs([*found, (more[:, 0], more[:, 1])])

    def _going_on(self, state: State, pending: bytes, last: bool) -> Iterator[tuple[int, _Completed]]:
        """The ids whose first byte can go on with the character, and what they complete."""
        known: dict[tuple[tuple[int, ...], int], _Completed] = {}
        for token in self._goes_on:
            data = self.trie.tokens[token] or b""
            character, used = utf8.finish(pending, data)
            if character:
                what = self._run(character), self._node(self._rest(token, used))
            else:
                what = (), -1 - self.columns.tail_of(pending + data)
            if what not in known:
                known[what] = self._open_token(state, pending, token, data, last)
            yield token, known[what]

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
