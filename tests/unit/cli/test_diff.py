"""`policyengine diff` on the command line: sides, formats, exit codes, real answers.

The goldens are what is printed for the policies of `BASE` and `HEAD`; `UPDATE_GOLDENS=1` rewrites them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run

GOLDENS = Path(__file__).parent / "diff_goldens"

BASE = """\
version: 1
policy: names
owner: someone
parameters:
  min_len: {type: integer, ge: 0, le: 4096, default: 0}
rules:
  codenames:
    ban: {phrases: [Project Titan, bluebird, "a|b`c"]}
  keys:
    ban: {regex: ['AKIA[0-9A-Z]{16}']}
    action: redact
  hush:
    ban: {phrases: [secret]}
    action: {redact: "***"}
  old-name:
    ban: {phrases: [crossing]}
  long-enough:
    min_tokens: {param: min_len}
  tone:
    bias: {phrases: {delve: -4, "in conclusion": -2.5}, token_ids: {1234: 1.5}}
  gone:
    ban: {scripts: [Han]}
    action: block
  press:
    ban: {phrases: [titan], except: [titan press kit]}
    action: redact
  same:
    ban: {phrases: [Same, words, words of mine]}
"""
EDITS = {
    'Project Titan, bluebird, "a|b`c"': "Titan, bluebirds",
    "{16}": "{16,}",
    '"***"': '"###"',
    "old-name": "new-name",
    "delve: -4": "delve: -2",
    "  gone:\n    ban: {scripts: [Han]}\n    action: block\n": "",
    "[titan press kit]": "[titan press kit, titan run]",
    "[Same, words, words of mine]": "[words, same]",
    "owner: someone": "owner: others",
    "default: 0": "default: 8",
}


def edited() -> str:
    text = BASE
    for old, new in EDITS.items():
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.fixture
def sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folders `base` and `head`, in the working directory."""
    for name, text in (("base", BASE), ("head", edited())):
        (tmp_path / name).mkdir()
        (tmp_path / name / "names.yaml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("form", ["text", "markdown", "json", "github"])
def test_formats(form: str, sides: Path, run: Run) -> None:
    """The exit code does not depend on the format."""
    result = run("diff", "base", "head", "--format", form, "--fail-on", "weaker")
    assert (result.code, result.err) == (1, "")
    golden = GOLDENS / f"{form}.txt"
    if os.environ.get("UPDATE_GOLDENS"):
        golden.write_text(result.out, encoding="utf-8")
    assert result.out == golden.read_text(encoding="utf-8")


def test_a_file_name_is_no_markup(sides: Path, run: Run) -> None:
    (sides / "head" / "names.yaml").rename(sides / "head" / "[x](y) @all `*a*.yaml")
    shown = run("diff", "base", "head", "--format", "markdown").out
    assert r"head/\[x](y) @<!-- -->all \`\*a\*.yaml:" in shown
    assert "[x](y) @all" not in shown.replace("\\[", "[")


def test_a_letter_that_does_not_show_is_an_escape(sides: Path, run: Run) -> None:
    rule = "version: 1\npolicy: p\nrules: {r: {ban: {phrases: [full], normalize: [%s]}}}\n"
    for name, steps in (("base", "nfkc, invisible"), ("head", "nfkc")):
        (sides / name / "names.yaml").write_text(rule % steps)
    assert "newly catches: `x\\u115ffull`" in run("diff", "base", "head").out


@pytest.mark.parametrize("phrase", ["café", "한국", "ガード", "Việt", "größer"])
@pytest.mark.parametrize("more", ["", ", except: [x y]", ", gaps: letters"])
def test_characters_are_whole(phrase: str, more: str, sides: Path, run: Run) -> None:
    rule = "version: 1\npolicy: p\nrules: {r: {ban: {phrases: [bird%s]%s}}}\n"
    for name, added in (("base", ""), ("head", f", {phrase}")):
        (sides / name / "names.yaml").write_text(rule % (added, more))
    shown = re.search("newly catches: `(.*)`", run("diff", "base", "head").out)
    assert shown is not None
    assert shown[1].casefold() == phrase.casefold()


def test_a_terminal_of_80_columns_is_enough(sides: Path, run: Run) -> None:
    assert max(map(len, run("diff", "base", "head").out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("old", "new", "weaker", "any_"),
    [
        ("owner: someone", "owner: others  # and a comment", 0, 0),
        ("[Project Titan, bluebird", "[bluebird, project  titan", 0, 0),
        ("bluebird", "bluebird, goldfinch", 0, 1),
        ("bluebird, ", "", 1, 1),
        ('"***"', '"###"', 1, 1),
        ("old-name", "new-name", 0, 1),
        ("default: 0", "default: 1", 1, 1),
    ],
)
def test_what_fails(old: str, new: str, weaker: int, any_: int, sides: Path, run: Run) -> None:
    (sides / "head" / "names.yaml").write_text(BASE.replace(old, new), encoding="utf-8")
    assert run("diff", "base", "head").code == 0
    assert run("diff", "base", "head", "--fail-on", "weaker").code == weaker
    assert run("diff", "base", "head", "--fail-on", "any").code == any_


def git(*arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A commit `main` with policies, lists inside and outside their folder, a link, and a project file above."""
    monkeypatch.chdir(tmp_path)
    git("init", "-q", "-b", "main")
    for name, text in {
        "policyengine.yaml": "version: 1\nvariables: {who: bluebird}\n",
        "rules/names.yaml": "version: 1\npolicy: names\nrules:\n  a: {ban: {phrases_from: lists/a.txt}}\n"
        '  b:\n    ban:\n      phrases_from: "../more/b.txt"\n',
        "rules/lists/a.txt": "Project Titan\n",
        "more/b.txt": "osprey\n",
        "more/c.yaml": 'version: 1\npolicy: linked\nrules:\n  c: {ban: {phrases: ["{{ who }}"]}}\n',
        ".gitattributes": "*.yaml export-ignore\n",
        "other.py": "print()\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "rules" / "linked.yaml").symlink_to("../more/c.yaml")
    git("add", "-A")
    git("commit", "-q", "-m", "one")
    return tmp_path


def test_a_revision_is_compared_with_the_working_tree(
    repository: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "3 the same" in run("diff", "git:main", "rules").out
    (repository / "rules" / "lists" / "a.txt").write_text("Titan\n", encoding="utf-8")
    (repository / "more" / "b.txt").write_text("eagle\n", encoding="utf-8")
    (repository / "policyengine.yaml").write_text("version: 1\nvariables: {who: blackbird}\n", encoding="utf-8")
    whole = run("diff", "git:main", "rules", "--fail-on", "weaker")
    assert whole.code == 1
    for text in ("no longer catches: `osprey`", "no longer catches: `bluebird`", "newly catches: `titan`"):
        assert text in whole.out
    assert run("diff", "git:main:rules", "rules").out.startswith(whole.out[:40])
    one = run("diff", "git:main", "rules/names.yaml").out
    assert "1 changed, 1 stronger" in one
    monkeypatch.chdir(repository / "rules")
    assert "2 changed, 1 stronger" in run("diff", "git:HEAD", ".").out
    git("commit", "-q", "-a", "-m", "two")
    assert "3 the same" in run("diff", "git:main", "git:HEAD:rules").out
    assert "2 changed, 1 stronger" in run("diff", "git:HEAD~1:rules", "git:HEAD").out
    assert not list(Path("/tmp").glob("policyengine-diff-*"))


@pytest.mark.parametrize(
    ("side", "said"),
    [
        ("git:nowhere", "git:nowhere: there is no such revision"),
        ("git:main:nothing", "git:main:nothing: there is no `nothing` in that revision"),
        ("git:main:../rules", "the path must lie inside the repository"),
        ("git:", "write git:REVISION or git:REVISION:path"),
        ("git:--help", "write git:REVISION or git:REVISION:path"),
        ("nothing", "`nothing` does not exist"),
        ("", "an empty path names nothing"),
    ],
)
def test_a_side_that_cannot_be_read_exits_2(side: str, said: str, repository: Path, run: Run) -> None:
    for arguments in ((side, "rules"), ("rules", side)):
        result = run("diff", *arguments)
        assert (result.code, result.out) == (2, "")
        assert said in result.err


def test_a_side_without_policies_exits_3_and_a_wrong_one_2(sides: Path, run: Run) -> None:
    (sides / "empty").mkdir()
    assert run("diff", "empty", "head").code == 3
    (sides / "head" / "names.yaml").write_text(BASE.replace("ban:", "bann:"), encoding="utf-8")
    result = run("diff", "base", "head")
    assert (result.code, result.out) == (2, "")
    assert "did you mean `ban`" in result.err


def test_bundles(sides: Path, run: Run) -> None:
    for name in ("base", "head"):
        assert run("compile", name, "--target", "vllm", "-o", f"build-{name}", "--allow-unenforced").code == 0
    assert "9 the same" in run("diff", "build-base", "base").out
    from_bundles = json.loads(run("diff", "build-base/policy_bundle", "build-head", "--format", "json").out)
    from_folders = json.loads(run("diff", "base", "head", "--format", "json").out)
    assert from_bundles["summary"] == from_folders["summary"]
    (sides / "build-base" / "policy_bundle" / "program.safetensors").write_bytes(b"")
    assert run("diff", "build-base", "head").code == 2


def test_real_answers(sides: Path, run: Run) -> None:
    answers = ["The bluebird sings.", "A titan run", "Nothing at all.", "hush: a secret", "AKIA" + "A" * 20]
    lines = [json.dumps({"text": text}) for text in answers]
    Path("answers.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = run("diff", "base", "head", "--corpus", "answers.jsonl", "--format", "json")
    corpus = json.loads(result.out)["corpus"]
    assert result.code == 0
    assert (corpus["answers"], corpus["changed"]) == (5, 4)
    assert {name: (one["no_longer"], one["newly"]) for name, one in corpus["rules"].items()} == {
        "names/codenames": (1, 1),
        "names/press": (1, 0),
    }
    assert corpus["rules"]["names/codenames"]["examples"][0] == {
        "line": 1,
        "text": "bluebird",
        "base": "terminate",
        "head": "pass",
    }
    assert [one["line"] for one in corpus["examples"]] == [4, 5]
    with Path("answers.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"other": 1}\n')
    result = run("diff", "base", "head", "--corpus", "answers.jsonl")
    assert result.code == 2
    assert "answers.jsonl:6: no text under any of the usual names" in result.err
    assert "4 of 5 answers would have been another" in result.out
    assert run("diff", "base", "head", "--corpus", "nothing.jsonl").code == 2
