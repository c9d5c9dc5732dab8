"""What whole chunks do, remembered: most chunks of a stream are words that were seen before in the same situation.

A *node* is a situation: the automata's states and the characters held, if all of them are plain (no redaction among
them). Sessions in the same situation share the node, and an edge of it says what a chunk leads to. A stream of known
chunks then costs one dict look-up a chunk, whatever the number of phrases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policyengine.runtime.text_pieces import Piece
from policyengine.runtime.text_plan import TextPlan
from policyengine.runtime.text_window import Window

if TYPE_CHECKING:
    from policyengine.runtime.text_session import Verdict

_KEPT = 1 << 16  # nodes, and edges, of one plan; then all are forgotten
_LONGEST = 64  # characters of a chunk that are worth remembering
_HELD = 16  # pieces held that are: each new chunk copies them, and few outputs hold the same ones


class Edge(NamedTuple):
    """Where a chunk leads, the text that leaves, and the verdict that says so."""

    node: Node
    text: str
    verdict: Verdict


class Node:
    """One situation. `window`: the same as a window whose position 0 is the first held character; never changed.

    waiting: the held text, if the client would see all of it as it was read (else None: only a window can go on).
    """

    __slots__ = ("edges", "held", "waiting", "window")

    def __init__(self, window: Window) -> None:
        self.window = window
        self.held = window.position
        self.edges: dict[str, Edge] = {}
        same = window.plan.rewrite is None and tuple(window.orig) == window.top.states
        self.waiting = "".join(piece.text for piece in window.stack) if same else None

    def open(self) -> Window:
        """A window of one's own, to go on from here."""
        shared, window = self.window, Window(self.window.plan)
        window.position = shared.position
        window.orig = shared.orig.copy()
        window.begins = [begins.copy() for begins in shared.begins]
        window.base = shared.base
        window.stack = shared.stack.copy()
        return window


def start(plan: TextPlan) -> Node:
    """The situation before the first character."""
    return plan.resting.get(plan.initial) or _resting(plan, plan.initial)


def _resting(plan: TextPlan, states: tuple[int, ...]) -> Node:
    """The situation in which nothing is held and both texts are in the same states."""
    window = Window(plan)
    window.orig = list(states)
    window.base = Piece(0, 0, "", None, True, states, window.base.counts)
    node = node_of(window)
    assert node is not None
    plan.resting[states] = node
    return node


def glide(node: Node, chunk: str) -> tuple[Node, str] | None:
    """Where a chunk leads, and the text that leaves, if it completes nothing and nothing is live after it.

    None: not so, or too long to tell whether too much had to be held in between.
    """
    plan = node.window.plan
    if node.waiting is None or not plan.remembers or node.held + len(chunk) > plan.program.max_hold:
        return None
    states = []
    for scanner, state in zip(plan.scanners, node.window.orig, strict=True):
        step = scanner.step
        for ch in chunk:
            state, _, hits = step(state, ch)
            if hits:
                return None
        if scanner.longest(state):
            return None
        states.append(state)
    after = tuple(states)
    return plan.resting.get(after) or _resting(plan, after), node.waiting + chunk


def node_of(window: Window) -> Node | None:
    """The node of a window whose text was released; None where a redaction is still open, or too much is held.

    Of a plan that does not remember, only the first situation has one.
    """
    stack, base, plan = window.stack, window.base, window.plan
    if plan.nodes and not plan.remembers:
        return None
    if len(stack) > _HELD or window.found or any(piece.leader is not None for piece in stack):
        return None
    origin = stack[0].start if stack else window.position
    begins = [[place - origin for place in places] for places in window.begins]
    texts = tuple(piece.text for piece in stack)
    key = (tuple(window.orig), base.states, texts, tuple(map(tuple, begins)))
    node = plan.nodes.get(key)
    if node is None:
        copy = Window(plan)
        copy.position = window.position - origin
        copy.orig = window.orig.copy()
        copy.begins = begins
        copy.base = Piece(0, 0, "", None, True, base.states, (0,) * len(plan.scanners))
        copy.stack = [piece.moved(origin, base.counts) for piece in stack]
        if len(plan.nodes) >= _KEPT:
            _forget(plan)
        node = plan.nodes[key] = Node(copy)
    return node


def _forget(plan: TextPlan) -> None:
    # Every edge goes, so that sessions under way keep no old nodes alive through them.
    for node in list(plan.nodes.values()):
        node.edges.clear()
    plan.nodes.clear()
    plan.resting.clear()
    plan.known_chunks = 0


def learn(node: Node, chunk: str, edge: Edge) -> None:
    """Remember what a chunk does in a situation. Only for chunks that complete no match."""
    plan = node.window.plan
    if len(chunk) > _LONGEST:
        return
    if plan.known_chunks >= _KEPT:
        _forget(plan)
    node.edges[chunk] = edge
    plan.known_chunks += 1
