"""`policyengine check`: what it finds, how it shows it, how findings are selected."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from policyengine.compiler.artifacts import MODULES
from policyengine.compiler.levels import TARGETS
from policyengine.lint.registry import every_code
from tests.unit.cli.conftest import BAN, Run, Write
from tests.vocabularies import small_path

ROOT = Path(__file__).parents[3]

TOKENS = "rules: {n: {min_tokens: 4}}\n"  # the hook cannot enforce it
CONTRADICTION = "targets: [vllm]\nrules: {x: {ban: {phrases: [rice]}}, y: {force: {text: 'rice!', at: start}}}\n"
UNKNOWN_KEY = "rules: {x: {ban: {phrasess: [a]}}}\n"
ELSEWHERE = "targets: [trtllm]\n" + BAN  # a warning where the project's targets are [vllm]


def names(out: str) -> list[str]:
    """The names of the findings of an output, in its order; both formats."""
    return re.findall(r"^(?:\S+: )?(?:error|warning|info)\[PE\d+ ([a-z-]+)\]", out, flags=re.MULTILINE)


# -- what is found ----------------------------------------------------------------------------------------------------


def test_the_policies_of_this_repository_are_clean(run: Run) -> None:
    result = run("check", ROOT / "policies")
    assert (result.code, result.err) == (0, "")
    count = len([path for path in (ROOT / "policies").glob("*.yaml") if ".test." not in path.name])
    assert result.out == f"{count} files, {count} rules: no findings\n"


def test_what_loading_and_what_compiling_refuses_is_reported_at_once(run: Run, write: Write) -> None:
    policies = write(a=UNKNOWN_KEY, b=CONTRADICTION, c=TOKENS)
    result = run("check", policies)
    assert (result.code, result.err) == (1, "")
    assert names(result.out) == ["unknown-key", "forced-contains-banned", "not-enforceable"]
    assert [line for line in result.out.splitlines() if "-->" in line] == [
        f"  --> {policies}/a.yaml:3:19",
        f"  --> {policies}/b.yaml:4:56",
        f"  --> {policies}/c.yaml:3:13",
    ]
    assert result.out.endswith("\n\n3 files, 4 rules: 3 errors\n")


def test_a_finding_is_shown_as_people_read_it(run: Run, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write(a=UNKNOWN_KEY).parent)
    assert run("check", "policies").out == (
        "error[PE010 unknown-key]: unknown key `phrasess`\n"
        "  --> policies/a.yaml:3:19\n"
        "  |\n"
        "3 | rules: {x: {ban: {phrasess: [a]}}}\n"
        "  |                   ^^^^^^^^\n"
        "  |\n"
        "  = help: did you mean `phrases`?\n"
        "\n"
        "1 file, 1 rule: 1 error\n"
    )


def test_a_file_that_something_is_wrong_with_gives_no_second_finding(run: Run, write: Write) -> None:
    """Its other rules are not judged by what compiling would say: the author mends it first."""
    result = run("check", write(a="rules: {n: {min_tokens: 4}, x: {ban: {phrasess: [a]}}}\n"))
    assert names(result.out) == ["unknown-key"]
    assert result.out.endswith("1 file, 2 rules: 1 error\n")


def test_a_wrong_project_file_is_reported_and_targets_are_not_guessed(run: Run, write: Write) -> None:
    result = run("check", write(project="targets: [vlm]\n", a=TOKENS))
    assert (result.code, names(result.out)) == (1, ["invalid-value"])


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ({"a": BAN, "b": BAN.replace("Project Titan, bluebird", "magpie")}, []),
        (
            {"a": "targets: [trtllm]\nrules: {a: {rewrite: {to: upper}}, b: {rewrite: {to: lower}}}\n"},
            ["conflicting-rewrites"],
        ),
        ({"a": "targets: [vllm]\nrules: {r: {ban: {phrases: [titan]}, action: redact}}\n"}, ["not-enforceable"]),
        ({"a": "targets: [trtllm-llm]\n" + BAN, "b": BAN}, ["left-out-everywhere"]),
        ({"a": CONTRADICTION, "b": TOKENS}, ["forced-contains-banned", "not-enforceable"]),
    ],
)
def test_check_reports_what_compile_refuses(
    run: Run, write: Write, tmp_path: Path, policies: dict[str, str], expected: list[str]
) -> None:
    folder = write(**policies)
    checked = run("check", folder)
    compiled = run("compile", folder, "-o", tmp_path / "build")
    assert names(checked.out) == expected
    assert (checked.code == 0) is (compiled.code == 0)
    assert set(names(compiled.err)) <= set(expected)


@pytest.mark.parametrize(
    ("project", "name", "what"),
    [
        ("package: trtllm\n", "invalid-value", "a package `trtllm` would lie where a build has its folder"),
        ("package: dist\n", "invalid-value", "a package `dist` would lie where a build has its folder"),
    ],
)
def test_a_project_that_cannot_be_compiled(
    run: Run, write: Write, tmp_path: Path, project: str, name: str, what: str
) -> None:
    policies = write(project=project, a="targets: [vllm]\n" + BAN)
    checked = run("check", policies)
    assert (checked.code, names(checked.out)) == (1, [name])
    assert what in checked.out
    assert f"{policies}/policyengine.yaml:" in checked.out
    assert run("compile", policies, "-o", tmp_path / "build").code == 2


def test_the_targets_that_check_knows_are_those_of_compile() -> None:
    assert tuple(MODULES) == TARGETS


def test_variables_are_set(run: Run, write: Write) -> None:
    policies = write(
        a="targets: [vllm]\nrules: {x: {ban: {phrases: ['{{ word }}']}}, y: {force: {text: rice!, at: start}}}\n"
    )
    assert run("check", policies).code == 0
    assert names(run("check", policies, "--set", "word=rice").out) == ["forced-contains-banned"]


# -- order ------------------------------------------------------------------------------------------------------------


def test_findings_come_by_file_line_and_column_whatever_the_order_of_the_paths(run: Run, write: Write) -> None:
    bad = "rules:\n  b: {ban: {phrases: [42, 7]}}\n  a: {min_tokens: x}\n"
    folder = write(b=bad, a=bad, c=TOKENS)
    paths = [folder / f"{name}.yaml" for name in "abc"]
    outputs = {
        run("check", "--format", "concise", *order).out for order in (paths, paths[::-1], [folder], [folder, *paths])
    }
    assert len(outputs) == 1
    places = re.findall(r"([abc])\.yaml:(\d+):(\d+)", outputs.pop())
    assert len(places) == 7
    assert places == sorted(places, key=lambda place: (place[0], int(place[1]), int(place[2])))


# -- formats ----------------------------------------------------------------------------------------------------------


def test_concise_is_a_line_a_finding(run: Run, write: Write) -> None:
    policies = write(project="targets: [vllm]\n", a=UNKNOWN_KEY, b=ELSEWHERE)
    result = run("check", policies, "--format", "concise")
    assert result.code == 1
    assert result.out == (
        f"{policies}/a.yaml:3:19: error[PE010 unknown-key] unknown key `phrasess`\n"
        f"{policies}/b.yaml:2:9: warning[PE207 left-out-everywhere] no selected target runs policy `b`\n"
        "2 files, 2 rules: 1 error, 1 warning\n"
    )


@pytest.mark.parametrize("name", ["xml", "JSON ", ""])
def test_a_format_that_is_not_there_is_refused(run: Run, write: Write, name: str) -> None:
    result = run("check", write(a=BAN), "--format", name)
    assert (result.code, result.out) == (2, "")
    assert "'text', 'concise'" in result.err


# -- --fail-level, --select, --ignore ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "code"), [(None, 0), ("error", 0), ("warning", 1), ("info", 1)])
def test_the_fail_level_decides_what_exits_1_and_not_what_is_shown(
    run: Run, write: Write, level: str | None, code: int
) -> None:
    arguments = ["--fail-level", level] if level else []
    result = run("check", write(project="targets: [vllm]\n", a=ELSEWHERE), *arguments)
    assert (result.code, names(result.out)) == (code, ["left-out-everywhere"])


@pytest.mark.parametrize("level", ["error", "warning", "info"])
def test_an_error_reaches_every_fail_level(run: Run, write: Write, level: str) -> None:
    assert run("check", write(a=TOKENS), "--fail-level", level).code == 1


@pytest.mark.parametrize(
    ("arguments", "left", "code"),
    [
        (["--select", "not-enforceable"], ["not-enforceable"], 1),
        (["--select", "pe206"], ["not-enforceable"], 1),
        (["--select", "PE206", "--select", "left-out-everywhere"], ["left-out-everywhere", "not-enforceable"], 1),
        (["--select", "PE206,PE207"], ["left-out-everywhere", "not-enforceable"], 1),
        (["--select", "PE103"], [], 0),
        (["--ignore", "not-enforceable"], ["left-out-everywhere"], 0),
        (["--ignore", "PE206,left-out-everywhere"], [], 0),
        (["--select", "PE206,PE207", "--ignore", "PE206"], ["left-out-everywhere"], 0),
    ],
)
def test_findings_are_selected(run: Run, write: Write, arguments: list[str], left: list[str], code: int) -> None:
    policies = write(project="targets: [trtllm]\n", a="targets: [vllm]\n" + BAN, b=TOKENS)
    result = run("check", policies, *arguments)
    assert (result.code, names(result.out)) == (code, left)
    assert (f"({2 - len(left)} ignored)" in result.out) is (len(left) < 2)


@pytest.mark.parametrize("arguments", [["--ignore", "unknown-key"], ["--select", "PE103"]])
def test_what_cannot_be_loaded_was_not_checked_and_is_always_reported(
    run: Run, write: Write, arguments: list[str]
) -> None:
    result = run("check", write(a=UNKNOWN_KEY), *arguments)
    assert (result.code, names(result.out)) == (1, ["unknown-key"])


@pytest.mark.parametrize("option", ["--select", "--ignore"])
def test_an_unknown_code_gets_the_nearest(run: Run, write: Write, option: str) -> None:
    result = run("check", write(a=BAN), option, "forced-contain-banned")
    assert (result.code, result.out) == (2, "")
    assert "did you mean `forced-contains-banned`?" in result.err


def test_every_code_can_be_named(run: Run, write: Write) -> None:
    everything = ",".join(f"{code.code},{code.name}" for code in every_code())
    assert run("check", write(a=BAN), "--ignore", everything).code == 0


ADVICE = "rules: {x: {ban: {phrases: [titan, Titan]}}}\nparameters: {n: {type: integer}}\n"


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        ([], ["duplicate-phrase", "unused-parameter"]),
        (["--select", "PE1xx"], ["duplicate-phrase", "unused-parameter"]),
        (["--select", "pe1"], ["duplicate-phrase", "unused-parameter"]),
        (["--select", "logic", "--ignore", "PE109"], ["duplicate-phrase"]),
        (["--select", "governance,tests"], []),
        (["--ignore", "logic"], []),
        (["--ignore", "all"], []),
    ],
)
def test_families_are_selected_by_number_or_word(run: Run, write: Write, arguments: list[str], left: list[str]) -> None:
    assert names(run("check", write(a=ADVICE), *arguments).out) == left


@pytest.mark.parametrize(
    ("lint", "arguments", "left", "code"),
    [
        ("{select: [PE102]}", [], ["duplicate-phrase"], 0),
        ("{ignore: [duplicate-phrase]}", [], ["unused-parameter"], 0),
        ("{fail_level: warning}", [], ["duplicate-phrase", "unused-parameter"], 1),
        ("{fail_level: warning}", ["--fail-level", "error"], ["duplicate-phrase", "unused-parameter"], 0),
        ("{select: [PE102]}", ["--select", "logic"], ["duplicate-phrase", "unused-parameter"], 0),
        ("{ignore: [PE102]}", ["--ignore", "PE109"], [], 0),
    ],
)
def test_the_project_file_says_what_is_reported_and_the_command_line_goes_first(
    run: Run, write: Write, lint: str, arguments: list[str], left: list[str], code: int
) -> None:
    result = run("check", write(project=f"lint: {lint}\n", a=ADVICE), *arguments)
    assert (result.code, names(result.out)) == (code, left)


def test_an_unknown_name_in_the_project_file_is_a_mistake_of_its_own(run: Run, write: Write) -> None:
    result = run("check", write(project="lint: {ignore: [duplicate-phrases]}\n", a=BAN), "--ignore", "all")
    assert (result.code, names(result.out)) == (1, ["invalid-value"])
    assert "policyengine.yaml:2:17" in result.out
    assert "did you mean `duplicate-phrase`?" in result.out


# -- --tokenizer ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model with 4,096 tokens, of which 0 ends outputs."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "tokenizer.json").write_bytes(small_path().read_bytes())
    (folder / "config.json").write_text('{"eos_token_id": 0}')
    return folder


def test_every_rule_that_the_vocabulary_refuses_is_reported(run: Run, write: Write, model: Path) -> None:
    policies = write(
        project="targets: [vllm]\n",
        a="rules:\n"
        "  end: {ban: {token_ids: [0]}}\n"
        "  fine: {ban: {token_ids: [7]}}\n"
        "  outside: {bias: {token_ids: {9999: 1}}}\n"
        "  cuda: {force: {token_id: 8888, at: 1}, when: {device: [cuda]}}\n"
        "  acme: {force: {token_id: 7777, at: 2}, when: {device: [cuda], model: ['acme-*']}}\n"
        "  elsewhere: {force: {token_id: 6666, at: 3}, when: {vocabulary: ['00000000']}}\n",
        b="rules: {opening: {force: {text: import, at: start}}}\n",
    )
    assert run("check", policies).code == 0
    result = run("check", policies, "--tokenizer", model, "--format", "concise", "--select", "not-bindable")
    assert (result.code, result.err) == (1, "")
    assert [line.removeprefix(f"{policies}/a.yaml:") for line in result.out.splitlines()] == [
        "4:9: error[PE208 not-bindable] a/end: token id 0 ends this model's outputs and cannot be banned",
        "6:13: error[PE208 not-bindable] a/outside: token id 9999 is outside the vocabulary of 4096 ids",
        "7:28: error[PE208 not-bindable] a/cuda: token id 8888 is outside the vocabulary of 4096 ids",
        "8:28: error[PE208 not-bindable] a/acme: token id 7777 is outside the vocabulary of 4096 ids",
        "2 files, 7 rules: 4 errors (4 ignored)",
    ]


def test_policies_that_bind_are_clean(run: Run, write: Write, model: Path) -> None:
    policies = write(project="targets: [vllm]\n", a=BAN, b="rules: {o: {force: {text: 'import ', at: start}}}\n")
    for path in (model, model / "tokenizer.json"):
        assert run("check", policies, "--tokenizer", path).code == 0


def test_the_hook_needs_no_vocabulary(run: Run, write: Write, model: Path) -> None:
    policies = write(project="targets: [trtllm]\n", a=BAN)
    assert run("check", policies, "--tokenizer", model).code == 0


# -- the command itself -----------------------------------------------------------------------------------------------


def test_python_m_is_the_same_command(run: Run, write: Write) -> None:
    policies = write(a=UNKNOWN_KEY, b=TOKENS)
    command = [sys.executable, "-m", "policyengine", "check", str(policies)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    here = run("check", policies)
    assert (done.returncode, done.stdout, done.stderr) == (here.code, here.out, here.err)


def test_a_check_imports_no_more_than_it_needs(write: Write) -> None:
    code = (
        "import sys\n"
        "from policyengine.cli import main\n"
        f"sys.argv = ['policyengine', 'check', {str(write(a=BAN))!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "unneeded = {'jinja2', 'jsonschema', 'regex', 'rich', 'safetensors', 'tokenizers', 'torch', 'vllm'}\n"
        "print(sorted(unneeded & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


# -- --fix, --no-ignores ----------------------------------------------------------------------------------------------

TWICE = "rules: {x: {ban: {phrases: [titan, Titan, ' moon']}}}\n"


@pytest.mark.parametrize(
    ("option", "left", "done"),
    [
        ([], ["duplicate-phrase", "edge-whitespace"], 0),
        (["--fix"], ["edge-whitespace"], 1),
        (["--fix=safe"], ["edge-whitespace"], 1),
        (["--fix=unsafe"], [], 2),
        (["--fix", "--ignore", "PE102"], ["edge-whitespace"], 0),
    ],
)
def test_fixes_are_told_on_stderr_and_what_is_left_is_reported(
    run: Run, write: Write, option: list[str], left: list[str], done: int
) -> None:
    result = run("check", write(a=TWICE), *option, "--fail-level", "warning")
    assert (result.code, names(result.out)) == (1 if left else 0, left)
    assert len(result.err.splitlines()) == done


def test_what_a_fix_did_in_words(run: Run, write: Write) -> None:
    policies = write(a=TWICE)
    assert run("check", policies, "--fix").err == (
        f"fixed {policies}/a.yaml:3:36: PE102 duplicate-phrase: removed `Titan`\n"
    )
    assert "phrases: [titan, ' moon']" in (policies / "a.yaml").read_text()


def test_fix_takes_no_value_behind_a_space(run: Run, write: Write) -> None:
    result = run("check", "--fix", write(a=TWICE))
    assert result.code == 0
    assert run("check", write(a=TWICE), "--fix", "unsafe").code == 2  # a path that is not there


def test_a_file_that_cannot_be_written_exits_2(run: Run, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    policies = write(a=TWICE)

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", refused)
    result = run("check", policies, "--fix")
    assert (result.code, "duplicate-phrase" in result.out) == (2, True)
    assert result.err == f"error: cannot write `{policies}/a.yaml`: Permission denied\n"


def test_comments_hide_nothing_from_an_auditor(run: Run, write: Write) -> None:
    comment = "# policyengine: ignore[duplicate-phrase, edge-whitespace] on purpose\n"
    policies = write(a=comment + TWICE)
    hidden = run("check", policies)
    assert (names(hidden.out), hidden.out) == ([], "1 file, 1 rule: no findings (2 ignored)\n")
    assert names(run("check", policies, "--no-ignores").out) == ["duplicate-phrase", "edge-whitespace"]
