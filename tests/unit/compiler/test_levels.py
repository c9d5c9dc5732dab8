"""The table of design 3.4: how each rule is enforced on each target."""

from __future__ import annotations

import pytest

import policyengine as pe
from policyengine.compiler.levels import TARGETS, findings, levels_of
from tests.unit.compiler.conftest import Make

YET = "not enforced: not yet: there is no processor for the LLM API"


@pytest.mark.parametrize(
    ("rule", "vllm", "trtllm"),
    [
        ("{ban: {phrases: [a]}}", "tokens (fallback: not yet)", "text (fallback: terminate)"),
        ("{ban: {phrases: [a]}, fallback: redact}", "tokens (fallback: not yet)", "text (fallback: redact)"),
        (
            "{ban: {phrases: [a]}, action: redact}",
            "not enforced: not yet: redact needs the text level of the server",
            "text (redact)",
        ),
        (
            "{ban: {phrases: [a]}, action: terminate}",
            "not enforced: not yet: terminate needs the text level of the server",
            "text (terminate)",
        ),
        (
            "{ban: {phrases: [a]}, action: block}",
            "not enforced: not yet: block needs the text level of the server",
            "text (block)",
        ),
        (
            "{rewrite: {to: lower}}",
            "not enforced: not yet: a rewrite needs the text level of the server",
            "text",
        ),
        ("{ban: {token_ids: [3]}}", "tokens", "not enforced: the hook sees text, not tokens"),
        ("{force: {token_id: 3, at: every}}", "tokens", "not enforced: the hook sees text, not tokens"),
        ("{min_tokens: 3}", "tokens", "not enforced: the hook sees text, not tokens"),
        ("{bias: {phrases: {a: 1}}}", "tokens", "not enforced: the hook sees text, not tokens"),
        (
            "{ban: {phrases: [a]}, when: {device: [cuda]}}",
            "tokens (on cuda only, fallback: not yet)",
            "not enforced: the hook does not know its device, which `when` asks for",
        ),
        (
            "{ban: {phrases: [a]}, when: {device: [cpu]}}",
            "tokens (on cpu only, fallback: not yet)",
            "inactive (on cpu only)",
        ),
    ],
)
def test_the_level_of_each_rule(make: Make, rule: str, vllm: str, trtllm: str) -> None:
    targets = "targets: [vllm, trtllm, trtllm-llm]\n"
    row = levels_of(pe.compile(make(a=f"{targets}rules: {{x: {rule}}}\n")), TARGETS)[0]
    assert {target: str(level) for target, level in row.items()} == {
        "vllm": vllm,
        "trtllm": trtllm,
        "trtllm-llm": YET,
    }


def test_a_policys_own_targets_leave_the_others_out(make: Make) -> None:
    row = levels_of(pe.compile(make(a="targets: [vllm]\nrules: {x: {min_tokens: 3}}\n")), ["trtllm", "vllm"])[0]
    assert {target: str(level) for target, level in row.items()} == {"trtllm": "left out (targets)", "vllm": "tokens"}


def test_what_a_request_selects_cannot_be_on_the_hook(make: Make) -> None:
    row = levels_of(pe.compile(make(a="activation: on_request\nrules: {x: {ban: {phrases: [a]}}}\n")), TARGETS[:2])[0]
    assert str(row["vllm"]) == "tokens (fallback: not yet)"
    assert str(row["trtllm"]) == "not enforced: the hook sees no request"


def test_a_policy_is_blamed_once_for_its_activation_and_each_rule_for_itself(make: Make) -> None:
    policies = make(
        a="activation: on_request\nrules: {x: {ban: {phrases: [a]}}, y: {ban: {phrases: [b]}}}\n",
        b="rules: {x: {min_tokens: 3}, y: {min_tokens: 4}}\n",
    )
    program = pe.compile(policies)
    found = findings(program, levels_of(program, ["trtllm"]), policies, allow_unenforced=False)
    assert [(one.span.file.rsplit("/", 1)[1], one.span.line, one.severity) for one in found] == [
        ("a.yaml", 2, "error"),
        ("b.yaml", 3, "error"),
        ("b.yaml", 3, "error"),
    ]


def test_compile_in_python_does_not_ask_what_a_target_can_do(make: Make) -> None:
    assert pe.compile(make(a="targets: [trtllm]\nrules: {x: {min_tokens: 3}}\n")).rules
