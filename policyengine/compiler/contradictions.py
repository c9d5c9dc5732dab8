"""What is provably contradictory before any request: rules that are certain to meet and cannot both hold.

Only certain cases are errors. Whether two policies meet that a request may or may not combine, and what a text becomes
in a vocabulary, is decided when it is known: by the session and by binding.
"""

from __future__ import annotations

from collections.abc import Iterator

from policyengine.compiler.shown import Hit, banned_in, contains, forced_texts
from policyengine.compiler.work import Source, Work
from policyengine.language.diagnostics import Label, diagnostic, quoted
from policyengine.language.policyset import Ban, Force, Rewrite, Span
from policyengine.runtime.forced_text import Place
from policyengine.runtime.forces import clash
from policyengine.runtime.program import ForcePlan, Request

_PHRASE_PLACES: tuple[Place, ...] = ("edge", "alone")
_NO_VALUES = Request(frozenset(), {})  # a force by parameter is then inactive, and clashes with nothing


def check_forces(work: Work) -> None:
    """Two forces that want different things at one position, whatever a request passes."""
    found = [(i, source.rule.body) for i, source in enumerate(work.sources) if isinstance(source.rule.body, Force)]
    plans = {i: plan for i, _ in found if isinstance(plan := work.rules[i].body, ForcePlan)}
    for count, (i, late) in enumerate(found):
        for j, early in found[:count]:
            second, first = work.sources[i], work.sources[j]
            if (
                work.together(first, second)
                and _same_start(work, first, second)
                and clash(plans[i], plans[j], _NO_VALUES)
            ):
                work.diagnostics.append(
                    diagnostic(
                        "conflicting-forces",
                        f"`{work.name(second)}` and `{work.name(first)}` force different tokens at one position",
                        late.span or second.rule.body_span,
                        label=_what(late),
                        labels=[Label(early.span or first.rule.body_span, _what(early))],
                        hint="one position can hold one token: remove one of the rules, or give them other positions",
                    )
                )


def _same_start(work: Work, a: Source, b: Source) -> bool:
    """Whether positions of the two rules are counted from the same place."""
    return work.given.project.reasoning is None or a.rule.channel == b.rule.channel


def check_forced_tokens(work: Work) -> None:
    """A forced token id that a ban lists."""
    for _, source, body in _forces(work):
        if not isinstance(body.token_id, int):
            continue
        for other in work.sources:
            ban = other.rule.body
            if isinstance(ban, Ban) and body.token_id in ban.token_ids and work.together(source, other):
                _report(
                    work,
                    f"`{work.name(source)}` forces token {body.token_id}, which `{work.name(other)}` bans",
                    body.span or source.rule.body_span,
                    other.rule.body_span,
                    "the ban wins over everything, and nothing could be generated: force another token, or take it "
                    "off the ban",
                )


def check_forced_texts(work: Work) -> None:
    """A forced text that holds a phrase which is masked, or which ends the answer, whenever it is written."""
    for index, source, body in _forces(work):
        place: Place = "start" if body.at in ("start", 0) else "end" if body.at == "end" else "middle"
        for text in forced_texts(work, source):
            for hit in _kept_from(work, index, text, place):
                _report(
                    work,
                    f"`{work.name(source)}` forces {quoted(text)}, which {contains(work, hit)}",
                    body.span or source.rule.body_span,
                    hit.phrase.span,
                    "the ban wins over everything, so that the text could never be written: force another text, or "
                    "ban less",
                )


def check_followed_phrases(work: Work) -> None:
    """A force that follows a phrase which is itself masked, or which ends the answer: it would never act."""
    for index, source, body in _forces(work):
        if body.after is None:
            continue
        for hit in _kept_from(work, index, body.after.text, "edge"):
            _report(
                work,
                f"`{work.name(source)}` follows {quoted(body.after.text)}, which {contains(work, hit)}",
                body.after.span,
                hit.phrase.span,
                "the phrase is never written, so that nothing could follow it: name another one, or ban less",
            )


def check_followed_texts(work: Work) -> None:
    """A phrase and the text forced behind it that hold, across the joint, what is masked or ends the answer."""
    for index, source, body in _forces(work):
        if body.after is None:
            continue
        phrase = body.after.text
        # With the word at its end taken as whole: a longer word that begins with the phrase is followed as well.
        in_phrase = {hit.rule for place in _PHRASE_PLACES for hit in banned_in(work, index, phrase, place)}
        for text in forced_texts(work, source):
            reported = in_phrase.union(hit.rule for hit in banned_in(work, index, text, "middle"))
            for hit in _kept_from(work, index, phrase + text, "edge"):
                if hit.rule not in reported:
                    _report(
                        work,
                        f"`{work.name(source)}` forces {quoted(text)} after {quoted(phrase)}: "
                        f"{quoted(phrase + text)} {contains(work, hit)}",
                        body.span or source.rule.body_span,
                        hit.phrase.span,
                        "the ban wins over everything, so that the text could never be written there: force another "
                        "text, follow another phrase, or ban less",
                    )


def _forces(work: Work) -> Iterator[tuple[int, Source, Force]]:
    """The rules that force something, with their rank."""
    for index, source in enumerate(work.sources):
        if isinstance(source.rule.body, Force):
            yield index, source, source.rule.body


def _kept_from(work: Work, index: int, text: str, place: Place) -> Iterator[Hit]:
    """What keeps a text from being written, or ends the answer there. A redaction does neither."""
    return (hit for hit in banned_in(work, index, text, place) if _kind(work.sources[hit.rule]) != "redact")


def _report(work: Work, message: str, span: Span, banned: Span, hint: str) -> None:
    labels = [Label(banned, "banned here")]
    work.diagnostics.append(diagnostic("forced-contains-banned", message, span, labels=labels, hint=hint))


def check_shown_texts(work: Work) -> None:
    """A replacement or closing message that would itself show a banned phrase to the client."""
    for index, source in enumerate(work.sources):
        body = source.rule.body
        if not isinstance(body, Ban) or body.token_ids or not body.fallback.text:
            continue
        shown, kind = body.fallback.text, body.fallback.kind
        for hit in banned_in(work, index, shown, "alone"):
            what = "replacement" if kind == "redact" else "message"
            place = source.rule.action_span if body.action.kind != "avoid" else None
            work.diagnostics.append(
                diagnostic(
                    "message-contains-banned",
                    f"the {what} {quoted(shown)} of `{work.name(source)}` {contains(work, hit)}",
                    place or source.rule.body_span,
                    labels=[Label(hit.phrase.span, "banned here")],
                    hint=f"choose another {what}: it is shown to the client",
                )
            )


def check_rewrites(work: Work) -> None:
    """Everything in capitals and everything in small letters at once."""
    found = [(source, source.rule.body) for source in work.sources if isinstance(source.rule.body, Rewrite)]
    for i, (second, late) in enumerate(found):
        for first, early in found[:i]:
            if {early.to, late.to} == {"upper", "lower"} and work.together(first, second):
                work.diagnostics.append(
                    diagnostic(
                        "conflicting-rewrites",
                        f"`{work.name(second)}` rewrites to {late.to} and `{work.name(first)}` to {early.to}",
                        second.rule.body_span,
                        labels=[Label(first.rule.body_span, "the other rewrite")],
                        hint="text can leave in one case only: remove one of the rules",
                    )
                )


def _kind(source: Source) -> str:
    """What the text level does for a ban; "avoid" where tokens are masked."""
    body = source.rule.body
    return body.action.kind if isinstance(body, Ban) else ""


def _what(force: Force) -> str:
    value = f"token {force.token_id}" if force.text is None else f"text {quoted(str(force.text))}"
    if force.after is not None:
        return f"{value} after {quoted(force.after.text)}"
    named = {"start": "at the start", "end": "at the end", "every": "at every position"}
    return f"{value} {named.get(str(force.at), f'at position {force.at}')}"
