"""Why no other rule decided: matches that came too late or were not asked for, and phrases that nearly matched.

A near miss is found, not guessed: the rule is compiled again with one option changed (or its exceptions left out) and
searched with. Where no single change does it, several are tried, and those that are not needed are taken back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from policyengine.automata.folding import Folding, FoldSpec
from policyengine.automata.gap_phrases import is_gap
from policyengine.automata.phrases import Pattern, PhraseAutomaton
from policyengine.language.policyset import Ban, Phrase, Rule
from policyengine.review.explain_reading import occurrences, read
from policyengine.review.explain_rules import Known, Rules
from policyengine.review.explain_text import Segment, TextExplained, acts_in, searches
from policyengine.runtime.program import Component, Program, Request

# late: another rule had ended the output. inactive: the rule's policy, or the rule, did not act on this text.
# except: an exception stands around it. option: it would match with other options.
Why = Literal["late", "inactive", "except", "option"]


@dataclass(frozen=True, slots=True)
class Miss:
    """A match that did not decide, or what would be one. start, end: code points of the text.

    changes: what would make it match, as an author writes it. because: the same in words.
    by: the exception around it, or the rule that ended the output.
    """

    rule: Known
    why: Why
    start: int
    end: int
    because: str
    changes: tuple[str, ...] = ()
    by: Known | None = None


_STEPS = ("nfkc", "invisible", "marks", "confusables")
# Everything at once, to find candidates: text and phrases without what may stand in gaps.
_BARE = FoldSpec(casefold=True, nfkc=True, invisible=True, marks=True, collapse=False, confusables=True)


def misses(rules: Rules, request: Request, told: TextExplained) -> tuple[Miss, ...]:
    """Everything that did not decide and might have been expected to, by place."""
    found = [*_unheard(rules, request, told)]
    for rank, plan in enumerate(rules.program.rules):
        body = rules.said(rank).body
        if isinstance(body, Ban) and plan.when.always and rules.is_active(rank, request):
            found += _near(rules, rank, body, told)
    return tuple(sorted(set(found), key=lambda miss: (miss.start, miss.end, miss.rule.rank, miss.changes)))


# -- matches that did not decide ---------------------------------------------------------------------------------------


def _unheard(rules: Rules, request: Request, told: TextExplained) -> Iterator[Miss]:
    """Matches of rules as they are that decided nothing."""
    covered = [(one.rule.rank, one.match.start, one.match.end) for one in (*told.decisions, *told.shadowed)]
    last = told.decisions[-1].rule if told.ended and told.decisions else None
    for component in rules.program.components:
        if component.use not in ("avoid", "text"):
            continue
        named = rules.patterns(component)
        for part in told.segments:
            if part.channel is None:
                continue
            reason = _idle(rules, component, named, request, part)
            if reason is None and not told.ended:
                continue
            for one in read(component, part.text).occurrences:
                known, start, end = named[one.pattern], part.start + one.start, part.start + one.end
                if reason is not None:
                    yield Miss(known, "inactive", start, end, reason)
                elif not any(known.rank == r and s <= start and end <= e for r, s, e in covered):
                    yield Miss(known, "late", start, end, _ended_by(last, told), by=last)


def _ended_by(last: Known | None, told: TextExplained) -> str:
    who = "the output had ended" if last is None else f"`{last.name}` ended the output"
    return f"{who} {f'at character {told.read}' if told.read < len(told.text) else 'first'}"


def _idle(rules: Rules, component: Component, named: Sequence[Known], request: Request, part: Segment) -> str | None:
    """Why a component does not read a part of this output; None: it does."""
    if request.policies.isdisjoint(component.policies):
        policy = rules.policy(named[0].rank)
        if policy.activation == "on_request":
            return f"policy `{policy.name}` is on_request, and this request does not ask for it"
        return f"policy `{policy.name}` is {policy.activation}, and not for this request"
    if not searches(component):
        return "the rule asks for an engine (`when`), which is not known here"
    if not acts_in(component, part):
        return f"`channel: {component.channel}`: this is the {part.channel}"
    return None


# -- near misses -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Change:
    """One option set to another value. said: as an author writes it; because: what keeps the rule from matching."""

    option: str
    value: object
    said: str
    because: str

    def on(self, body: Ban) -> Ban:
        if self.option == "regex":
            sources = (replace(one, text=f"(?i){one.text}") for one in body.expressions)
            return replace(body, expressions=tuple(sources))
        if self.option == "except":
            return replace(body, exceptions=())
        if self.option == "normalize":
            steps = body.options.normalize | {str(self.value)}
            return replace(body, options=replace(body.options, normalize=steps))
        value: dict[str, Any] = {self.option: self.value}
        return replace(body, options=replace(body.options, **value))


def _changes(body: Ban) -> Iterator[_Change]:
    """Single changes that make a ban catch more, the smallest first."""
    options = body.options
    if body.exceptions:
        yield _Change("except", None, "no `except`", "an exception phrase stands around it")
    if body.expressions:
        yield _Change("regex", None, "`(?i)`", "an expression is case-sensitive without `(?i)`")
    if not body.phrases:
        return
    if options.case == "sensitive":
        yield _Change("case", "insensitive", "`case: insensitive`", "`case: sensitive` compares capitals too")
    for step in _STEPS:
        if step not in options.normalize:
            yield _Change("normalize", step, f"`{step}`", f"`normalize` leaves out `{step}`")
    kinds = ("literal", "spaces", "punctuation", "letters")
    wider = [
        _Change("gaps", gaps, f"`gaps: {gaps}`", f"`gaps: {options.gaps}` allows less between the parts")
        for gaps in kinds[kinds.index(options.gaps) + 1 :]
    ]
    yield from wider[:-1]
    if options.match == "word":
        yield _Change("match", "prefix", "`match: prefix`", "`match: word` needs an edge behind it")
    if options.match != "substring":
        where = "edges around it" if options.match == "word" else "an edge in front of it"
        yield _Change("match", "substring", "`match: substring`", f"`match: {options.match}` needs {where}")
    yield from wider[-1:]


def _near(rules: Rules, rank: int, body: Ban, told: TextExplained) -> Iterator[Miss]:
    """What a ban would match with other options."""
    parts = [part for part in told.segments if _reads(rules, rank, part)]
    chosen = _candidates(body, parts)
    if chosen is None:
        return
    rule = replace(rules.said(rank), body=chosen)
    taken = [(one.match.start, one.match.end) for one in (*told.decisions, *told.shadowed) if one.rule.rank == rank]
    taken += [(start, end) for _, start, end in _found(rules, rank, rule, parts)]
    changes = list(_changes(chosen))
    for change in changes:
        changed = replace(rule, body=change.on(chosen))
        new = [hit for hit in _found(rules, rank, changed, parts) if _is_free(hit, taken)]
        around = _around(rules, rank, chosen, parts) if change.option == "except" and new else []
        for phrase, start, end in new:
            yield _miss(rules, rank, (phrase, start, end), [change], around)
        taken += [(start, end) for _, start, end in new]
    for several in _together(changes):
        yield from _minimal(rules, rank, rule, chosen, several, parts, taken)


def _reads(rules: Rules, rank: int, part: Segment) -> bool:
    channel = rules.plan(rank).channel
    return part.channel is not None and (part.channel == "all" or channel in ("all", part.channel))


def _together(changes: Sequence[_Change]) -> Iterator[list[_Change]]:
    """Sets of changes to try at once. Inside words, and between letters, anything stands somewhere: not both."""
    single = {change.option: change for change in changes if change.option not in ("normalize", "gaps", "match")}
    steps = [change for change in changes if change.option == "normalize"]
    gaps = {str(change.value): change for change in changes if change.option == "gaps"}
    match = {str(change.value): change for change in changes if change.option == "match"}
    wide = [gaps["punctuation"]] if "punctuation" in gaps else []
    for edges in match.values():
        yield [*single.values(), *steps, *wide, edges]
    if "letters" in gaps:
        yield [*single.values(), *steps, gaps["letters"]]


def _minimal(
    rules: Rules,
    rank: int,
    rule: Rule,
    body: Ban,
    changes: list[_Change],
    parts: Sequence[Segment],
    taken: list[tuple[int, int]],
) -> Iterator[Miss]:
    """What several changes at once match, with those of them that it takes."""
    if len(changes) < 2:
        return

    def found(some: Iterable[_Change]) -> list[tuple[Phrase, int, int]]:
        changed = body
        for change in some:
            changed = change.on(changed)
        return _found(rules, rank, replace(rule, body=changed), parts)

    for hit in found(changes):
        if not _is_free(hit, taken):
            continue
        needed = list(changes)
        for change in changes:
            fewer = [one for one in needed if one is not change]
            if hit in found(fewer):
                needed = fewer
        taken.append(hit[1:])
        yield _miss(rules, rank, hit, needed, [])


def _miss(
    rules: Rules,
    rank: int,
    hit: tuple[Phrase, int, int],
    changes: Sequence[_Change],
    around: Sequence[tuple[Phrase, int, int]],
) -> Miss:
    phrase, start, end = hit
    known = rules.known(rank, phrase)
    because = "; ".join(change.because for change in changes)
    for exception, first, last in around:
        if first <= start and end <= last:
            by = rules.known(rank, exception)
            return Miss(known, "except", start, end, f"the exception `{exception.text}` stands around it", (), by)
    return Miss(known, "option", start, end, because, tuple(_said(rules, rank, changes)))


def _said(rules: Rules, rank: int, changes: Sequence[_Change]) -> Iterator[str]:
    """The changes as an author writes them; all steps of normalising are one."""
    body = rules.said(rank).body
    steps = {str(change.value) for change in changes if change.option == "normalize"}
    if steps and isinstance(body, Ban):
        steps |= body.options.normalize
        yield f"`normalize: [{', '.join(step for step in _STEPS if step in steps)}]`"
    yield from (change.said for change in changes if change.option != "normalize")


def _is_free(hit: tuple[Phrase, int, int], taken: Iterable[tuple[int, int]]) -> bool:
    """Whether nothing known overlaps it."""
    return all(hit[2] <= start or end <= hit[1] for start, end in taken)


def _around(rules: Rules, rank: int, body: Ban, parts: Sequence[Segment]) -> list[tuple[Phrase, int, int]]:
    """Where the exceptions of a ban stand."""
    banned = replace(body, phrases=body.exceptions, exceptions=())
    return _found(rules, rank, replace(rules.said(rank), body=banned), parts)


def _found(rules: Rules, rank: int, rule: Rule, parts: Sequence[Segment]) -> list[tuple[Phrase, int, int]]:
    """Where a form of a rule matches."""
    return [*_matches(rules.changed(rank, rule), rule, parts)]


def _matches(program: Program, rule: Rule, parts: Sequence[Segment]) -> Iterator[tuple[Phrase, int, int]]:
    body = rule.body
    assert isinstance(body, Ban)
    by_text = {phrase.text: phrase for phrase in body.scripts}
    by_text |= {one.text: Phrase(one.text.removeprefix("(?i)"), one.span) for one in body.expressions}
    by_text |= {phrase.text: phrase for phrase in reversed(body.phrases)}
    for part in parts:
        for component, one in occurrences(program.components, part.text):
            yield by_text[component.phrases[one.pattern]], part.start + one.start, part.start + one.end


def _candidates(body: Ban, parts: Sequence[Segment]) -> Ban | None:
    """The ban with only those phrases that could match somewhere with other options; None: there is no such phrase."""
    if not body.phrases:
        return body if body.expressions and all(one.regular for one in body.expressions) else None
    bare = [_bare(phrase.text) for phrase in body.phrases]
    patterns = sorted({symbols for symbols in bare if symbols})
    seen: set[tuple[int, ...]] = {()}
    automaton = PhraseAutomaton(_BARE, [Pattern(symbols, False, False, False) for symbols in patterns])
    for part in parts:
        state = PhraseAutomaton.START
        for symbol in _bare(part.text):
            state, before, now = automaton.step(state, symbol)
            seen.update(patterns[i] for i in (*before, *now))
    phrases = tuple(phrase for phrase, symbols in zip(body.phrases, bare, strict=True) if symbols in seen)
    return replace(body, phrases=phrases) if phrases else None


def _bare(text: str) -> tuple[int, ...]:
    return tuple(symbol for symbol in Folding(_BARE).fold(text) if not is_gap(symbol, "punctuation"))


__all__ = ["Miss", "Why", "misses"]
