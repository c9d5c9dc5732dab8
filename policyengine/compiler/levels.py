"""How each rule is enforced on each target: the table of design 3.4 for one program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from policyengine.language.diagnostics import Diagnostic, diagnostic
from policyengine.language.policyset import Ban, Policy, PolicySet, Rule, Span
from policyengine.runtime.program import BanPlan, PolicyPlan, Program, RewritePlan, RulePlan

# Every target of the language, in the order in which tables show them.
TARGETS = ("vllm", "trtllm", "trtllm-llm")

_NO_TEXT = "vLLM's server text level is not supported yet"
_NO_STREAM = "the LLM API has no text level"

How = Literal["tokens", "text", "inactive", "left out", "not enforced"]


@dataclass(frozen=True, slots=True)
class Level:
    """One cell of the table.

    how: "tokens" and "text" say where the rule acts; "inactive": by its own `when`; "left out": by the policy's own
    `targets`; "not enforced": the target cannot.
    detail: what more there is to say; it begins with "shadow" where the rule only counts.
    blame: what a "not enforced" is about: the rule, its action, or its policy's activation.
    """

    how: How
    detail: str = ""
    blame: Literal["rule", "action", "activation"] = "rule"

    @property
    def runs(self) -> bool:
        """Whether the target runs the rule."""
        return self.how in ("tokens", "text")

    def __str__(self) -> str:
        if not self.detail:
            return self.how
        return f"{self.how}: {self.detail}" if self.how == "not enforced" else f"{self.how} ({self.detail})"


_LEFT_OUT = "left out (targets)"

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
    level = _ENGINES[target](rule, policy)
    if rule.mode == "shadow" and level.runs:
        return replace(level, detail=", ".join(filter(None, ("shadow", _only_on(rule)))))
    return level


def _vllm(rule: RulePlan, policy: PolicyPlan) -> Level:
    if policy.activation == "assigned":
        return Level("not enforced", "assigning policies to requests is not supported yet", "activation")
    on = _only_on(rule)
    if isinstance(rule.body, RewritePlan):
        return Level("not enforced", f"{_NO_TEXT}; a rewrite acts on text")
    if not isinstance(rule.body, BanPlan) or rule.body.token_ids:
        return Level("tokens", on)
    if not rule.body.avoid:
        return Level("not enforced", f"{_NO_TEXT}; {rule.body.text_action.kind} acts on text", "action")
    return Level("tokens", ", ".join(filter(None, (on, "fallback: not yet"))))


def _trtllm(rule: RulePlan, policy: PolicyPlan) -> Level:
    if policy.activation != "always":
        return Level("not enforced", "the hook sees no request", "activation")
    if not isinstance(rule.body, BanPlan | RewritePlan) or (isinstance(rule.body, BanPlan) and rule.body.token_ids):
        return Level("not enforced", "the hook sees text, not tokens")
    if rule.when.device and "cuda" not in rule.when.device:  # the engine runs nowhere else
        return Level("inactive", _only_on(rule))
    if not rule.when.always:
        asked = [name for name in ("device", "model", "vocabulary") if getattr(rule.when, name)]
        return Level("not enforced", f"the hook does not know its {' and '.join(asked)}, which `when` asks for")
    if isinstance(rule.body, RewritePlan):
        return Level("text")
    return Level("text", f"fallback: {rule.body.text_action.kind}" if rule.body.avoid else rule.body.text_action.kind)


def _trtllm_llm(rule: RulePlan, policy: PolicyPlan) -> Level:
    if policy.activation == "assigned":
        return Level("not enforced", "assigning policies to requests is not supported yet", "activation")
    if isinstance(rule.body, RewritePlan):
        return Level("not enforced", f"{_NO_STREAM}; a rewrite acts on text")
    if isinstance(rule.body, BanPlan) and not rule.body.token_ids and not rule.body.avoid:
        return Level("not enforced", f"{_NO_STREAM}; {rule.body.text_action.kind} acts on text", "action")
    if rule.when.device and "cuda" not in rule.when.device:  # the engine runs nowhere else
        return Level("inactive", _only_on(rule))
    no_fallback = "no fallback" if isinstance(rule.body, BanPlan) and not rule.body.token_ids else ""
    return Level("tokens", ", ".join(filter(None, (_only_on(rule), no_fallback))))


def _only_on(rule: RulePlan) -> str:
    """What `when` asks for, in words; empty where it asks for nothing."""
    when = rule.when
    parts = [f"on {' and '.join(when.device)} only"] if when.device else []
    parts += [f"for {' and '.join(when.model)} only"] if when.model else []
    digests = " and ".join(digest[:12] for digest in when.vocabulary)
    parts += [f"with the vocabulary {digests} only"] if digests else []
    return ", ".join(parts)


_ENGINES: Mapping[str, Callable[[RulePlan, PolicyPlan], Level]] = {
    "vllm": _vllm,
    "trtllm": _trtllm,
    "trtllm-llm": _trtllm_llm,
}


def nothing_runs(program: Program, levels: Levels) -> str | None:
    """Why these targets run no rule at all, in words; None where one runs something."""
    if any(level.runs for row in levels for level in row.values()):
        return None
    selected = list(levels[0]) if levels else []
    offer = ", ".join(f"--target {target}" for target in _named(program) if target not in selected)
    why = {str(level) for row in levels for level in row.values()}
    if why != {_LEFT_OUT}:
        reason = f"each rule is {', or '.join(sorted(why))}"
    else:
        reason = f"the policies' own `targets` leave them out; compile with {offer}"
    return f"nothing would be enforced: no rule runs on {_targets(selected)}: {reason}"


def findings(
    program: Program, levels: Levels, policies: PolicySet, *, allow_unenforced: bool, advice: str = ""
) -> tuple[Diagnostic, ...]:
    """What selected targets cannot enforce, each at its line, and policies that no selected target runs.

    advice: what else helps, for a command that has options for it.
    """
    said = {policy.name: policy for policy in policies.policies}
    found: dict[tuple[Span, str], Diagnostic] = {}
    for rule, row in zip(program.rules, levels, strict=True):
        plan = program.policies[rule.policy]
        policy = said[plan.name]
        for target, level in row.items():
            if level.how == "not enforced":
                where = next(one for one in policy.rules if one.id == rule.id)
                helps = [_other_way(where, target, level, row), advice]
                one = _not_enforceable(policy, rule, target, level, helps, allow_unenforced)
                found[one.span, target] = one
        if row and all(level.how == "left out" for level in row.values()):
            found[policy.span, ""] = diagnostic(
                "left-out-everywhere",
                f"no selected target runs policy `{policy.name}`",
                policy.span,
                hint=f"its `targets` leave out {', '.join(row)}",
            )
    return tuple(sorted(found.values(), key=lambda one: one.sort_key))


def _not_enforceable(
    policy: Policy, rule: RulePlan, target: str, level: Level, helps: Iterable[str], allow: bool
) -> Diagnostic:
    where: Rule = next(one for one in policy.rules if one.id == rule.id)
    if level.blame == "activation":
        what, span = f"policy `{policy.name}` is {policy.activation}, which", policy.span
    else:
        what, span = f"rule `{policy.name}/{rule.id}`", where.body_span
    if level.blame == "action" and where.action_span is not None:
        span = where.action_span
    return diagnostic(
        "not-enforceable",
        f"{what} cannot be enforced on target `{target}`: {level.detail}",
        span,
        hint="; or ".join(filter(None, helps)),
        severity="warning" if allow else None,
    )


def _other_way(rule: Rule, target: str, level: Level, row: Mapping[str, Level]) -> str:
    """What to write instead of what a target cannot do."""
    rest = [other for other, its in row.items() if its.how not in ("not enforced", "left out")]
    leave = f"give the policy `targets: [{', '.join(rest)}]`: `{target}` will then not hold it"
    can_mask = not isinstance(rule.body, Ban) or all(one.regular for one in rule.body.expressions)
    ways = ["use `action: avoid`"] if level.blame == "action" and can_mask else []
    if rest:
        ways.append(leave)
    return "; or ".join(ways) or f"leave `{target}` out of the `targets`"


def _named(program: Program) -> list[str]:
    return [target for target in TARGETS if any(target in policy.targets for policy in program.policies)]


def _targets(names: Iterable[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)
