"""An automaton joined with a vocabulary: which tokens complete a match, and where a token leads.

The idea: tokens that complete a match from a state are of two kinds. Those that finish a phrase which the state has
begun start with what is left of that phrase, so they are ranges of the sorted vocabulary; only the phrase prefix that
*is* the state is listed at the state, shorter ones are listed further down its failure chain. Those that hold a whole
match are the same for every state with the same context, so they are listed once at the bases. The same goes for the
next state: it differs from what the failure state would give only for tokens that lie wholly on a path from the state.

So the tables grow with the phrases, not with phrases times vocabulary, and a query walks one failure chain.

    origin   a node state, or one of the three ways to start afresh below
    ranges   (origin, lo, hi, pattern, kind): preorder ranges of the trie whose tokens complete the pattern
    steps    (origin, trie node) -> state
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from policyengine.automata.folding import SPACE
from policyengine.automata.phrases import JOINS, N_BASES, SPACE_CONTEXT, Bools, Ints, Longs, PhraseAutomaton
from policyengine.automata.unicode_data import N_JOIN_CLASSES
from policyengine.automata.utf8 import REPLACEMENT
from policyengine.automata.vocabulary_trie import NO_SYMBOL, VocabularyTrie

Whole = npt.NDArray[np.integer]

# How a token starts when no phrase is under way: joined to what came before, after an edge, or inside a run of white
# space that it goes on with (its own leading white space is swallowed).
JOINED, EDGE, RUN = 0, 1, 2
# What makes a range's tokens complete their pattern: always, or only when the output ends with them.
ALWAYS, AT_END = 0, 1


# The arrays of a `TokenTables` by name, and the columns of its `base_ranges`.
_KEPT = ("range_start", "lo", "hi", "pattern", "kind", "step_keys", "step_states", "base_steps")
_COLUMNS = ("way", "lo", "hi", "pattern", "kind")


def _ranges_of_equal(ascending: npt.NDArray[np.integer], wanted: Longs) -> tuple[Longs, Longs]:
    """All pairs (i, j) with `ascending[j] == wanted[i]`, as two arrays."""
    lo, hi = np.searchsorted(ascending, wanted, "left"), np.searchsorted(ascending, wanted, "right")
    count = hi - lo
    which = np.repeat(np.arange(len(wanted)), count)
    return which, np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(lo, count)


def digest_of(automaton: PhraseAutomaton) -> str:
    """sha256, hex, of all that the tables of an automaton depend on, the vocabulary and this code aside."""
    digest = hashlib.sha256(json.dumps(automaton.spec.to_json(), sort_keys=True).encode())
    eager = np.fromiter((p.eager for p in automaton.patterns), dtype=np.uint8, count=len(automaton.patterns))
    ends = (automaton.now_states, automaton.now_patterns, automaton.waiting_states, automaton.waiting_patterns)
    for array in (automaton.keys, *ends, eager):
        digest.update(array.size.to_bytes(8, "little"))
        digest.update(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).data)
    return digest.hexdigest()


class TokenTables:
    """The tables of one automaton on one vocabulary. Arrays are read-only; safe to share.

    range_start: int64 [states + 1], CSR by origin state into `lo`, `hi`, `pattern` (int32) and `kind` (uint8).
    step_keys: int64, ascending, state * nodes + trie node; step_states: int32, the next state of each.
    base_steps: int32 [3, nodes], the next state from a base by way of starting; base_ranges: the same ranges for those.
    """

    def __init__(self, automaton: PhraseAutomaton, trie: VocabularyTrie) -> None:
        if automaton.spec != trie.folding.spec:
            raise ValueError("the vocabulary was folded otherwise than the phrases")
        self.automaton, self.trie = automaton, trie
        self._symbols = frozenset(np.unique(automaton.keys & ((1 << 21) - 1)).tolist())
        self._eager = np.array([p.eager for p in automaton.patterns], dtype=bool)
        self._ranges: list[tuple[Longs, Longs, Longs, Longs, Longs]] = []
        self._steps: list[tuple[Longs, Longs]] = []
        self._walk_nodes()
        ranges = self._collect()
        order = np.argsort(ranges[0], kind="stable")
        origin, lo, hi, pattern, kind = (column[order] for column in ranges)
        self.range_start: Longs = np.searchsorted(origin, np.arange(automaton.n_states + 1))
        self.lo: Ints = lo.astype(np.int32)
        self.hi: Ints = hi.astype(np.int32)
        self.pattern: Ints = pattern.astype(np.int32)
        self.kind: npt.NDArray[np.uint8] = kind.astype(np.uint8)
        keys = np.concatenate([k for k, _ in self._steps]) if self._steps else np.zeros(0, dtype=np.int64)
        values = np.concatenate([v for _, v in self._steps]) if self._steps else np.zeros(0, dtype=np.int64)
        order = np.argsort(keys, kind="stable")
        self.step_keys: Longs = keys[order]
        self.step_states: Ints = values[order].astype(np.int32)
        self._steps = []
        self._walk_bases()
        self.base_ranges = self._collect()
        for array in self.to_arrays().values():
            array.flags.writeable = False

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All tables by name, for `from_arrays`."""
        kept: dict[str, npt.NDArray[Any]] = {name: getattr(self, name) for name in _KEPT}
        return kept | {f"base_{name}": column for name, column in zip(_COLUMNS, self.base_ranges, strict=True)}

    @classmethod
    def from_arrays(
        cls, automaton: PhraseAutomaton, trie: VocabularyTrie, arrays: Mapping[str, npt.NDArray[Any]]
    ) -> Self:
        """The tables that `to_arrays` was asked of; they keep the arrays. Raises ValueError for other arrays.

        That they belong to this automaton and index is for the caller to know; only sizes are looked at here.
        """
        if automaton.spec != trie.folding.spec:
            raise ValueError("the vocabulary was folded otherwise than the phrases")
        if set(arrays) != {*_KEPT, *(f"base_{name}" for name in _COLUMNS)}:
            raise ValueError("the arrays of bound tables have other names")
        sizes = len(arrays["range_start"]), arrays["base_steps"].shape
        if sizes != (automaton.n_states + 1, (3, trie.n_nodes)):
            raise ValueError("the arrays of bound tables do not fit this automaton and vocabulary")
        tables = cls.__new__(cls)
        tables.automaton, tables.trie = automaton, trie
        for name in _KEPT:
            setattr(tables, name, arrays[name])
        way, lo, hi, pattern, kind = (arrays[f"base_{name}"] for name in _COLUMNS)
        tables.base_ranges = way, lo, hi, pattern, kind
        return tables

    def _collect(self) -> tuple[Longs, Longs, Longs, Longs, Longs]:
        columns = [np.concatenate(c) for c in zip(*self._ranges, strict=True)] if self._ranges else []
        self._ranges = []
        if not columns:
            columns = [np.zeros(0, dtype=np.int64)] * 5
        return columns[0], columns[1], columns[2], columns[3], columns[4]

    # -- construction ----------------------------------------------------------------------------------------------

    def _walk_nodes(self) -> None:
        """From every node state, walk phrases and vocabulary together; one level of the trie a round."""
        automaton, trie = self.automaton, self.trie
        origin = np.arange(N_BASES, automaton.n_states)
        node = np.zeros_like(origin)
        if automaton.spec.collapse and SPACE in trie.rank:
            # A state inside a run of white space swallows a token's leading white space.
            after = origin[automaton.context[origin] == SPACE_CONTEXT]
            space = trie.find(np.zeros(1, dtype=np.int64), np.array([trie.rank[SPACE]]))[0]
            if space >= 0:
                origin = np.concatenate((origin, after))
                node = np.concatenate((node, np.full_like(after, space)))
        state, moved = origin, np.zeros(len(origin), dtype=bool)
        child_first, child_count = self._children()
        while origin.size:
            keep = trie.wanted[node] & (node != 0)
            self._steps.append((origin[keep] * trie.n_nodes + node[keep], state[keep]))
            self._complete(origin, state, node, moved)
            self._complete_broken(origin, state, node)
            # Every child of the state that the vocabulary also has.
            first, count = child_first[state], child_count[state]
            total = int(count.sum())
            which = np.repeat(np.arange(len(origin)), count)
            child = np.repeat(first, count) + np.arange(total) - np.repeat(np.cumsum(count) - count, count)
            down = trie.find(node[which], self._rank_of_state[child])
            hit = down >= 0
            origin, state, node = origin[which[hit]], child[hit], down[hit]
            moved = np.ones(len(origin), dtype=bool)

    def _children(self) -> tuple[Longs, Longs]:
        """For every state: its first child and how many it has. Also notes each state's symbol by trie number."""
        automaton = self.automaton
        symbols = automaton.keys & ((1 << 21) - 1)
        unique, inverse = np.unique(symbols, return_inverse=True)
        ranks = self.trie.ranks_of(unique)
        none = np.full(N_BASES, -1, dtype=np.int64)
        self._rank_of_state = np.concatenate((none, ranks[inverse])) if len(unique) else none
        node_ids = automaton.node_ids(np.arange(automaton.n_states))
        parents = automaton.keys >> 21
        lo, hi = np.searchsorted(parents, node_ids, "left"), np.searchsorted(parents, node_ids, "right")
        count = hi - lo
        count[:N_BASES] = 0
        return lo + N_BASES, count

    def _complete(self, origin: Longs, state: Longs, node: Longs, moved: Bools) -> None:
        """Note the tokens below each trie node that complete a pattern which ends at the state beside it.

        moved: whether a symbol was read since the origin. What the origin itself completed is past, and the edge that
        it may still wait for is the same tokens for every state of its context (`VocabularyTrie.edge_tokens`).
        """
        automaton, trie = self.automaton, self.trie
        which, pattern = self._ending(automaton.now_states, automaton.now_patterns, state)
        keep = moved[which]
        which, pattern = which[keep], pattern[keep]
        at = node[which]
        self._add(origin[which], trie.first[at], trie.last[at], pattern, ALWAYS)

        which, pattern = self._ending(automaton.waiting_states, automaton.waiting_patterns, state)
        keep = moved[which]
        which, pattern = which[keep], pattern[keep]
        if not which.size:
            return
        origin, at, classes = origin[which], node[which], automaton.context[state[which]].astype(np.int64)
        some, lo, hi = trie.edge_ranges(at, classes)
        self._add(origin[some], lo, hi, pattern[some], ALWAYS)
        # Exactly at the node: the word is whole, and what follows is not known yet.
        for chosen, kind in ((self._eager[pattern], ALWAYS), (~self._eager[pattern], AT_END)):
            here = at[chosen]
            self._add(origin[chosen], trie.first[here], trie.first[here] + 1, pattern[chosen], kind)
        # Tails below the node: characters that can only be an edge, or become one (U+FFFD) if the output ends in them.
        some, tail = _ranges_of_equal(trie.parent[trie.tail_nodes], at)
        tail = trie.tail_nodes[tail]
        sure = trie.tail_matrix[self._eager[pattern[some]].astype(np.int64), trie.tail_index[tail], classes[some]]
        for chosen, kind in ((sure, ALWAYS), (~sure, AT_END)):
            here = tail[chosen]
            self._add(origin[some[chosen]], trie.first[here], trie.last[here], pattern[some[chosen]], kind)

    def _complete_broken(self, origin: Longs, state: Longs, node: Longs) -> None:
        """Note the tails below each trie node that, shown as U+FFFD because the output ends, complete a pattern.

        The pattern is one that goes on from the state beside the node, or, for state -1, U+FFFD alone.
        """
        automaton, trie = self.automaton, self.trie
        broken = ord(REPLACEMENT)
        if broken not in self._symbols:
            return
        some, place = _ranges_of_equal(trie.parent[trie.tail_nodes], node)
        tail, state, origin = trie.tail_nodes[place], state[some], origin[some]
        # U+FFFD joins nothing, so that no pattern asks for an edge before or after it.
        above = np.where(state < 0, 0, automaton.node_ids(state))
        after = automaton.find(above, np.full(len(state), broken, dtype=np.int64))
        which, pattern = self._ending(automaton.now_states, automaton.now_patterns, after)
        here = tail[which]
        self._add(origin[which], trie.first[here], trie.last[here], pattern, AT_END)

    @staticmethod
    def _ending(states: Longs, patterns: Longs, at: Longs) -> tuple[Longs, Longs]:
        """(index into `at`, pattern) for every pattern that ends in one of these states itself."""
        which, place = _ranges_of_equal(states, at)
        return which, patterns[place]

    def _add(self, origin: Longs, lo: Whole, hi: Whole, pattern: Longs, kind: int) -> None:
        if len(origin):
            kinds = np.full(len(origin), kind, dtype=np.int64)
            self._ranges.append((origin, lo.astype(np.int64), hi.astype(np.int64), pattern, kinds))

    def _walk_bases(self) -> None:
        """Run the automaton over the whole vocabulary, once for each way to start."""
        automaton, trie = self.automaton, self.trie
        self.base_steps: Ints = np.zeros((3, trie.n_nodes), dtype=np.int32)
        reached = np.zeros((3, trie.n_nodes), dtype=bool)
        for way in (JOINED, EDGE, RUN):
            steps = self.base_steps[way]
            for depth, (lo, hi) in enumerate(zip(trie.levels[1:], trie.levels[2:], strict=False), start=1):
                nodes = np.arange(lo, hi)
                nodes = nodes[trie.tail_index[nodes] < 0]
                if way == RUN:
                    nodes = nodes[trie.leading_space[nodes]]
                symbols, before = trie.symbol[nodes].astype(np.int64), steps[trie.parent[nodes]]
                if depth > 1:
                    steps[nodes] = automaton.advance(before, symbols)
                elif way == RUN:
                    steps[nodes] = SPACE_CONTEXT
                else:
                    steps[nodes] = automaton.advance(before, symbols, edge=np.full(len(nodes), way == EDGE))
                reached[way, nodes] = depth > 1 or way != RUN
        for way in (JOINED, EDGE, RUN):
            bare = np.unique(trie.parent[trie.tail_nodes]).astype(np.int64)
            if way == RUN:
                bare = bare[trie.leading_space[bare]]
            self._complete_broken(np.full(len(bare), way, dtype=np.int64), np.full(len(bare), -1), bare)
            node = np.flatnonzero(reached[way])
            state = self.base_steps[way, node].astype(np.int64)
            some = state >= N_BASES
            node, state = node[some], state[some]
            while node.size:  # every phrase that ends here, longest first
                origin = np.full(len(node), way, dtype=np.int64)
                self._complete(origin, state, node, np.ones(len(node), dtype=bool))
                self._complete_broken(origin, state, node)
                state = automaton.fail[state].astype(np.int64)
                some = state >= N_BASES
                node, state = node[some], state[some]

    # -- queries ---------------------------------------------------------------------------------------------------

    def way(self, context: int, node: int) -> int:
        """How the tokens at a trie node start after this context."""
        if context == SPACE_CONTEXT and self.trie.leading_space[node]:
            return RUN
        first = int(self.trie.first_class[node])
        return JOINED if first != NO_SYMBOL and JOINS[context, first] else EDGE

    def step(self, state: int, node: int) -> int:
        """The state after the symbols of a trie node (not a tail node)."""
        if node == 0:
            return state
        keys, nodes, fail = self.step_keys, self.trie.n_nodes, self.automaton.fail
        context = int(self.automaton.context[state])
        while state >= N_BASES:
            wanted = state * nodes + node
            place = int(keys.searchsorted(wanted))
            if place < len(keys) and keys[place] == wanted:
                return int(self.step_states[place])
            state = int(fail[state])
        return int(self.base_steps[self.way(context, node), node])

    def ways(self, context: int) -> npt.NDArray[np.uint8]:
        """uint8 [nodes]: `way` of every trie node at once."""
        joined = np.append(JOINS[context], False)[self.trie.first_class]
        ways = np.where(joined, JOINED, EDGE).astype(np.uint8)
        if context == SPACE_CONTEXT:
            ways[self.trie.leading_space] = RUN
        return ways

    def ranges_of(self, state: int) -> slice:
        """Where this origin's ranges stand in `lo`, `hi`, `pattern` and `kind`."""
        return slice(int(self.range_start[state]), int(self.range_start[state + 1]))

    def chain(self, state: int) -> list[int]:
        """The node states on the failure chain, the state itself first."""
        states = []
        while state >= N_BASES:
            states.append(state)
            state = int(self.automaton.fail[state])
        return states

    def nbytes(self) -> int:
        """Bytes of the tables, the trie's not counted."""
        return sum(array.nbytes for array in self.to_arrays().values())


__all__ = ["ALWAYS", "AT_END", "EDGE", "JOINED", "N_JOIN_CLASSES", "RUN", "TokenTables", "digest_of"]
