"""docs/commands.md is true: its examples, run one after the other, print what it shows."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from policyengine.cli.app import app
from tests.unit.cli.conftest import Run

PAGE = Path(__file__).parents[3] / "docs" / "commands.md"


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language on the page."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def steps(block: str) -> list[tuple[str, str]]:
    """A console block as commands and what each prints."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)
    return list(zip(parts[1::2], parts[2::2], strict=True))


def test_the_examples_print_what_the_page_shows(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "names.yaml").write_text(blocks("yaml")[0])
    (tmp_path / "policies" / "names.test.yaml").write_text(
        next(block for block in blocks("yaml") if "\ntests:\n" in block)
    )
    (tmp_path / "answer.txt").write_text(blocks("text")[0])
    commands = []
    for command, shown in (step for block in blocks("console") for step in steps(block)):
        words = shlex.split(command)
        if words[0] == "policyengine":
            result = run(*words[1:])
            printed = result.err + result.out
            commands.append(words[1])
        else:
            printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        pattern = re.escape(shown).replace(re.escape("..."), ".*?")
        assert re.fullmatch(pattern, printed, flags=re.DOTALL), f"$ {command}\n{printed}"
    assert commands == [
        "check",
        "check",
        "check",
        "code",
        "compile",
        "diff",
        "explain",
        "init",
        "scan",
        "schema",
        "schema",
        "test",
    ]


def test_every_command_has_a_section() -> None:
    sections = re.findall(r"^## (.*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sections == [command.name for command in app.registered_commands]
