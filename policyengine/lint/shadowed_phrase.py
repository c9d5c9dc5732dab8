"""A phrase that is never needed, because another always matches where it does.

Every match of it holds one of another phrase, which acts no later and does the same. It is dead weight: readers take it
for a rule of its own. Remove it; or, if the longer phrase alone was meant, remove the shorter. Where a match is
redacted the longer phrase is no dead weight, since more is replaced. Where it ends an answer and the two end together,
the longer one keeps back the words before the shorter one as well; its removal is then an unsafe fix.

Wrong:

    rules:
      names: {ban: {phrases: [Titan, Project Titan]}}

Right:

    rules:
      names: {ban: {phrases: [Titan]}}
"""

from __future__ import annotations

from collections.abc import Iterator

from policyengine.automata.phrases import PhraseAutomaton
from policyengine.language.diagnostics import Label, quoted
from policyengine.language.policyset import Ban, PhraseOptions, When
from policyengine.lint.checked import Checked, Pattern
from policyengine.lint.covering import Inner, Outer, comparable, folds_as_much, holding, inside
from policyengine.lint.model import Finding, Fix
from policyengine.lint.removing import is_settled, removal


def findings(checked: Checked) -> Iterator[Finding]:
    """One a phrase of a ban."""
    components = list(zip(checked.work.components, checked.work.patterns, strict=True))
    for place, (component, phrases) in enumerate(components):
        if component.use not in ("avoid", "text"):
            continue
        own = range(len(phrases)) if len(phrases) > 1 else range(0)
        if isinstance(component.automaton, PhraseAutomaton) and len(phrases) > 1:
            own = holding(component.automaton).tolist()
        others = [other for other, (one, _) in enumerate(components) if one.use == component.use and other != place]
        within = set(own)
        for number in range(len(phrases)) if others else own:
            pattern = Pattern(component, number, component.rules[number], phrases[number])
            found = _shadow(checked, pattern, [place, *others] if number in within else others)
            if found:
                other, safe = found
                yield _finding(checked, pattern, other, safe=safe)


def _finding(checked: Checked, pattern: Pattern, other: Pattern, *, safe: bool) -> Finding:
    same = pattern.rule == other.rule
    whose = "" if same else f" of {quoted(checked.name(other.rule))}"
    message = (
        f"{quoted(pattern.phrase.text)} is never needed: each match of it holds {quoted(other.phrase.text)}{whose}"
    )
    label = Label(other.phrase.span, "is enough")
    edit = removal(checked, pattern.phrase.span) if same else None
    safe = safe and is_settled(checked, pattern.phrase.span, other.phrase.span)
    fix = Fix(f"removed {quoted(pattern.phrase.text)}", (edit,), safe) if edit else None
    hint = "remove it; or remove the other, if only the longer one was meant"
    return Finding(message, pattern.phrase.span, hint, labels=(label,), fix=fix)


def _shadow(checked: Checked, pattern: Pattern, places: list[int]) -> tuple[Pattern, bool] | None:
    """A phrase, of these components, that matches whenever this one does and acts as it does; None: there is none.

    With it comes whether the two make no difference at all, down to what is shown before an answer ends.
    """
    ban = checked.work.sources[pattern.rule].rule.body
    if not isinstance(ban, Ban) or not ban.phrases:
        return None
    outer = Outer(pattern.phrase.text, ban.options)
    end: int | None = None
    best: Pattern | None = None
    for place in places:
        component, phrases = checked.work.components[place], checked.work.patterns[place]
        source = checked.work.sources[component.rules[0]].rule.body
        regular = isinstance(source, Ban) and not source.phrases
        if not folds_as_much(component.automaton, ban.options, regular=regular):
            continue
        for found in inside(outer, component.automaton):
            one = Pattern(component, found.pattern, component.rules[found.pattern], phrases[found.pattern])
            if component is pattern.component and found.pattern == pattern.number:
                continue
            end = _end(pattern, outer) if end is None else end
            last = found.known >= end
            if _acts_for(checked, pattern, one, found, last=last):
                if ban.fallback.kind == "block" or found.exactly or not last:
                    return one, True
                best = best or one
    return (best, False) if best else None


def _end(pattern: Pattern, outer: Outer) -> int:
    """When a match of the phrase itself is certain, as `Inner.known`."""
    found = [one.known for one in inside(outer, pattern.component.automaton) if one.pattern == pattern.number]
    return max(found, default=len(outer.text) + 1)


def _acts_for(checked: Checked, pattern: Pattern, other: Pattern, found: Inner, *, last: bool) -> bool:
    """Whether a match of the other phrase does all that one of the pattern would. last: they are certain together."""
    mine, its = checked.work.sources[pattern.rule].rule.body, checked.work.sources[other.rule].rule.body
    assert isinstance(mine, Ban)
    if not isinstance(its, Ban) or not its.phrases or its.exceptions:
        return False
    if pattern.rule == other.rule:
        if last and _is_needed_for(pattern, other, mine.options):
            return False
    elif not (_covers(checked, pattern.rule, other.rule) and _same(mine, its)):
        return False
    elif last and other.rule > pattern.rule:
        return False  # of two rules that match together the first decides
    if mine.fallback.kind == "redact" and not (found.exactly and last):
        return False
    return not (last and mine.options.word_end == "eager" and found.open and its.options.word_end == "exact")


def _is_needed_for(pattern: Pattern, other: Pattern, options: PhraseOptions) -> bool:
    """Of two phrases of a rule that match alike: whether the pattern is the first, or equal, as another lint says."""
    fold = comparable(options).fold
    if fold(pattern.phrase.text) == fold(other.phrase.text):
        return True
    back = inside(Outer(other.phrase.text, options), pattern.component.automaton)
    return pattern.number < other.number and any(one.pattern == pattern.number for one in back)


def _same(mine: Ban, its: Ban) -> bool:
    return (mine.action.kind, mine.fallback.kind) == (its.action.kind, its.fallback.kind)


def _covers(checked: Checked, mine: int, its: int) -> bool:
    """Whether the other rule acts wherever this one does."""
    work = checked.work
    a, b = work.rules[mine], work.rules[its]
    first, second = work.plans[a.policy], work.plans[b.policy]
    active = work.together(work.sources[mine], work.sources[its])
    active = active and (a.policy == b.policy or second.activation == "always")
    targets = set(first.targets) <= set(second.targets)
    channel = b.channel in ("all", a.channel)
    return active and targets and channel and (work.sources[its].rule.when in (When(), work.sources[mine].rule.when))
