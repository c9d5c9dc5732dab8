"""The trie of a vocabulary as an anchored automaton sees it: symbols of one column are one.

Two tokens whose symbols fall in the same columns do the same from every state. So the nodes of `vocabulary_trie` are
merged, level by level: for expressions, which tell few characters apart, 200,000 nodes become some hundred or thousand;
for long lists of phrases, everything merges that no phrase holds.

Tails (incomplete characters) are merged too, by what all the characters that they can become would be read as.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from policyengine.automata import unicode_data, utf8
from policyengine.automata.anchored import Anchored
from policyengine.automata.phrases import JOINS, Bools, Ints, Longs
from policyengine.automata.vocabulary_trie import NO_SYMBOL, VocabularyTrie

_SURROGATES = range(0xD800, 0xE000)


@dataclass(frozen=True)
class Tail:
    """What the characters that a tail can become are read as: distinct runs of columns.

    singles: those of one column. longer: those of several. dropped: whether folding drops some character.
    """

    singles: tuple[int, ...]
    longer: tuple[tuple[int, ...], ...]
    dropped: bool

    @cached_property
    def runs(self) -> tuple[tuple[int, ...], ...]:
        """All of them; of no column where a character is dropped."""
        return tuple((c,) for c in self.singles) + self.longer + (((),) if self.dropped else ())


class ColumnTrie:
    """A vocabulary's trie in columns. Arrays are read-only, nodes count from 0, the root.

    node_of: int32 [trie nodes], the node here of each node of the vocabulary's trie.
    parent, column: int32 [nodes]; column -1 at the root and at tail nodes. tail: int32 [nodes], into `tails`, or -1.
    levels: where the nodes of each depth begin. Children of a node are neighbours: `child_lo` to `child_mid` read a
    symbol, from there to `child_hi` are tails.
    first, last: int32 [nodes], preorder number, and one past the subtree's. ids: int32, real ids by preorder, with
    `places`, the preorder number of each; `start`: int32 [nodes + 1], how many come before a preorder number.
    height: int32 [nodes], the most symbols that may be read below the node, those of characters to be completed too.
    edge: bool [nodes], whether an edge lies before the last symbol; only where another symbol comes before it.
    top: int32 [nodes], the node's ancestor (or self) of depth one; 0 at the root.
    """

    def __init__(self, trie: VocabularyTrie, anchored: Anchored) -> None:
        self.trie, self.anchored = trie, anchored
        self.n_columns = anchored.n_columns
        self.join = np.array([*anchored.column_join, NO_SYMBOL], dtype=np.int64)
        self.tails: list[Tail] = []
        self._known_tails: dict[bytes, int] = {}
        self._tail_numbers: dict[Tail, int] = {}
        self._merge()
        self._sort()
        for array in (self.parent, self.column, self.tail, self.first, self.last, self.ids, self.start, self.places):
            array.flags.writeable = False

    # -- construction ----------------------------------------------------------------------------------------------

    def _merge(self) -> None:
        trie, column = self.trie, self.anchored.column
        codes = [column(s) for s in trie.alphabet.tolist()]
        codes += [self.n_columns + self.tail_of(tail) for tail in trie.tails]
        code_of = np.array(codes, dtype=np.int64)
        rank = trie.keys & ((1 << 21) - 1)
        width = self.n_columns + len(self.tails) + 1
        node_of = np.zeros(trie.n_nodes, dtype=np.int64)
        keys, self.levels, total = [np.full(1, -1, dtype=np.int64)], [0, 1], 1
        for lo, hi in zip(trie.levels[1:], trie.levels[2:], strict=False):
            wanted = node_of[trie.parent[lo:hi]] * width + code_of[rank[lo:hi]]
            unique, inverse = np.unique(wanted, return_inverse=True)
            node_of[lo:hi] = total + inverse
            total += len(unique)
            keys.append(unique)
            self.levels.append(total)
        self.node_of: Ints = node_of.astype(np.int32)
        self.n_nodes = total
        key = np.concatenate(keys)
        self.parent: Ints = np.maximum(key // width, 0).astype(np.int32)
        code = np.where(key < 0, -1, key % width)
        is_tail = code >= self.n_columns
        self.tail: Ints = np.where(is_tail, code - self.n_columns, -1).astype(np.int32)
        self.column: Ints = np.where(is_tail, -1, code).astype(np.int32)
        nodes = np.arange(total) * width
        self.child_lo: Longs = np.searchsorted(key, nodes)
        self.child_mid: Longs = np.searchsorted(key, nodes + self.n_columns)
        self.child_hi: Longs = np.searchsorted(key, nodes + width)
        mine, above = self.join[self.column], self.join[self.column[self.parent]]
        joined = np.zeros(total, dtype=bool)
        deep = np.flatnonzero((mine < NO_SYMBOL) & (above < NO_SYMBOL))
        joined[deep] = JOINS[above[deep], mine[deep]]
        self.edge: Bools = ~joined
        top = np.zeros(total, dtype=np.int64)
        for depth, (lo, hi) in enumerate(zip(self.levels[1:], self.levels[2:], strict=False)):
            top[lo:hi] = np.arange(lo, hi) if depth == 0 else top[self.parent[lo:hi]]
        self.top: Ints = top.astype(np.int32)

    def _sort(self) -> None:
        size = np.ones(self.n_nodes, dtype=np.int64)
        bounds = list(zip(self.levels[1:], self.levels[2:], strict=False))
        for lo, hi in reversed(bounds):
            np.add.at(size, self.parent[lo:hi], size[lo:hi])
        height = np.zeros(self.n_nodes, dtype=np.int64)
        tailed = np.flatnonzero(self.tail >= 0)
        runs = np.array([max(map(len, tail.runs)) for tail in self.tails], dtype=np.int64)
        height[tailed] = runs[self.tail[tailed]] - 1
        for lo, hi in reversed(bounds):
            np.maximum.at(height, self.parent[lo:hi], height[lo:hi] + 1)
        self.height: Ints = height.astype(np.int32)
        first = np.zeros(self.n_nodes, dtype=np.int64)
        for lo, hi in bounds:
            before = np.cumsum(size[lo:hi]) - size[lo:hi]
            parent = self.parent[lo:hi]
            first[lo:hi] = first[parent] + 1 + before - before[self.child_lo[parent] - lo]
        self.first: Ints = first.astype(np.int32)
        self.last: Ints = (first + size).astype(np.int32)
        real = np.flatnonzero(self.trie.node_of >= 0)
        place = self.first[self.node_of[self.trie.node_of[real]]]
        order = np.argsort(place, kind="stable")
        self.ids: Ints = real[order].astype(np.int32)
        self.places: Ints = place[order]
        self.start: Ints = np.searchsorted(self.places, np.arange(self.n_nodes + 1)).astype(np.int32)
        self.node_at: Ints = np.argsort(first).astype(np.int32)  # the node by preorder number

    # -- tails -----------------------------------------------------------------------------------------------------

    @cached_property
    def _runs(self) -> tuple[dict[int, tuple[int, ...]], Longs]:
        """Runs of columns by code point, of those that folding changes; and these code points, ascending."""
        spec, table, column = self.trie.folding.spec, self.trie.folding.table, self.anchored.column
        if not any(spec.to_json().values()):
            return {}, np.zeros(0, dtype=np.int64)
        runs = {}
        for code_point in unicode_data.changed_code_points():
            symbols = table[chr(code_point)]
            if symbols != (code_point,):
                runs[code_point] = tuple(column(s) for s in symbols)
        return runs, np.array(sorted(runs), dtype=np.int64)

    def tail_of(self, data: bytes) -> int:
        """The number in `tails` of a character's first bytes (a proper, valid prefix, not empty)."""
        known = self._known_tails.get(data)
        if known is not None:
            return known
        span = utf8.completions(data)
        runs, changed = self._runs
        lo, hi = np.searchsorted(changed, [span.start, span.stop])
        points = np.arange(span.start, span.stop)
        keep = np.ones(len(points), dtype=bool)
        keep[changed[lo:hi] - span.start] = False
        keep &= (points < _SURROGATES.start) | (points >= _SURROGATES.stop)
        singles = set(np.unique(self.columns(points[keep])).tolist())
        others = {runs[cp] for cp in changed[lo:hi].tolist()}
        singles |= {run[0] for run in others if len(run) == 1}
        tail = Tail(tuple(sorted(singles)), tuple(sorted(r for r in others if len(r) > 1)), () in others)
        number = self._tail_numbers.setdefault(tail, len(self.tails))
        if number == len(self.tails):
            self.tails.append(tail)
        self._known_tails[data] = number
        return number

    def columns(self, symbols: Longs) -> Longs:
        """The column of each symbol."""
        many = getattr(self.anchored, "columns_of", None)
        if many is not None:
            found: Longs = many(symbols).astype(np.int64)
            return found
        return np.array([self.anchored.column(s) for s in symbols.tolist()], dtype=np.int64)

    # -- queries ---------------------------------------------------------------------------------------------------

    def path(self, node: int) -> list[int]:
        """The columns from the root to a node that is no tail."""
        found = []
        while node:
            found.append(int(self.column[node]))
            node = int(self.parent[node])
        return found[::-1]

    def child(self, node: int, column: int) -> int:
        """The child of a node by a column; -1: none."""
        lo, hi = int(self.child_lo[node]), int(self.child_mid[node])
        place = lo + int(np.searchsorted(self.column[lo:hi], column))
        return place if place < hi and self.column[place] == column else -1

    def edge_after(self, context: int) -> Bools:
        """bool [columns]: whether an edge lies before a symbol of each column after this context (-1: the start)."""
        if context < 0:
            return np.ones(self.n_columns, dtype=bool)
        edges: Bools = ~JOINS[context, self.join[:-1]]
        return edges

    def nbytes(self) -> int:
        """Bytes of the arrays."""
        arrays = (self.node_of, self.parent, self.column, self.tail, self.first, self.last, self.ids, self.places)
        return sum(a.nbytes for a in arrays) + 4 * self.child_lo.nbytes


__all__ = ["ColumnTrie", "Tail"]
