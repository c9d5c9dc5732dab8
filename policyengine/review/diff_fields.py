"""What two rules or policies do apart from what text they look for: every field of their plans, by meaning.

A field that nothing here knows still counts where it differs: a new one cannot be overlooked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from policyengine.language.diagnostics import quoted
from policyengine.review.diff_model import Detail, Direction
from policyengine.runtime.program import (
    AllowPlan,
    BanPlan,
    BiasPlan,
    ForcePlan,
    MinTokensPlan,
    Param,
    ParameterPlan,
    PolicyPlan,
    RewritePlan,
    RulePlan,
    TextAction,
    WhenPlan,
)

# How much a text action withholds: a part, all from there on, all.
_WITHHOLDS = {"redact": 0, "terminate": 1, "block": 2}
# How surely a policy is active: nothing switches it off; the server decides; the client does.
_ACTIVE = {"on_request": 0, "assigned": 1, "always": 2}
_MODES = {"shadow": 0, "enforce": 1}
_REWRITES = {"upper": 0, "lower": 0, "nothing": 1}
_KINDS: Mapping[type, str] = {
    AllowPlan: "allow",
    BanPlan: "ban",
    BiasPlan: "bias",
    ForcePlan: "force",
    MinTokensPlan: "min_tokens",
    RewritePlan: "rewrite",
}
NO_NAMES: Mapping[Any, str] = MappingProxyType({})
_SHOWN = 4  # of what a list gained or lost


def kind(rule: RulePlan) -> str:
    """The kind of a rule, as its key says it."""
    return _KINDS.get(type(rule.body), type(rule.body).__name__)


def describe(rule: RulePlan) -> str:
    """What a rule does, in a few words."""
    body = rule.body
    if isinstance(body, BanPlan):
        if body.token_ids:
            return f"a ban of token ids {_list(body.token_ids)}"
        return f"a ban ({'avoid' if body.avoid else body.text_action.kind})"
    if isinstance(body, ForcePlan):
        what = _value(body.text if body.text is not None else body.token_id)
        where = f"at {body.at}" if body.at is not None else f"after {_value(body.after)}"
        return f"forces {what} {where}"
    if isinstance(body, MinTokensPlan):
        return f"min_tokens {_value(body.n)}"
    if isinstance(body, RewritePlan):
        return f"rewrites to {body.to}"
    if isinstance(body, AllowPlan):
        parts = [f"{f.name} {_list(values)}" for f in fields(body) if (values := getattr(body, f.name))]
        return f"allows only {', '.join(parts)}"
    return _a(kind(rule))


def by_rank(name: str, old: Any, new: Any, ranks: Mapping[Any, int]) -> list[Detail]:
    """A value that became another, of which some do more than others."""
    if old == new:
        return []
    more = ranks.get(new, 0) - ranks.get(old, 0)
    return [Detail(name, "stronger" if more > 0 else "weaker" if more < 0 else "changed", f"{name}: {old} → {new}")]


def narrowed(name: str, old: Collection[Any], new: Collection[Any]) -> list[Detail]:
    """Conditions, of which fewer mean more: the rule acts wherever one of them holds, and everywhere without any."""
    if set(old) == set(new):
        return []
    direction: Direction = "changed"
    if not new or (old and set(new) > set(old)):
        direction = "stronger"
    elif not old or set(new) < set(old):
        direction = "weaker"
    return [Detail(name, direction, f"{name}: {_list(old) or 'any'} → {_list(new) or 'any'}")]


def listed(name: str, old: Collection[Any], new: Collection[Any], *, more: Direction = "stronger") -> list[Detail]:
    """A set of which more means `more`."""
    gained, lost = sorted(set(new) - set(old)), sorted(set(old) - set(new))
    less: Direction = "weaker" if more == "stronger" else "stronger"
    found = []
    if lost:
        found.append(Detail(name, less, f"{name}: {_list(lost)} removed"))
    if gained:
        found.append(Detail(name, more, f"{name}: {_list(gained)} added"))
    return found


def policy_details(old: PolicyPlan, new: PolicyPlan) -> list[Detail]:
    """What became of a policy as a whole."""
    found = by_rank("activation", old.activation, new.activation, _ACTIVE)
    found += listed("targets", old.targets, new.targets)
    before, after = ({p.name: p for p in policy.parameters} for policy in (old, new))
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            found.append(Detail("parameters", "changed", f"parameter {quoted(name)} removed"))
        elif name not in before:
            found.append(Detail("parameters", "changed", f"parameter {quoted(name)} added"))
        else:
            found += _parameter(before[name], after[name])
    return found + others(old, new, {"name", "file", "description", "owner", "activation", "targets", "parameters"})


def _parameter(old: ParameterPlan, new: ParameterPlan) -> list[Detail]:
    found = []
    for field in fields(ParameterPlan):
        before, after = getattr(old, field.name), getattr(new, field.name)
        if before != after and field.name not in ("name", "description"):
            what = f"parameter {quoted(old.name)}, {field.name}"
            found.append(Detail("parameters", "changed", f"{what}: {_value(before)} → {_value(after)}"))
    return found


def others(old: Any, new: Any, known: Collection[str]) -> list[Detail]:
    """The fields of a plan that are not known."""
    return [
        Detail(field.name, "changed", f"{field.name}: {_value(a)} → {_value(b)}")
        for field in fields(old)
        if field.name not in known and (a := getattr(old, field.name)) != (b := getattr(new, field.name))
    ]


def rule_details(old: RulePlan, new: RulePlan) -> list[Detail]:
    """What became of a rule, what text it looks for apart."""
    found = when_details(old.when, new.when)
    if old.channel != new.channel:
        direction: Direction = "stronger" if new.channel == "all" else "weaker" if old.channel == "all" else "changed"
        found.append(Detail("channel", direction, f"channel: {old.channel} → {new.channel}"))
    found += by_rank("mode", getattr(old, "mode", "enforce"), getattr(new, "mode", "enforce"), _MODES)
    found += others(old, new, {"policy", "id", "line", "body", "when", "channel", "mode"})
    if kind(old) != kind(new):
        return [*found, Detail("kind", "changed", f"was {_a(kind(old))}, is {_a(kind(new))}")]
    compare: Callable[[Any, Any, RulePlan, RulePlan], list[Detail]] = _BODIES.get(type(old.body), _unknown)
    return found + compare(old.body, new.body, old, new)


def when_details(old: WhenPlan, new: WhenPlan) -> list[Detail]:
    """The facts of an engine that are asked for."""
    return [
        detail
        for field in fields(WhenPlan)
        for detail in narrowed(f"when.{field.name}", getattr(old, field.name), getattr(new, field.name))
    ]


def _ban(old: BanPlan, new: BanPlan, before: RulePlan, after: RulePlan) -> list[Detail]:
    found = listed("token_ids", old.token_ids, new.token_ids)
    if old.token_ids and new.token_ids:
        return found  # they are never looked for in text
    if old.avoid != new.avoid:
        # The one keeps the model from writing it, the other acts on what it wrote: neither is more.
        was, now = ("avoid" if plan.avoid else plan.text_action.kind for plan in (old, new))
        found.append(Detail("action", "changed", f"action: {was} → {now}"))
    name = "fallback" if old.avoid and new.avoid else "action"
    if old.avoid == new.avoid:
        found += by_rank(name, old.text_action.kind, new.text_action.kind, _WITHHOLDS)
    elif old.text_action.kind != new.text_action.kind:
        found.append(Detail("action", "changed", f"on text: {old.text_action.kind} → {new.text_action.kind}"))
    if old.text_action.kind == new.text_action.kind:
        found += _words(old.text_action, new.text_action, before.id, after.id)
    return found + others(old, new, {"avoid", "text_action", "token_ids"})


def _words(old: TextAction, new: TextAction, was: str, now: str) -> list[Detail]:
    """The texts of an action. A reason that is the rule's name changes with it, which is said elsewhere."""
    found = []
    if old.text != new.text:
        what = "replacement" if old.kind == "redact" else "message"
        found.append(Detail("action", "changed", f"{what}: {_value(old.text)} → {_value(new.text)}"))
    if old.reason != new.reason and (old.reason, new.reason) != (was, now):
        found.append(Detail("action", "changed", f"reason: {_value(old.reason)} → {_value(new.reason)}"))
    return found


def _force(old: ForcePlan, new: ForcePlan, before: RulePlan, after: RulePlan) -> list[Detail]:
    return others(old, new, {"after"})


def _min_tokens(old: MinTokensPlan, new: MinTokensPlan, before: RulePlan, after: RulePlan) -> list[Detail]:
    found = others(old, new, {"n"})
    if old.n == new.n:
        return found
    direction: Direction = "changed"
    if isinstance(old.n, int) and isinstance(new.n, int):
        direction = "stronger" if new.n > old.n else "weaker"
    return [*found, Detail("min_tokens", direction, f"min_tokens: {_value(old.n)} → {_value(new.n)}")]


def _bias(old: BiasPlan, new: BiasPlan, before: RulePlan, after: RulePlan) -> list[Detail]:
    return weights("token", dict(old.token_ids), dict(new.token_ids)) + others(old, new, {"token_ids"})


def weights(
    what: str, old: Mapping[Any, Any], new: Mapping[Any, Any], names: Mapping[Any, str] = NO_NAMES
) -> list[Detail]:
    """Biases, by token or phrase: further from nothing is stronger."""
    found = []
    for key in sorted(old.keys() | new.keys(), key=lambda key: names.get(key, str(key))):
        a, b = old.get(key), new.get(key)
        if a == b:
            continue
        name = f"{what} {quoted(names[key]) if key in names else key}"
        if a is None or b is None:
            was = f"{name}: {'added, ' + _value(b) if a is None else 'removed, was ' + _value(a)}"
            found.append(Detail("bias", "stronger" if a is None else "weaker", was))
            continue
        direction: Direction = "changed"
        if isinstance(a, float) and isinstance(b, float) and a * b >= 0:
            direction = "stronger" if abs(b) > abs(a) else "weaker"
        found.append(Detail("bias", direction, f"{name}: {_value(a)} → {_value(b)}"))
    return found


def _rewrite(old: RewritePlan, new: RewritePlan, before: RulePlan, after: RulePlan) -> list[Detail]:
    return by_rank("rewrite", old.to, new.to, _REWRITES) + others(old, new, {"to"})


def _allow(old: AllowPlan, new: AllowPlan, before: RulePlan, after: RulePlan) -> list[Detail]:
    found: list[Detail] = []
    for field in fields(AllowPlan):
        a, b = getattr(old, field.name), getattr(new, field.name)
        if bool(a) != bool(b):
            found.append(Detail("allow", "changed", f"{field.name}: {_list(a) or 'none'} → {_list(b) or 'none'}"))
        else:
            found += listed(field.name, a, b, more="weaker")
    return found


def _unknown(old: Any, new: Any, before: RulePlan, after: RulePlan) -> list[Detail]:
    return others(old, new, ())


_BODIES: Mapping[type, Callable[[Any, Any, RulePlan, RulePlan], list[Detail]]] = {
    AllowPlan: _allow,
    BanPlan: _ban,
    BiasPlan: _bias,
    ForcePlan: _force,
    MinTokensPlan: _min_tokens,
    RewritePlan: _rewrite,
}


def _a(word: str) -> str:
    return f"{'an' if word[0] in 'aeiou' else 'a'} `{word}`"


def _value(value: Any) -> str:
    if isinstance(value, Param):
        return f"{{param: {value.name}}}"
    if value is None:
        return "none"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return f"[{_list(value)}]"
    return str(value)


def _list(values: Iterable[Any]) -> str:
    ordered = sorted(values, key=str)
    more = f" and {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else ""
    return ", ".join(map(_value, ordered[:_SHOWN])) + more


__all__ = ["by_rank", "describe", "kind", "listed", "narrowed", "others", "policy_details", "rule_details", "weights"]
