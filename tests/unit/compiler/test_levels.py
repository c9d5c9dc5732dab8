"""The table of design 3.4: how each rule is enforced on each target."""

from __future__ import annotations

import pytest

import policyengine as pe
from policyengine.compiler.levels import TARGETS, findings, levels_of
from tests.unit.compiler.conftest import Make

NO_TEXT = "vLLM's server text level is not supported yet"
NO_TOKENS = "not enforced: the hook sees text, not tokens"
NO_STREAM = "not enforced: the LLM API has no text level"


@pytest.mark.parametrize(
    ("rule", "vllm", "trtllm", "llm"),
    [
        (
            "{ban: {phrases: [a]}}",
            "tokens (fallback: not yet)",
            "text (fallback: terminate)",
            "tokens (no fallback)",
        ),
        (
            "{ban: {phrases: [a]}, fallback: redact}",
            "tokens (fallback: not yet)",
            "text (fallback: redact)",
            "tokens (no fallback)",
        ),
        (
            "{ban: {phrases: [a]}, action: redact}",
            f"not enforced: {NO_TEXT}; redact acts on text",
            "text (redact)",
            f"{NO_STREAM}; redact acts on text",
        ),
        (
            "{ban: {phrases: [a]}, action: terminate}",
            f"not enforced: {NO_TEXT}; terminate acts on text",
            "text (terminate)",
            f"{NO_STREAM}; terminate acts on text",
        ),
        (
            "{ban: {phrases: [a]}, action: block}",
            f"not enforced: {NO_TEXT}; block acts on text",
            "text (block)",
            f"{NO_STREAM}; block acts on text",
        ),
        (
            "{rewrite: {to: lower}}",
            f"not enforced: {NO_TEXT}; a rewrite acts on text",
            "text",
            f"{NO_STREAM}; a rewrite acts on text",
        ),
        ("{ban: {token_ids: [3]}}", "tokens", NO_TOKENS, "tokens"),
        ("{force: {token_id: 3, at: every}}", "tokens", NO_TOKENS, "tokens"),
        ("{min_tokens: 3}", "tokens", NO_TOKENS, "tokens"),
        ("{bias: {phrases: {a: 1}}}", "tokens", NO_TOKENS, "tokens"),
        ("{allow: {choices: [a, b]}}", "tokens", NO_TOKENS, "tokens"),
        ("{allow: {scripts: [Latin]}}", "tokens", NO_TOKENS, "tokens"),
        ("{force: {text: a, at: end}}", "tokens", NO_TOKENS, "tokens"),
        ("{force: {token_id: 3, after: a}}", "tokens", NO_TOKENS, "tokens"),
        (
            "{ban: {regex: ['a+b']}}",
            "tokens (fallback: not yet)",
            "text (fallback: terminate)",
            "tokens (no fallback)",
        ),
        (
            "{ban: {scripts: [Han]}, fallback: redact}",
            "tokens (fallback: not yet)",
            "text (fallback: redact)",
            "tokens (no fallback)",
        ),
        (
            r"{ban: {regex: ['(a)\1']}, action: redact}",
            f"not enforced: {NO_TEXT}; redact acts on text",
            "text (redact)",
            f"{NO_STREAM}; redact acts on text",
        ),
        (
            "{min_tokens: 3, when: {model: ['acme-*', b], vocabulary: ['0123456789abcdef']}}",
            "tokens (for acme-* and b only, with the vocabulary 0123456789ab only)",
            NO_TOKENS,
            "tokens (for acme-* and b only, with the vocabulary 0123456789ab only)",
        ),
        (
            "{ban: {phrases: [a]}, when: {device: [cuda], model: [acme]}}",
            "tokens (on cuda only, for acme only, fallback: not yet)",
            "not enforced: the hook does not know its device and model, which `when` asks for",
            "tokens (on cuda only, for acme only, no fallback)",
        ),
        (
            "{ban: {phrases: [a]}, when: {device: [cuda]}}",
            "tokens (on cuda only, fallback: not yet)",
            "not enforced: the hook does not know its device, which `when` asks for",
            "tokens (on cuda only, no fallback)",
        ),
        (
            "{ban: {phrases: [a]}, when: {device: [cpu]}}",
            "tokens (on cpu only, fallback: not yet)",
            "inactive (on cpu only)",
            "inactive (on cpu only)",
        ),
        ("{ban: {phrases: [a]}, mode: shadow}", "tokens (shadow)", "text (shadow)", "tokens (shadow)"),
        (
            "{min_tokens: 3, mode: shadow, when: {model: [b]}}",
            "tokens (shadow, for b only)",
            NO_TOKENS,
            "tokens (shadow, for b only)",
        ),
        (
            "{rewrite: {to: upper}, mode: shadow}",
            f"not enforced: {NO_TEXT}; a rewrite acts on text",
            "text (shadow)",
            f"{NO_STREAM}; a rewrite acts on text",
        ),
    ],
)
def test_the_level_of_each_rule(make: Make, rule: str, vllm: str, trtllm: str, llm: str) -> None:
    targets = "targets: [vllm, trtllm, trtllm-llm]\n"
    row = levels_of(pe.compile(make(a=f"{targets}rules: {{x: {rule}}}\n")), TARGETS)[0]
    assert {target: str(level) for target, level in row.items()} == {"vllm": vllm, "trtllm": trtllm, "trtllm-llm": llm}


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


def test_help_names_no_option_unless_the_command_has_it(make: Make) -> None:
    policies = make(a="rules: {x: {ban: {phrases: [a]}, action: redact}}\n")
    program = pe.compile(policies)
    levels = levels_of(program, TARGETS[:2])
    plain, more = (
        findings(program, levels, policies, allow_unenforced=False, advice=advice)[0].help
        for advice in ("", "wait with --patience")
    )
    assert plain == "use `action: avoid`; or give the policy `targets: [trtllm]`: `vllm` will then not hold it"
    assert more == f"{plain}; or wait with --patience"


def test_help_offers_no_mask_for_what_no_automaton_can_read(make: Make) -> None:
    policies = make(a=r"rules: {x: {ban: {regex: ['(a)\1']}, action: redact}}" + "\n")
    program = pe.compile(policies)
    (one,) = findings(program, levels_of(program, ["vllm", "trtllm"]), policies, allow_unenforced=False)
    assert one.help == "give the policy `targets: [trtllm]`: `vllm` will then not hold it"


def test_help_offers_no_target_that_does_not_run_the_rule(make: Make) -> None:
    policies = make(a="rules: {x: {min_tokens: 3}}\n")
    program = pe.compile(policies)
    (one,) = findings(program, levels_of(program, ["trtllm"]), policies, allow_unenforced=False)
    assert one.help == "leave `trtllm` out of the `targets`"


def test_a_policy_for_other_targets_only_says_so(make: Make) -> None:
    policies = make(a="targets: [trtllm-llm]\nrules: {x: {min_tokens: 3}}\n")
    program = pe.compile(policies)
    (one,) = findings(program, levels_of(program, ["vllm"]), policies, allow_unenforced=False)
    assert (one.name, one.help) == ("left-out-everywhere", "its `targets` leave out vllm")


def test_compile_in_python_does_not_ask_what_a_target_can_do(make: Make) -> None:
    assert pe.compile(make(a="targets: [trtllm]\nrules: {x: {min_tokens: 3}}\n")).rules
