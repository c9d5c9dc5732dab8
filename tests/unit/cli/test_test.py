"""`policyengine test`: exit codes in every format, what is selected, coverage, colours, and tests of wrong files."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests import vocabularies
from tests.unit.cli.conftest import Run

FORMATS = ("text", "json", "junit", "github", "markdown")

POLICY = """version: 1
policy: names
rules:
  codenames:
    ban: {phrases: [Project Titan, bluebird]}
  hidden:
    ban: {phrases: [Hyperion]}
    fallback: {redact: "[x]"}
"""
PASSES = '{text: "Ask about bluebird.", verdict: terminate, output: "Ask about ", rules: [names/codenames]}'
FAILS = "{text: Two bluebirds., verdict: terminate}"

Tests = Callable[..., Path]


@pytest.fixture
def tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tests:
    """`tests(a=PASSES)` writes `policies/names.yaml` with its tests, in what is then the working directory."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "policies"
    folder.mkdir()

    def written(policy: str = POLICY, policies: str = "names.yaml", **cases: str) -> Path:
        (folder / "names.yaml").write_text(policy, encoding="utf-8")
        lines = [f"version: 1\npolicies: [{policies}]\ntests:", *(f"  {name}: {case}" for name, case in cases.items())]
        (folder / "names.test.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return folder

    return written


# -- exit codes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    ("cases", "arguments", "code"),
    [
        ({"a": PASSES}, [], 0),
        ({"a": PASSES, "b": FAILS}, [], 1),
        ({"a": PASSES, "b": FAILS}, ["--run", "::a"], 0),
        ({"a": PASSES, "b": FAILS}, ["--run", "nothing"], 3),
        ({"a": FAILS.replace("}", ', todo: "plurals, #12"}')}, [], 0),
        ({"a": PASSES.replace("}", ", todo: later}")}, [], 1),
        ({"a": PASSES}, ["--coverage"], 0),
        ({"a": PASSES}, ["--threshold", "50"], 0),
        ({"a": PASSES}, ["--threshold", "51"], 1),
        ({"a": PASSES, "b": "{text: x, verdict: fail}"}, [], 2),
        ({"a": PASSES, "b": "{text: x, verdict: pass, request: {policies: [other]}}"}, [], 2),
        ({"a": PASSES, "b": "{text: x, verdict: pass, rules: [names/codename]}"}, [], 2),
    ],
    ids=[
        *("passes", "fails", "selected", "none-selected", "todo", "todo-passes"),
        *("coverage", "enough", "too-little", "invalid", "request", "rule"),
    ],
)
def test_exit_codes_are_the_same_in_every_format(
    run: Run, tests: Tests, cases: dict[str, str], arguments: list[str], code: int, form: str
) -> None:
    tests(**cases)
    result = run("test", "policies", "--format", form, *arguments)
    assert result.code == code, result
    assert bool(result.out) == (code < 2)
    assert bool(result.err) == (code >= 2)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["missing"], 2, "`missing` does not exist"),
        (["policies/missing.test.yaml"], 2, "does not exist"),
        ([""], 2, "an empty path names nothing"),
        (["policies/names.yaml"], 2, "is not a test file"),
        (["empty"], 3, "no tests: no `*.test.yaml` in `empty`"),
        (["--run", "("], 2, "--run is no regular expression"),
        (["--run", ""], 2, "--run is empty"),
        (["--tokenizer", "missing"], 2, "missing"),
        (["--tokenizer", ""], 2, "--tokenizer is empty"),
        (["--threshold", "101"], 2, "--threshold"),
        (["--set", "x"], 2, "--set takes NAME=VALUE"),
        (["--format", "xml"], 2, "--format"),
    ],
)
def test_what_cannot_be_run(run: Run, tests: Tests, arguments: list[str], code: int, said: str) -> None:
    tests(a=PASSES)
    Path("empty").mkdir()
    result = run("test", *arguments)
    assert (result.code, result.out) == (code, "")
    assert said in result.err
    assert "Traceback" not in result.err


def test_without_a_path_the_working_directory_is_meant(run: Run, tests: Tests) -> None:
    """With its folders, but neither hidden ones nor what a compile wrote."""
    folder = tests(a=PASSES)
    for other in (".hidden", "build/policy_bundle"):
        Path(other).mkdir(parents=True)
        Path(other, "x.test.yaml").write_text("wrong")
    Path("build/policy_bundle-0.dist-info").mkdir()
    (folder / ".hidden.test.yaml").write_text("wrong")
    assert run("test").out.startswith("1 test in 1 file: 1 passed\n")


# -- wrong test files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "policies", "shown"),
    [
        (
            "{text: x, verdict: pass, request: {policies: [nams]}}",
            "names.yaml",
            "error[invalid-value]: the policies refuse this request: unknown policy 'nams': this server offers "
            "no policy to select\n  --> policies/names.test.yaml:4:40\n",
        ),
        (
            "{text: x, verdict: pass, rules: [names/codename]}",
            "names.yaml",
            "error[invalid-value]: the policies have no rule `names/codename`\n  --> policies/names.test.yaml:4:38\n",
        ),
        (PASSES, "nams.yaml", "error[unreadable-file]: `policies/nams.yaml` does not exist\n"),
        (PASSES, "../empty", "no policies in `empty`"),
        (
            "{text: x}",
            "names.yaml",
            "error[missing-key]: missing key `verdict`\n  --> policies/names.test.yaml:4:3\n",
        ),
        ("{verdict: pass}", "names.yaml", "a test needs `text` or `chunks`\n"),
        ("{text: x, chunks: [x], verdict: pass}", "names.yaml", "`text` and `chunks` exclude each other\n"),
    ],
)
def test_a_wrong_test_file_is_shown_where_it_is_wrong(
    run: Run, tests: Tests, case: str, policies: str, shown: str
) -> None:
    tests(policies=policies, a=case)
    Path("empty").mkdir()
    result = run("test", "policies")
    assert (result.code, result.out) == (2, "")
    assert shown in re.sub(r"PE\d+ ", "", result.err)
    assert "names.test.yaml" in result.err


def test_a_near_miss_of_a_rule_is_offered(run: Run, tests: Tests) -> None:
    tests(a="{text: x, verdict: pass, rules: [names/codename]}")
    assert "= help: did you mean `names/codenames`?" in run("test", "policies").err


def test_all_that_is_wrong_is_said_at_once(run: Run, tests: Tests) -> None:
    """In two test files and a policy; a policy that both name is told of once."""
    folder = tests(policy=POLICY.replace("phrases", "phrasess"), a=PASSES)
    (folder / "more.test.yaml").write_text("version: 1\npolicies: [names.yaml]\ntests: {a: {text: x, verdict: pass}}\n")
    (folder / "third.test.yaml").write_text("version: 2\npolicies: [names.yaml]\ntests: {}\n")
    result = run("test", "policies")
    assert result.code == 2
    places = [line.strip() for line in result.err.splitlines() if "-->" in line]
    assert [place for place in places if "names.yaml" in place] == [
        "--> policies/names.yaml:5:11",
        "--> policies/names.yaml:7:11",
    ]
    assert any("third.test.yaml:1" in place for place in places)


# -- what is shown -----------------------------------------------------------------------------------------------------


def test_a_failure_shows_expected_and_actual(run: Run, tests: Tests) -> None:
    wrong = PASSES.replace("about ", "of ", 1).replace('about "', 'about"').replace("terminate", "redact")
    tests(a=PASSES, b=wrong, c=FAILS)
    assert run("test", "policies").out == (
        "FAIL policies/names.test.yaml:5:3 b\n"
        "  verdict expected redact\n"
        "          got      terminate by names/codenames\n"
        "  output  expected `Ask about`\n"
        "          got      `Ask of `\n"
        "  text    `Ask of bluebird.`\n"
        "\n"
        "FAIL policies/names.test.yaml:6:3 c\n"
        "  verdict expected terminate\n"
        "          got      pass\n"
        "  text    `Two bluebirds.`\n"
        "\n"
        "3 tests in 1 file: 1 passed, 2 failed\n"
        "run in 17 chunkings\n"
    )


def test_no_line_is_wider_than_a_terminal(run: Run, tests: Tests) -> None:
    """Long texts are cut around the place where they part; what does not show is an escape."""
    text = "word " * 60 + "\\u200b Hyperion " + "word " * 60
    tests(a=f'{{text: "{text}", verdict: redact, output: "{text.replace("Hyperion", "[y]")}"}}')
    out = run("test", "policies").out
    assert max(map(len, out.splitlines())) <= 80
    assert "\\u200b [y] word" in out
    assert "\\u200b [x] word" in out


def test_verbose_names_every_test(run: Run, tests: Tests) -> None:
    tests(a=PASSES, b=FAILS.replace("}", ", todo: plurals}"))
    assert run("test", "policies", "-v").out == (
        "ok   policies/names.test.yaml:4:3 a\n"
        "todo policies/names.test.yaml:5:3 b: plurals\n"
        "\n"
        "2 tests in 1 file: 1 passed, 1 todo\n"
        "run in 16 chunkings\n"
    )


def test_a_todo_that_passes_says_so(run: Run, tests: Tests) -> None:
    tests(a=PASSES.replace("}", ", todo: later}"))
    assert "expected to fail: later\n          got      it passes now: remove `todo`\n" in run("test", "policies").out


def test_run_takes_what_is_in_the_file_and_the_id(run: Run, tests: Tests) -> None:
    folder = tests(first=PASSES, second=PASSES)
    (folder / "more.test.yaml").write_text(
        "version: 1\npolicies: [names.yaml]\ntests: {second: {text: x, verdict: pass}}\n"
    )
    for pattern, count in (("second", 2), ("more", 1), ("names.*first", 1), ("^policies/", 3), ("s$", 0)):
        out = run("test", "policies", "--run", pattern, "--format", "json").out
        assert (json.loads(out)["summary"]["tests"] if out else 0) == count


# -- coverage ----------------------------------------------------------------------------------------------------------


def test_coverage_names_what_no_test_touches(run: Run, tests: Tests) -> None:
    """Rules of policies that no test names, too; what only steers tokens does not count."""
    folder = tests(a=PASSES)
    (folder / "other.yaml").write_text(
        "version: 1\npolicy: other\ntargets: [vllm]\nrules:\n  a: {ban: {phrases: [magpie]}}\n  b: {min_tokens: 3}\n"
        "  c: {ban: {phrases: [merle]}, mode: shadow}\n"
    )
    Path("compose.yaml").write_text("services: {}\n")  # not a policy, and not beside one
    result = run("test", ".", "--coverage")
    assert result.code == 0
    assert result.out.endswith(
        "coverage: 1 of 3 rules (33.3 %)\n"
        "  policies/names.yaml:6:3 names/hidden: no test makes it act\n"
        "  policies/other.yaml:5:3 other/a: no test makes it act\n"
        "  no text can show 2 more rules: they steer tokens, need an engine, or only watch\n"
    )
    assert "below the 40 % asked for" in run("test", ".", "--threshold", "40").out


def test_a_test_that_fails_covers_nothing(run: Run, tests: Tests) -> None:
    tests(a=PASSES.replace("Ask about ", "Ask ", 1), b="{text: Hyperion, verdict: redact, todo: x, output: y}")
    assert "coverage: 0 of 2 rules (0 %)" in run("test", "policies", "--coverage").out


def test_policies_without_rules_on_text_are_covered(run: Run, tests: Tests) -> None:
    policy = "version: 1\npolicy: names\ntargets: [vllm]\nrules: {a: {min_tokens: 3}}\n"
    tests(policy=policy, a="{text: x, verdict: pass}")
    assert run("test", "policies", "--threshold", "100").code == 0


def test_a_policy_beside_the_tests_that_cannot_be_loaded(run: Run, tests: Tests) -> None:
    """Its rules are not known, so there is no coverage to tell."""
    folder = tests(a=PASSES)
    (folder / "other.yaml").write_text("version: 1\n")
    assert run("test", "policies").code == 0
    result = run("test", "policies", "--coverage")
    assert (result.code, result.out) == (2, "")
    assert "policies/other.yaml" in result.err


# -- machines ----------------------------------------------------------------------------------------------------------


def test_json_says_everything(run: Run, tests: Tests) -> None:
    tests(a=PASSES, b=FAILS)
    found = json.loads(run("test", "policies", "--format", "json", "--coverage").out)
    assert found["version"] == 1
    assert [(one["id"], one["outcome"], one["line"], one["column"]) for one in found["tests"]] == [
        ("a", "passed", 4, 3),
        ("b", "failed", 5, 3),
    ]
    assert found["tests"][0]["seen"] == {
        "verdict": "terminate",
        "output": "Ask about ",
        "rules": ["names/codenames"],
        "reason": "codenames",
    }
    assert found["tests"][1]["problems"] == [{"what": "verdict", "expected": "terminate", "actual": "pass"}]
    assert found["summary"]["failed"] == 1
    assert found["coverage"]["uncovered"] == [
        {"rule": "names/hidden", "file": "policies/names.yaml", "line": 6, "column": 3}
    ]


def test_junit_is_what_ci_reads(run: Run, tests: Tests) -> None:
    """Also of texts with characters that XML cannot hold."""
    odd = '{text: "a\\u0001b\\uFFFEbluebirds", verdict: block, output: "\\u0001"}'
    tests(a=PASSES, b=odd, c=FAILS.replace("}", ", todo: x}"))
    root = ElementTree.fromstring(run("test", "policies", "--format", "junit").out)
    assert root.attrib == {"name": "policyengine test", "tests": "3", "failures": "1", "errors": "0", "skipped": "1"}
    (suite,) = root
    assert [(case.get("name"), case.get("line"), [child.tag for child in case]) for case in suite] == [
        ("a", "4", []),
        ("b", "5", ["failure"]),
        ("c", "6", ["skipped"]),
    ]
    assert suite[1][0].get("message") == "verdict: expected block, got pass"


def test_github_annotates_the_line(run: Run, tests: Tests) -> None:
    tests(a='{text: "100% bluebirds", verdict: terminate}')
    first, *_, last = run("test", "policies", "--format", "github", "--coverage").out.splitlines()
    assert first == (
        "::error title=policy test a,file=policies/names.test.yaml,line=4,col=3::"
        "verdict expected terminate%0A        got      pass%0Atext    `100%25 bluebirds`"
    )
    assert last == "  policies/names.yaml:6:3 names/hidden: no test makes it act"


def test_markdown_is_a_table_that_no_text_breaks(run: Run, tests: Tests) -> None:
    tests(a='{text: "a | <b> *bluebird*", verdict: terminate, output: "a | <b>"}', b=PASSES)
    out = run("test", "policies", "--format", "markdown").out
    assert out == (
        "### Policy tests: 1 failed, 1 passed\n"
        "\n"
        "| test | | expected | got |\n"
        "|---|---|---|---|\n"
        "| a<br>policies/names.test.yaml:4:3 | output | `a \\| <b>` | `a \\| <b> *` |\n"
        "\n"
        "2 tests in 1 file: 1 passed, 1 failed\n"
        "- run in 16 chunkings\n"
    )


# -- tokens, terminals, watching ---------------------------------------------------------------------------------------


def model(tmp_path: Path) -> Path:
    """The small tokenizer as the folder of a model."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "tokenizer.json").write_bytes(vocabularies.small_path().read_bytes())
    (folder / "config.json").write_text('{"eos_token_id": 0}')
    return folder


def test_tokens_of_a_model(run: Run, tests: Tests, tmp_path: Path) -> None:
    """In segmentations too; what `eager` forbids of a text that passes is counted apart."""
    tests(a=PASSES, b="{text: Two bluebirds., verdict: pass}")
    result = run("test", "policies", "-v", "--tokenizer", model(tmp_path))
    assert result.code == 0
    assert "b (eager forbids 16 ways to write it)\n" in result.out
    assert "segmentations\n`word_end: eager` forbids some ways to write 1 passing text (--verbose)\n" in result.out


def shown_on_a_terminal(arguments: list[str], **environment: str) -> str:
    """What a command writes on a terminal."""
    ours, theirs = pty.openpty()
    env = {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | environment
    command = [sys.executable, "-m", "policyengine", *arguments]
    subprocess.run(command, stdout=theirs, stderr=theirs, check=False, env=env)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:  # how a terminal says that there is no more
        pass
    os.close(ours)
    return shown.decode()


def test_colours_only_where_they_are_wanted(run: Run, tests: Tests) -> None:
    tests(a=FAILS)
    assert "\x1b" not in run("test", "policies").out
    plain = run("test", "policies").out.replace("\n", "\r\n")
    assert shown_on_a_terminal(["test", "policies"], TERM="xterm") == plain.replace("FAIL", "\x1b[31mFAIL\x1b[0m", 1)
    assert shown_on_a_terminal(["test", "policies"], TERM="xterm", NO_COLOR="1") == plain
    assert shown_on_a_terminal(["test", "policies"], TERM="dumb") == plain
    assert "\x1b" not in shown_on_a_terminal(["test", "policies", "--format", "json"], TERM="xterm")


def test_watch_runs_again_until_it_is_interrupted(run: Run, tests: Tests, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tests(a=FAILS)
    edits = iter([lambda: tests(a=PASSES), lambda: (folder / "names.yaml").write_text("version: 1\n")])

    def sleep(_: float) -> None:
        edit = next(edits, None)
        if edit is None:
            raise KeyboardInterrupt
        edit()

    monkeypatch.setattr("time.sleep", sleep)
    result = run("test", "policies", "--watch")
    assert "1 failed" in result.out
    assert "1 passed" in result.out
    assert "policies/names.yaml:1:1" in result.err
    assert result.code == 2  # as the last run


def test_help_has_an_example(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = run("test", "--help").out
    assert "Example: policyengine test policies --coverage" in out
    assert max(map(len, out.splitlines())) <= 80
