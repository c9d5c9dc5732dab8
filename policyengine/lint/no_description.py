"""A policy without a description.

Rules say what happens and not why. A sentence under `description` tells reviewers what the policy is for, so that they
can judge whether a change serves it.

Wrong:

    owner: trust-and-safety
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
        if not policy.description.strip():
            message = f"the policy {quoted(policy.name)} has no description"
            yield Finding(message, policy.span, "add `description:`, what it is for in a sentence")
