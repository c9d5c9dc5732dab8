"""One policy file: its header, its parameters and its rules."""

from __future__ import annotations

import difflib
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from policyengine.language import limits, nodes, parameters
from policyengine.language.diagnostics import Label, listed, quoted
from policyengine.language.explain import describe
from policyengine.language.instead import odd_character, other_tool
from policyengine.language.nodes import Node, Scalar
from policyengine.language.phrase_lists import PhraseLists
from policyengine.language.policyset import Mode, Policy, Rule, Target
from policyengine.language.reading import Reading
from policyengine.language.rules import KINDS, Context, Kind
from policyengine.language.strict import Strict, later, problem

POLICY_NAME = re.compile(r"[a-z0-9-]+")
RULE_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")


def only_version_1(value: Any) -> Any:
    """A before-validator for `version`."""
    if type(value) is int and value != 1:
        hint = "this version of policyengine reads `version: 1`"
        raise problem("invalid-value", "`version` must be 1, not {got}", hint=hint)
    return value


def _policy_name(name: str) -> str:
    if not POLICY_NAME.fullmatch(name) or len(name) > limits.NAME_LENGTH.default:
        hint = f"lower-case letters, digits and `-`, at most {limits.NAME_LENGTH.default}"
        raise problem("invalid-value", f"{quoted(name)} is no name for a policy", hint=hint)
    return name


def distinct_targets(targets: list[Target]) -> list[Target]:
    """An after-validator: no target is named twice."""
    for i, target in enumerate(targets):
        if target in targets[:i]:
            raise problem("invalid-value", f"the target `{target}` is written twice")
    return targets


Version = Annotated[int, BeforeValidator(only_version_1), Field(json_schema_extra={"const": 1})]
Targets = Annotated[
    list[Target], Field(min_length=1, json_schema_extra={"uniqueItems": True}), AfterValidator(distinct_targets)
]

VERSION = "The version of the language that the file is written in. This release reads version 1."


class Header(Strict):
    """The keys of a policy. Parameters and rules are checked one by one, so that each error stands alone."""

    version: Version = Field(description=VERSION)
    policy: Annotated[str, AfterValidator(_policy_name)] = Field(
        description="The policy's name, unique among the policies that are compiled together. Requests, reports and "
        "metrics use it. Lower-case letters, digits and `-`.",
        json_schema_extra={"pattern": f"^{POLICY_NAME.pattern}$", "maxLength": limits.NAME_LENGTH.default},
    )
    description: str = Field("", description="What the policy is for, in words for its reviewers.")
    owner: str = Field("", description="Who answers for the policy: a team or a person.")
    activation: Annotated[Literal["always", "on_request"], BeforeValidator(later("assigned"))] = Field(
        "always",
        description="always (default): the policy acts on every request, and nothing a client sends switches it off. "
        "on_request: it acts on requests that name it in `policies`.",
    )
    targets: Targets | None = Field(
        None,
        description="The engines that run the policy: vllm, trtllm (the hook of trtllm-serve), trtllm-llm "
        "(TensorRT-LLM's LLM API). On others it is left out. Default: the project's targets.",
    )
    mode: Mode = Field(
        "enforce",
        description="enforce (default): the rules act. shadow: what they would have done is counted; they change "
        "nothing and hold nothing back. A rule may say its own.",
    )
    parameters: dict[str, Any] = Field(
        default_factory=dict,
        description="Values that a request may pass, by name. Rules use one as `{param: name}`.",
    )
    rules: Annotated[dict[str, Any], Field(min_length=1)] = Field(
        description="The rules, each under an id of its own. Their order has no meaning."
    )


def read_policy(root: nodes.Mapping, reading: Reading, lists: PhraseLists, relative_file: str) -> Policy | None:
    """The policy of a file; None where its header is wrong. What is wrong anywhere is reported."""
    data = reading.data(root)
    header = reading.validate(Header, root, data)
    declared = parameters.read_parameters(reading, root.value("parameters"), data.get("parameters"))
    uses: list[parameters.Use] = []
    rules = []
    node, rules_data = root.value("rules"), data.get("rules")
    if isinstance(node, nodes.Mapping) and isinstance(rules_data, dict):
        fallen_out = _fallen_out(node, reading)
        mode: Mode = header.mode if header else "enforce"
        for rule_id, (key, value) in node.entries.items():
            if isinstance(rule_id, str) and rule_id not in fallen_out:
                rule = _rule(rule_id, key, value, rules_data[rule_id], reading, lists, uses, mode)
                rules += [rule] if rule else []
    fitted = parameters.fit(declared, uses, reading)
    if header is None:
        return None
    name = root.value("policy")
    assert name is not None
    return Policy(
        name=header.policy,
        file=reading.source.name,
        span=reading.span(name),
        description=header.description,
        owner=header.owner,
        activation=header.activation,
        targets=tuple(header.targets) if header.targets is not None else None,
        parameters=fitted,
        rules=tuple(rules),
        relative_file=relative_file,
    )


def _rule(
    rule_id: str,
    key: Scalar,
    node: Node,
    data: Any,
    reading: Reading,
    lists: PhraseLists,
    uses: list[parameters.Use],
    mode: Mode,
) -> Rule | None:
    """A rule; `mode`: that of the policy."""
    if not RULE_ID.fullmatch(rule_id) or len(rule_id) > limits.NAME_LENGTH.default:
        hint = f"letters, digits, `_`, `-` and `.`, not starting with `.`, at most {limits.NAME_LENGTH.default}"
        reading.add("invalid-value", f"{quoted(rule_id)} is no id for a rule", key, hint=hint)
    if not isinstance(node, nodes.Mapping):
        if not reading.report.reported_at(reading.span(node)):
            hint = f"a rule has one of {listed([*KINDS])}"
            reading.add(
                "wrong-type", f"the rule {quoted(rule_id)} must be a mapping, not {describe(node)}", key, hint=hint
            )
        return None
    kind = _kind(rule_id, key, node, reading)
    if kind is None:
        return None
    form = reading.validate(kind.form, node, data, key)
    if form is None:
        return None
    body_key = node.entries[kind.key][0]
    action = node.value("action")
    return Rule(
        id=rule_id,
        kind=kind.key,
        body=kind.build(form, Context(reading, rule_id, node, lists, uses)),
        when=form.condition(),
        channel=form.channel or kind.channel,
        mode=form.mode or mode,
        span=reading.span(key),
        body_span=reading.span(body_key),
        action_span=reading.span(action) if action else None,
    )


def _fallen_out(node: nodes.Mapping, reading: Reading) -> set[str]:
    """Ids among the rules that are no rules: one without a value, which is reported, and the keys that belong in it."""
    found: set[str] = set()
    owner: Scalar | None = None
    for rule_id, (key, value) in node.entries.items():
        name = str(rule_id)
        if isinstance(value, Scalar) and value.value is None and name not in KINDS:
            owner = key
        elif owner is not None and name in KINDS and KINDS[name].holds(value):
            message = f"the rule {quoted(owner.text)} is empty: `{name}` stands beside it"
            hint = f"indent `{name}`, and what belongs to it, below {quoted(owner.text)}"
            labels = [Label(reading.span(key), "this stands beside it")]
            reading.add("wrong-type", message, owner, hint=hint, labels=labels)
            found |= {owner.text, name}
            owner = None
        elif name in ("action", "fallback", "when", "mode") and found:
            found.add(name)
        else:
            owner = None
    return found


def _kind(rule_id: str, key: Scalar, node: nodes.Mapping, reading: Reading) -> Kind | None:
    """The kind of a rule: the one of its keys that names a kind."""
    found = [name for name in node.entries if name in KINDS]
    if len(found) == 1:
        return KINDS[str(found[0])]
    if found:
        first, *more = (node.entries[name][0] for name in found)
        reading.add(
            "conflicting-keys",
            f"the rule {quoted(rule_id)} has {len(found)} kinds",
            first,
            hint="write a rule for each",
            labels=[Label(reading.span(other), "and this") for other in more],
        )
    elif not node.refused and not _hinted(node, reading):
        message = f"the rule {quoted(rule_id)} does not say what it does"
        reading.add("missing-key", message, key, hint=f"it needs one of {listed([*KINDS])}")
    return None


def _hinted(node: nodes.Mapping, reading: Reading) -> bool:
    """Report the first key of a rule without a kind that shows what was meant; whether there was one."""
    for name, (key, _) in node.entries.items():
        near = difflib.get_close_matches(str(name)[:100], [*KINDS], n=1)
        inside = [kind.key for kind in KINDS.values() if name in kind.body_keys()]
        tool = other_tool(str(name))
        if name == "<<":
            hint = "merge keys are not part of the language"
        elif odd := odd_character(key.text):
            hint = odd
        elif tool:
            hint = f"{tool}, inside `ban`"
        elif near:
            hint = f"did you mean `{near[0]}`?"
        elif inside:
            hint = f"`{name}` belongs inside `{inside[0]}`"
        else:
            continue
        reading.add("unknown-key", f"unknown key {quoted(key.text)}", key, hint=hint)
        return True
    return False
