"""How much of a window may leave.

INVARIANT (settled): what left, no later character can change; so how text is cut into chunks changes nothing.

A piece must wait while a live match holds it. That is not all: a match may take pieces away from the top of the stack,
and then matches that had died come back to life. With `ab` replaced by nothing, the first `a` of `aab` must wait
although only the second begins a match, because `aabb` would leave as `ab`. So we follow each live match to where it
would cut, look at what its rule would put there, and ask which matches that completes or leaves alive; these hold their
own pieces, and may cut in turn.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from policyengine.runtime.text_plan import Effect

if TYPE_CHECKING:
    from policyengine.runtime.text_window import Window

_NOTHING = (Effect("", False),)

Cut = tuple[int, tuple[Effect, ...]]  # how many pieces stay, and what may be put on top of them


def settled(window: Window) -> int:
    """How many pieces at the bottom of the window's stack may leave."""
    stack, scanners = window.stack, window.plan.scanners
    if not stack:
        return 0
    held = len(stack)
    todo: list[Cut] = []

    def visible(k: int, symbol: int, below: int) -> None:
        """A match of the visible text may start at this symbol, in one of the pieces below the given place."""
        nonlocal held
        at = window.piece_with(k, symbol, below)
        held = min(held, at)
        if stack[at].leader is None:
            todo.append((at, scanners[k].effects))
        else:
            # A unit keeps its replacement and grows over what follows, unless the match ends the output.
            todo.append((at + 1, _NOTHING))
            todo.append((at, _NOTHING if stack[at].text in window.plan.fragile else scanners[k].endings))

    for k, (scanner, live) in enumerate(zip(scanners, window.live(), strict=True)):
        for length in live:
            start = window.begins[k][-length]
            at = bisect_right(stack, start, key=lambda piece: piece.start) - 1
            grows = stack[at].leader is not None and stack[at].start < start
            held = min(held, at + grows)
            todo.append((at + 1, _NOTHING) if grows else (at, scanner.effects))
        top = stack[-1]
        for length in scanner.live(top.states[k]):
            visible(k, top.counts[k] - length, len(stack))
    done: set[Cut] = set()
    while todo:
        cut = todo.pop()
        if cut in done:
            continue
        done.add(cut)
        at, effects = cut
        if not at:
            continue  # what the piece below was part of was asked before it left
        below = stack[at - 1]
        for effect in effects:
            for k, scanner in enumerate(scanners):
                for back in scanner.reach(below.states[k], effect):
                    visible(k, below.counts[k] - back, at)
    return held
