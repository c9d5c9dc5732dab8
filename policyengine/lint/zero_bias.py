"""A bias of 0.

It adds nothing to any logit, so that the phrase or token is as likely as without the rule. Give a value, or remove it.

Wrong:

    targets: [vllm]
    rules:
      tone: {bias: {phrases: {delve: 0}}}

Right:

    targets: [vllm]
    rules:
      tone: {bias: {phrases: {delve: -4}}}
"""

from __future__ import annotations

from collections.abc import Iterator

from policyengine.language.diagnostics import quoted
from policyengine.language.policyset import Bias
from policyengine.lint.checked import Checked
from policyengine.lint.model import Finding


def findings(checked: Checked) -> Iterator[Finding]:
    """One a phrase or token id."""
    for _, rule in checked.rules():
        if isinstance(rule.body, Bias):
            for phrase, value in rule.body.phrases:
                if value == 0:
                    yield Finding(f"a bias of 0 on {quoted(phrase.text)} does nothing", phrase.span, _HINT)
            for token_id, value in rule.body.token_ids:
                if value == 0:
                    yield Finding(f"a bias of 0 on token {token_id} does nothing", rule.body_span, _HINT)


_HINT = "give a value below 0 for rarer, above 0 for more frequent; or remove it"
