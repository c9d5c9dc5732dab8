"""A finite set of texts on a vocabulary: every way to spell one of them in tokens.

The texts are one trie of bytes, and an edge is a token whose bytes lie on a path of it, so that any segmentation is
found, cuts inside characters too. Edges are looked for where an output comes, and kept: the tokens of one node cost a
walk over the part of the trie that the vocabulary can spell in one token.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

_MOST_TOKENS = 1 << 22  # edges kept by one set of texts; a bound against huge ones, not a tuning knob

Edges = tuple[tuple[int, int], ...]  # (token, node), by token


class Choices:
    """The trie of some texts, and the tokens that lead from node to node. Shared; everything that changes is a cache.

    texts: the bytes of each text, sorted and distinct. parents: the node before each node, -1 for the root; a node's
    number is greater than its parent's. data: the byte that leads to each node, 0 for the root. whole: whether a text
    ends at the node.
    """

    ROOT = 0

    def __init__(self, texts: Iterable[bytes], tokens: Sequence[bytes | None]) -> None:
        """tokens: the bytes of each id; those without text (None, `b""`) spell nothing."""
        self.texts = tuple(sorted(set(texts)))
        self.parents, self.data, self.whole = [-1], [0], [False]
        self._children: list[dict[int, int]] = [{}]
        for text in self.texts:
            self._add(text)
        self._ids, self._heads = self._relevant(tokens)
        self._edges: dict[int, Edges] = {}
        self._kept = 0

    @property
    def n_nodes(self) -> int:
        """How many nodes there are."""
        return len(self.parents)

    @cached_property
    def tokens(self) -> frozenset[int]:
        """Ids that may be on a way through the texts; no others are."""
        return frozenset(token for ids in self._ids.values() for token in ids)

    def _add(self, text: bytes) -> None:
        node = self.ROOT
        for byte in text:
            children = self._children[node]
            if byte not in children:
                children[byte] = self.n_nodes
                self.parents.append(node)
                self.data.append(byte)
                self.whole.append(False)
                self._children.append({})
            node = children[byte]
        self.whole[node] = True

    def _relevant(self, tokens: Sequence[bytes | None]) -> tuple[dict[bytes, list[int]], set[bytes]]:
        """The ids of each token that holds no other bytes than the texts, and all heads of those tokens."""
        alphabet = bytes(sorted({byte for text in self.texts for byte in text}))
        ids: dict[bytes, list[int]] = {}
        for token, data in enumerate(tokens):
            if data and not data.translate(None, alphabet):
                ids.setdefault(data, []).append(token)
        return ids, {data[:size] for data in ids for size in range(1, len(data) + 1)}

    def step(self, node: int, data: bytes) -> int:
        """The node after these bytes; -1 where they leave the texts."""
        for byte in data:
            node = self._children[node].get(byte, -1)
            if node < 0:
                return -1
        return node

    def edges(self, node: int) -> Edges:
        """Every token that keeps the text the head of one of the texts, and the node it leads to."""
        known = self._edges.get(node)
        if known is None:
            found: list[tuple[int, int]] = []
            open_nodes = [(node, b"")]
            while open_nodes:
                at, before = open_nodes.pop()
                for byte, child in self._children[at].items():
                    data = before + bytes((byte,))
                    if data in self._heads:
                        found.extend((token, child) for token in self._ids.get(data, ()))
                        open_nodes.append((child, data))
            known = tuple(sorted(found))
            if self._kept > _MOST_TOKENS:
                self._edges.clear()
                self._kept = 0
            self._edges[node] = known
            self._kept += len(known)
        return known

    def reachable(self) -> list[int]:
        """The nodes that tokens can stop at, the root among them, ascending."""
        found, todo = {self.ROOT}, [self.ROOT]
        while todo:
            new = {target for _, target in self.edges(todo.pop())} - found
            found |= new
            todo.extend(new)
        return sorted(found)

    def unspellable(self) -> list[bytes]:
        """The texts that no sequence of tokens spells, in order."""
        reached = set(self.reachable())
        return [text for text in self.texts if self.step(self.ROOT, text) not in reached]


__all__ = ["Choices", "Edges"]
