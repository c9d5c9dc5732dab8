"""A redaction on TensorRT-LLM's hook that changes the markup of reasoning or tool calls.

The hook of trtllm-serve runs before the parsers that take reasoning and tool calls out of the text. A redaction that
matches inside their markup (`<think>`, `<tool_call>`, `"arguments":` and the like) leaves them nothing to find: the
reasoning then shows as answer, and the call as text. Use `action: terminate`, phrases that the markup does not hold, or
`case: sensitive`.

Wrong:

    targets: [trtllm]
    rules:
      names: {ban: {phrases: [arguments]}, action: redact}

Right:

    targets: [trtllm]
    rules:
      names: {ban: {phrases: [arguments]}, action: terminate}
"""

from __future__ import annotations

from collections.abc import Iterator

from policyengine.language.diagnostics import quoted
from policyengine.lint.checked import Checked
from policyengine.lint.covering import matching
from policyengine.lint.model import Finding
from policyengine.runtime.program import BanPlan

TARGET = "trtllm"

# What the parsers of common models look for, reasoning first.
MARKUP = (
    *("<think>", "</think>", "<reasoning>", "</reasoning>", "<|channel>thought", "<channel|>"),
    *("<tool_call>", "</tool_call>", "<tool_calls>", "<function=get_weather>", "</function>", "<parameter=city>"),
    *("[TOOL_CALLS]", "[ARGS]", "<|python_tag|>", "<|tool_call>", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"),
    *('{"name": "get_weather", "arguments": {"city": "Oslo"}}', '{"name": "get_weather", "parameters": {}}'),
)


def findings(checked: Checked) -> Iterator[Finding]:
    """One a rule, about the first markup that it would change."""
    work, markers = checked.work, checked.policies.project.reasoning
    markup = MARKUP + ((markers.start, markers.end) if markers is not None else ())
    changed: dict[int, int] = {}  # by rank: the place of the first markup
    for component in work.components:
        redacting = {number for number, rule in enumerate(component.rules) if _redacts(checked, rule)}
        if component.use not in ("avoid", "text") or not redacting:
            continue
        for place, text in enumerate(markup):
            for number in redacting & matching(component.automaton, text):
                rule = component.rules[number]
                changed[rule] = min(place, changed.get(rule, place))
    for rank, place in sorted(changed.items()):
        source = work.sources[rank].rule
        message = f"on the hook of trtllm-serve, {quoted(checked.name(rank))} also redacts the markup "
        hint = "use `action: terminate`, or phrases that no markup holds: the parsers run after the hook"
        yield Finding(message + quoted(markup[place]), source.action_span or source.body_span, hint)


def _redacts(checked: Checked, rank: int) -> bool:
    """Whether a rule redacts on the hook."""
    rule = checked.work.rules[rank]
    policy = checked.work.plans[rule.policy]
    on_hook = TARGET in policy.targets and policy.activation == "always" and rule.when.always
    redacts = isinstance(rule.body, BanPlan) and rule.body.text_action.kind == "redact"
    return on_hook and redacts and checked.acts(checked.work.sources[rank].rule)
