"""A policy whose tests hold no text that passes.

Tests that only show what is caught say nothing of what is caught by mistake: a rule that bans every text passes them.
Add a text that looks close to what is banned and must pass.

Wrong:

    rules:
      names: {ban: {phrases: [bluebird]}}

Wrong (policy.test.yaml):

    version: 1
    policies: [policy.yaml]
    tests:
      name-is-caught: {text: The bluebird flies., verdict: terminate, rules: [example/names]}

Right:

    rules:
      names: {ban: {phrases: [bluebird]}}

Right (policy.test.yaml):

    version: 1
    policies: [policy.yaml]
    tests:
      name-is-caught: {text: The bluebird flies., verdict: terminate, rules: [example/names]}
      plain-talk: {text: A blue bird flies., verdict: pass}
"""

from __future__ import annotations

from collections.abc import Iterator

from policyengine.language.diagnostics import quoted
from policyengine.language.policyset import Ban
from policyengine.lint.checked import Checked
from policyengine.lint.model import Finding


def findings(checked: Checked) -> Iterator[Finding]:
    """One a policy that has tests, and a ban."""
    if not checked.tests:
        return

    from policyengine.lint.tested import acts_on_text, cases_of

    for policy in checked.policies.policies:
        tests = list(cases_of(checked, policy))
        bans = [rule for rule in policy.rules if isinstance(rule.body, Ban) and acts_on_text(rule)]
        if tests and bans and not any(test.case.verdict == "pass" for test in tests):
            message = f"no test shows what {quoted(policy.name)} must leave alone"
            yield Finding(message, policy.span, "add a test with `verdict: pass`, close to what is banned")
