"""The whole output of `policyengine test` in each format, for tests that fail in every way.

`UPDATE_GOLDENS=1 pytest tests/unit/cli/test_test_goldens.py` rewrites `goldens_test/`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from policyengine.runtime.text_session import TextSession
from policyengine.runtime.token_session import TokenSession
from tests import vocabularies
from tests.unit.cli.conftest import Run

GOLDENS = Path(__file__).parent / "goldens_test"
FORMATS = ("text", "json", "junit", "github", "markdown")

NAMES = """version: 1
policy: names
description: Keep names out of every answer.
rules:
  codenames:
    ban: {phrases: [Project Titan, bluebird]}
  hidden:
    ban: {phrases: [Hyperion], word_end: exact}
    fallback: {redact: "[x]"}
  never: {ban: {phrases: [magpie]}}
"""
OTHER = "version: 1\npolicy: other\ntargets: [vllm]\nrules: {long: {min_tokens: 3}}\n"
TESTS = r"""version: 1
policies: [names.yaml, other.yaml]
tests:
  caught: {text: "Ask about a bluebird.", verdict: terminate, output: "Ask about a ", rules: [names/codenames]}
  verdict: {text: "A Hyperion | and | a bluebird", verdict: redact, output: "A [x] and a bird", rules: [names/hidden]}
  long: {text: "One word after the other, and yet another one, and then 100% of Hyperion `x`.", verdict: redact,
    output: "One word after the other, and yet another one, and then 100% of [y] `x`."}
  odd: {text: "\u200b\u0007 Hyperion\nnext", verdict: pass, rules: []}
  eager: {text: Two bluebirds., verdict: pass}
  plural: {text: Two bluebirds., verdict: terminate, todo: "plurals, #12"}
  mended: {text: A bluebird., verdict: terminate, todo: "was wrong, #13"}
  chunks: {text: an xray of it, verdict: pass}
  tokens: {text: Hyperion?, verdict: redact}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The policies and the folder of a model, in the working directory; and a fault in each of the levels."""
    folder, model = tmp_path / "policies", tmp_path / "model"
    folder.mkdir()
    model.mkdir()
    (folder / "names.yaml").write_text(NAMES)
    (folder / "other.yaml").write_text(OTHER)
    (folder / "names.test.yaml").write_text(TESTS)
    (model / "tokenizer.json").write_bytes(vocabularies.small_path().read_bytes())
    (model / "config.json").write_text('{"eos_token_id": 0}')
    monkeypatch.chdir(tmp_path)
    asked = vocabularies.small().tokens.index(b"?")
    feed, parts = TextSession.feed, TokenSession.mask_parts

    def feed_wrong(self: TextSession, text: str) -> Any:
        return feed(self, text[1:] if text.startswith("x") else text)

    def mask_wrong(self: TokenSession) -> Any:
        return tuple(part[part != asked] for part in parts(self))

    monkeypatch.setattr(TextSession, "feed", feed_wrong)
    monkeypatch.setattr(TokenSession, "mask_parts", mask_wrong)
    return tmp_path


@pytest.mark.parametrize("form", FORMATS)
def test_the_output(run: Run, project: Path, form: str) -> None:
    result = run("test", "policies", "-v", "--threshold", "90", "--tokenizer", "model", "--format", form)
    assert (result.code, result.err) == (1, "")
    golden = GOLDENS / f"{form}.txt"
    if os.environ.get("UPDATE_GOLDENS"):
        golden.write_text(result.out, encoding="utf-8")
    assert result.out == golden.read_text(encoding="utf-8")


def test_every_format_tells_every_failure(run: Run, project: Path) -> None:
    """What JSON calls failed is in each of the others, and nothing else is."""
    found = json.loads((GOLDENS / "json.txt").read_text(encoding="utf-8"))
    failed = {one["id"] for one in found["tests"] if one["outcome"] == "failed"}
    assert failed == {"verdict", "long", "odd", "mended", "chunks", "tokens"}
    assert {problem["what"] for one in found["tests"] for problem in one["problems"]} == {
        *("verdict", "output", "rules", "chunks", "tokens", "todo")
    }
    for form, sign in (("text", "FAIL "), ("github", "::error title=policy test"), ("junit", "<failure ")):
        shown = (GOLDENS / f"{form}.txt").read_text(encoding="utf-8")
        assert shown.count(sign) == len(failed)
    table = (GOLDENS / "markdown.txt").read_text(encoding="utf-8")
    assert all(f"\n| {name}<br>" in table for name in failed)
