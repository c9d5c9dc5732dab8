"""redact-before-parsers: redactions of TensorRT-LLM's hook that change the markup of reasoning and tool calls."""

from __future__ import annotations

from collections.abc import Iterator

from policyengine.language.diagnostics import Diagnostic, diagnostic, quoted
from policyengine.language.policyset import PolicySet, Rule
from policyengine.runtime.program import BanPlan, Program

TARGET = "trtllm"

# What the parsers of common models look for, reasoning first.
MARKUP = (
    *("<think>", "</think>", "<reasoning>", "</reasoning>", "<|channel>thought", "<channel|>"),
    *("<tool_call>", "</tool_call>", "<tool_calls>", "<function=get_weather>", "</function>", "<parameter=city>"),
    *("[TOOL_CALLS]", "[ARGS]", "<|python_tag|>", "<|tool_call>", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"),
    *('{"name": "get_weather", "arguments": {"city": "Oslo"}}', '{"name": "get_weather", "parameters": {}}'),
)


def findings(program: Program, policies: PolicySet) -> Iterator[Diagnostic]:
    """One finding a rule, at the rule. It names the first markup that the rule would change."""
    said = {f"{policy.name}/{rule.id}": rule for policy in policies.policies for rule in policy.rules}
    markup = MARKUP + ((program.reasoning.start, program.reasoning.end) if program.reasoning is not None else ())
    for index, changed in _changed(program, markup):
        plan = program.rules[index]
        name = f"{program.policies[plan.policy].name}/{plan.id}"
        rule: Rule = said[name]
        message = f"on the hook of trtllm-serve, {quoted(name)} also redacts the markup {quoted(changed)}"
        hint = "use `action: terminate`, or phrases that no markup holds: the parsers run after the hook"
        yield diagnostic("redact-before-parsers", message, rule.action_span or rule.body_span, hint=hint)


def _changed(program: Program, markup: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Rules of the hook (by index) that redact some markup, and the first that they redact."""
    for index, rule in enumerate(program.rules):
        policy = program.policies[rule.policy]
        if TARGET not in policy.targets or policy.activation != "always" or not rule.when.always:
            continue
        if isinstance(rule.body, BanPlan) and rule.body.text_action.kind == "redact":
            found = next((text for text in markup if _matches(program, index, text)), None)
            if found is not None:
                yield index, found


def _matches(program: Program, index: int, text: str) -> bool:
    """Whether a rule, alone, matches somewhere in a text."""
    plan = program.rules[index]
    name = program.policies[plan.policy].name
    session = program.text_session(target=TARGET)
    matches = (*session.feed(text).matches, *session.finish().matches)
    return any((match.policy, match.rule) == (name, plan.id) for match in matches)
