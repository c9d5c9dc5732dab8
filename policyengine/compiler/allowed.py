"""What `allow` rules and bans leave of an output, where it is certain: nothing, or not what another rule forces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from policyengine.automata.unicode_properties import script
from policyengine.compiler.shown import banned_in, forced_texts
from policyengine.compiler.work import Source, Work
from policyengine.language.diagnostics import Label, diagnostic, quoted
from policyengine.language.policyset import Allow, Ban, Force, Phrase

_EVERY_SCRIPT = frozenset({"Common", "Inherited"})
_MOST_SHOWN = 4  # reasons that one finding shows


def check_allowed(work: Work) -> None:
    """An `allow` of which bans and the `allow`s before it leave nothing."""
    for index, source in enumerate(work.sources):
        body = source.rule.body
        if not isinstance(body, Allow) or body.scripts:
            continue
        for others in _meetings(work, index):
            reasons = _without_choices(work, index, others) if body.choices else _without_ids(work, index, others)
            if reasons is None:
                continue
            what = "choices" if body.choices else "token ids"
            work.diagnostics.append(
                diagnostic(
                    "nothing-allowed",
                    f"nothing is left of the {what} that `{work.name(source)}` allows",
                    source.rule.body_span,
                    labels=list(dict.fromkeys(reasons))[:_MOST_SHOWN],
                    hint="bans win, and what several rules allow must be allowed by each: ban less, or allow more",
                )
            )
            break


def check_forced_allowed(work: Work) -> None:
    """What is forced and an `allow`, certain to act with it, leaves out."""
    for source in work.sources:
        body = source.rule.body
        if not isinstance(body, Force):
            continue
        for other in work.sources:
            allow = other.rule.body
            if not isinstance(allow, Allow) or not work.together(source, other):
                continue
            same = source.rule.channel == other.rule.channel or work.given.project.reasoning is None
            what = _not_allowed(work, source, body, allow, whole=same)
            if what is not None:
                work.diagnostics.append(
                    diagnostic(
                        "forced-not-allowed",
                        f"`{work.name(source)}` forces {what}, which `{work.name(other)}` does not allow",
                        body.span or source.rule.body_span,
                        labels=[Label(other.rule.body_span, "not allowed here")],
                        hint="all else is masked, so that it could never be written: allow it, or force something else",
                    )
                )


def _meetings(work: Work, index: int) -> Iterator[list[int]]:
    """Ranks of rules that certainly act wherever the rule `index` does, on one of its targets.

    First those that always do; then, for a rule that is always active, with each policy that a request may select.
    """
    source = work.sources[index]
    for target in work.plans[source.policy].targets:
        there = [i for i in range(len(work.sources)) if i != index and _covers(work, work.sources[i], source, target)]
        always = [i for i in there if work.plans[work.sources[i].policy].activation == "always"]
        own = [i for i in there if work.sources[i].policy == source.policy and i not in always]
        base = sorted(always + own)
        yield base
        selectable = {work.sources[i].policy for i in there} - {work.sources[i].policy for i in base}
        if work.plans[source.policy].activation == "always":
            for policy in sorted(selectable):
                yield sorted(base + [i for i in there if work.sources[i].policy == policy])


def _covers(work: Work, other: Source, source: Source, target: str) -> bool:
    """Whether `other`, if its policy is active, acts on everything that `source` is about."""
    if "shadow" in (other.rule.mode, source.rule.mode):
        return False
    same_part = work.given.project.reasoning is None or other.rule.channel in ("all", source.rule.channel)
    same_engine = other.rule.when in (type(other.rule.when)(), source.rule.when)
    return target in work.plans[other.policy].targets and same_part and same_engine


def _without_choices(work: Work, index: int, others: Iterable[int]) -> list[Label] | None:
    """Why each choice is left out; None where one is left."""
    body = work.sources[index].rule.body
    assert isinstance(body, Allow)
    active = set(others)
    reasons = []
    for choice in body.choices:
        reason = _banned(work, index, choice, active) or _elsewhere(work, index, choice, active)
        if reason is None:
            return None
        reasons.append(reason)
    return reasons


def _banned(work: Work, index: int, choice: Phrase, active: set[int]) -> Label | None:
    for hit in banned_in(work, index, choice.text, "alone"):
        ban = work.sources[hit.rule].rule.body
        if hit.rule in active and isinstance(ban, Ban) and ban.action.kind != "redact":
            return Label(hit.phrase.span, f"{quoted(choice.text)} is banned here")
    return None


def _elsewhere(work: Work, index: int, choice: Phrase, active: set[int]) -> Label | None:
    """The first of the `allow`s before this one that leaves the choice out."""
    for i in sorted(active):
        body = work.sources[i].rule.body
        if not isinstance(body, Allow):
            continue
        other = i < index and body.choices and choice.text not in {one.text for one in body.choices}
        if other or (body.scripts and _foreign(choice.text, body)):
            return Label(work.sources[i].rule.body_span, f"{quoted(choice.text)} is not allowed here")
    return None


def _without_ids(work: Work, index: int, others: Iterable[int]) -> list[Label] | None:
    """Why each token id is left out; None where one is left."""
    body = work.sources[index].rule.body
    assert isinstance(body, Allow)
    left, reasons = set(body.token_ids), []
    for i in sorted(others):
        rule = work.sources[i].rule
        if isinstance(rule.body, Ban) and left & set(rule.body.token_ids):
            left -= set(rule.body.token_ids)
            reasons.append(Label(rule.body_span, "banned here"))
        elif i < index and isinstance(rule.body, Allow) and rule.body.token_ids and left - set(rule.body.token_ids):
            left &= set(rule.body.token_ids)
            reasons.append(Label(rule.body_span, "not allowed here"))
    return None if left else reasons


def _not_allowed(work: Work, source: Source, force: Force, allow: Allow, *, whole: bool) -> str | None:
    """What of a force is not allowed, in words. whole: both are about the same part of the output."""
    if allow.token_ids and isinstance(force.token_id, int) and force.token_id not in allow.token_ids:
        return f"token {force.token_id}"
    for text in forced_texts(work, source):
        foreign = _foreign(text, allow) if allow.scripts else None
        if foreign:
            return f"{quoted(text)}, and in it {quoted(foreign)}"
        if allow.choices and not any(_fits(text, choice.text, force, whole) for choice in allow.choices):
            return quoted(text)
    return None


def _fits(text: str, choice: str, force: Force, whole: bool) -> bool:
    if whole and force.at in ("start", 0):
        return choice.startswith(text)
    return choice.endswith(text) if whole and force.at == "end" else text in choice


def _foreign(text: str, allow: Allow) -> str | None:
    """The first character of a script that is not allowed."""
    names = _EVERY_SCRIPT | {one.text for one in allow.scripts}
    return next((ch for ch in text if script(ord(ch)) not in names), None)
