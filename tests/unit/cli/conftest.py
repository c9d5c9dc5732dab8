"""The command line in this process: arguments in, exit code and both streams out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from policyengine.cli import main


@dataclass(frozen=True)
class Result:
    """What a command answered."""

    code: int
    out: str
    err: str


Run = Callable[..., Result]
Write = Callable[..., Path]

# What every policy should have; at the end, so that lines count as they are written in a test.
END = "owner: a team\ndescription: for a test\n"

BAN = "rules: {names: {ban: {phrases: [Project Titan, bluebird]}}}\n"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("compile", ...)`."""

    def ran(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["policyengine", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main()
        streams = capsys.readouterr()
        code = caught.value.code
        return Result(code if isinstance(code, int) else 0, streams.out, streams.err)

    return ran


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """`write(a="rules: ...")` writes policies into a folder and returns it; `project=` writes the project file."""

    def written(project: str = "", **policies: str) -> Path:
        folder = tmp_path / "policies"
        folder.mkdir(exist_ok=True)
        if project:
            (folder / "policyengine.yaml").write_text(f"version: 1\n{project}", encoding="utf-8")
        for name, body in policies.items():
            text = f"version: 1\npolicy: {name}\n{body}{END}"
            (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
        return folder

    return written
