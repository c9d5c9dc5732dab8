"""A token id in a rule that runs on any model.

An id is a place in one model's vocabulary. On another model the same id is another token, and the rule bans or forces
what nobody meant, without a word. Say which vocabulary it is for with `when`, or write the text in place of the id: it
means the same on every model.

Wrong:

    targets: [vllm]
    rules:
      reserved: {ban: {token_ids: [128]}}

Right:

    targets: [vllm]
    rules:
      reserved: {ban: {token_ids: [128]}, when: {vocabulary: ["0f3a9c51"]}}
"""

from __future__ import annotations

from collections.abc import Iterator

from policyengine.language.policyset import Allow, Ban, Bias, Force, Rule
from policyengine.lint.checked import Checked
from policyengine.lint.model import Finding


def findings(checked: Checked) -> Iterator[Finding]:
    """One a rule."""
    digest = checked.vocabulary.digest[:12] if checked.vocabulary else "the first digits of its digest"
    for policy, rule in checked.rules():
        ids = _ids(rule)
        if ids and not rule.when.vocabulary and not rule.when.model:
            span = rule.body.span if isinstance(rule.body, Force) and rule.body.span else rule.body_span
            what = f"token id {ids[0]}" if len(ids) == 1 else f"token ids such as {ids[0]}"
            message = f"`{policy.name}/{rule.id}` names {what}, another token on every model"
            yield Finding(message, span, f'add `when: {{vocabulary: ["{digest}"]}}`, or write a text')


def _ids(rule: Rule) -> list[int]:
    body = rule.body
    if isinstance(body, Ban | Allow):
        return [*body.token_ids]
    if isinstance(body, Bias):
        return [token_id for token_id, _ in body.token_ids]
    return [body.token_id] if isinstance(body, Force) and isinstance(body.token_id, int) else []
