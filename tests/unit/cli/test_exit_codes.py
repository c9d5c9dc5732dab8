"""The table of exit codes (design 4) over all commands and formats: 0 clean, 1 findings, 2 could not, 3 nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.conftest import BAN, Result, Run, Write

FORMATS = {
    "check": ("text", "concise", "json", "sarif", "github", "junit", "markdown"),
    "test": ("text", "json", "junit", "github", "markdown"),
    "diff": ("text", "markdown", "json", "github"),
    "scan": ("text", "json"),
    "explain": ("text", "json"),
    "compile": (None,),
}
PASSES = "version: 1\npolicies: [a.yaml]\ntests: {x: {text: a bluebird, verdict: terminate}}\n"
FAILS = PASSES.replace("a bluebird", "a bird")
CONTRADICTION = "rules: {x: {ban: {phrases: [rice]}}, y: {force: {text: rice, at: start}}}\n"
ALL = [(command, form) for command, forms in FORMATS.items() for form in forms]


def _invoke(run: Run, command: str, form: str | None, folder: Path, text: str, base: Path | None = None) -> Result:
    more = {
        "diff": (),
        "scan": (folder.parent / "input.txt",),
        "explain": ("--text", text),
        "compile": ("-o", folder.parent / "build"),
    }.get(command, ())
    (folder.parent / "input.txt").write_text(text)
    paths = (base or folder, folder, "--fail-on", "any") if command == "diff" else (folder,)
    return run(command, *paths, *more, *(("--format", form) if form else ()))


@pytest.fixture
def base(tmp_path: Path, write: Write) -> Path:
    """What `diff` compares with: the policies of a clean run."""
    folder = write(project="targets: [vllm]\n", a=BAN)
    kept = tmp_path / "base"
    folder.rename(kept)
    return kept


@pytest.mark.parametrize(("command", "form"), ALL)
def test_clean_is_0(run: Run, write: Write, base: Path, command: str, form: str | None) -> None:
    folder = write(project="targets: [vllm]\n", a=BAN)
    (folder / "a.test.yaml").write_text(PASSES)
    assert _invoke(run, command, form, folder, "a bird", base).code == 0


@pytest.mark.parametrize(("command", "form"), [pair for pair in ALL if pair[0] not in ("explain", "compile")])
def test_findings_are_1(run: Run, write: Write, base: Path, command: str, form: str) -> None:
    """An explanation is no finding, and what `compile` cannot do is 2."""
    changed = CONTRADICTION if command == "check" else BAN.replace("Project Titan, ", "")
    folder = write(project="targets: [vllm]\n", a=changed)
    (folder / "a.test.yaml").write_text(FAILS)
    assert _invoke(run, command, form, folder, "a bluebird", base).code == 1


@pytest.mark.parametrize(("command", "form"), [pair for pair in ALL if pair[0] != "check"])
def test_unusable_policies_are_2(run: Run, write: Write, base: Path, command: str, form: str | None) -> None:
    """In `check` they are what it is for: 1."""
    folder = write(project="targets: [vllm]\n", a="rules: {x: [}\n")
    (folder / "a.test.yaml").write_text(PASSES)
    assert _invoke(run, command, form, folder, "a bird", base).code == 2


@pytest.mark.parametrize(("command", "form"), ALL)
def test_nothing_there_is_3(run: Run, tmp_path: Path, base: Path, command: str, form: str | None) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    assert _invoke(run, command, form, folder, "a bird", base).code == 3


@pytest.mark.parametrize(("command", "form"), [pair for pair in ALL if pair[1]])
def test_an_unknown_format_is_2(run: Run, write: Write, base: Path, command: str, form: str) -> None:
    folder = write(project="targets: [vllm]\n", a=BAN)
    assert _invoke(run, command, form + "x", folder, "a bird", base).code == 2
