"""How much of a window may leave.

INVARIANT (settled): what left, no later character can change; so how text is cut into chunks changes nothing.

A piece must wait while a live match holds it. That is not all: a match may take pieces away from the top of the stack,
and then matches that had died come back to life. With `ab` replaced by nothing, the first `a` of `aab` must wait
although only the second begins a match, because `aabb` would leave as `ab`. So we follow each live match to where it
would cut, look at what its rule would put there, and ask which matches that completes or leaves alive; these hold their
own pieces, and may cut in turn.

What a cut brings back depends only on the pieces below it. So it is found once for each piece, from the answers of
those below, and what is held is not searched again with every chunk. Whatever comes back at a cut was live there, so
it begins in the same *stretch*: down to the nearest place where nothing is live. Matches are asked about from the
longest on, and once the bottom of the stretch is held no shorter one can reach lower; where a match leaves nothing
behind, that is at once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from policyengine.runtime.scanners import NOTHING, Scanner

if TYPE_CHECKING:
    from policyengine.runtime.text_pieces import Piece
    from policyengine.runtime.text_plan import TextPlan
    from policyengine.runtime.text_window import Window


class Cut(NamedTuple):
    """What comes back if the stack ends after a piece after which something is live. Places in the original text.

    bottom: where the stretch begins.
    lowest: by choice of effects to put there, the first place that must then be held.
    stirs: whether any cut that a match may make in the stretch, up to here, brings anything back.
    """

    bottom: int
    lowest: tuple[int, ...]
    stirs: bool

    def moved(self, places: int) -> Cut:
        """The same cut in a window that begins so many places later."""
        return Cut(self.bottom - places, tuple([place - places for place in self.lowest]), self.stirs)


def settled(window: Window) -> int:
    """How many pieces at the bottom of the window's stack may leave."""
    stack = window.stack
    if not stack:
        return 0
    end, top = stack[-1].end, _cut(window, len(stack))
    held = top.lowest[NOTHING] if top else end  # what is live in the visible text
    for scanner, state, begins in zip(window.plan.scanners, window.orig, window.begins, strict=True):
        for length in scanner.live(state):
            start = begins[-length]
            at = bisect_right(stack, start, key=lambda piece: piece.start) - 1
            piece = stack[at]
            if _grows(window.plan, piece, start, scanner, state, length):
                # A unit keeps its replacement and grows over what follows.
                held = min(held, piece.end, _lowest(window, at + 1, NOTHING, end))
            else:
                held = min(held, piece.start, _lowest(window, at, scanner.effects, end))
            if held <= _bottom(window, at) or (top and not top.stirs and top.bottom <= piece.start):
                break  # what is shorter reaches no lower
    return bisect_left(stack, held, key=lambda piece: piece.start)


def _grows(plan: TextPlan, piece: Piece, start: int, scanner: Scanner[Any], state: Any, length: int) -> bool:
    """Whether a live match can only make the piece cover more, a unit that shows what it shows."""
    if piece.leader is None or piece.start > start:
        return False
    # One that begins where the unit does may take its lead, so it must have the same to show.
    return piece.start < start or (piece.text not in plan.fragile and scanner.shows(state, length) == piece.text)


def _bottom(window: Window, at: int) -> int:
    """Where the stretch begins that the first `at` pieces end in."""
    cut = _cut(window, at)
    return cut.bottom if cut else window.stack[at].start


def _lowest(window: Window, at: int, choice: int, end: int) -> int:
    """The first place to hold if one of a choice of effects is put on the first `at` pieces; `end`: none."""
    cut = _cut(window, at)
    return cut.lowest[choice] if cut else end


def _cut(window: Window, at: int) -> Cut | None:
    """What a cut that leaves `at` pieces brings back; None: nothing is live there."""
    stack, scanners, low = window.stack, window.plan.scanners, at
    # What the base was part of was asked before it left.
    while low and stack[low - 1].cut is None and _any_live(scanners, stack[low - 1]):
        low -= 1
    for top in range(low, at):
        stack[top].cut = _find(window, top)
    return stack[at - 1].cut if at else None


def _any_live(scanners: Sequence[Scanner[Any]], piece: Piece) -> bool:
    return any(scanner.longest(state) for scanner, state in zip(scanners, piece.states, strict=True))


def _find(window: Window, top: int) -> Cut:
    """The cut after the piece `top`; those below it in its stretch are known."""
    stack, plan = window.stack, window.plan
    piece, below = stack[top], stack[top - 1].cut if top else None
    bottom, stirs = (below.bottom, below.stirs) if below else (piece.start, False)
    lowest: list[int] = []
    for choice in range(len(plan.choices)):
        low = piece.end
        for k, scanner in enumerate(plan.scanners):
            for group in scanner.revived(piece.states[k], choice):
                for back in group:
                    low = min(low, _visible(window, k, piece.counts[k] - back, top, lowest))
                    if low <= bottom or not (stirs or piece.leader):
                        break  # what is shorter reaches no lower
        lowest.append(low)
    made = plan.made if piece.leader is None else range(len(lowest))
    return Cut(bottom, tuple(lowest), stirs or any(lowest[choice] < piece.end for choice in made))


def _visible(window: Window, k: int, symbol: int, top: int, lowest: list[int]) -> int:
    """The first place to hold for a match of the visible text that starts at a symbol, in the piece `top` or below.

    lowest: what is known of a cut after the piece `top`.
    """
    at = window.piece_with(k, symbol, top + 1)
    head, scanner = window.stack[at], window.plan.scanners[k]
    if head.leader is None:
        return min(head.start, _lowest(window, at, scanner.effects, head.start))
    # A unit keeps its replacement and grows over what follows, unless the match ends the output.
    shown = NOTHING if head.text in window.plan.fragile else scanner.endings
    grown = _lowest(window, at + 1, NOTHING, head.end) if at < top else min([head.end, *lowest[:1]])
    return min(head.start, grown, _lowest(window, at, shown, head.start))
