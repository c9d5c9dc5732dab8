"""A pull request played through: what `init` writes is committed, an author breaks a rule, the workflow's own commands
say so, the author mends it, and the comment shows the change that was meant and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
POLICY, TESTS = "policies/unreleased-names.yaml", "policies/unreleased-names.test.yaml"


@dataclass(frozen=True)
class Ran:
    """One step of the workflow."""

    code: int
    out: str


class Repository:
    """A repository with a branch `main`, and a machine that runs its workflow as GitHub does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "repository"
        self.temp = folder / "runner"
        self.summary = self.temp / "summary.md"
        shims = folder / "bin"
        for path in (self.folder, self.temp, shims):
            path.mkdir()
        shim = shims / "policyengine"  # what the step `Install` installs
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m policyengine "$@"\n')
        shim.chmod(0o755)
        who = {"NAME": "author", "EMAIL": "author@example.com"}
        self._environment = {
            **os.environ,
            **{f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()},
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            "PATH": f"{shims}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_ACTIONS": "true",
        }
        self.git("init", "-q", "-b", "main")
        (self.folder / "README.md").write_text("ours\n")
        self.commit("first")

    def run(self, *command: str) -> Ran:
        """Run a command at the top of the repository."""
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return Ran(done.returncode, done.stdout)

    def git(self, *arguments: str) -> str:
        ran = self.run("git", *arguments)
        assert ran.code == 0, ran.out
        return ran.out

    def commit(self, message: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.folder / name).read_text()
        assert old in text
        (self.folder / name).write_text(text.replace(old, new))

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The steps of the workflow, as the branch has it."""
        text = (self.folder / ".github/workflows/policies.yml").read_text()
        steps: list[dict[str, Any]] = yaml.safe_load(text)["jobs"]["review"]["steps"]
        return steps

    def review(self) -> dict[str, Ran]:
        """What each command of the workflow says of the branch `topic`, checked out merged into `main`.

        All of them run: none is conditional on another, but for a run that was cancelled.
        """
        self.git("checkout", "-q", "--detach", "main")
        self.git("merge", "-q", "--no-ff", "-m", "merge", "topic")
        self.summary.unlink(missing_ok=True)
        ran = {}
        for step in self.steps:
            if "run" in step and step["name"] != "Install":
                assert step.get("if", "!cancelled()").strip("${ }").startswith("!cancelled()")
                ran[step["name"]] = self.run("bash", "-e", "-o", "pipefail", "-c", step["run"])
        self.git("checkout", "-q", "topic")
        return ran

    @property
    def comment(self) -> str:
        """What the comment will show."""
        text = (self.temp / "policies.md").read_text()
        assert self.summary.read_text() == text
        return text


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """With what `init` writes on its main branch, and a branch `topic`."""
    made = Repository(tmp_path)
    ran = made.run("policyengine", "init")
    assert ran.code == 0, ran.out
    made.commit("policies")
    made.git("checkout", "-q", "-b", "topic")
    return made


def codes(ran: dict[str, Ran]) -> list[int]:
    assert list(ran) == ["Check", "Test", "Compare"]
    return [one.code for one in ran.values()]


def test_the_first_policies(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.git("checkout", "-q", "-b", "topic")
    assert repository.run("policyengine", "init").code == 0
    repository.commit("policies")
    ran = repository.review()
    assert codes(ran) == [0, 0, 0], ran
    assert repository.comment == "These are the first policies: there is nothing to compare them with.\n"


def test_a_file_that_cannot_be_read(repository: Repository) -> None:
    repository.edit(POLICY, "phrases:", "phrasess:")
    repository.commit("rename a phrase")
    ran = repository.review()
    assert codes(ran) == [1, 2, 2], ran
    assert f"::error title=PE010 unknown-key,file={POLICY},line=9" in ran["Check"].out.replace("policyengine ", "")
    assert repository.comment == "The policies could not be compared: the log of this run says why.\n"


def test_a_rule_is_broken_and_mended(repository: Repository) -> None:
    """The author means to add a name, and drops another by mistake."""
    repository.edit(POLICY, "[Project Titan, bluebird]", "[Project Titan, Project Apollo]")
    repository.commit("Apollo is a secret, too")
    ran = repository.review()
    assert codes(ran) == [0, 1, 0], ran
    assert f"file={TESTS},line=10" in ran["Test"].out
    assert "no longer catches | `bluebird` |" in repository.comment

    repository.edit(POLICY, "[Project Titan, Project Apollo]", "[Project Titan, bluebird, Project Apollo]")
    repository.edit(
        TESTS,
        "  other-words:\n",
        "  apollo:\n    text: PROJECT APOLLO\n    verdict: redact\n    output: '[unreleased]'\n  other-words:\n",
    )
    repository.commit("bluebird still is one")
    ran = repository.review()
    assert codes(ran) == [0, 0, 0], ran
    assert "### Policy change: 1 stronger\n" in repository.comment
    assert "`project apollo` |" in repository.comment
    assert "no longer catches" not in repository.comment
    assert "bluebird" not in repository.comment


def test_an_edit_of_the_text_alone_changes_nothing(repository: Repository) -> None:
    repository.edit(POLICY, "[Project Titan, bluebird]", "\n        - BLUEBIRD # a bird\n        - project titan")
    repository.commit("sorted")
    ran = repository.review()
    assert codes(ran) == [0, 0, 0], ran
    assert "weaker" not in repository.comment
    assert "stronger" not in repository.comment
    assert "same" in repository.comment


def test_what_main_did_meanwhile_is_not_shown(repository: Repository) -> None:
    repository.git("checkout", "-q", "main")
    repository.edit(POLICY, "owner: policy-team", "owner: another-team")
    repository.edit(POLICY, "unreleased]", "secret]")
    repository.edit(TESTS, "unreleased]", "secret]")
    repository.commit("another word")
    repository.git("checkout", "-q", "topic")
    (repository.folder / "policies/more.yaml").write_text(
        "version: 1\npolicy: more\ndescription: More.\nowner: us\nrules: {r: {rewrite: {to: upper}}}\n"
    )
    repository.commit("more")
    ran = repository.review()
    assert ran["Compare"].code == 0, ran
    assert "more" in repository.comment
    assert "secret" not in repository.comment


NODE = shutil.which("node")
_HARNESS = """
const fs = require('fs');
const [script, state] = process.argv.slice(2);
const before = [{id: 1, user: {type: 'User'}, body: 'hi'}];
const comments = fs.existsSync(state) ? JSON.parse(fs.readFileSync(state)) : before;
const issues = {
  listComments: 'list',
  createComment: async ({body, owner, repo, issue_number}) =>
    comments.push({id: comments.length + 1, user: {type: 'Bot'}, body, where: [owner, repo, issue_number]}),
  updateComment: async ({comment_id, body}) => { comments.find((one) => one.id === comment_id).body = body; },
};
const github = {rest: {issues}, paginate: async () => comments};
const context = {repo: {owner: 'o', repo: 'r'}, issue: {number: 7}};
const Run = Object.getPrototypeOf(async () => {}).constructor;
new Run('github', 'context', 'require', fs.readFileSync(script, 'utf8'))(github, context, require)
  .then(() => fs.writeFileSync(state, JSON.stringify(comments)));
"""


@pytest.mark.skipif(NODE is None, reason="the comment is written by JavaScript, which nothing runs here")
def test_there_is_one_comment_which_is_updated(repository: Repository, tmp_path: Path) -> None:
    script, harness, state = (tmp_path / name for name in ("script.js", "harness.js", "state.json"))
    script.write_text(repository.steps[-1]["with"]["script"])
    harness.write_text(_HARNESS)
    for told in ("first", "second " * 20_000):
        (repository.temp / "policies.md").write_text(told)
        ran = repository.run(str(NODE), str(harness), str(script), str(state))
        assert ran.code == 0, ran.out
        person, ours = json.loads(state.read_text())
        assert person["body"] == "hi"
        assert ours["where"] == ["o", "r", 7]
        assert ours["body"].startswith(f"<!-- policyengine diff -->\n{told[:100]}")
        assert len(ours["body"]) <= 65_536
