"""Expressions as one nondeterministic automaton (Thompson's), with places to assert and a pattern at every end.

What it costs: one node a character, choice and assertion, repetitions written out. The size is known, and held to a
budget, before anything is built. Work is counted in nodes looked at and not in seconds, so that the same pattern is
refused or accepted on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from policyengine.automata.regex_errors import TooLargeError
from policyengine.automata.regex_sets import Runs
from policyengine.automata.regex_tree import UNBOUNDED, Assertion, Chars, Choice, Node, Repeat, Sequence

MOST_NODES: Final = 100_000
MOST_WORK: Final = 1_000_000

TOO_LARGE: Final = "lower the bounds of repetitions, or begin with fixed characters instead of `.*`"

_CHAR, _SPLIT, _ASSERT, _ACCEPT = range(4)

Items = frozenset[int]


class Budget:
    """How much may still be done until the expressions are refused as too large."""

    def __init__(self) -> None:
        self.left = MOST_WORK

    def spend(self, amount: int) -> None:
        """Raises TooLargeError when it is used up."""
        self.left -= amount
        if self.left < 0:
            raise TooLargeError("the automaton of the expression is too large", 0, TOO_LARGE)


@dataclass(frozen=True, slots=True)
class Situation:
    """What stands at a place: a word edge, the output's start, its end. The last two are edges, too."""

    edge: bool
    first: bool = False
    end: bool = False

    def allows(self, assertion: str) -> bool:
        """Whether an assertion holds there."""
        match assertion:
            case "edge":
                return self.edge
            case "no_edge":
                return not self.edge
            case "start":
                return self.first
            case _:
                return self.end


class Nfa:
    """The automaton. Nodes are ints; *items* are those that a set of states is made of: all but choices.

    sets: the distinct sets of code points, in order of appearance. start: the items before the first symbol.
    needs_edges: whether anything asks for an edge or for none; needs_missing_edges: for none.
    """

    def __init__(self, trees: Iterable[Node], budget: Budget) -> None:
        """Raises TooLargeError, its `pattern` set to the index of the tree."""
        self.budget = budget
        self.sets: list[Runs] = []
        self._set_ids: dict[Runs, int] = {}
        self._kind: list[int] = []
        self._set: list[int] = []
        self._place: list[str] = []
        self._next: list[tuple[int, ...]] = []
        self._pattern: list[int] = []
        self._closures: dict[tuple[int, ...], Items] = {}
        starts, total = [], 0
        self.n_patterns = 0
        for tree in trees:
            try:
                total += _size(tree)
                if total > MOST_NODES:
                    raise TooLargeError(f"all expressions together need more than {MOST_NODES} nodes", 0)
            except TooLargeError as error:
                error.pattern = self.n_patterns
                raise
            end = self._node(_ACCEPT)
            starts.append(self._build(tree, end))
            self.n_patterns += 1
        self.start = self.closure(tuple(starts))
        self.needs_edges = any(place in ("edge", "no_edge") for place in self._place)
        self.needs_missing_edges = "no_edge" in self._place

    # -- building ----------------------------------------------------------------------------------------------------

    def _node(self, kind: int, after: tuple[int, ...] = (), *, char_set: int = -1, place: str = "") -> int:
        self._kind.append(kind)
        self._set.append(char_set)
        self._place.append(place)
        self._next.append(after)
        self._pattern.append(self.n_patterns)
        return len(self._kind) - 1

    def _build(self, node: Node, after: int) -> int:
        """The node where `node` begins, with `after` behind it."""
        if isinstance(node, Chars):
            char_set = self._set_ids.setdefault(node.runs, len(self.sets))
            if char_set == len(self.sets):
                self.sets.append(node.runs)
            return self._node(_CHAR, (after,), char_set=char_set)
        if isinstance(node, Assertion):
            return self._node(_ASSERT, (after,), place=node.place)
        if isinstance(node, Sequence):
            for part in reversed(node.parts):
                after = self._build(part, after)
            return after
        if isinstance(node, Choice):
            return self._node(_SPLIT, tuple(self._build(part, after) for part in node.parts))
        return self._repeat(node, after)

    def _repeat(self, node: Repeat, after: int) -> int:
        entry, least = after, node.least
        if node.most == UNBOUNDED:
            entry = self._node(_SPLIT)
            body = self._build(node.node, entry)
            self._next[entry] = (body, after)
            if least:
                entry, least = body, least - 1
        else:
            for _ in range(node.most - least):
                entry = self._node(_SPLIT, (self._build(node.node, entry), after))
        for _ in range(least):
            entry = self._build(node.node, entry)
        return entry

    # -- reading -----------------------------------------------------------------------------------------------------

    def closure(self, nodes: tuple[int, ...]) -> Items:
        """The items that the nodes lead to without a symbol and without an assertion."""
        known = self._closures.get(nodes)
        if known is None:
            seen, todo = set(nodes), list(nodes)
            while todo:
                node = todo.pop()
                if self._kind[node] == _SPLIT:
                    more = [n for n in self._next[node] if n not in seen]
                    seen.update(more)
                    todo += more
            self.budget.spend(len(seen))
            known = self._closures[nodes] = frozenset(n for n in seen if self._kind[n] != _SPLIT)
        return known

    def asserting(self, items: Items, situation: Situation) -> Items:
        """The items, and those behind assertions that hold in the situation."""
        result, todo = set(items), list(items)
        while todo:
            item = todo.pop()
            if self._kind[item] == _ASSERT and situation.allows(self._place[item]):
                more = self.closure(self._next[item]) - result
                self.budget.spend(len(more))
                result |= more
                todo += more
        return frozenset(result)

    def asserts(self, items: Items) -> bool:
        """Whether an assertion is among the items."""
        kind = self._kind
        return any(kind[item] == _ASSERT for item in items)

    def accepted(self, items: Items) -> tuple[int, ...]:
        """The patterns that end at the items, ascending."""
        kind = self._kind
        return tuple(sorted({self._pattern[item] for item in items if kind[item] == _ACCEPT}))

    def single(self, items: Items) -> tuple[int, Items] | None:
        """Of a single item that waits for a symbol: its set of code points, and what follows."""
        (item,) = items
        return (self._set[item], self.closure(self._next[item])) if self._kind[item] == _CHAR else None

    def by_set(self, items: Items) -> dict[int, list[Items]]:
        """For each set of code points: what follows the items that wait for one of it."""
        result: dict[int, list[Items]] = {}
        for item in items:
            if self._kind[item] == _CHAR:
                result.setdefault(self._set[item], []).append(self.closure(self._next[item]))
        return result

    def heaviest(self, items: Items) -> int:
        """The pattern that most of the items belong to."""
        counts: dict[int, int] = {}
        for item in items:
            counts[self._pattern[item]] = counts.get(self._pattern[item], 0) + 1
        return max(sorted(counts), key=counts.__getitem__, default=0)


def _size(node: Node) -> int:
    """At least the nodes of a tree; raises TooLargeError at a repetition that alone has too many."""
    if isinstance(node, Sequence | Choice):
        return 1 + sum(_size(part) for part in node.parts)
    if isinstance(node, Repeat):
        times, choices = (max(node.least, 1), 1) if node.most == UNBOUNDED else (node.most, node.most - node.least)
        size = _size(node.node) * times + choices
        if size > MOST_NODES:
            raise TooLargeError(
                f"a repetition that needs more than {MOST_NODES} nodes", node.position, "lower its bounds"
            )
        return size
    return 1


__all__ = ["MOST_NODES", "MOST_WORK", "TOO_LARGE", "Budget", "Items", "Nfa", "Situation"]
