"""A vocabulary, folded and sorted: the index that binding walks together with an automaton.

What it costs: one node a distinct prefix of the folded tokens (about 300,000 for 131,072 tokens); built level by
level with numpy after one pass of Python over the tokens.

Symbols are numbered by (join class, code point), so that the children of a node that make an edge with a given class
are at most three runs, and tokens are kept in preorder, so that "all tokens that start with ..." is one range.

A token that ends inside a character hangs below the node of its complete characters as a *tail* node. A token that
begins inside one also lends its *rest*, what follows the bytes that complete the character, so that a step from an
incomplete character is a step over one character and then one over a rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from policyengine.automata import unicode_data, utf8
from policyengine.automata.folding import SPACE, Folding, FoldSpec
from policyengine.automata.phrases import JOINS, N_BASES, SPACE_CONTEXT, Bools, Ints, Longs
from policyengine.automata.unicode_data import N_CODE_POINTS, N_JOIN_CLASSES

if TYPE_CHECKING:
    from policyengine.automata.vocabulary import Vocabulary

_SHIFT = 21
NO_SYMBOL = N_JOIN_CLASSES  # the "class" of the first symbol of nothing
DROPPED = 255  # the class of a character that folding drops


# The arrays that a file of an index holds by these names, beside the three of `VocabularyTrie.to_arrays`.
_KEPT = (
    *("alphabet", "class_start", "keys", "parent", "symbol", "tail_index", "node_of", "rest_nodes", "wanted"),
    *("first_class", "leading_space", "first", "last", "ids", "start", "tail_nodes", "tail_matrix", "classes"),
)


def _numbered(code_points: Longs) -> tuple[Longs, Longs]:
    """The distinct code points, ascending, and the place among them of each; as `np.unique`, without sorting."""
    found = np.zeros(N_CODE_POINTS, dtype=bool)
    found[code_points] = True
    distinct = np.flatnonzero(found)
    place = np.zeros(N_CODE_POINTS, dtype=np.int64)
    place[distinct] = np.arange(len(distinct))
    return distinct, place[code_points]


def _runs(starts: Longs, lengths: Longs) -> Longs:
    """The numbers from each start on, as many as its length, one run after the other."""
    return np.arange(int(lengths.sum())) + np.repeat(starts - np.cumsum(lengths) + lengths, lengths)


class VocabularyTrie:
    """The trie of a vocabulary under one folding. All arrays are read-only and shared by every policy set.

    vocabulary: what it is the index of. tokens: the bytes of each id; b"" for one without text, None for padding.
    node_of: int32 [size], the node of each id, -1 for padding; a tail node stands for its parent plus its tail.
    parent, symbol: int32 [nodes], `symbol` the code point read last (-1 at the root and at tail nodes).
    first, last: int32 [nodes], preorder number of the node, and one past its subtree's.
    ids: int32 [tokens], real ids by preorder; `start`: int32 [nodes + 1], how many come before a preorder number.
    """

    def __init__(self, vocabulary: Vocabulary, spec: FoldSpec) -> None:
        self._begin(vocabulary, spec)
        texts, tails, owners = self._read()
        self.tails = sorted({tail for tail in tails if tail})
        self._grow(*self._fold(texts, tails), owners)
        self._sort()

    def _begin(self, vocabulary: Vocabulary, spec: FoldSpec) -> None:
        self.vocabulary, self.folding = vocabulary, Folding(spec)
        self.tokens: list[bytes | None] = list(vocabulary.tokens)
        for token in vocabulary.eos_token_ids:
            self.tokens[token] = b""  # an end of the output, not text, whatever it is called
        self._tail_edges: dict[bytes, Bools] = {}
        self._edge_tokens: dict[tuple[int, bool], Ints] = {}

    # -- in a file -------------------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything that building costs, for `from_arrays`; what a few milliseconds give is left out."""
        kept: dict[str, npt.NDArray[Any]] = {name: getattr(self, name) for name in _KEPT}
        return kept | {
            "levels": np.array(self.levels, dtype=np.int64),
            "tail_bytes": np.frombuffer(b"".join(self.tails), dtype=np.uint8),
            "tail_lengths": np.array([len(tail) for tail in self.tails], dtype=np.int64),
        }

    @classmethod
    def from_arrays(cls, vocabulary: Vocabulary, spec: FoldSpec, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """The index that `to_arrays` was asked of; it keeps the arrays. Raises ValueError for other arrays.

        That they belong to this vocabulary and folding is for the caller to know; only sizes are looked at here.
        """
        trie = cls.__new__(cls)
        trie._begin(vocabulary, spec)
        wanted = {*_KEPT, "levels", "tail_bytes", "tail_lengths"}
        if set(arrays) != wanted or len(arrays["node_of"]) != vocabulary.size:
            raise ValueError("the arrays of an index do not fit this vocabulary")
        for name in _KEPT:
            setattr(trie, name, arrays[name])
        trie.levels = arrays["levels"].tolist()
        trie.n_nodes = len(trie.keys)
        data, at = arrays["tail_bytes"].tobytes(), 0
        trie.tails = []
        for length in arrays["tail_lengths"].tolist():
            trie.tails.append(data[at : at + length])
            at += length
        return trie

    # -- construction ----------------------------------------------------------------------------------------------

    def _read(self) -> tuple[list[str], list[bytes], list[tuple[int, int]]]:
        """The text of every token and of every rest, its tail, and its owner: (id, bytes cut off its head)."""
        texts: list[str] = []
        tails: list[bytes] = []
        owners: list[tuple[int, int]] = []
        for token, data in enumerate(self.tokens):
            if data is None:
                continue
            try:
                text, tail = data.decode(), b""
            except UnicodeDecodeError:
                text, tail = utf8.decode(data)
            texts.append(text)
            tails.append(tail)
            owners.append((token, 0))
            for cut in range(1, 4):
                if len(data) < cut or not utf8.is_continuation(data[cut - 1]):
                    break
                text, tail = utf8.decode(data[cut:])
                texts.append(text)
                tails.append(tail)
                owners.append((token, cut))
        return texts, tails, owners

    def _fold(self, texts: list[str], tails: list[bytes]) -> tuple[Longs, Longs]:
        """(numbers, lengths): the symbols of all entries by number, one entry after the other, a tail as one more."""
        table, count = self.folding.table, len(texts)
        read = np.frombuffer("".join(texts).encode("utf-32-le"), dtype=np.uint32).astype(np.int64)
        distinct, place = _numbered(read)
        folded = [table[chr(code_point)] for code_point in distinct.tolist()]
        widths = np.array([len(symbols) for symbols in folded], dtype=np.int64)
        flat = np.array([s for symbols in folded for s in symbols], dtype=np.int64)
        width = widths[place]
        symbols = flat[_runs((np.cumsum(widths) - widths)[place], width)]
        entry = np.repeat(np.repeat(np.arange(count), [len(text) for text in texts]), width)
        if self.folding.spec.collapse:
            space = symbols == SPACE
            again = space[1:] & space[:-1] & (entry[1:] == entry[:-1])
            keep = np.append(True, ~again)[: len(symbols)]
            symbols, entry = symbols[keep], entry[keep]

        distinct, place = _numbered(symbols)
        classes = np.array([self.folding.join_class(s) for s in distinct.tolist()], dtype=np.int64)
        order = np.lexsort((distinct, classes))
        self.alphabet: Longs = distinct[order]
        self.class_start: Longs = np.searchsorted(classes[order], np.arange(N_JOIN_CLASSES + 1))
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))

        tail_rank = {tail: len(order) + i for i, tail in enumerate(self.tails)}
        tailed = np.array([i for i, tail in enumerate(tails) if tail], dtype=np.int64)
        own = np.bincount(entry, minlength=count)
        lengths = own.copy()
        lengths[tailed] += 1
        numbers = np.empty(int(lengths.sum()), dtype=np.int64)
        ends = np.cumsum(lengths)
        numbers[_runs(ends - lengths, own)] = rank[place]
        numbers[ends[tailed] - 1] = [tail_rank[tails[i]] for i in tailed.tolist()]
        return numbers, lengths

    def _grow(self, flat: Longs, lengths: Longs, owners: list[tuple[int, int]]) -> None:
        starts = np.cumsum(lengths) - lengths
        at = np.zeros(len(lengths), dtype=np.int64)
        keys, total, level = [np.zeros(1, dtype=np.int64)], 1, 0
        self.levels = [0, 1]
        alive = np.flatnonzero(lengths > 0)
        while alive.size:
            unique, inverse = np.unique(at[alive] << _SHIFT | flat[starts[alive] + level], return_inverse=True)
            keys.append(unique)
            at[alive] = total + inverse
            total += len(unique)
            self.levels.append(total)
            level += 1
            alive = alive[lengths[alive] > level]

        self.n_nodes = total
        self.keys: Longs = np.concatenate(keys)
        self.keys[0] = -1  # the root is nobody's child; keeps the array ascending
        code = self.keys & ((1 << _SHIFT) - 1)
        self.parent: Ints = (self.keys >> _SHIFT).astype(np.int32)
        is_tail = code >= len(self.alphabet)
        is_tail[0] = False
        self.tail_index: Ints = np.where(is_tail, code - len(self.alphabet), -1).astype(np.int32)
        self.symbol: Ints = np.where(is_tail, -1, np.append(self.alphabet, -1)[np.minimum(code, len(self.alphabet))])
        self.symbol[0] = -1
        self.tail_index[0] = -1

        owner = np.array(owners, dtype=np.int64).reshape(len(owners), 2)
        whole = owner[:, 1] == 0
        self.node_of: Ints = np.full(len(self.tokens), -1, dtype=np.int32)
        self.node_of[owner[whole, 0]] = at[whole]
        # int64 [rests, 3]: id, bytes cut off its head, node.
        self.rest_nodes: Longs = np.column_stack((owner[~whole], at[~whole]))
        self.wanted: Bools = np.zeros(total, dtype=bool)  # nodes that a token or a rest stops at
        self.wanted[at] = True
        self.wanted[self.parent[is_tail & self.wanted]] = True

        self.first_class: Ints = np.full(total, NO_SYMBOL, dtype=np.int32)
        self.leading_space: Bools = np.zeros(total, dtype=bool)
        tops = np.arange(self.levels[1], self.levels[2]) if len(self.levels) > 2 else np.zeros(0, dtype=np.int64)
        tops = tops[~is_tail[tops]]
        self.first_class[tops] = [self.folding.join_class(int(s)) for s in self.symbol[tops]]
        self.leading_space[tops] = self.symbol[tops] == SPACE
        for lo, hi in zip(self.levels[2:], self.levels[3:], strict=False):
            self.first_class[lo:hi] = self.first_class[self.parent[lo:hi]]
            self.leading_space[lo:hi] = self.leading_space[self.parent[lo:hi]]

    def _sort(self) -> None:
        """Preorder numbers, from subtree sizes; siblings are neighbours and in order of their symbol's number."""
        size = np.ones(self.n_nodes, dtype=np.int64)
        bounds = list(zip(self.levels, self.levels[1:], strict=False))
        for lo, hi in reversed(bounds[1:]):
            np.add.at(size, self.parent[lo:hi], size[lo:hi])
        first = np.zeros(self.n_nodes, dtype=np.int64)
        for lo, hi in bounds[1:]:
            before = np.cumsum(size[lo:hi]) - size[lo:hi]
            parent = self.parent[lo:hi]
            is_first = np.append(True, parent[1:] != parent[:-1])
            base = np.repeat(before[is_first], np.diff(np.append(np.flatnonzero(is_first), hi - lo)))
            first[lo:hi] = first[parent] + 1 + before - base
        self.first: Ints = first.astype(np.int32)
        self.last: Ints = (first + size).astype(np.int32)
        real = np.flatnonzero(self.node_of >= 0)
        place = self.first[self.node_of[real]]
        order = np.argsort(place, kind="stable")
        self.ids: Ints = real[order].astype(np.int32)
        self.start: Ints = np.searchsorted(place[order], np.arange(self.n_nodes + 1)).astype(np.int32)
        # Which tails hang below a node: they come last among its children.
        self.tail_nodes: Longs = np.flatnonzero(self.tail_index >= 0)
        for name in set(_KEPT) - {"tail_matrix", "classes"}:  # those are worked out when they are asked for
            getattr(self, name).flags.writeable = False

    # -- queries ---------------------------------------------------------------------------------------------------

    @cached_property
    def rank(self) -> dict[int, int]:
        """The number of each symbol that some token holds."""
        return {symbol: rank for rank, symbol in enumerate(self.alphabet.tolist())}

    @cached_property
    def rests(self) -> dict[tuple[int, int], int]:
        """(id, bytes cut off its head) to the node of the rest, for tokens that begin inside a character."""
        return {(token, cut): node for token, cut, node in self.rest_nodes.tolist()}

    def ranks_of(self, symbols: Longs) -> Longs:
        """The number of each symbol; -1 where no token holds it."""
        return np.array([self.rank.get(s, -1) for s in symbols.tolist()], dtype=np.int64)

    def find(self, nodes: Longs, ranks: Longs) -> Longs:
        """The child of each node by symbol number; -1: none (also where the number is negative)."""
        wanted = nodes << _SHIFT | np.maximum(ranks, 0)
        place = np.searchsorted(self.keys, wanted)
        place[place == len(self.keys)] = 0
        return np.where((ranks >= 0) & (self.keys[place] == wanted), place, -1)

    def edge_ranges(self, nodes: Longs, classes: Longs) -> tuple[Longs, Longs, Longs]:
        """The tokens that continue each node with an edge after a symbol of that class (> 0).

        Returns (which, lo, hi): indices into `nodes` and preorder ranges below them; tails are `tail_edges`' matter.
        """
        starts, end = self.class_start, len(self.alphabet)
        single = classes >= 2  # class 1 joins to every script, so only class 0 makes an edge with it
        zero = np.zeros_like(classes)
        above = starts[np.minimum(classes + 1, N_JOIN_CLASSES)]
        runs = [
            (zero, np.full_like(classes, starts[1])),
            (np.where(single, starts[2], 0), np.where(single, starts[classes], 0)),
            (np.where(single, above, 0), np.where(single, end, 0)),
        ]
        which, lows, highs = [], [], []
        for low, high in runs:
            a = np.searchsorted(self.keys, nodes << _SHIFT | low)
            b = np.searchsorted(self.keys, nodes << _SHIFT | high)
            some = np.flatnonzero(b > a)
            which.append(some)
            lows.append(self.first[a[some]].astype(np.int64))
            highs.append(self.last[b[some] - 1].astype(np.int64))
        return np.concatenate(which), np.concatenate(lows), np.concatenate(highs)

    @cached_property
    def tail_matrix(self) -> Bools:
        """bool [2, tails, contexts]: `tail_edges` of every tail of the vocabulary."""
        rows = [self.tail_edges(tail) for tail in self.tails]
        matrix = np.stack(rows, axis=1) if rows else np.zeros((2, 0, N_BASES), dtype=bool)
        matrix.flags.writeable = False
        return matrix

    def tail_edges(self, tail: bytes) -> Bools:
        """bool [2, contexts]: what every character that these bytes can become does after that context.

        Row 0: it makes an edge. Row 1: it does, or folding drops it, which leaves the text in the word that it was in.
        """
        known = self._tail_edges.get(tail)
        if known is None:
            span = utf8.completions(tail)
            classes = np.unique(self.classes[span.start : span.stop])
            kept = classes[classes != DROPPED]
            edge = ~JOINS[:, kept].any(axis=1)
            known = np.stack((edge & (len(kept) == len(classes)), edge))
            known.flags.writeable = False
            self._tail_edges[tail] = known
        return known

    def edge_tokens(self, context: int, *, at_end: bool) -> Ints:
        """Ids, int32: the tokens that make an edge with that context; `at_end`: also those that do if nothing follows.

        Read-only, the same object each time.
        """
        key = context, at_end
        known = self._edge_tokens.get(key)
        if known is None:
            first = self.first_class
            edge = ~np.append(JOINS[context], True)[first]
            nothing = (first == NO_SYMBOL) & (self.tail_index < 0)
            alone = self.tail_nodes[first[self.tail_nodes] == NO_SYMBOL]
            edge[alone] = True if at_end else self.tail_matrix[0, self.tail_index[alone], context]
            edge[nothing] = at_end
            real = self.node_of >= 0
            known = np.flatnonzero(real & edge[np.maximum(self.node_of, 0)]).astype(np.int32)
            known.flags.writeable = False
            self._edge_tokens[key] = known
        return known

    @cached_property
    def classes(self) -> npt.NDArray[np.uint8]:
        """uint8 [0x110000]: the join class of the first symbol of every folded code point, or `DROPPED`."""
        classes = unicode_data.join_classes().copy()
        for code_point in unicode_data.changed_code_points():
            symbols = self.folding.table[chr(code_point)]
            classes[code_point] = self.folding.join_class(symbols[0]) if symbols else DROPPED
        return classes


__all__ = ["DROPPED", "NO_SYMBOL", "SPACE_CONTEXT", "VocabularyTrie"]
