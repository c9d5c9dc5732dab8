"""Options from the environment, shell completion, and the help of every command."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest

from policyengine.cli.app import app
from tests.unit.cli.conftest import BAN, Run, Write

COMMANDS = [str(command.name) for command in app.registered_commands]
WRONG = "rules: {x: {ban: {phrasess: [a]}}}\n"


def test_an_option_from_the_environment(run: Run, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(a=WRONG)
    monkeypatch.setenv("POLICYENGINE_CHECK_FORMAT", "json")
    assert run("check", folder).out.startswith("{")
    assert not run("check", folder, "--format", "text").out.startswith("{")
    monkeypatch.setenv("POLICYENGINE_CHECK_FORMAT", "")
    assert not run("check", folder).out.startswith("{")
    monkeypatch.setenv("POLICYENGINE_CHECK_FORMAT", "yaml")
    assert run("check", folder).code == 2


def test_options_with_several_words_values_and_none(run: Run, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(a='rules: {x: {ban: {phrases: ["{{ name }}", "{{ other }}"]}, action: redact}}\n')
    monkeypatch.setenv("POLICYENGINE_EXPLAIN_SET", "name=zebra other=gnu")
    monkeypatch.setenv("POLICYENGINE_EXPLAIN_TEXT", "zebra and gnu")
    monkeypatch.setenv("POLICYENGINE_EXPLAIN_VERBOSE", "1")
    assert "a client sees: `[redacted] and [redacted]`" in run("explain", folder).out
    monkeypatch.setenv("POLICYENGINE_CHECK_FAIL_LEVEL", "info")
    assert run("check", write(a=BAN, b=WRONG)).code == 1


def test_another_command_is_not_meant(run: Run, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLICYENGINE_SCAN_FORMAT", "json")
    assert not run("check", write(a=WRONG)).out.startswith("{")


def complete(shell: str, words: str) -> str:
    """What the shell is offered for a command line that ends so."""
    environment = {
        **os.environ,
        "_POLICYENGINE_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": words,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(shlex.split(words)) - (not words.endswith(" "))),
    }
    command = [sys.executable, "-m", "policyengine"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_options_and_values(shell: str) -> None:
    assert "explain" in complete(shell, "policyengine ex")
    assert "--tokenizer" in complete(shell, "policyengine explain --tok")
    assert "sarif" in complete(shell, "policyengine check --format sa")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_has_an_example_and_fits_a_terminal(run: Run, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = run(name, "--help")
    assert result.code == 0
    assert f"Example: policyengine {name} " in " ".join(result.out.split())
    assert max(map(len, result.out.splitlines())) <= 80


def test_the_help_names_every_command_and_completion(run: Run) -> None:
    result = run("--help")
    for word in (*COMMANDS, "--install-completion", "POLICYENGINE_CHECK_FORMAT=github"):
        assert word in result.out
