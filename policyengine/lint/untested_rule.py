"""A rule that no test makes act.

A rule nobody has seen act may never do so: a typing error in its phrase is enough. Where policies have tests beside
them (`*.test.yaml`), each ban of text and each rewrite has a test that it decides. A project without tests is not told.

Wrong:

    rules:
      names: {ban: {phrases: [bluebird]}}
      places: {ban: {phrases: [Titan hall]}}

Wrong (policy.test.yaml):

    version: 1
    policies: [policy.yaml]
    tests:
      name-is-caught: {text: The bluebird flies., verdict: terminate, rules: [example/names]}
      plain-talk: {text: A blue bird flies., verdict: pass}

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
from policyengine.lint.checked import Checked
from policyengine.lint.model import Finding


def findings(checked: Checked) -> Iterator[Finding]:
    """One a rule."""
    if not checked.tests:
        return

    from policyengine.lint.tested import acts_on_text, cases_of, fires

    for policy in checked.policies.policies:
        tests = list(cases_of(checked, policy))
        for rule in policy.rules:
            if (
                acts_on_text(rule)
                and checked.acts(rule)
                and not any(fires(checked, policy, rule, test) for test in tests)
            ):
                message = f"no test makes {quoted(f'{policy.name}/{rule.id}')} act"
                yield Finding(message, rule.span, "add one, with a text that it catches, to a `*.test.yaml`")
