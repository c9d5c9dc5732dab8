"""What policies that are loaded together must agree on."""

from __future__ import annotations

from collections.abc import Sequence

from policyengine.language.diagnostics import Label, quoted
from policyengine.language.policyset import Parameter, Policy
from policyengine.language.source import Report


def check_together(policies: Sequence[Policy], report: Report) -> None:
    """Every policy has a name of its own, and a parameter that several declare has one type."""
    names: dict[str, Policy] = {}
    parameters: dict[str, Parameter] = {}
    for policy in policies:
        first = names.setdefault(policy.name, policy)
        if first is not policy:
            message = f"there are two policies named {quoted(policy.name)}"
            labels = [Label(first.span, "first here")]
            report.add("duplicate-policy", message, policy.span, hint="give each its own name", labels=labels)
        for name, parameter in policy.parameters.items():
            other = parameters.setdefault(name, parameter)
            if other.type != parameter.type:
                message = f"the parameter {quoted(name)} is `{parameter.type}` here and `{other.type}` elsewhere"
                hint = "a request passes one value by this name; rename one of the two"
                labels = [Label(other.span, f"`{other.type}` here")]
                report.add("parameter-type-conflict", message, parameter.span, hint=hint, labels=labels)
