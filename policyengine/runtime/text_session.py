"""The text level of one output: text in as it comes, what the client may see out.

Any way of cutting the text into chunks gives the same text, the same reason and the same matches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Self

from policyengine.runtime.program import Program, Request
from policyengine.runtime.search_time import SearchTime, SearchTimeoutError
from policyengine.runtime.text_found import Found
from policyengine.runtime.text_memo import BLIND, Node
from policyengine.runtime.text_pieces import Stop
from policyengine.runtime.text_plan import BLOCKED, TextPlan, plan_for
from policyengine.runtime.text_verdicts import EMITTED, SILENCE, Match, Verdict, joined, verdict_of
from policyengine.runtime.text_watch import Watch
from policyengine.runtime.text_window import Window

_SLICE = 512  # code points read in one go
_FAR = 512  # code points read since the base beyond which the base moves
# The reasons of outputs that ended because too much had to be held, or an expression took too long.
OVER_MAX_HOLD, OVER_TIME = "max_hold", "regex_timeout"

counters: Counter[str] = Counter()  # of this process: how many outputs ended for each of these reasons


_TIMED_OUT = Verdict("terminate", "", OVER_TIME, ())


class TextSession:
    """One output sequence. Not safe to share between threads.

    Attributes:
        replaced: where the last text ends that a redaction replaced, in code points of the original text; 0: none.
        What was fed from there on leaves, if it leaves, as it was read (but for a rewrite).
    """

    __slots__ = (
        "_base",
        "_changes",
        "_kept",
        "_node",
        "_plan",
        "_read",
        "_since",
        "_special",
        "_stopped",
        "_time",
        "_watches",
        "_window",
        "replaced",
    )

    def __new__(cls, program: Program, *_: object, **__: object) -> Self:
        """The session of a program that tells reasoning from answers is one of each."""
        if cls is TextSession and program.reasoning is not None:
            from policyengine.runtime.text_channels import ChannelTextSession

            cls = ChannelTextSession  # type: ignore[assignment]
        return object.__new__(cls)

    def __init__(
        self, program: Program, request: Request, target: str | None = None, *, reasoning: bool = False
    ) -> None:
        """Start an output under the policies of `request`.

        target: only those for that engine; None: all of them. reasoning: the prompt has begun the reasoning.
        """
        self._read = 0  # code points
        self.replaced = 0
        self._begin(plan_for(program, request, target))

    def _begin(self, plan: TextPlan) -> None:
        """Begin a text: that of the output, or of a channel of it."""
        self._plan = plan
        # Either a node, if the situation is a plain one, or a window; neither once the output has ended.
        self._node: Node | None = plan.memo.start() if plan.memo.remembers else None
        self._window: Window | None = None if self._node is not None else Window(plan)
        # At a node that holds something: the states somewhere before that, and what was read since.
        self._base: tuple[Any, ...] = ()
        self._since = ""
        self._time = SearchTime() if plan.searches else None
        self._kept: list[str] | None = [] if plan.holds else None  # what is held for `block`
        self._changes = plan.holds or plan.silent or plan.rewrite is not None
        self._stopped = 0  # where a match ended the output, in code points read
        self._watches = tuple(Watch(one, self._read) for one in plan.watched)
        self._special = bool(self._changes or self._watches or plan.searches)

    @property
    def idle(self) -> bool:
        """Whether no rule is active, in shadow or not: all text passes as it is, and there is nothing to tell of it."""
        return self._plan.idle

    @property
    def acts(self) -> bool:
        """Whether any rule is active that is not in shadow; if none is, all text passes as it is."""
        return self._plan.acts

    @property
    def held(self) -> int:
        """Code points read that may not leave yet; what a `block` rule holds beyond them is not counted."""
        if self._node is not None:
            return self._node.hold
        return self._window.held if self._window is not None else 0

    def feed(self, text: str) -> Verdict:
        """Read the next piece of the output. Emit: `text` leaves now; suppress: nothing does.

        Raises TypeError for what is no text, and the output has ended.
        """
        node = self._node
        if node is None or self._special:
            return self._watch(text) if self._watches else self._act(text)
        # Most chunks: what `_act` would do, with fewer calls.
        try:
            after = node[text]
        except Exception:
            self._node = None  # text was lost, so the output has ended
            raise
        if after is BLIND:
            return self._read_on(text)
        if node.hold or after.hold:
            return self._go(node, after, text)
        self._node = after
        self._read += len(text)
        return EMITTED[text]

    def _act(self, text: str) -> Verdict:
        """`feed` for the rules that act."""
        node = self._node
        if node is None:
            return self._read_on(text)
        try:
            after = node[text] if self._time is None else self._known(node, text)
        except Exception:
            self._node = None  # text was lost, so the output has ended
            raise
        if after is BLIND:
            return self._read_on(text)
        return self._go(node, after, text)

    @staticmethod
    def _known(node: Node, text: str) -> Node:
        """Where a text leads, if nothing has to be read for it, which would take time that must be counted."""
        after = node.get(text, BLIND)
        return BLIND if node.hold or after.hold else after

    def _go(self, node: Node, after: Node, text: str) -> Verdict:
        """Go on to a node, and release what it does not hold."""
        self._node = after
        self._read += len(text)
        hold = after.hold
        if node.hold:
            before, since = self._since, self._since + text
            out = since[len(before) - node.hold : len(since) - hold]
            if len(since) > _FAR:
                self._base = self._plan.memo.follow(self._base, since[: len(since) - hold])
                since = since[len(since) - hold :]
            self._since = since
        elif hold:
            self._base, self._since = node.states, text
            out = text[:-hold]
        else:
            out = text
        if self._changes:
            return self._leave(out)
        return EMITTED[out]

    def _leave(self, out: str) -> Verdict:
        """What leaves, where not all of it leaves at once and as it was read."""
        if self._plan.rewrite is not None:
            out = "".join(map(self._plan.rewrite, out))
        if self._kept is None:
            return self._verdict(out, ())
        self._kept.append(out)
        return SILENCE

    def _watch(self, text: str) -> Verdict:
        """`feed`, where rules in shadow read too: as far as the others do."""
        begin = self._read
        verdict = self._act(text)
        if verdict.action != "terminate":
            found: list[Found] = []
            for watch in self._watches:
                node = watch.node
                after = node.get(text) if node is not None else None
                if after is not None and after is not BLIND:  # as `feed` would, without the call
                    watch.node = after
                    watch.read += len(text)
                else:
                    found += watch.feed(text)
            return self._with(verdict, found) if found else verdict
        text = text[: max(0, self._stopped - begin)] if self._stopped else text
        return self._with(verdict, self._last_of_watches(text, at_end=False))

    def _last_of_watches(self, text: str, *, at_end: bool) -> list[Found]:
        watches, self._watches = self._watches, ()
        return [match for watch in watches for match in (*watch.feed(text), *watch.finish(at_end=at_end))]

    def _with(self, verdict: Verdict, found: Sequence[Found]) -> Verdict:
        """A verdict that tells what rules in shadow matched."""
        names = self._plan.names
        return verdict._replace(shadowed=tuple(Match(*names[m.rule], m.start, m.end) for m in found))

    def _read_on(self, text: str) -> Verdict:
        """`feed` where more is to be done than to go on to a known node."""
        if self._node is None and self._window is None:
            return SILENCE  # the output has ended
        self._must_be_text(text)
        if len(text) > _SLICE:
            return self._by_slices(text)
        node, window = self._node, self._window
        self._node = self._window = None  # should anything below fail, the output has ended
        try:
            if self._time is None:
                return self._advance(node, window, text)
            with self._time.spend(len(text)):
                return self._advance(node, window, text)
        except SearchTimeoutError:
            counters[OVER_TIME] += 1
            return _TIMED_OUT

    def _must_be_text(self, text: object) -> None:
        """Raise TypeError for what cannot be looked through, and end the output: nothing may leave unread."""
        if not isinstance(text, str):
            self._node = self._window = None
            raise TypeError(f"text must be str, not {type(text).__name__}")

    def _by_slices(self, text: str) -> Verdict:
        parts = []
        for at in range(0, len(text), _SLICE):
            parts.append(self._act(text[at : at + _SLICE]))
            if parts[-1].action == "terminate":
                break
        return joined(parts)

    def _advance(self, node: Node | None, window: Window | None, text: str) -> Verdict:
        if node is not None:
            after = node[text]
            if after is not BLIND:
                return self._go(node, after, text)
            window = self._open(node)
        assert window is not None
        origin = self._read - window.position
        stop = window.feed(text)
        self._read += len(text)
        if stop is not None:
            self._stopped = origin + window.position
            return self._terminate(window, origin, stop)
        window.release()
        out = "".join(window.out)
        window.out.clear()
        matches = self._matches(window, origin, ended=False)
        self._close(window, text)
        if self._kept is None:
            return self._verdict(out, matches)
        self._kept.append(out)
        return Verdict("suppress", "", None, matches) if matches else SILENCE

    def _open(self, node: Node) -> Window:
        """A window to go on from a node."""
        window = Window(self._plan)
        if not node.hold:
            window.begin(node.states)
            return window
        released, held = self._since[: -node.hold], self._since[-node.hold :]
        window.begin(self._plan.memo.follow(self._base, released))
        stop = window.feed(held)
        assert stop is None
        return window

    def _close(self, window: Window, text: str) -> None:
        """Go on from a node, if there is one for the window. text: what the window read last."""
        held = len(window.stack)
        node = self._plan.memo.node_of(window) if held <= len(text) else None
        if node is None:
            self._window = window
            return
        self._node = node
        if held:
            self._base, self._since = window.base.states, text[-held:]

    def finish(self) -> Verdict:
        """The output ended: what was held leaves, or the last matches decide."""
        verdict = self._finish()
        if not self._watches:
            return verdict
        return self._with(verdict, self._last_of_watches("", at_end=True))

    def _finish(self) -> Verdict:
        window = self._open(self._node) if self._node is not None else self._window
        if window is None:
            return SILENCE
        self._node = self._window = None
        try:
            if self._time is None:
                return self._end(window)
            with self._time.spend(0):
                return self._end(window)
        except SearchTimeoutError:
            counters[OVER_TIME] += 1
            return _TIMED_OUT

    def _end(self, window: Window) -> Verdict:
        origin = self._read - window.position
        stop = window.finish()
        if stop is not None:
            return self._terminate(window, origin, stop)
        matches = self._matches(window, origin, ended=True)
        return self._verdict("".join((*(self._kept or ()), window.flush())), matches)

    def _verdict(self, text: str, matches: tuple[Match, ...]) -> Verdict:
        return verdict_of("" if self._plan.silent else text, matches)

    def _terminate(self, window: Window, origin: int, stop: Stop) -> Verdict:
        plan = self._plan
        text, reason = "".join(self._kept or ()), OVER_MAX_HOLD
        if stop.rule is None:
            counters[OVER_MAX_HOLD] += 1
            text += "".join(window.out)
        else:
            action = plan.action(stop.rule)
            reason = plan.names[stop.rule][1] if action.reason is None else action.reason
            if action.kind == "block":
                text = Window(plan).close(0, BLOCKED if action.text is None else action.text)
            else:
                text += window.close(stop.keep, action.text or "")
        return Verdict("terminate", "" if plan.silent else text, reason, self._matches(window, origin, ended=True))

    def _matches(self, window: Window, origin: int, *, ended: bool) -> tuple[Match, ...]:
        """Take what was decided since the last time, in order. `origin`: the window's place in the output."""
        if window.replaced:
            self.replaced = origin + window.replaced
        if not window.found:
            return ()
        names = self._plan.names
        return tuple(Match(*names[m.rule], m.start + origin, m.end + origin) for m in window.take(ended=ended))


__all__ = ["OVER_MAX_HOLD", "OVER_TIME", "Match", "TextSession", "Verdict", "counters"]
