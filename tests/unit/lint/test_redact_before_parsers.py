"""redact-before-parsers: told where a redaction touches markup, and only there."""

from __future__ import annotations

from pathlib import Path

import pytest

from policyengine.lint.run import check


def found(tmp_path: Path, rules: str, head: str = "targets: [trtllm]\n") -> list[tuple[str, int, str]]:
    (tmp_path / "a.yaml").write_text(f"version: 1\npolicy: a\n{head}rules:\n  x: {rules}\n", encoding="utf-8")
    return [
        (one.severity, one.span.column, one.message)
        for one in check([tmp_path]).diagnostics
        if one.name == "redact-before-parsers"
    ]


def test_it_names_the_markup_at_the_action(tmp_path: Path) -> None:
    assert found(tmp_path, "{ban: {phrases: [think]}, action: redact}") == [
        ("warning", 40, "on the hook of trtllm-serve, `a/x` also redacts the markup `<think>`")
    ]


@pytest.mark.parametrize(
    "rules",
    [
        "{ban: {phrases: [arguments]}, action: redact}",
        "{ban: {phrases: ['<tool_call>'], match: substring}, action: {redact: ''}}",
        "{ban: {phrases: [reasoning]}, fallback: redact}",
        "{ban: {phrases: ['{'], match: substring}, action: redact}",
    ],
)
def test_redactions_of_markup(tmp_path: Path, rules: str) -> None:
    assert len(found(tmp_path, rules)) == 1


@pytest.mark.parametrize(
    ("rules", "head"),
    [
        ("{ban: {phrases: [bluebird]}, action: redact}", "targets: [trtllm]\n"),
        ("{ban: {phrases: [think]}, action: terminate}", "targets: [trtllm]\n"),
        ("{ban: {phrases: [think]}}", "targets: [trtllm]\n"),
        ("{ban: {phrases: [Think], case: sensitive}, action: redact}", "targets: [trtllm]\n"),
        ("{ban: {phrases: [think]}, fallback: redact}", "targets: [vllm]\n"),
    ],
)
def test_what_touches_no_markup_or_no_hook(tmp_path: Path, rules: str, head: str) -> None:
    assert found(tmp_path, rules, head) == []
