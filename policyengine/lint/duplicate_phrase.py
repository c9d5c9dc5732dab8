"""A phrase that stands twice in one rule.

The two are the same once capitals, spacing and the rest of the rule's options are made alike, so that one of them does
nothing. In a `bias` both count: what is added to the logits is added twice. Remove one.

Wrong:

    rules:
      names: {ban: {phrases: [Project Titan, bluebird, project  titan]}}

Right:

    rules:
      names: {ban: {phrases: [Project Titan, bluebird]}}
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from policyengine.language.diagnostics import Label, quoted
from policyengine.language.policyset import Ban, Bias, Phrase, PhraseOptions, Rule
from policyengine.lint.checked import Checked
from policyengine.lint.covering import comparable
from policyengine.lint.model import Finding, Fix
from policyengine.lint.removing import is_settled, removal


def findings(checked: Checked) -> Iterator[Finding]:
    """One a phrase, an exception or an expression that a rule has already."""
    for _, rule in checked.rules():
        body = rule.body
        if isinstance(body, Ban):
            yield from _twice(checked, rule, body.phrases, body.options)
            yield from _twice(checked, rule, body.exceptions, body.options)
            yield from _twice(checked, rule, [Phrase(one.text, one.span) for one in body.expressions], None)
        elif isinstance(body, Bias):
            yield from _twice(checked, rule, [phrase for phrase, _ in body.phrases], body.options)


def _twice(
    checked: Checked, rule: Rule, phrases: tuple[Phrase, ...] | list[Phrase], options: PhraseOptions | None
) -> Iterator[Finding]:
    """options: how phrases are compared; None: as they are written."""
    folding = comparable(options) if options else None
    seen: dict[Hashable, Phrase] = {}
    for phrase in phrases:
        key = tuple(folding.fold(phrase.text)) if folding else phrase.text
        first = seen.setdefault(key, phrase)
        if first is phrase:
            continue
        same = "is written twice" if first.text == phrase.text else f"is the same as {quoted(first.text)}"
        message = f"{quoted(phrase.text)} {same} in the rule {quoted(rule.id)}"
        label = Label(first.span, "first here")
        edit = removal(checked, phrase.span)
        safe = is_settled(checked, phrase.span, first.span)
        fix = Fix(f"removed {quoted(phrase.text)}", (edit,), safe) if edit else None
        hint = "remove one: both values are added" if rule.kind == "bias" else "remove one"
        yield Finding(message, phrase.span, hint, labels=(label,), fix=fix)
