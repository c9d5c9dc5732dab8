"""A policy without an owner.

Somebody must answer for what models may not say: who is asked when an answer was cut, who may change the rule. Name a
team or a person under `owner`; reports and artifacts show it.

Wrong:

    description: Keep unreleased names out of every answer.
    rules:
      names: {ban: {phrases: [bluebird]}}

Right:

    description: Keep unreleased names out of every answer.
    owner: trust-and-safety
    rules:
      names: {ban: {phrases: [bluebird]}}
"""

from __future__ import annotations

from collections.abc import Iterator

from policyengine.language.diagnostics import quoted
from policyengine.lint.checked import Checked
from policyengine.lint.model import Finding


def findings(checked: Checked) -> Iterator[Finding]:
    """One a policy."""
    for policy in checked.policies.policies:
        if not policy.owner.strip():
            yield Finding(
                f"nobody owns the policy {quoted(policy.name)}", policy.span, "add `owner:`, a team or a person"
            )
