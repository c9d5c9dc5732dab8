"""How each rule is enforced on each target: the table of design 3.4 for one program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from policyengine.language.diagnostics import Diagnostic, diagnostic
from policyengine.language.policyset import Policy, PolicySet, Rule, Span
from policyengine.runtime.program import BanPlan, PolicyPlan, Program, RewritePlan, RulePlan

# Every target of the language, in the order in which tables show them.
TARGETS = ("vllm", "trtllm", "trtllm-llm")

# Those that can be compiled for; see `artifacts.MODULES`.
READY = ("vllm", "trtllm")

How = Literal["tokens", "text", "inactive", "left out", "not enforced"]


@dataclass(frozen=True, slots=True)
class Level:
    """One cell of the table.

    how: "tokens" and "text" say where the rule acts; "inactive": by its own `when`; "left out": by the policy's own
    `targets`; "not enforced": the target cannot.
    blame: what a "not enforced" is about: the rule, or its policy's activation.
    """

    how: How
    detail: str = ""
    blame: Literal["rule", "activation"] = "rule"

    def __str__(self) -> str:
        if not self.detail:
            return self.how
        return f"{self.how}: {self.detail}" if self.how == "not enforced" else f"{self.how} ({self.detail})"


# One entry a rule (in the program's order), and in it one a selected target.
Levels = tuple[Mapping[str, Level], ...]


def levels_of(program: Program, targets: Iterable[str]) -> Levels:
    """The level of every rule of a program on each of these targets."""
    chosen = tuple(targets)
    return tuple(
        {target: _level(rule, program.policies[rule.policy], target) for target in chosen} for rule in program.rules
    )


def _level(rule: RulePlan, policy: PolicyPlan, target: str) -> Level:
    if target not in policy.targets:
        return Level("left out", "targets")
    return _ENGINES[target](rule, policy)


def _vllm(rule: RulePlan, policy: PolicyPlan) -> Level:
    if policy.activation == "assigned":
        return Level("not enforced", "not yet: nothing assigns policies to requests", "activation")
    on = _only_on(rule)
    if isinstance(rule.body, RewritePlan):
        return Level("not enforced", "not yet: a rewrite needs the text level of the server")
    if not isinstance(rule.body, BanPlan) or rule.body.token_ids:
        return Level("tokens", on)
    if not rule.body.avoid:
        return Level("not enforced", f"not yet: {rule.body.text_action.kind} needs the text level of the server")
    return Level("tokens", ", ".join(filter(None, (on, "fallback: not yet"))))


def _trtllm(rule: RulePlan, policy: PolicyPlan) -> Level:
    if policy.activation != "always":
        return Level("not enforced", "the hook sees no request", "activation")
    if not isinstance(rule.body, BanPlan | RewritePlan) or (isinstance(rule.body, BanPlan) and rule.body.token_ids):
        return Level("not enforced", "the hook sees text, not tokens")
    if rule.device and "cuda" not in rule.device:  # the engine runs nowhere else
        return Level("inactive", _only_on(rule))
    if rule.device:
        return Level("not enforced", "the hook does not know its device, which `when` asks for")
    if isinstance(rule.body, RewritePlan):
        return Level("text")
    return Level("text", f"fallback: {rule.body.text_action.kind}" if rule.body.avoid else rule.body.text_action.kind)


def _trtllm_llm(rule: RulePlan, policy: PolicyPlan) -> Level:
    return Level("not enforced", "not yet: there is no processor for the LLM API")


def _only_on(rule: RulePlan) -> str:
    return f"on {' and '.join(rule.device)} only" if rule.device else ""


_ENGINES: Mapping[str, Callable[[RulePlan, PolicyPlan], Level]] = {
    "vllm": _vllm,
    "trtllm": _trtllm,
    "trtllm-llm": _trtllm_llm,
}


def findings(
    program: Program, levels: Levels, policies: PolicySet, *, allow_unenforced: bool
) -> tuple[Diagnostic, ...]:
    """What selected targets cannot enforce, each at its line, and policies that no selected target runs."""
    said = {policy.name: policy for policy in policies.policies}
    found: dict[tuple[Span, str], Diagnostic] = {}
    for rule, row in zip(program.rules, levels, strict=True):
        policy = said[program.policies[rule.policy].name]
        for target, level in row.items():
            if level.how == "not enforced":
                one = _not_enforceable(policy, rule, target, level, allow_unenforced)
                found[one.span, target] = one
        if row and all(level.how == "left out" for level in row.values()):
            found[policy.span, ""] = diagnostic(
                "left-out-everywhere",
                f"no selected target runs policy `{policy.name}`",
                policy.span,
                hint=f"its `targets` leave out {', '.join(row)}",
            )
    return tuple(sorted(found.values(), key=lambda one: one.sort_key))


def _not_enforceable(policy: Policy, rule: RulePlan, target: str, level: Level, allow: bool) -> Diagnostic:
    where: Rule = next(one for one in policy.rules if one.id == rule.id)
    if level.blame == "activation":
        what, span = f"policy `{policy.name}` is {policy.activation}, which", policy.span
    else:
        what, span = f"rule `{policy.name}/{rule.id}`", where.body_span
    return diagnostic(
        "not-enforceable",
        f"{what} cannot be enforced on target `{target}`: {level.detail}",
        span,
        hint=f"leave the target out with `targets:` in the policy, select others with --target, or accept it with "
        f"--allow-unenforced: `{target}` will then not hold this",
        severity="warning" if allow else None,
    )
