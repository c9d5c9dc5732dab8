"""`policyengine scan`: inputs, results and exit codes."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Run, Write

REDACT = "rules: {names: {ban: {phrases: [bluebird]}, action: redact}}\n"
END = "rules: {keys: {ban: {phrases: [secret]}, action: {terminate: {reason: leaked, message: Sorry.}}}}\n"
BLOCK = "rules: {b: {ban: {phrases: [secret]}, action: {block: No.}}}\n"


class Stdin(io.TextIOWrapper):
    """Standard input that holds these bytes."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda data: monkeypatch.setattr(sys, "stdin", Stdin(data))


def text(tmp_path: Path, content: str | bytes, name: str = "a.txt") -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# -- one text ----------------------------------------------------------------------------------------------------------


def test_what_a_client_would_see_and_why(run: Run, write: Write, tmp_path: Path) -> None:
    path = text(tmp_path, "One bluebird.\nTwo\n  bluebirds, BLUE\u200bBIRD!\n")
    result = run("scan", write(a=REDACT), path)
    assert (result.code, result.err) == (1, "")
    assert result.out == (
        f"{path}:1:5: redact by a/names: `bluebird`\n"
        f"{path}:3:14: redact by a/names: `BLUE\\u200bBIRD`\n"
        "redact: 2 matches; 42 characters read, 45 shown\n"
        "\na client sees:\nOne [redacted].\nTwo\n  bluebirds, [redacted]!\n\n"
    )


@pytest.mark.parametrize(
    ("policy", "content", "code", "verdict", "seen"),
    [
        (REDACT, "nothing here", 0, "pass: 0 matches", "nothing here"),
        (END, "the secret is", 1, "terminate (leaked): 1 match", "the Sorry."),
        (BLOCK, "the secret is", 1, "block (b): 1 match", "No."),
        ("rules: {loud: {rewrite: {to: upper}}}\n", "quiet", 0, "rewrite: 0 matches", "QUIET"),
        ("rules: {n: {ban: {phrases: [bluebird]}}}\n", "a bluebird", 1, "terminate (n): 1 match", "a "),
        (REDACT, "", 0, "pass: 0 matches", None),
    ],
)
def test_verdicts(
    run: Run, write: Write, tmp_path: Path, policy: str, content: str, code: int, verdict: str, seen: str | None
) -> None:
    result = run("scan", write(a=policy), text(tmp_path, content))
    assert result.code == code
    assert verdict in result.out
    assert result.out.endswith("a client sees nothing\n" if seen is None else f"a client sees:\n{seen}\n")


def test_standard_input(run: Run, write: Write, stdin: Any) -> None:
    policies = write(a=REDACT)
    for arguments in ((policies,), (policies, "-"), (policies / "a.yaml",), (policies / "a.yaml", policies)):
        stdin(b"a bluebird")
        result = run("scan", *arguments)
        assert result.code == 1
        assert "<stdin>:1:3: redact by a/names" in result.out


def test_a_long_text_is_not_printed_but_written(run: Run, write: Write, tmp_path: Path) -> None:
    content = "all good. " * 20_000 + "a bluebird"
    path, seen = text(tmp_path, content), tmp_path / "seen.txt"
    policies = write(a=REDACT)
    result = run("scan", policies, path)
    assert f"{path}:1:200003: redact" in result.out
    assert "`--output FILE` writes what a client sees" in result.out
    assert len(result.out) < 500
    result = run("scan", policies, path, "--output", seen)
    assert result.code == 1
    assert seen.read_text() == content.replace("bluebird", "[redacted]")
    assert "a client sees" not in result.out


def test_the_text_alone_on_standard_output(run: Run, write: Write, tmp_path: Path) -> None:
    result = run("scan", write(a=REDACT), text(tmp_path, "a bluebird\r\n"), "--output", "-")
    assert (result.code, result.out) == (1, "a [redacted]\r\n")
    assert "redact by a/names" in result.err


def test_json(run: Run, write: Write, tmp_path: Path) -> None:
    path = text(tmp_path, 'Say "x".\nA bluebird 🙂')
    result = run("scan", write(a=REDACT), path, "--format", "json")
    assert result.code == 1
    assert json.loads(result.out) == {
        "input": str(path),
        "output": 'Say "x".\nA [redacted] 🙂',
        "verdict": "redact",
        "reason": None,
        "matches": [
            {"rule": "a/names", "action": "redact", "start": 11, "end": 19, "line": 2, "column": 3, "text": "bluebird"}
        ],
    }


def test_json_of_very_many_matches_stays_small(run: Run, write: Write, tmp_path: Path) -> None:
    result = json.loads(run("scan", write(a=REDACT), text(tmp_path, "bluebird " * 1_500), "--format", "json").out)
    assert (len(result["matches"]), result["matches_left_out"]) == (1_000, 500)
    assert result["output"] == "[redacted] " * 1_500


def test_invalid_utf_8_is_read_as_an_engine_shows_it(run: Run, write: Write, tmp_path: Path) -> None:
    """A cut character is one U+FFFD, which is no letter: the word before it ends there."""
    path = text(tmp_path, b"\xef\xbb\xbfcaf\xc3 bluebird\xe2\x82 \xff\xfe")
    result = run("scan", write(a=REDACT), path)
    assert result.code == 1
    assert "a client sees:\ncaf\ufffd [redacted]\ufffd \ufffd\ufffd\n" in result.out
    assert f"{path}:1:6: redact" in result.out
    assert result.err == f"{path}: invalid UTF-8, read as 4 U+FFFD, the first at byte 6\n"


# -- JSON lines --------------------------------------------------------------------------------------------------------

LINES = """{"text": "fine"}

{"response": "a bluebird", "text": null}
{"choices": [{"message": {"content": "bluebird"}}]}
"bluebird alone"
"""


def test_json_lines(run: Run, write: Write, tmp_path: Path) -> None:
    path = text(tmp_path, LINES, "answers.jsonl")
    result = run("scan", write(a=REDACT), path)
    assert (result.code, result.err) == (1, "")
    assert result.out.splitlines() == [
        f"{path}:1: pass",
        f"{path}:3: redact by a/names at 1:3: a [redacted]",
        f"{path}:4: redact by a/names at 1:1: [redacted]",
        f"{path}:5: redact by a/names at 1:1: [redacted] alone",
        "4 texts: 1 pass, 3 redact",
    ]


def test_json_lines_as_json(run: Run, write: Write, tmp_path: Path) -> None:
    path = text(tmp_path, LINES, "answers.ndjson")
    found = [json.loads(line) for line in run("scan", write(a=REDACT), path, "--format", "json").out.splitlines()]
    assert [(one["input_line"], one["verdict"], one["output"]) for one in found] == [
        (1, "pass", "fine"),
        (3, "redact", "a [redacted]"),
        (4, "redact", "[redacted]"),
        (5, "redact", "[redacted] alone"),
    ]


def test_each_line_is_an_output_of_its_own(run: Run, write: Write, tmp_path: Path) -> None:
    path = text(tmp_path, '{"text": "sec"}\n{"text": "ret"}\n{"text": "a secret"}\n{"text": "on"}\n', "x.jsonl")
    result = run("scan", write(a=END), path)
    assert [line.split(": ")[1] for line in result.out.splitlines()[:-1]] == [
        "pass",
        "pass",
        "terminate by a/keys at 1:3",
        "pass",
    ]


@pytest.mark.parametrize(
    ("line", "options", "says"),
    [
        ("{", [], "not JSON"),
        ("[" * 100_000, [], "not JSON: nested too deeply"),
        ('{"number": 3}', [], "no text under any of the usual names; say which with --field"),
        ('{"text": "x"}', ["--field", "a.b"], "there is no `a.b`"),
        ('{"a": {"b": 3}}', ["--field", "a.b"], "there is no text at `a.b`"),
    ],
)
def test_a_line_without_a_text_fails_and_the_others_go_on(
    run: Run, write: Write, tmp_path: Path, line: str, options: list[str], says: str
) -> None:
    good = '{"text": "bluebird", "a": {"b": "bluebird"}}'
    path = text(tmp_path, f"{line}\n{good}\n", "x.jsonl")
    result = run("scan", write(a=REDACT), path, *options)
    assert result.code == 2
    assert f"error: {path}:1: {says}" in result.err
    assert f"{path}:2: redact" in result.out


@pytest.mark.parametrize("field", ["a.0.b", "deep.key", "text"])
def test_fields(run: Run, write: Write, stdin: Any, field: str) -> None:
    stdin(json.dumps({"a": [{"b": "bluebird"}], "deep.key": "bluebird", "text": "bluebird"}).encode())
    assert run("scan", write(a=REDACT), "-", "--field", field).code == 1


# -- requests ----------------------------------------------------------------------------------------------------------


def test_a_request_selects_policies(run: Run, write: Write, tmp_path: Path) -> None:
    policies, path = write(a="activation: on_request\n" + REDACT), text(tmp_path, "bluebird")
    assert run("scan", policies, path).code == 0
    assert run("scan", policies, path, "--request", '{"policies": ["a"]}').code == 1


@pytest.mark.parametrize(
    ("request_", "says"),
    [("{", "--request is not JSON"), ('{"policies": ["b"]}', "unknown policy 'b'"), ("[1]", "must be a mapping")],
)
def test_a_bad_request(run: Run, write: Write, tmp_path: Path, request_: str, says: str) -> None:
    result = run("scan", write(a=REDACT), text(tmp_path, "x"), "--request", request_)
    assert (result.code, result.out) == (2, "")
    assert says in result.err


# -- what cannot be done -----------------------------------------------------------------------------------------------


def test_exit_codes_of_what_is_not_there(run: Run, write: Write, tmp_path: Path) -> None:
    policies, empty = write(a=REDACT), tmp_path / "empty"
    empty.mkdir()
    path = text(tmp_path, "x")
    assert run("scan", empty, path).code == 3
    assert run("scan", policies, tmp_path / "gone.txt").code == 2
    assert run("scan", tmp_path / "gone", path).code == 2
    assert run("scan", "-").code == 2
    assert run("scan", policies, path, "--output", tmp_path / "no" / "such").code == 2
    assert run("scan", policies, path, "--jsonl", "--output", tmp_path / "x").code == 2
    broken = write(a="rules: {x: {ban: {phrasess: [a]}}}\n")
    result = run("scan", broken, path)
    assert (result.code, result.out) == (2, "")
    assert "did you mean `phrases`?" in result.err


def test_progress_is_for_terminals_only(write: Write, tmp_path: Path) -> None:
    """A long text: nothing on a pipe, a line that is written over on a terminal."""
    policies, path = write(a=REDACT), text(tmp_path, b"all good, and so on. " * 400_000)
    code = (
        "import sys; from policyengine.cli import scan; scan._INTERVAL = 0.0; sys.argv = ['policyengine', 'scan', "
        f"{str(policies)!r}, {str(path)!r}]; from policyengine.cli import main; main()"
    )
    quiet = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (quiet.returncode, quiet.stderr) == (0, b"")
    ours, theirs = pty.openpty()
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=theirs, check=False)
    os.close(theirs)
    shown = os.read(ours, 4096)
    os.close(ours)
    assert done.returncode == 0
    assert b"characters read" in shown
    assert b"\r" in shown
