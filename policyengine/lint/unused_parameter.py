"""A parameter that no rule uses.

Requests may pass it, the server checks it, and nothing happens. Whoever passes it believes that something does. Use it
in a rule as `{param: name}`, or remove it.

Wrong:

    targets: [vllm]
    parameters:
      min_len: {type: integer}
      target: {type: token_id}
    rules:
      long-enough: {min_tokens: {param: min_len}}

Right:

    targets: [vllm]
    parameters:
      min_len: {type: integer}
    rules:
      long-enough: {min_tokens: {param: min_len}}
"""

from __future__ import annotations

from collections.abc import Iterator

from policyengine.language.diagnostics import quoted
from policyengine.language.policyset import Bias, Body, Force, MinTokens, ParamRef
from policyengine.lint.checked import Checked
from policyengine.lint.model import Finding


def findings(checked: Checked) -> Iterator[Finding]:
    """One a parameter."""
    for policy in checked.policies.policies:
        if policy.parameters:
            used = {ref.name for rule in policy.rules for ref in _values(rule.body) if isinstance(ref, ParamRef)}
            for name, parameter in policy.parameters.items():
                if name not in used:
                    message = f"no rule uses the parameter {quoted(name)}"
                    yield Finding(message, parameter.span, f"use it as `{{param: {name}}}`, or remove it")


def _values(body: Body) -> tuple[object, ...]:
    """The values of a rule that a parameter may stand for."""
    if isinstance(body, Force):
        return body.text, body.token_id
    if isinstance(body, MinTokens):
        return (body.n,)
    if isinstance(body, Bias):
        return tuple(value for _, value in (*body.phrases, *body.token_ids))
    return ()
