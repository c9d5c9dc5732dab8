"""The text level explained character by character: what a session did, and which matches under way led to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from policyengine.review.explain_reading import Attempt, Occurrence, Outcome, read
from policyengine.review.explain_rules import Known, Rules
from policyengine.runtime.channels import Markers, Splitter
from policyengine.runtime.program import Component, Program, Request, RewritePlan
from policyengine.runtime.text_session import Match, TextSession

Verdict = Literal["pass", "rewrite", "redact", "terminate", "block"]


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of an output. channel: "all" where the policies know no channels; None: a marker, no text."""

    channel: Literal["all", "answer", "reasoning"] | None
    start: int
    text: str

    @property
    def end(self) -> int:
        """The code point behind it."""
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class Decision:
    """A match that decided something. at: how many code points were read when it did; one more: at the end.

    rule: with the phrase, where a match of the text as it was read says which; else the match is one that only a
    redaction brought about.
    """

    rule: Known
    action: str
    match: Match
    at: int


@dataclass(frozen=True, slots=True)
class Partial:
    """Something that began to match. rules: what it could have become, at most `MOST_NAMED` of `count`.

    start, end: the code points read while it was under way. outcome: why it is over.
    """

    rules: tuple[Known, ...]
    count: int
    start: int
    end: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Step:
    """What one character did. at: from 1; `char` is empty for the end of the output.

    sent: what left because of it. held: how many code points may not leave yet. shadowed: what rules in shadow would
    have decided.
    """

    at: int
    char: str
    sent: str
    held: int
    decisions: tuple[Decision, ...]
    shadowed: tuple[Decision, ...] = ()


@dataclass(frozen=True, slots=True)
class TextExplained:
    """What became of a text, and why. read: how many code points a session read before the output ended."""

    text: str
    verdict: Verdict
    reason: str | None
    output: str
    read: int
    ended: bool
    steps: tuple[Step, ...]
    decisions: tuple[Decision, ...]
    shadowed: tuple[Decision, ...]
    partials: tuple[Partial, ...]
    rewrites: tuple[Known, ...]
    segments: tuple[Segment, ...]


MOST_NAMED = 3


def segments(program: Program, text: str) -> tuple[Segment, ...]:
    """The channels of an output."""
    if program.reasoning is None:
        return (Segment("all", 0, text),)
    splitter = Splitter(Markers(program.reasoning.start, program.reasoning.end))
    found: list[Segment] = []
    at = 0
    for channel, part in [*splitter.feed(text), *splitter.finish()]:
        last = found[-1] if found else None
        if last is not None and last.channel is not None and last.channel == channel:
            found[-1] = Segment(channel, last.start, last.text + part)
        else:
            found.append(Segment(channel, at, part))
        at += len(part)
    return tuple(found)


def acts_in(component: Component, segment: Segment) -> bool:
    """Whether a component reads the text of a channel."""
    return segment.channel is not None and (segment.channel == "all" or component.channel in ("all", segment.channel))


def searches(component: Component) -> bool:
    """Whether the text level runs a component, if its policy is active."""
    return component.use in ("avoid", "text") and component.when.always


def explain_text(rules: Rules, request: Request, text: str) -> TextExplained:
    """Run a text through a session, a character at a time. Raises SearchTimeoutError where the session would not."""
    program = rules.program
    parts = segments(program, text)
    found: dict[tuple[str, int], list[tuple[Known, Occurrence]]] = {}
    partials: list[Partial] = []
    for component in program.components:
        if not searches(component) or request.policies.isdisjoint(component.policies):
            continue
        named = rules.patterns(component)
        for part in (one for one in parts if acts_in(component, one)):
            reading = read(component, part.text)
            for one in reading.occurrences:
                found.setdefault((named[one.pattern].name, part.start + one.start), []).append(
                    (named[one.pattern], one._replace(start=part.start + one.start, end=part.start + one.end))
                )
            partials += [_partial(one, named, part.start) for one in reading.attempts]
    session = TextSession(program, request)
    steps: list[Step] = []
    sent: list[str] = []
    ended, reason = False, None
    for at in range(1, len(text) + 2):
        char = text[at - 1 : at]
        told = session.feed(char) if char else session.finish()
        decisions = tuple(_decision(rules, match, at, found) for match in told.matches)
        sent.append(told.text)
        ended, reason = told.action == "terminate", told.reason
        watched = tuple(_decision(rules, match, at, found) for match in told.shadowed)
        steps.append(Step(at, char, told.text, 0 if ended else session.held, decisions, watched))
        if ended:
            break
    decided = tuple(decision for step in steps for decision in step.decisions)
    shadowed = tuple(decision for step in steps for decision in step.shadowed)
    rewrites = tuple(_rewrites(rules, request))
    count = min(steps[-1].at, len(text))
    verdict: Verdict = "rewrite" if rewrites else "pass"
    if ended:
        verdict = "block" if decided and decided[-1].action == "block" and reason != "max_hold" else "terminate"
    elif decided:
        verdict = "redact"
    kept = tuple(sorted((p for p in partials if p.start < count), key=lambda p: (p.start, p.end)))
    return TextExplained(
        text, verdict, reason, "".join(sent), count, ended, tuple(steps), decided, shadowed, kept, rewrites, parts
    )


def _partial(attempt: Attempt, named: list[Known], start: int) -> Partial:
    patterns = attempt.patterns
    rules = tuple(named[pattern] for pattern in patterns[:MOST_NAMED])
    if not patterns and len({one.name for one in named}) == 1:
        only = named[0]
        rules = (Known(only.rank, only.name, only.file, only.line, only.column),)
    return Partial(rules, len(patterns), start + attempt.start, start + attempt.end, attempt.outcome)


def _decision(
    rules: Rules, match: Match, at: int, found: Mapping[tuple[str, int], list[tuple[Known, Occurrence]]]
) -> Decision:
    name = f"{match.policy}/{match.rule}"
    rank = rules.ranks[name]
    same = [(one.end, known) for known, one in found.get((name, match.start), ()) if one.end <= match.end]
    exact = [known for end, known in same if end == match.end]
    known = exact[0] if exact else rules.known(rank)
    return Decision(known, rules.action(rank), match, at)


def _rewrites(rules: Rules, request: Request) -> list[Known]:
    """The rules that rewrite all that leaves."""
    plans = enumerate(rules.program.rules)
    return [
        rules.known(rank)
        for rank, plan in plans
        if isinstance(plan.body, RewritePlan)
        and plan.when.always
        and not rules.is_shadow(rank)
        and rules.is_active(rank, request)
    ]


__all__ = [
    "MOST_NAMED",
    "Decision",
    "Partial",
    "Segment",
    "Step",
    "TextExplained",
    "acts_in",
    "explain_text",
    "searches",
    "segments",
]
