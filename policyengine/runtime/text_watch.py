"""Rules in shadow at the text level: what they match in the original text is told, and nothing else happens.

A watch reads beside the session and knows nothing of it. So what rules that act replace does not change what it finds,
and nothing that it does, taking too long included, changes what the client sees.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from policyengine.runtime.search_time import SearchTime, SearchTimeoutError
from policyengine.runtime.text_found import Found, Matches, rank
from policyengine.runtime.text_memo import BLIND, Lane, Memo, Node

if TYPE_CHECKING:
    from policyengine.runtime.scanners import Scanner

# Why watches were given up: an expression took too long, or more text than `max_hold` had to be looked at again.
SHADOW_TIMEOUT, SHADOW_MAX_HOLD = "shadow_regex_timeout", "shadow_max_hold"

counters: Counter[str] = Counter()  # of this process, for each of these reasons


class WatchPlan:
    """The scanners of components in shadow that are read together, and the situations that are known of them.

    limit: how many symbols of a match that may still come to count are looked at; acting, the rule would have ended the
    output there. None where a step costs the same however many there are.
    """

    def __init__(self, scanners: Sequence[Scanner[Any]], limit: int | None = None) -> None:
        self.scanners, self.limit = tuple(scanners), limit
        self.searches = any(scanner.searches for scanner in self.scanners)
        self.memo = Memo([Lane(scanner) for scanner in self.scanners], sys.maxsize if limit is None else limit)


class Watch:
    """One text, of an output or of a channel of it, read by one plan.

    read: code points of the output. node: where the watch stands; None while it has states of its own, or was given up.
    """

    __slots__ = ("_begins", "_found", "_plan", "_states", "_time", "node", "read")

    def __init__(self, plan: WatchPlan, origin: int) -> None:
        """origin: where the text begins, in code points of the output; matches are told in them."""
        self._plan, self.read, self._found = plan, origin, Matches()
        self.node: Node | None = plan.memo.start()
        self._states: list[Any] | None = None
        self._begins: list[list[int]] = []
        if not plan.memo.remembers:
            self._open()
        self._time = SearchTime()

    def feed(self, text: str) -> list[Found]:
        """Read the next piece; returns the matches that are certain now."""
        try:
            if not self._plan.searches:
                return self._read_on(text)
            with self._time.spend(len(text)):
                return self._read_on(text)
        except SearchTimeoutError:
            return self._give_up(SHADOW_TIMEOUT)

    def _read_on(self, text: str) -> list[Found]:
        after = self.node[text] if self.node is not None else BLIND
        if after is not BLIND:
            self.node = after
            self.read += len(text)
            return []
        if not self._open():
            return []
        assert self._states is not None
        scanners, states, limit = self._plan.scanners, self._states, self._plan.limit
        for ch in text:
            place = self.read
            self.read = place + 1
            found: list[Found] = []
            for k, scanner in enumerate(scanners):
                state, symbols, hits = scanner.step(states[k], ch)
                states[k] = state
                begins = self._begins[k]
                read = len(begins)
                if limit is not None and read >= limit and scanner.longest(state) > limit:
                    return self._give_up(SHADOW_MAX_HOLD)
                if symbols:
                    begins.extend([place] * symbols)
                found += [_found(begins, read + end, length, rule, scanner.merges) for end, length, rule in hits]
            if found:
                self._report(found)
        for begins, scanner, state in zip(self._begins, scanners, states, strict=True):
            del begins[: len(begins) - scanner.longest(state)]
        told = self._found.take(self._live()) if self._found else []
        if not self._found:
            self._close()
        return told

    def finish(self, *, at_end: bool) -> list[Found]:
        """No more is read; returns the last matches. at_end: the output ends here, which is an edge."""
        try:
            if not self._open():
                return []
            assert self._states is not None
            if at_end:
                found: list[Found] = []
                with self._time.spend(0):
                    for begins, scanner, state in zip(self._begins, self._plan.scanners, self._states, strict=True):
                        hits = scanner.at_end(state)
                        found += [_found(begins, len(begins) + e, n, rule, scanner.merges) for e, n, rule in hits]
                self._report(found)
        except SearchTimeoutError:
            return self._give_up(SHADOW_TIMEOUT)
        self._states = None
        return self._found.take(set())

    def _open(self) -> bool:
        """Have states of one's own to go on with; False once the watch was given up."""
        node = self.node
        if node is not None:
            self.node = None
            self._states = list(node.states)
            self._begins = [node.places(k, self.read) for k in range(len(self._states))]
        return self._states is not None

    def _close(self) -> None:
        """Go on from a node, if the situation has one."""
        assert self._states is not None
        memo = self._plan.memo
        if not memo.remembers:
            return
        places = [[place - self.read for place in begins] for begins in self._begins]
        node = memo.at(tuple(self._states), places)
        if node is not BLIND:
            self.node, self._states = node, None

    def _give_up(self, why: str) -> list[Found]:
        counters[why] += 1
        self.node = self._states = None
        return self._found.take(set())

    def _report(self, found: Iterable[Found]) -> None:
        for match in sorted(set(found), key=rank):
            self._found.report(match)

    def _live(self) -> set[int]:
        """Where matches began that may grow."""
        assert self._states is not None
        return {
            begins[-length]
            for begins, scanner, state in zip(self._begins, self._plan.scanners, self._states, strict=True)
            if scanner.merges
            for length in scanner.live(state)
        }


def _found(begins: list[int], after: int, length: int, rule: int, grows: bool) -> Found:
    """A match whose last symbol is the one before `after`."""
    return Found(begins[after - length], begins[after - 1] + 1, rule, grows)
