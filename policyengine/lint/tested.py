"""What the tests beside policies say of their rules."""

from __future__ import annotations

import os
from collections.abc import Iterator

from policyengine.language.policyset import Ban, Policy, Rewrite, Rule
from policyengine.language.test_files import Test
from policyengine.lint.checked import Checked
from policyengine.runtime.errors import RequestError


def cases_of(checked: Checked, policy: Policy) -> Iterator[Test]:
    """The tests of the files that name a policy, or a folder above it."""
    path = os.path.realpath(policy.file)
    for file in checked.tests:
        named = [os.path.realpath(one) for one in file.policies]
        if any(path == one or path.startswith(one + os.sep) for one in named):
            yield from file.tests


def acts_on_text(rule: Rule) -> bool:
    """Whether a test of text can see the rule at all."""
    return isinstance(rule.body, Rewrite) or (isinstance(rule.body, Ban) and not rule.body.token_ids)


def fires(checked: Checked, policy: Policy, rule: Rule, test: Test) -> bool:
    """Whether a test makes a rule act: it says so, or, where it names no rules, the text is tried."""
    case, name = test.case, f"{policy.name}/{rule.id}"
    if case.verdict == "pass" or case.todo is not None:
        return False
    if case.rules is not None:
        return name in case.rules
    if isinstance(rule.body, Rewrite):
        return case.verdict == "rewrite"
    return name in _decided(checked, test)


def _decided(checked: Checked, test: Test) -> set[str]:
    chunks = [test.case.text] if test.case.text is not None else test.case.chunks or []
    try:
        session = checked.program.text_session(test.case.request)
    except RequestError:
        return set()
    verdicts = [*(session.feed(chunk or "") for chunk in chunks), session.finish()]
    return {f"{match.policy}/{match.rule}" for verdict in verdicts for match in verdict.matches}
