"""Parameters across policies: a request passes each name once, so those that share one must agree."""

from __future__ import annotations

from policyengine.compiler.work import Work
from policyengine.language.diagnostics import Label, diagnostic
from policyengine.language.policyset import Parameter


def check_parameters(work: Work) -> None:
    """Defaults of `always` policies that differ. (Others meet only in requests, which are then asked for a value.)"""
    first: dict[str, Parameter] = {}
    for policy in work.policies:
        for name in sorted(policy.parameters):
            parameter = policy.parameters[name]
            if policy.activation != "always" or parameter.default is None:
                continue
            other = first.setdefault(name, parameter)
            if other.default != parameter.default:
                work.diagnostics.append(
                    diagnostic(
                        "conflicting-defaults",
                        f"parameter `{name}` has the default `{parameter.default}` here and `{other.default}` in "
                        "another policy that is always active with this one",
                        parameter.span,
                        labels=[Label(other.span, "the other default")],
                        hint="a request that does not pass it has one value for both: give one default, or rename one",
                    )
                )
