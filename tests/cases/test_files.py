"""Policy files that broke other systems: silent losses, silent changes, and files that take a machine down."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import policyengine as pe
from policyengine.language import Diagnostic
from policyengine.language.render import Lines


def policy(folder: Path, rules: str) -> Path:
    path = folder / "policy.yaml"
    path.write_text("version: 1\npolicy: p\nrules:\n" + rules)
    return path


def refused(path: Path) -> list[tuple[Diagnostic, str]]:
    """What loading reports, each with the text it underlines."""
    with pytest.raises(pe.PolicyError) as caught:
        pe.load(path)
    return [(one, text(one, caught.value)) for one in caught.value.diagnostics]


def text(found: Diagnostic, error: pe.PolicyError) -> str:
    span = found.span
    return Lines(error.sources[span.file])[span.line][span.column - 1 : span.end_column - 1]


def test_case_5_a_forced_text_that_is_banned(tmp_path: Path) -> None:
    """A compile error that names both rules and shows both places; elsewhere it gave NaN."""
    path = policy(
        tmp_path, "  names:\n    ban: {phrases: [rice]}\n  opening:\n    force: {text: Some rice, at: start}\n"
    )
    with pytest.raises(pe.PolicyError) as caught:
        pe.compile(pe.load(path))
    (one,) = caught.value.diagnostics
    assert one.name == "forced-contains-banned"
    assert "opening" in one.message
    assert "names" in one.message
    assert (one.span.line, [label.span.line for label in one.labels]) == (7, [5])


@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf", "1e39", "-1e39", "1e999", "100.01", "-101"])
@pytest.mark.parametrize("where", ["{phrases: {delve: VALUE}}", "{token_ids: {7: VALUE}}"])
def test_case_7_biases_that_are_no_bias(value: str, where: str, tmp_path: Path) -> None:
    """An error at the value; they overflow float16 or spread NaN over a row."""
    path = policy(tmp_path, f"  tone:\n    bias: {where.replace('VALUE', value)}\n")
    ((one, underlined),) = refused(path)
    assert (one.severity, one.name, one.span.line, underlined) == ("error", "invalid-value", 5, value)


@pytest.mark.parametrize("value", ["100", "-100", "0", "0.5", "-1e-3"])
def test_case_7_biases_in_range(value: str, tmp_path: Path) -> None:
    """The bound itself is allowed."""
    (rule,) = pe.load(policy(tmp_path, f"  tone: {{bias: {{phrases: {{x: {value}}}}}}}\n")).policies[0].rules
    assert [number for _, number in rule.body.phrases] == [float(value)]


def test_case_19_empty_phrases(tmp_path: Path) -> None:
    """Nothing, a space and a zero-width space would block everything: each an error with its line."""
    path = policy(
        tmp_path, '  names:\n    ban:\n      phrases:\n      - ""\n      - ok\n      - " "\n      - "\u200b"\n'
    )
    found = refused(path)
    assert [(one.name, one.span.line, underlined) for one, underlined in found] == [
        ("empty-phrase", 7, '""'),
        ("empty-phrase", 9, '" "'),
        ("empty-phrase", 10, '"\u200b"'),
    ]


def test_case_20_a_key_twice(tmp_path: Path) -> None:
    """Elsewhere the last one won; the error shows both lines."""
    path = policy(tmp_path, "  names:\n    ban: {phrases: [bluebird]}\n    ban: {phrases: [magpie]}\n")
    ((one, underlined),) = refused(path)
    assert (one.name, one.span.line, underlined) == ("duplicate-key", 6, "ban")
    assert [label.span.line for label in one.labels] == [5]
    with pytest.raises(pe.PolicyError) as caught:
        pe.load(path)
    shown = str(caught.value)
    assert "[bluebird]" in shown
    assert "[magpie]" in shown


@pytest.mark.parametrize("key", ["phrases: [WRITTEN]", "regex: WRITTEN", "regex: [WRITTEN]"])
def test_case_21_backspaces_for_word_edges(key: str, tmp_path: Path) -> None:
    """In double quotes `\\b` is a backspace, so the pattern would never match: an error with the fix."""
    path = policy(tmp_path, "  names:\n    ban: {" + key.replace("WRITTEN", r'"\bword\b"') + "}\n")
    ((one, underlined),) = refused(path)
    assert (one.name, one.span.line) == ("control-character", 5)
    assert r"\bword\b" in underlined
    assert "single quotes" in str(one.help)


@pytest.mark.parametrize(
    "written",
    [
        *("no", "on", "12:30", "12:30:45", "1_000", "2024-01-01", "<<", "yes", "off", "0o9", "n"),
        *("42", "0123", "1e3", "true", "~", "[INST]", "{user}", ".5", "foo: bar", "#1 choice", "!important", "*foo"),
        *("&foo", "@x", "`x`", "%x", "- x", "? x", "|", ">", ""),
    ],
)
def test_a_scalar_is_banned_as_written_or_refused_with_its_line(written: str, tmp_path: Path) -> None:
    """YAML 1.1 changes a third of these without a word."""
    path = policy(tmp_path, f"  names:\n    ban:\n      phrases:\n      - ok\n      - {written}\n")
    try:
        (rule,) = pe.load(path).policies[0].rules
        outcome = [phrase.text for phrase in rule.body.phrases]
    except pe.PolicyError as error:
        outcome = [one.span.line for one in error.diagnostics]
    assert outcome in (["ok", written], [8])


def test_an_alias_bomb_is_refused_at_once(tmp_path: Path) -> None:
    """Nine levels of nine aliases are a thousand million values to a reader that follows them."""
    levels = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10)]
    path = tmp_path / "policy.yaml"
    path.write_text("a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(levels))
    start = time.monotonic()
    found = refused(path)
    assert time.monotonic() - start < 20, "a runaway, not a budget"
    assert sum(one.name == "yaml-feature" for one, _ in found) == 10 + 81
