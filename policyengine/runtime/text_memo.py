"""What characters and whole chunks do, remembered: an automaton of situations that is built as text comes.

A *node* is a situation in which all is plain: the scanners' states, and how much of the text the longest match holds
that may still come to count. It knows where texts lead that complete nothing, single characters and whole chunks. So a
chunk that was read before costs one look-up, and another one a look-up a character, whatever the number of phrases.

Plain means that what is held is what live matches hold, and no more: were the text cut before any of them, and what its
rule shows put there, nothing that had died would come back to life. In any other situation, and where a match counts,
a window must tell (`text_window`, `text_frontier`); the automaton leads to `BLIND` there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from policyengine.runtime.scanners import Scanner

if TYPE_CHECKING:
    from policyengine.runtime.text_window import Window

_KEPT_NODES = 1 << 16  # of one memo, and
_KEPT_TEXTS = 1 << 18  # texts that its nodes know; then all are forgotten
_LONGEST = 64  # characters of a chunk that are worth remembering
_HELD = 128  # characters held that are: few texts hold so many, and seldom the same


class Lane(NamedTuple):
    """One scanner that reads along. Of a text that is rewritten, one reads it as it is and one as it is shown."""

    scanner: Scanner[Any]
    rewrite: Callable[[str], str] | None = None


class Node(dict[str, "Node"]):
    """A situation. As a dict: where the texts lead that were read there; `node[text]` reads any text.

    Attributes:
        states: by lane.
        backs: by lane, how many characters ago each symbol of the longest live match was read, the first one first; 1:
            with the last character. None: each symbol is a character of its own.
        hold: characters that must be held; below 0 for `BLIND`.
        stirs: whether a cut here may bring something back; None: not known yet.
    """

    __slots__ = ("_memo", "backs", "hold", "states", "stirs")

    def __init__(self, memo: Memo | None, states: tuple[Any, ...], backs: Backs | None, hold: int) -> None:
        self._memo, self.states, self.backs, self.hold = memo, states, backs, hold
        self.stirs: bool | None = None

    def __missing__(self, text: str) -> Node:
        return self._memo.learn(self, text) if self._memo is not None else self

    def places(self, lane: int, position: int) -> list[int]:
        """The characters that the symbols of the longest live match are of, if so many were read."""
        if self.backs is not None:
            return [position - back for back in self.backs[lane]]
        assert self._memo is not None
        length = self._memo.lanes[lane].scanner.longest(self.states[lane])
        return list(range(position - length, position))


Backs = tuple[tuple[int, ...], ...]

BLIND: Final = Node(None, (), None, -1)  # wherever it leads


class Memo:
    """The nodes of one plan, and what they know.

    lanes: what reads along; remembers: whether situations come again, so that nodes are worth having.
    made: the choices of effects that may be put in place of a match; none where nothing is ever cut.
    """

    def __init__(self, lanes: Sequence[Lane], most: int, made: Set[int] = frozenset()) -> None:
        """most: characters, and symbols of a match, beyond which the plan does something about it."""
        self.lanes, self._made = tuple(lanes), made
        self._most = min(most, _HELD)
        self.remembers = all(lane.scanner.recurs for lane in lanes)
        self._nodes: dict[tuple[tuple[Any, ...], Backs | None], Node] = {}
        self._n_texts = 0

    @property
    def size(self) -> tuple[int, int]:
        """How many nodes there are, and how many texts they know together."""
        return len(self._nodes), self._n_texts

    def start(self) -> Node:
        """The situation before the first character."""
        return self._node(tuple([lane.scanner.start for lane in self.lanes]), None, 0)

    def learn(self, node: Node, text: str) -> Node:
        """Read a text that the node does not know; raises TypeError for what is no text, which no node ever knows."""
        if not isinstance(text, str):
            raise TypeError(f"text must be str, not {type(text).__name__}")
        if len(text) == 1:
            after = self._read(node, text)
        else:
            after = node
            for ch in text:
                after = after[ch]
            if not 0 < len(text) <= _LONGEST:
                return after
        if self._n_texts >= _KEPT_TEXTS:
            self._forget()
        self._n_texts += 1
        node[text] = after
        return after

    def _forget(self) -> None:
        # What every node knows goes, so that sessions under way keep no old nodes alive through theirs.
        for node in list(self._nodes.values()):
            node.clear()
        self._nodes.clear()
        self._n_texts = 0

    def _read(self, node: Node, ch: str) -> Node:
        """Read one character."""
        states: list[Any] = []
        counts: list[int] = []
        for (scanner, rewrite), before in zip(self.lanes, node.states, strict=True):
            state, symbols, hits = scanner.read(before, rewrite(ch)) if rewrite else scanner.step(before, ch)
            if hits:
                return BLIND
            states.append(state)
            counts.append(symbols)
        if node.backs is None and counts.count(1) == len(counts):
            after = self.at(tuple(states), None)
        else:
            lanes = range(len(counts))
            after = self.at(tuple(states), [[*node.places(k, -1), *[-1] * counts[k]] for k in lanes])
        if node.hold and after.hold > 0 and self._begins(after):
            if node.stirs is None:
                node.stirs = self._stirs(node.states)
            if node.stirs:
                return BLIND
        return after

    def _begins(self, node: Node) -> bool:
        """Whether a match may begin with the last character."""
        for k, (lane, state) in enumerate(zip(self.lanes, node.states, strict=True)):
            lengths = lane.scanner.live(state)
            if node.backs is None:
                if 1 in lengths:
                    return True
            elif any(node.backs[k][-length] == 1 for length in lengths):
                return True
        return False

    def at(self, states: tuple[Any, ...], places: Sequence[Sequence[int]] | None) -> Node:
        """The node of these states; `BLIND` where it is not worth having one.

        places: by lane, the characters that the last symbols are of, counted from where the text stands (below 0);
            None: each is one of its own.
        """
        node = self._nodes.get((states, None)) if places is None else None
        if node is not None:
            return node
        lengths = [lane.scanner.longest(state) for lane, state in zip(self.lanes, states, strict=True)]
        hold, backs = max(lengths, default=0), None
        if places is not None:
            backs = tuple(
                [tuple([-at for at in mine[len(mine) - n :]]) for mine, n in zip(places, lengths, strict=True)]
            )
            if all(mine == tuple(range(len(mine), 0, -1)) for mine in backs):
                backs = None
            else:
                hold = max(max(mine[:1], default=0) for mine in backs)
        if max(hold, *lengths, 0) > self._most:
            return BLIND
        if not all(lane.scanner.worth_keeping(state) for lane, state in zip(self.lanes, states, strict=True)):
            return BLIND
        return self._node(states, backs, hold)

    def _node(self, states: tuple[Any, ...], backs: Backs | None, hold: int) -> Node:
        node = self._nodes.get((states, backs))
        if node is None:
            if len(self._nodes) >= _KEPT_NODES:
                self._forget()
            node = self._nodes[states, backs] = Node(self, states, backs, hold)
        return node

    def _stirs(self, states: Sequence[Any]) -> bool:
        """Whether a cut where the visible text is in these states may bring back something that had died."""
        lanes = self.lanes[len(self.lanes) - len(states) :]  # those of the visible text come last
        return any(
            any(group)
            for lane, state in zip(lanes, states, strict=True)
            for choice in self._made
            for group in lane.scanner.revived(state, choice)
        )

    def follow(self, states: Sequence[Any], text: str) -> tuple[Any, ...]:
        """The states after a text that completes nothing."""
        for ch in text:
            states = [
                (scanner.read(state, rewrite(ch)) if rewrite else scanner.step(state, ch)).state
                for (scanner, rewrite), state in zip(self.lanes, states, strict=True)
            ]
        return tuple(states)

    def node_of(self, window: Window) -> Node | None:
        """The node of a window whose text was released and taken; None where only the window can go on."""
        stack, position, states = window.stack, window.position, tuple(window.orig)
        if not self.remembers or len(stack) > self._most or window.found:
            return None
        if any(piece.leader is not None for piece in stack):
            return None
        places = [[place - position for place in begins] for begins in window.begins]
        if window.plan.rewrite:
            if stack:
                return None  # nobody knows the states of both texts before what is held
            states, places = states + window.top.states, places * 2
        elif states != window.top.states:
            return None
        node = self.at(states, places)
        if node.hold != len(stack):
            return None
        lanes = zip(self.lanes, states, places, strict=True)
        begun = {mine[-length] + position for lane, state, mine in lanes for length in lane.scanner.live(state)}
        if any(piece.start in begun and self._stirs(below.states) for below, piece in pairwise(stack)):
            return None
        return node
