"""Many phrases as one automaton: Aho-Corasick over folded code points, with word edges.

What it costs: one state a distinct phrase prefix; a step is one table look-up plus the failure links it follows
(amortised one). Built level by level with numpy: no Python work per state.

Two tries share the states: phrases that need an edge on their left hang below `_EDGE`, the others below `_ROOT`.
A state is either a node of a trie (the longest suffix of the folded text that begins a phrase) or, when no suffix
does, a *base*: the join class of the last symbol, which decides whether the next symbol is preceded by an edge. A
node needs no such note because its own last symbol tells. So every state knows its context, and every failure chain
ends in the base of that same context.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from policyengine.automata.folding import SPACE, Folding, FoldSpec
from policyengine.automata.unicode_data import N_JOIN_CLASSES

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# Where a trie hangs; the ids below are those of `keys`, where nodes follow from 2 on.
_ROOT, _EDGE, _FIRST = 0, 1, 2
_SYMBOL_BITS = 21  # a Unicode code point
SPACE_CONTEXT = N_JOIN_CLASSES  # inside a run of white space; joins nothing, like class 0
N_BASES = N_JOIN_CLASSES + 1
_NONE: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Pattern:
    """One folded phrase. Edges that its own characters guarantee are not asked for."""

    symbols: tuple[int, ...]
    left_edge: bool
    right_edge: bool
    eager: bool  # with right_edge: the token level already refuses to leave the text ending in it


def joins(a: int, b: int) -> bool:
    """Whether two neighbours of these join classes belong to one word, so that there is no edge between them."""
    return a != 0 and b != 0 and (a == 1 or b == 1 or a == b)


def _join_matrix() -> Bools:
    """`[context, class]`: whether a symbol of that class joins to that context. Read-only."""
    contexts = np.arange(N_BASES)
    contexts[SPACE_CONTEXT] = 0
    a, b = contexts[:, None], np.arange(N_JOIN_CLASSES)[None, :]
    matrix: Bools = (a != 0) & (b != 0) & ((a == 1) | (b == 1) | (a == b))
    matrix.flags.writeable = False
    return matrix


JOINS = _join_matrix()
_JOINS: list[list[bool]] = JOINS.tolist()  # for one at a time


class PhraseAutomaton:
    """The automaton of a list of patterns that are folded alike.

    States are ints from 0: bases first (`START` is the base of a boundary), then nodes. Immutable once built; safe to
    share between sessions and threads.
    """

    START = 0

    def __init__(self, spec: FoldSpec, patterns: Sequence[Pattern]) -> None:
        self.spec = spec
        self.folding = Folding(spec)
        self.patterns = tuple(patterns)
        for index, pattern in enumerate(self.patterns):
            if not pattern.symbols:
                raise ValueError(f"pattern {index} is empty once folded")
        self._build()

    @classmethod
    def from_phrases(
        cls,
        spec: FoldSpec,
        phrases: Sequence[str],
        *,
        left_edge: Sequence[bool],
        right_edge: Sequence[bool],
        eager: Sequence[bool],
    ) -> PhraseAutomaton:
        """Fold the phrases and build. The three flags have one entry a phrase; raises ValueError for an empty one."""
        folding = Folding(spec)
        patterns = []
        for phrase, left, right, soon in zip(phrases, left_edge, right_edge, eager, strict=True):
            symbols = tuple(folding.fold(phrase))
            if not symbols:
                raise ValueError(f"phrase {phrase!r} is empty once folded")
            left = left and folding.join_class(symbols[0]) != 0
            right = right and folding.join_class(symbols[-1]) != 0
            patterns.append(Pattern(symbols, left, right, right and soon))
        return cls(spec, patterns)

    @property
    def n_patterns(self) -> int:
        """How many patterns there are."""
        return len(self.patterns)

    def to_arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """The patterns, for a bundle: `symbols` int32 (all, one after the other), `lengths` int32, `flags` uint8."""
        lengths = np.array([len(p.symbols) for p in self.patterns], dtype=np.int32)
        symbols = np.fromiter((s for p in self.patterns for s in p.symbols), dtype=np.int32, count=int(lengths.sum()))
        flags = np.array([p.left_edge | p.right_edge << 1 | p.eager << 2 for p in self.patterns], dtype=np.uint8)
        return {"symbols": symbols, "lengths": lengths, "flags": flags}

    @classmethod
    def from_arrays(cls, spec: FoldSpec, arrays: dict[str, npt.NDArray[np.generic]]) -> PhraseAutomaton:
        """The inverse of `to_arrays`; raises ValueError where the arrays do not fit each other."""
        symbols, lengths, flags = arrays["symbols"].tolist(), arrays["lengths"].tolist(), arrays["flags"].tolist()
        if len(lengths) != len(flags) or sum(lengths) != len(symbols) or any(n < 1 for n in lengths):
            raise ValueError("the arrays of an automaton do not fit each other")
        patterns, at = [], 0
        for length, flag in zip(lengths, flags, strict=True):
            word = tuple(symbols[at : at + length])
            patterns.append(Pattern(word, bool(flag & 1), bool(flag & 2), bool(flag & 4)))
            at += length
        return cls(spec, patterns)

    # -- construction ----------------------------------------------------------------------------------------------

    def _build(self) -> None:
        count = len(self.patterns)
        lengths = np.array([len(p.symbols) for p in self.patterns], dtype=np.int64)
        starts = np.concatenate(([0], np.cumsum(lengths)))
        flat = np.fromiter((s for p in self.patterns for s in p.symbols), dtype=np.int64, count=int(starts[-1]))
        at = np.array([_EDGE if p.left_edge else _ROOT for p in self.patterns], dtype=np.int64)

        keys: list[Longs] = []  # one entry a node: parent << 21 | symbol; ascending, as parents come level by level
        total, level = _FIRST, 0
        last = np.zeros(count, dtype=np.int64)  # the node where each pattern ends
        alive = np.arange(count)
        level_starts = [_FIRST]
        while alive.size:
            wanted = at[alive] << _SYMBOL_BITS | flat[starts[alive] + level]
            unique, inverse = np.unique(wanted, return_inverse=True)
            keys.append(unique)
            at[alive] = total + inverse
            total += len(unique)
            level_starts.append(total)
            level += 1
            done = lengths[alive] == level
            last[alive[done]] = at[alive[done]]
            alive = alive[~done]

        self.n_states = N_BASES + total - _FIRST
        self.keys: Longs = np.concatenate(keys) if keys else np.zeros(0, dtype=np.int64)
        symbols = self.keys & ((1 << _SYMBOL_BITS) - 1)
        self.context: Ints = np.concatenate((np.arange(N_BASES), self.contexts_of(symbols))).astype(np.int32)
        self.depth: Ints = np.zeros(self.n_states, dtype=np.int32)
        self.fail: Ints = self.context.copy()  # right for level one below `_ROOT`; the loop mends the others
        self._ends(self._state(last))
        for depth, (lo, hi) in enumerate(pairwise(level_starts), start=1):
            states = np.arange(lo, hi) - _FIRST + N_BASES
            self.depth[states] = depth
            here = self.keys[lo - _FIRST : hi - _FIRST]
            parents, symbol = here >> _SYMBOL_BITS, here & ((1 << _SYMBOL_BITS) - 1)
            if depth == 1:
                below_edge = parents == _EDGE
                self.fail[states[below_edge]] = self._child_or_base(_ROOT, symbol[below_edge])
            else:
                self.fail[states] = self.advance(self.fail[self._state(parents)], symbol)
        self._summarise(level_starts)
        for table in (self.keys, self.context, self.depth, self.fail, self.live, self.has_now, self.has_waiting):
            table.flags.writeable = False

    @staticmethod
    def _state(nodes: Longs) -> Longs:
        return nodes - _FIRST + N_BASES

    def _ends(self, ends: Longs) -> None:
        """Sort the pattern ids by the state they end in. `waiting`: those that still need an edge on their right."""
        right = np.array([p.right_edge for p in self.patterns], dtype=bool)
        ids = np.arange(len(self.patterns))

        def table(chosen: Bools) -> tuple[Longs, Longs]:
            mine = ids[chosen]
            order = np.argsort(ends[mine], kind="stable")
            return ends[mine][order], mine[order]

        self.now_states, self.now_patterns = table(~right)
        self.waiting_states, self.waiting_patterns = table(right)

    def _summarise(self, level_starts: list[int]) -> None:
        """What the failure chain of a state holds, so that a step looks only where there is something."""
        self.has_now: Bools = np.zeros(self.n_states, dtype=bool)
        self.has_waiting: Bools = np.zeros(self.n_states, dtype=bool)
        alive = np.zeros(self.n_states, dtype=bool)
        self.has_now[self.now_states] = True
        self.has_waiting[self.waiting_states] = True
        parents = self.keys >> _SYMBOL_BITS
        alive[self._state(parents[parents >= _FIRST])] = True
        alive |= self.has_waiting
        self.live: Ints = np.where(alive, self.depth, 0).astype(np.int32)
        for lo, hi in pairwise(level_starts):
            states = np.arange(lo, hi) - _FIRST + N_BASES
            # Twice: a node below `_EDGE` may fail to its twin below `_ROOT`, which is of the same level.
            for _ in range(2):
                fail = self.fail[states]
                self.has_now[states] |= self.has_now[fail]
                self.has_waiting[states] |= self.has_waiting[fail]
                self.live[states] = np.where(self.live[states] > 0, self.live[states], self.live[fail])

    # -- many states at once (binding) -----------------------------------------------------------------------------

    def contexts_of(self, symbols: Longs) -> Longs:
        """The context after each symbol: its join class, or `SPACE_CONTEXT` for collapsed white space. Same shape."""
        unique, inverse = np.unique(symbols, return_inverse=True)
        collapse = self.spec.collapse
        classes = [
            SPACE_CONTEXT if collapse and s == SPACE else self.folding.join_class(s) for s in map(int, unique.tolist())
        ]
        return np.array(classes, dtype=np.int64)[inverse] if classes else np.zeros(0, dtype=np.int64)

    def find(self, parents: Longs, symbols: Longs) -> Longs:
        """The child state below each node id of `keys` (`_ROOT`, `_EDGE`, or a state's `node_ids`); -1: none."""
        wanted = parents << _SYMBOL_BITS | symbols
        if not len(self.keys):
            return np.full(len(wanted), -1, dtype=np.int64)
        place = np.searchsorted(self.keys, wanted)
        place[place == len(self.keys)] = 0
        return np.where(self.keys[place] == wanted, place + N_BASES, -1)

    @staticmethod
    def node_ids(states: npt.NDArray[np.integer]) -> Longs:
        """The ids under which `find` knows these states, none of them a base."""
        return states.astype(np.int64) - N_BASES + _FIRST

    def _child_or_base(self, trie: int, symbols: Longs) -> Longs:
        found = self.find(np.full(len(symbols), trie, dtype=np.int64), symbols)
        return np.where(found >= 0, found, self.contexts_of(symbols))

    def advance(self, states: npt.NDArray[np.integer], symbols: Longs, *, edge: Bools | None = None) -> Longs:
        """The state after each symbol; `edge` overrides whether an edge precedes it (None: the context decides).

        The override serves binding, which asks what a token does from any base with, and without, an edge before it.
        """
        states, contexts = np.asarray(states, dtype=np.int64), self.contexts_of(symbols)
        classes = np.where(contexts == SPACE_CONTEXT, 0, contexts)
        if edge is None:
            edge = ~JOINS[self.context[states], classes]
        result = np.full(len(states), -1, dtype=np.int64)
        if self.spec.collapse:
            repeat = (symbols == SPACE) & (self.context[states] == SPACE_CONTEXT)
            result[repeat] = states[repeat]
        todo = np.flatnonzero(result < 0)
        current = states[todo]
        while todo.size:
            base = current < N_BASES
            at_base = todo[base]
            found = self._child_or_base(_ROOT, symbols[at_base])
            at_edge = self.find(np.full(len(at_base), _EDGE, dtype=np.int64), symbols[at_base])
            result[at_base] = np.where(edge[at_base] & (at_edge >= 0), at_edge, found)
            todo, current = todo[~base], current[~base]
            found = self.find(self.node_ids(current), symbols[todo])
            hit = found >= 0
            result[todo[hit]] = found[hit]
            todo, current = todo[~hit], self.fail[current[~hit]].astype(np.int64)
        return result

    # -- one state at a time (text) --------------------------------------------------------------------------------

    @cached_property
    def _children(self) -> dict[int, int]:
        return dict(zip(self.keys.tolist(), range(N_BASES, self.n_states), strict=True))

    @cached_property
    def _lists(self) -> tuple[array[int], array[int], bytes, bytes, array[int], array[int]]:
        # Quicker to read one entry of than arrays of numpy; and unlike lists nothing that a garbage collection reads.
        fail, context, live, depth = (
            array("i", ints.tobytes()) for ints in (self.fail, self.context, self.live, self.depth)
        )
        return fail, context, self.has_now.tobytes(), self.has_waiting.tobytes(), live, depth

    @cached_property
    def _outputs(self) -> tuple[dict[int, tuple[int, ...]], dict[int, tuple[int, ...]]]:
        return {}, {}

    def step(self, state: int, symbol: int) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """Read one folded symbol.

        Returns the next state, the patterns that this symbol completes because it is an edge after them (they end
        before it), and the patterns that end with it.
        """
        fail, context, has_now, has_waiting, _, _ = self._lists
        children = self._children
        before = context[state]
        join = self.folding.join_class(symbol)
        if before == SPACE_CONTEXT and symbol == SPACE and self.spec.collapse:
            return state, _NONE, _NONE
        edge = not _JOINS[before][join]
        completed = self.at_end(state) if edge and has_waiting[state] else _NONE
        current = state
        while current >= N_BASES:
            found = children.get((current - N_BASES + _FIRST) << _SYMBOL_BITS | symbol)
            if found is not None:
                break
            current = fail[current]
        else:
            found = children.get(_EDGE << _SYMBOL_BITS | symbol) if edge else None
            if found is None:
                found = children.get(_ROOT << _SYMBOL_BITS | symbol)
            if found is None:
                found = SPACE_CONTEXT if self.spec.collapse and symbol == SPACE else join
        return found, completed, self._now(found) if has_now[found] else _NONE

    def falls(self, state: int, symbol: int) -> int:
        """The next state on the failure chain if the symbol does there just what it does here; else the state."""
        fail, _, _, has_waiting, _, _ = self._lists
        if state < N_BASES or has_waiting[state] or (symbol == SPACE and self.is_repeat(state, symbol)):
            return state
        return state if (state - N_BASES + _FIRST) << _SYMBOL_BITS | symbol in self._children else fail[state]

    def follow(self, state: int, text: str) -> tuple[int, set[int]]:
        """The state after a piece of text as it is written, and the patterns that it completes."""
        done: set[int] = set()
        table = self.folding.table
        for ch in text:
            for symbol in table[ch]:
                state, before, now = self.step(state, symbol)
                done.update(before)
                done.update(now)
        return state, done

    def base(self, state: int) -> int:
        """The base of the same context."""
        return self._lists[1][state]

    def is_repeat(self, state: int, symbol: int) -> bool:
        """Whether the symbol only lengthens a run of white space that is already counted as one."""
        return self.spec.collapse and symbol == SPACE and self._lists[1][state] == SPACE_CONTEXT

    def _now(self, state: int) -> tuple[int, ...]:
        known = self._outputs[0]
        if state not in known:
            known[state] = self._on_chain(state, self.now_states, self.now_patterns)
        return known[state]

    def at_end(self, state: int) -> tuple[int, ...]:
        """The patterns that are complete if an edge, or the end of the output, comes next."""
        if not self._lists[3][state]:
            return _NONE
        known = self._outputs[1]
        if state not in known:
            known[state] = self._on_chain(state, self.waiting_states, self.waiting_patterns)
        return known[state]

    def _on_chain(self, state: int, states: Longs, patterns: Longs) -> tuple[int, ...]:
        found: list[int] = []
        while state >= N_BASES:
            lo, hi = np.searchsorted(states, [state, state + 1])
            found.extend(patterns[lo:hi].tolist())
            state = int(self.fail[state])
        return tuple(found)

    def waiting(self, state: int) -> tuple[int, ...]:
        """The eager patterns that the text ends in and that wait for nothing but an edge."""
        return tuple(p for p in self.at_end(state) if self.patterns[p].eager)

    def live_depth(self, state: int) -> int:
        """Symbols in the longest partial match that can still complete; 0: none. Waiting for an edge counts."""
        return self._lists[4][state]

    def shorter(self, state: int, length: int) -> int:
        """The state of the longest suffix, shorter than so many symbols, that begins a phrase, or a base."""
        fail, depth = self._lists[0], self._lists[5]
        while depth[state] >= length:
            state = fail[state]
        return state

    def pattern_length(self, pattern: int) -> int:
        """Symbols in a pattern."""
        return len(self.patterns[pattern].symbols)
