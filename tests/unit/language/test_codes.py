"""The registry of codes: stable and complete. Its examples are tested with `policyengine code`, which prints them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import policyengine
from policyengine.language import codes
from policyengine.language.codes import Code

# What was published once. Codes and names are stable and never reused: this table only grows.
PUBLISHED = {
    "PE001": "yaml-syntax",
    "PE002": "invalid-encoding",
    "PE003": "duplicate-key",
    "PE004": "yaml-feature",
    "PE005": "unquoted-phrase",
    "PE009": "several-documents",
    "PE010": "unknown-key",
    "PE011": "missing-key",
    "PE012": "wrong-type",
    "PE013": "invalid-value",
    "PE014": "conflicting-keys",
    "PE015": "empty-file",
    "PE016": "unreadable-file",
    "PE017": "over-limit",
    "PE018": "invalid-character",
    "PE019": "empty-phrase",
    "PE020": "control-character",
    "PE021": "not-yet-supported",
    "PE022": "no-policies",
    "PE023": "project-conflict",
    "PE024": "invalid-regex",
    "PE103": "forced-contains-banned",
    "PE110": "duplicate-policy",
    "PE111": "parameter-type-conflict",
    "PE112": "undeclared-parameter",
    "PE113": "parameter-misfit",
    "PE114": "default-out-of-limits",
    "PE115": "conflicting-forces",
    "PE116": "message-contains-banned",
    "PE117": "conflicting-rewrites",
    "PE118": "conflicting-defaults",
    "PE119": "reserved-parameter",
    "PE120": "irregular-regex",
    "PE121": "nothing-allowed",
    "PE122": "forced-not-allowed",
    "PE206": "not-enforceable",
    "PE207": "left-out-everywhere",
    "PE208": "not-bindable",
    "PE209": "config-conflict",
    "PE210": "config-unsafe",
    "PE220": "engine-too-old",
    "PE221": "engine-unverified",
    "PE222": "class-not-loadable",
    "PE223": "not-activated",
    "PE224": "config-not-read",
    "PE225": "processors-replaced",
    "PE226": "raw-logprobs",
    "PE227": "speculative-decoding",
    "PE228": "pooling-model",
    "PE229": "diffusion-model",
    "PE230": "unsupported-device",
    "PE231": "tokens-not-told",
    "PE232": "plugin-filtered",
    "PE233": "requests-not-checked",
    "PE234": "other-build",
    "PE235": "workers-not-told",
}


def test_codes_are_what_was_published() -> None:
    """A new code is added to the table above; none changes or goes."""
    assert {code.code: code.name for code in codes.ALL if code.code in PUBLISHED} == PUBLISHED
    assert len({code.code for code in codes.ALL}) == len({code.name for code in codes.ALL}) == len(codes.ALL)


@pytest.mark.parametrize("code", codes.ALL, ids=lambda code: code.name)
def test_form_of_a_code(code: Code) -> None:
    """Numbers, names and one-line summaries look alike everywhere."""
    assert re.fullmatch(r"PE[0-4]\d\d", code.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code.name)
    assert not code.summary.endswith(".")
    assert "\n" not in code.summary
    assert code.page.startswith(f"{code.code} {code.name}")
    assert codes.find(code.code.lower()) is codes.find(code.name.upper()) is code


def test_every_name_in_the_source_is_registered() -> None:
    """A finding under an unknown name would be a traceback where a person expects a diagnostic."""
    used = set()
    for path in Path(policyengine.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            name = node.args[0].value
            if called in ("diagnostic", "add", "problem", "Refusal") and isinstance(name, str) and "-" in name:
                used.add(name)
    assert len(used) > 15
    assert used <= {code.name for code in codes.ALL}


def test_an_unknown_name_lists_what_there_is() -> None:
    """For people who write a new check."""
    with pytest.raises(KeyError, match="duplicate-key"):
        codes.by_name("dupe")
    assert codes.find("dupe") is None
