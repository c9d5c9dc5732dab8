"""`policyengine explain`: inputs, formats and exit codes."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests import vocabularies
from tests.unit.cli.conftest import Run, Write

POLICY = """\
rules:
  codenames:
    ban: {phrases: [Project Titan, bluebird], except: [bluebird song]}
    action: redact
  keys:
    ban: {phrases: [secret]}
  long-enough: {min_tokens: 3}
  polite: {bias: {phrases: {please: 2}}}
"""
ON_REQUEST = "activation: on_request\nrules: {names: {ban: {phrases: [Acme]}}}\n"


def test_character_by_character(run: Run, write: Write) -> None:
    folder = write(a=POLICY)
    result = run("explain", folder, "--text", "A bluebird song, bluebirds; Bluebird is secret. Not Project-Titan")
    at = folder / "a.yaml"
    assert (result.code, result.err) == (0, "")
    assert (
        "text: terminate (keys) by `a/keys`\na client sees: `A bluebird song, bluebirds; [redacted] is `\n"
        in result.out
    )
    flat = " ".join(result.out.split())
    for line in (
        f"3 `b` begins: `bluebird` (a/codenames {at}:5:36) held: 1 character",
        f"16 `,` no match: an exception stands around `bluebird` (a/codenames {at}:5:36)",
        "26 `s` no match: `bluebird` is complete, but `s` follows, and `match: word` needs an edge (a/codenames",
        f"redact: 29-36 `Bluebird` matches `bluebird` (a/codenames {at}:5:36)",
        f"47 `.` terminate: 41-46 `secret` (a/keys {at}:8:21) the other 18 characters are not read",
        f"3-10 `bluebird` (a/codenames {at}:5:36) the exception `bluebird song` stands around it ({at}:5:56)",
        "`match: word` needs an edge behind it: it would match with `match: prefix`",
        "`gaps: spaces` allows less between the parts: it would match with `gaps: punctuation`",
        "note: 2 rules act on tokens: --tokenizer (a/long-enough, a/polite)",
    ):
        assert line in flat, line


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "tokenizer.json").write_bytes(vocabularies.small_path().read_bytes())
    (folder / "generation_config.json").write_text('{"eos_token_id": [0, 1]}')
    return folder


def test_tokens_of_a_model(run: Run, write: Write, model: Path) -> None:
    result = run("explain", write(a=POLICY), "--text", "A secret.", "--tokenizer", model)
    flat = " ".join(result.out.split())
    assert result.code == 0
    assert "of a vocabulary of 4,096 ids 0 `A` allowed 2 ends of the output masked by a/long-enough" in flat
    assert "MASKED: `secret` (a/keys" in flat
    assert "end the output may end here" in flat
    assert "note:" not in flat


def test_ids_of_tokens(run: Run, write: Write, model: Path) -> None:
    result = run("explain", write(a=POLICY), "--tokens", "33, 34,0,35", "--tokenizer", model, "--format", "json")
    value = json.loads(result.out)
    assert (value["text"], value["tokens"]["ids"], value["tokens"]["ended"]) == (">?", [33, 34, 0], True)
    last = value["tokens"]["steps"][2]
    assert (last["text"], last["is_masked"], last["masked_ids"]) == ("<eos>", True, [0, 1])
    assert [(by["rule"], by["line"]) for by in last["refused_by"]] == [("a/long-enough", 9)]


def test_json(run: Run, write: Write) -> None:
    folder = write(a=POLICY, b=ON_REQUEST)
    value = json.loads(run("explain", folder, "--text", "Bluebird of Acme", "--format", "json").out)
    assert value["version"] == 1
    assert value["inactive_policies"] == [{"policy": "b", "activation": "on_request"}]
    assert value["matches"] == [
        {
            "rule": "a/codenames",
            "file": str(folder / "a.yaml"),
            "line": 5,
            "column": 36,
            "phrase": "bluebird",
            "action": "redact",
            "start": 0,
            "end": 8,
            "decided_at": 10,
        }
    ]
    assert [(miss["rule"], miss["why"]) for miss in value["near_misses"]] == [("b/names", "inactive")]
    assert "".join(step["sent"] for step in value["steps"]) == value["output"] == "[redacted] of Acme"
    assert value["tokens"] is None


def test_a_request(run: Run, write: Write) -> None:
    folder = write(a=POLICY, b=ON_REQUEST)
    result = run("explain", folder, "--text", "Acme", "--request", '{"policies": ["b"]}')
    assert "text: terminate (names) by `b/names`" in result.out
    assert run("explain", folder, "--text", "Acme").out.count("on_request") == 2


def test_where_the_text_comes_from(run: Run, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(a=POLICY)
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfa secret \xff")
    expected = run("explain", folder, "--text", "a secret \ufffd").out
    assert run("explain", folder, "--file", tmp_path / "a.txt").out == expected
    for arguments in (("--file", "-"), ("-",)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a secret \xff")))
        assert run("explain", folder, *arguments).out == expected


def test_nothing_to_tell(run: Run, write: Write) -> None:
    result = run("explain", write(a="rules: {r: {ban: {phrases: [zebra]}}}\n"), "--text", "hello")
    assert result.out == (
        "text: pass\na client sees: `hello`\n\nnothing began to match: every character leaves at once\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give what the model writes, once"),
        (("--text", "a", "--file", "b"), "give what the model writes, once"),
        (("--file", "no-such-file"), "no-such-file: No such file or directory"),
        (("--file", ""), "--file is empty"),
        (("-", "--file", "x"), "both name the text"),
        (("--tokens", "1"), "--tokens needs --tokenizer"),
        (("--tokens", "one", "--tokenizer", "x"), "--tokens takes ids"),
        (("--text", "a", "--tokenizer", "no-such-folder"), "no-such-folder"),
        (("--text", "a", "--request", "{"), "--request is not JSON"),
        (("--text", "a", "--request", '{"policies": ["zz"]}'), "--request: unknown policy"),
        (("--text", "a", "--set", "x"), "--set takes NAME=VALUE"),
    ],
)
def test_what_cannot_be_explained(run: Run, write: Write, arguments: tuple[str, ...], message: str) -> None:
    result = run("explain", write(a=POLICY), *arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_no_policies_and_wrong_ones(run: Run, write: Write, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert run("explain", empty, "--text", "a").code == 3
    result = run("explain", write(a="rules: {r: {ban: {phrasess: [a]}}}\n"), "--text", "a")
    assert (result.code, result.out) == (2, "")
    assert "did you mean `phrases`?" in result.err


def test_lines_fit_a_terminal(run: Run, write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(a=POLICY, b=ON_REQUEST)
    monkeypatch.chdir(tmp_path)
    for more in ((), ("--verbose",)):
        result = run("explain", "policies", "--text", "Bluebird song of Acme and Project Titans, a secret.", *more)
        assert max(map(len, result.out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_colours_on_a_terminal(write: Write, environment: dict[str, str], coloured: bool) -> None:
    command = [sys.executable, "-m", "policyengine", "explain", str(write(a=POLICY)), "--text", "a secret"]
    master, slave = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    done = subprocess.run(command, stdout=slave, check=True, env={**kept, "TERM": "xterm", **environment})
    os.close(slave)
    shown = os.read(master, 1 << 16).decode()
    os.close(master)
    assert done.returncode == 0
    assert ("\x1b[1;31mterminate\x1b[0m" in shown) == coloured
