"""The questions a running output asks of its tables: what would complete a match, and where a token leads.

A position is (state, pending): the automaton's state after the complete characters, and the bytes of one that is not
complete yet. Answers are cached, since few positions are ever seen; caches are bounded and hold read-only arrays.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from policyengine.automata import utf8
from policyengine.automata.kept import Kept
from policyengine.automata.phrases import JOINS, N_BASES, Bools, Ints, Longs
from policyengine.automata.token_tables import ALWAYS, AT_END, TokenTables
from policyengine.automata.vocabulary_trie import NO_SYMBOL

_MOST_STEPS = 1 << 18
_NO_IDS: Ints = np.zeros(0, dtype=np.int32)
_NO_IDS.flags.writeable = False

Position = tuple[int, bytes]
Whole = npt.NDArray[np.integer]


def _frozen(ids: npt.NDArray[np.integer]) -> Ints:
    array = np.ascontiguousarray(ids, dtype=np.int32)
    array.flags.writeable = False
    return array


class TokenMatcher:
    """One automaton on one vocabulary. Shared by all sessions; not thread-safe while caches fill."""

    START: Position = (0, b"")

    def __init__(self, tables: TokenTables) -> None:
        self.tables, self.automaton, self.trie = tables, tables.automaton, tables.trie
        self._steps: dict[tuple[int, int], tuple[Position, bool]] = {}
        self._masks: Kept[tuple[int, bool], tuple[Ints, ...]] = Kept()
        self._own: Kept[tuple[int, bool], Ints] = Kept()
        self._base: dict[tuple[int, bool], Ints] = {}
        self._open: Kept[tuple[int, bytes, bool], tuple[Ints, Ints]] = Kept()

    # -- where a token leads ---------------------------------------------------------------------------------------

    def advance(self, position: Position, token: int) -> tuple[Position, bool]:
        """The position after a token, and whether the token completed a match. A padding id changes nothing."""
        state, pending = position
        if not pending:
            known = self._steps.get((state, token))
            if known is None:
                if len(self._steps) >= _MOST_STEPS:
                    self._steps.clear()
                after = self._follow(state, int(self.trie.node_of[token]))
                known = self._steps[state, token] = after, self._is_masked(position, token)
            return known
        data = self.trie.tokens[token]
        if not data:
            return position, False
        completed = bool(self.completes(position, token))
        character, used = utf8.finish(pending, data)
        if not character:
            return (state, pending + data), completed
        return self._follow(self._read(state, character)[0], self._rest(token, used)), completed

    def _is_masked(self, position: Position, token: int) -> bool:
        """`completes` as yes or no, from masks that were most likely asked for already."""
        wanted = np.int32(token)  # of the masks' own type: numpy would copy them otherwise
        for part in self.masks(position):
            place = int(part.searchsorted(wanted))
            if place < len(part) and part[place] == token:
                return True
        return False

    def _follow(self, state: int, node: int) -> Position:
        if node < 0:
            return state, b""
        tail = int(self.trie.tail_index[node])
        if tail < 0:
            return self.tables.step(state, node), b""
        return self.tables.step(state, int(self.trie.parent[node])), self.trie.tails[tail]

    def _rest(self, token: int, used: int) -> int:
        return self.trie.rests[token, used] if used else int(self.trie.node_of[token])

    def _read(self, state: int, character: str) -> tuple[int, set[int]]:
        """Read one character: the next state, and the patterns it completes."""
        done: set[int] = set()
        for symbol in self.automaton.folding.table[character]:
            if self.automaton.is_repeat(state, symbol):
                continue
            state, before, now = self.automaton.step(state, symbol)
            done.update(before)
            done.update(now)
        return state, done

    def at_end(self, position: Position) -> tuple[int, ...]:
        """The patterns that are complete if the output ends here. An incomplete character shows as U+FFFD."""
        state, pending = position
        if not pending:
            return self.automaton.at_end(state)
        after, done = self._read(state, utf8.REPLACEMENT)
        return tuple(sorted(done | set(self.automaton.at_end(after))))

    # -- what completes a match ------------------------------------------------------------------------------------

    def masks(self, position: Position, *, last: bool = False) -> tuple[Ints, ...]:
        """Ids, int32, in parts that may overlap, each ascending: the tokens that complete any pattern from here.

        last: nothing can follow the token, so those count too that leave the output ending in a match.
        The same position gives the same array objects as long as they stay cached.
        """
        state, pending = position
        if pending:
            ids, _ = self._from_open(state, pending, last)
            return (ids,) if len(ids) else ()
        known = self._masks.get((state, last))
        if known is None:
            parts = [self._base_mask(int(self.automaton.context[state]), last)]
            if self.automaton.has_waiting[state]:
                parts.append(self.trie.edge_tokens(int(self.automaton.context[state]), at_end=last))
            parts.extend(self._own_mask(origin, last) for origin in self.tables.chain(state))
            known = tuple(part for part in parts if len(part))
            self._masks.keep((state, last), known, known)
        return known

    def completions(self, position: Position, *, last: bool = False) -> tuple[Ints, Ints]:
        """(ids, patterns), int32, pairs without repeats, by pattern: which token completes which. Not cached."""
        state, pending = position
        if pending:
            return self._from_open(state, pending, last)
        tables, trie, context = self.tables, self.trie, int(self.automaton.context[state])
        ids, patterns = self._base_pairs(context, last)
        found = [(ids, patterns)]
        for waiting in self.automaton.at_end(state):
            edge = trie.edge_tokens(context, at_end=last).astype(np.int64)
            found.append((edge, np.full(len(edge), waiting)))
        for origin in tables.chain(state):
            mine = tables.ranges_of(origin)
            keep = tables.kind[mine] <= (AT_END if last else ALWAYS)
            found.append(self._expand(tables.lo[mine][keep], tables.hi[mine][keep], tables.pattern[mine][keep]))
        pairs = np.unique(np.concatenate([np.asarray(p, dtype=np.int64) << 32 | i for i, p in found]))
        return _frozen(pairs & 0xFFFFFFFF), _frozen(pairs >> 32)

    def completes(self, position: Position, token: int, *, last: bool = False) -> set[int]:
        """The patterns that one token completes."""
        state, pending = position
        data = self.trie.tokens[token]
        if data is None or not (pending and data):
            node = int(self.trie.node_of[token])
            return set() if node < 0 or (pending and not last) else self._at_node(state, node, last)
        return self._open_token(state, pending, token, data, last)

    def always_completes(self, token: int) -> set[int]:
        """The patterns that one token completes by itself, whatever stands before it."""
        node = int(self.trie.node_of[token])
        first = int(self.trie.first_class[node]) if node >= 0 else NO_SYMBOL
        # The base of a class that its first symbol joins to: the context that grants least.
        return self.completes((first if first != NO_SYMBOL else 0, b""), token)

    def _own_mask(self, origin: int, last: bool) -> Ints:
        known = self._own.get((origin, last))
        if known is None:
            mine = self.tables.ranges_of(origin)
            keep = self.tables.kind[mine] <= (AT_END if last else ALWAYS)
            ids, _ = self._expand(self.tables.lo[mine][keep], self.tables.hi[mine][keep], None)
            known = _frozen(np.unique(ids)) if len(ids) else _NO_IDS
            self._own.keep((origin, last), known, (known,))
        return known

    def _expand(self, lo: Whole, hi: Whole, patterns: Whole | None) -> tuple[Longs, Longs]:
        """Preorder ranges to ids, with the pattern of each (zeros for None)."""
        start, end = self.trie.start[lo].astype(np.int64), self.trie.start[hi].astype(np.int64)
        count = end - start
        place = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count) + np.repeat(start, count)
        which = np.repeat(patterns, count) if patterns is not None else np.zeros(len(place), dtype=np.int64)
        return self.trie.ids[place].astype(np.int64), which.astype(np.int64)

    # -- from a base -----------------------------------------------------------------------------------------------

    @cached_property
    def _painted(self) -> tuple[Bools, Bools]:
        """bool [3, nodes] by way of starting and preorder number: completes a pattern; the second also at the end."""
        way, lo, hi, _, kind = self.tables.base_ranges
        results = []
        for most in (ALWAYS, AT_END):
            change = np.zeros((3, self.trie.n_nodes + 1), dtype=np.int32)
            keep = kind <= most
            np.add.at(change, (way[keep], lo[keep]), 1)
            np.add.at(change, (way[keep], hi[keep]), -1)
            results.append(np.cumsum(change, axis=1)[:, :-1] > 0)
        return results[0], results[1]

    def _base_mask(self, context: int, last: bool) -> Ints:
        known = self._base.get((context, last))
        if known is None:
            trie = self.trie
            real = np.flatnonzero(trie.node_of >= 0)
            node = trie.node_of[real]
            hit = self._painted[last][self.tables.ways(context)[node], trie.first[node]]
            known = self._base[context, last] = _frozen(real[hit])
        return known

    def _base_pairs(self, context: int, last: bool) -> tuple[Longs, Longs]:
        way, lo, hi, pattern, kind = self.tables.base_ranges
        ways = self.tables.ways(context)
        found = []
        for one in range(3):
            keep = (way == one) & (kind <= (AT_END if last else ALWAYS))
            ids, which = self._expand(lo[keep], hi[keep], pattern[keep])
            mine = ways[self.trie.node_of[ids]] == one
            found.append((ids[mine], which[mine]))
        return np.concatenate([i for i, _ in found]), np.concatenate([p for _, p in found])

    def _at_node(self, state: int, node: int, last: bool, *, opened: bool = False) -> set[int]:
        """The patterns that the symbols (and tail) of one trie node complete from a state.

        opened: the token began inside a character, so that the text has only now come to where the state is.
        """
        tables, trie, automaton = self.tables, self.trie, self.automaton
        place, most, context = int(trie.first[node]), AT_END if last else ALWAYS, int(automaton.context[state])
        done: set[int] = set()
        for origin in tables.chain(state):
            mine = tables.ranges_of(origin)
            hit = (tables.lo[mine] <= place) & (place < tables.hi[mine]) & (tables.kind[mine] <= most)
            done.update(tables.pattern[mine][hit].tolist())
        if self._painted[last][tables.way(context, node), place]:
            way, lo, hi, pattern, kind = tables.base_ranges
            hit = (way == tables.way(context, node)) & (lo <= place) & (place < hi) & (kind <= most)
            done.update(pattern[hit].tolist())
        if automaton.has_waiting[state]:
            first, tail = int(trie.first_class[node]), int(trie.tail_index[node])
            if first != NO_SYMBOL:
                edge = arrived = not JOINS[context, first]
            else:
                edge = last or (tail >= 0 and bool(trie.tail_matrix[0, tail, context]))
                arrived = edge or (opened and tail >= 0 and bool(trie.tail_matrix[1, tail, context]))
            done.update(p for p in automaton.at_end(state) if edge or (arrived and self._eager(p)))
        return done

    def _eager(self, pattern: int) -> bool:
        return self.automaton.patterns[pattern].eager

    # -- from inside a character -----------------------------------------------------------------------------------

    @cached_property
    def _goes_on(self) -> Bools:
        """bool [size]: whether an id's first byte can go on with an open character."""
        tokens = self.trie.tokens
        return np.array([t is not None and t != b"" and utf8.is_continuation(t[0]) for t in tokens], dtype=np.bool_)

    @cached_property
    def _silent(self) -> Bools:
        """bool [size]: ids without bytes."""
        return np.array([not t for t in self.trie.tokens], dtype=np.bool_)

    def _from_open(self, state: int, pending: bytes, last: bool) -> tuple[Ints, Ints]:
        """`completions` where a character is open. Slow (every token that goes on with one is looked at), so cached."""
        key = state, pending, last
        known = self._open.get(key)
        if known is not None:
            return known
        # A token that cannot go on with the character turns it into U+FFFD.
        after, done = self._read(state, utf8.REPLACEMENT)
        others = ~self._goes_on & ~self._silent
        ids, patterns = self.completions((after, b""), last=last)
        keep = others[ids]
        pairs = {(int(p), int(i)) for i, p in zip(ids[keep], patterns[keep], strict=True)}
        pairs.update((p, int(i)) for p in done for i in np.flatnonzero(others))
        for token in np.flatnonzero(self._goes_on).tolist():
            data = self.trie.tokens[token]
            if data:
                pairs.update((p, token) for p in self._open_token(state, pending, token, data, last))
        if last:
            silent = np.flatnonzero(self._silent & (self.trie.node_of >= 0)).tolist()
            pairs.update((p, i) for p in self.at_end((state, pending)) for i in silent)
        ordered = sorted(pairs)
        known = _frozen(np.array([i for _, i in ordered])), _frozen(np.array([p for p, _ in ordered]))
        return self._open.keep(key, known, known)

    def _open_token(self, state: int, pending: bytes, token: int, data: bytes, last: bool) -> set[int]:
        character, used = utf8.finish(pending, data)
        if not character:
            longer = pending + data
            if last:
                return set(self.at_end((state, longer)))
            edge = self.trie.tail_edges(longer)[:, self.automaton.context[state]]
            return {p for p in self.automaton.at_end(state) if edge[int(self._eager(p))]}
        # The text ended inside a character before, so if it now ends in a word, this token brought it there, even
        # where the character turns out to be one that folding drops.
        after, done = self._read(state, character)
        node = self._rest(token, used)
        if self.trie.first_class[node] == NO_SYMBOL and self.trie.tail_index[node] < 0:
            waiting = self.automaton.at_end(after)
            done.update(filter(self._eager, waiting))
        return done | self._at_node(after, node, last, opened=True)

    def nbytes(self) -> int:
        """Bytes of the tables and of the cached answers."""
        cached = [*self._own.values(), *self._base.values()]
        return self.tables.nbytes() + sum(a.nbytes for a in cached)


__all__ = ["N_BASES", "Position", "TokenMatcher"]
