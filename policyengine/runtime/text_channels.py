"""The text level of an output that reasons before it answers.

Each channel's text is a text of its own: it begins and ends with an edge, and the rules of that channel act on it.
The markers belong to none of them and pass as they are, once it is known that they are markers.

What a `block` rule holds leaves at the end of its channel; at the end of the output, if it acts in both. The marker
that begins reasoning is held with it, so that a message in its place is the answer.
"""

from __future__ import annotations

from typing import Literal

from policyengine.runtime.channels import Markers, Segment, Splitter
from policyengine.runtime.program import Program, Request
from policyengine.runtime.text_plan import plan_for
from policyengine.runtime.text_session import TextSession
from policyengine.runtime.text_verdicts import Verdict, joined, verdict_of


class ChannelTextSession(TextSession):
    """As `TextSession`, under a program that knows the markers of reasoning."""

    __slots__ = ("_acts", "_channel", "_plans", "_splitter")

    def __init__(
        self, program: Program, request: Request, target: str | None = None, *, reasoning: bool = False
    ) -> None:
        """As `TextSession`."""
        assert program.reasoning is not None
        markers = Markers(program.reasoning.start, program.reasoning.end)
        self._splitter = Splitter(markers, inside=reasoning)
        self._plans = {
            "answer": plan_for(program, request, target, "answer"),
            "reasoning": plan_for(program, request, target, "reasoning"),
        }
        self._acts = any(plan.acts for plan in self._plans.values())
        self._channel: Literal["answer", "reasoning"] = "reasoning" if reasoning else "answer"
        self._read = self.replaced = 0
        self._begin(self._plans[self._channel])

    @property
    def idle(self) -> bool:
        """As in `TextSession`."""
        return all(plan.idle for plan in self._plans.values())

    @property
    def acts(self) -> bool:
        """As in `TextSession`."""
        return self._acts

    @property
    def held(self) -> int:
        """Code points read that may not leave yet; what a `block` rule holds beyond them is not counted."""
        return super().held + len(self._splitter.held) if self._acts else 0

    def feed(self, text: str) -> Verdict:
        """Read the next piece of the output. Emit: `text` leaves now; suppress: nothing does."""
        if self._splitter.is_settled:
            return super().feed(text)
        self._must_be_text(text)
        verdict = self._pass(self._splitter.feed(text))
        # Where no rule acts, nothing waits to be told from a marker.
        return verdict if self._acts else verdict_of(text, (), verdict.shadowed)

    def finish(self) -> Verdict:
        """The output ended: what was held leaves, or the last matches decide."""
        rest = self._pass(self._splitter.finish())
        if rest.action == "terminate":
            return rest
        verdict = joined([rest, super().finish()])
        return verdict if self._acts else verdict_of("", (), verdict.shadowed)

    def _pass(self, segments: list[Segment]) -> Verdict:
        parts: list[Verdict] = []
        for channel, text in segments:
            parts.append(super().feed(text) if channel else self._turn(text))
            if parts[-1].action == "terminate":
                break
        return joined(parts)

    def _turn(self, marker: str) -> Verdict:
        """A channel ended with a marker."""
        if self._node is None and self._window is None:
            return joined([])  # the output has ended
        last = super().finish()
        if last.action == "terminate":
            return last
        kept = self._plan.holds_all
        self._channel = "reasoning" if self._channel == "answer" else "answer"
        self._read += len(marker)
        self._begin(self._plans[self._channel])
        if all(plan.silent for plan in self._plans.values()):
            marker = ""
        if kept:
            self._kept = [last.text, marker]
            return verdict_of("", last.matches, last.shadowed)
        if self._plan.holds and self._channel == "reasoning":
            self._kept = [marker]
            return last
        return verdict_of(last.text + marker, last.matches, last.shadowed)
