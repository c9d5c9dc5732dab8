"""A bias on what is banned anyway.

The ban masks each token that would complete the phrase, whatever is added to its logit, so that the bias does nothing.
Remove one of the two: the bias if the phrase must never be written, the ban if it may.

Wrong:

    targets: [vllm]
    rules:
      tone: {bias: {phrases: {delve into: -4}}}
      never: {ban: {phrases: [delve]}}

Right:

    targets: [vllm]
    rules:
      tone: {bias: {phrases: {tapestry: -4}}}
      never: {ban: {phrases: [delve]}}
"""

from __future__ import annotations

from collections.abc import Iterator

from policyengine.language.diagnostics import Label, quoted
from policyengine.language.policyset import Ban, Bias
from policyengine.lint.checked import Checked, Pattern
from policyengine.lint.covering import Outer, folds_as_much, inside
from policyengine.lint.model import Finding

_HINT = "remove the bias; or the ban, if it may be written"


def findings(checked: Checked) -> Iterator[Finding]:
    """One a phrase or token id."""
    work = checked.work
    if not any(isinstance(source.rule.body, Bias) for source in work.sources):
        return
    bans = [rank for rank, source in enumerate(work.sources) if isinstance(source.rule.body, Ban)]
    for rank, source in enumerate(work.sources):
        body = source.rule.body
        if not isinstance(body, Bias):
            continue
        for phrase, _ in body.phrases:
            found = _banned(checked, rank, Outer(phrase.text, body.options))
            if found:
                where = f"{quoted(found.phrase.text)}, which {quoted(checked.name(found.rule))} bans"
                message = f"a bias on {quoted(phrase.text)} does nothing: it holds {where}"
                yield Finding(message, phrase.span, _HINT, labels=(Label(found.phrase.span, "banned here"),))
        for token_id, _ in body.token_ids:
            for other in bans:
                ban = work.sources[other].rule.body
                if isinstance(ban, Ban) and token_id in ban.token_ids and work.together(source, work.sources[other]):
                    message = f"a bias on token {token_id} does nothing: {quoted(checked.name(other))} bans it"
                    yield Finding(message, source.rule.body_span, _HINT)


def _banned(checked: Checked, rank: int, outer: Outer) -> Pattern | None:
    """A pattern that is masked no later than the phrase is complete, wherever the bias acts."""
    work = checked.work
    for component, phrases in zip(work.components, work.patterns, strict=True):
        source = work.sources[component.rules[0]]
        regular = not (isinstance(source.rule.body, Ban) and source.rule.body.phrases)
        if component.use != "avoid" or not folds_as_much(component.automaton, outer.options, regular=regular):
            continue
        for found in inside(outer, component.automaton):
            rule = component.rules[found.pattern]
            if work.together(work.sources[rank], work.sources[rule]):
                return Pattern(component, found.pattern, rule, phrases[found.pattern])
    return None
