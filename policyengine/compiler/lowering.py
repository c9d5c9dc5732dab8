"""Policies and rules in their final order, as the plain data of a program."""

from __future__ import annotations

from policyengine.compiler.work import Source, Work
from policyengine.language import limits
from policyengine.language import policyset as said
from policyengine.runtime import program as plan


def resolve_policies(work: Work) -> None:
    """Sort the policies by file name and settle their targets."""
    default = work.given.project.targets
    work.policies = tuple(sorted(work.given.policies, key=lambda policy: (policy.relative_file, policy.name)))
    work.plans = tuple(_policy(policy, default) for policy in work.policies)


def lower_rules(work: Work) -> None:
    """Rules by policy (file name), then id: their place is their rank in ties."""
    work.sources = tuple(
        Source(index, rule)
        for index, policy in enumerate(work.policies)
        for rule in sorted(policy.rules, key=lambda rule: rule.id)
    )
    markers = work.given.project.reasoning is not None  # without them every channel is the whole output
    work.rules = tuple(
        plan.RulePlan(
            policy=source.policy,
            id=source.rule.id,
            line=source.rule.span.line,
            body=_body(source.rule),
            when=_when(source.rule.when),
            channel=source.rule.channel if markers else "all",
            mode=source.rule.mode,
        )
        for source in work.sources
    )


def _policy(policy: said.Policy, default: tuple[said.Target, ...]) -> plan.PolicyPlan:
    targets = default if policy.targets is None else policy.targets
    return plan.PolicyPlan(
        name=policy.name,
        file=policy.relative_file,
        description=policy.description,
        owner=policy.owner,
        activation=policy.activation,
        targets=tuple(sorted(set(targets))),
        parameters=tuple(_parameter(policy.parameters[name]) for name in sorted(policy.parameters)),
    )


def _parameter(parameter: said.Parameter) -> plan.ParameterPlan:
    default = parameter.default
    return plan.ParameterPlan(
        name=parameter.name,
        type=parameter.type,
        default=float(default) if parameter.type == "number" and default is not None else default,
        ge=None if parameter.ge is None else float(parameter.ge),
        le=None if parameter.le is None else float(parameter.le),
        max_length=_max_length(parameter),
        choices=parameter.choices,
        description=parameter.description,
    )


def _max_length(parameter: said.Parameter) -> int | None:
    """A text of a client is never longer than one of a policy may be."""
    if parameter.type != "string" or parameter.max_length is not None:
        return parameter.max_length
    return limits.TEXT_LENGTH.default


def _body(rule: said.Rule) -> plan.RuleBody:
    body = rule.body
    if isinstance(body, said.Ban):
        return plan.BanPlan(
            avoid=body.action.kind == "avoid",
            text_action=_text_action(body.fallback, rule.id),
            token_ids=tuple(sorted(set(body.token_ids))),
        )
    if isinstance(body, said.Force):
        text = param(body.text) if isinstance(body.text, said.ParamRef) else body.text
        token = param(body.token_id) if isinstance(body.token_id, said.ParamRef) else body.token_id
        return plan.ForcePlan(text, token, body.at, body.after.text if body.after else None)
    if isinstance(body, said.MinTokens):
        return plan.MinTokensPlan(param(body.n) if isinstance(body.n, said.ParamRef) else body.n)
    if isinstance(body, said.Bias):
        return plan.BiasPlan(tuple(sorted(((token, weight(value)) for token, value in body.token_ids), key=_token)))
    if isinstance(body, said.Allow):
        choices, scripts = ([one.text for one in part] for part in (body.choices, body.scripts))
        return plan.AllowPlan(tuple(choices), tuple(sorted(scripts)), tuple(sorted(set(body.token_ids))))
    return plan.RewritePlan(body.to)


def _when(when: said.When) -> plan.WhenPlan:
    return plan.WhenPlan(*(tuple(sorted(set(part))) for part in (when.device, when.model, when.vocabulary)))


def _text_action(action: said.Action, rule: str) -> plan.TextAction:
    if action.kind == "avoid":
        raise ValueError(f"rule {rule}: `avoid` has no meaning at the text level")
    reason = rule if action.reason is None and action.kind != "redact" else action.reason
    return plan.TextAction(action.kind, action.text, reason)


def weight(value: float | said.ParamRef) -> float | plan.Param:
    """A bias as the program holds it."""
    return param(value) if isinstance(value, said.ParamRef) else float(value)


def param(ref: said.ParamRef) -> plan.Param:
    """A reference to a request parameter as the program holds it."""
    return plan.Param(ref.name)


def _token(pair: tuple[int, float | plan.Param]) -> int:
    return pair[0]
