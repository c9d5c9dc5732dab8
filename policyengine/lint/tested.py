"""What the tests beside policies say of their rules."""

from __future__ import annotations

import os
from collections.abc import Iterator

from policyengine.language.policyset import Ban, Policy, Rewrite, Rule
from policyengine.language.test_files import Test
from policyengine.lint.checked import Checked
from policyengine.lint.covering import matching


def cases_of(checked: Checked, policy: Policy) -> Iterator[Test]:
    """The tests of the files that name a policy, or a folder above it. A test may come twice."""
    path = os.path.realpath(policy.file)
    for named, tests in checked.tests_by_path.items():
        if path == named or path.startswith(named + os.sep):
            yield from tests


def acts_on_text(rule: Rule) -> bool:
    """Whether a test of text can see the rule at all."""
    return isinstance(rule.body, Rewrite) or (isinstance(rule.body, Ban) and not rule.body.token_ids)


def fires(checked: Checked, policy: Policy, rule: Rule, test: Test) -> bool:
    """Whether a test makes a rule act: it says so, or it names no rules and this one matches in its text."""
    case, name = test.case, f"{policy.name}/{rule.id}"
    if case.verdict == "pass" or case.todo is not None:
        return False
    if case.rules is not None:
        return name in case.rules
    if isinstance(rule.body, Rewrite):
        return case.verdict == "rewrite"
    return _holds(checked, name, case.text or "".join(case.chunks or []))


def _holds(checked: Checked, name: str, text: str) -> bool:
    """Whether a rule matches somewhere in a text."""
    rank = next(i for i, source in enumerate(checked.work.sources) if checked.work.name(source) == name)
    return any(
        component.rules[number] == rank
        for component in checked.work.components
        if component.use in ("avoid", "text") and rank in component.rules
        for number in matching(component.automaton, text)
    )
