"""Parameters across policies: a request passes each name once, so those that share one must agree."""

from __future__ import annotations

from policyengine.compiler.work import Work
from policyengine.language.diagnostics import Label, diagnostic
from policyengine.language.policyset import Parameter
from policyengine.requests import RESERVED_KEYS


def check_parameters(work: Work) -> None:
    """Names that requests use for other things, and defaults of `always` policies that differ."""
    first: dict[str, Parameter] = {}
    for policy in work.policies:
        for name in sorted(policy.parameters):
            parameter = policy.parameters[name]
            if name in RESERVED_KEYS:
                work.diagnostics.append(
                    diagnostic(
                        "reserved-parameter",
                        f"a parameter cannot be named `{name}`: requests use that key for something else",
                        parameter.span,
                        hint="choose another name",
                    )
                )
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
