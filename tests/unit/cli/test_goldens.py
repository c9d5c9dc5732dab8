"""What a person sees for each mistake that only compiling finds, and how `check` exits for every mistake there is.

A golden holds its files, each under a line `=== NAME`, then a line `=== check EXIT-CODE` and what `check .` prints;
arguments may follow the code. `UPDATE_GOLDENS=1 pytest tests/unit/cli/test_goldens.py` rewrites the outputs,
not the codes. Mistakes that loading finds have theirs in `tests/unit/language/goldens`; here their exit code is added.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml

from policyengine.language import codes
from tests.unit.cli.conftest import Run
from tests.unit.language.test_goldens import ELSEWHERE, GOLDENS, OUTPUT, content, sections

OURS = sorted((Path(__file__).parent / "goldens").glob("*.txt"))
# These need a vocabulary (test_check.py), an engine's configuration (test_compile.py) or an engine (test_doctor.py).
BOUND = {"not-bindable", "config-conflict", "config-unsafe", *(code.name for code in codes.engine.CODES)}


def put(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content(text))


def split(golden: Path) -> tuple[dict[str, str], str, str]:
    """The files, the heading `check EXIT-CODE [ARGUMENTS]`, and the output."""
    parts = sections(golden)
    heading = next(name for name in parts if re.match(r"check \d", name))
    return {name: text for name, text in parts.items() if name != heading}, heading, parts[heading]


@pytest.mark.parametrize("golden", OURS, ids=lambda golden: golden.stem)
def test_check_shows(golden: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole output and the exit code."""
    files, heading, expected = split(golden)
    put(tmp_path, files)
    monkeypatch.chdir(tmp_path)
    _, code, *arguments = heading.split()
    result = run("check", ".", *arguments)
    assert result.code == int(code)
    if os.environ.get("UPDATE_GOLDENS"):
        head = "".join(f"=== {name}\n{text}" for name, text in files.items())
        golden.write_text(f"{head}=== {heading}\n{result.out}{result.err}", encoding="utf-8")
    else:
        assert result.out + result.err == expected


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.stem)
def test_a_mistake_exits_1_in_check_and_2_in_compile(
    golden: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both show it in the same words, beside what `check` then finds in the other files; `compile` writes nothing."""
    if golden.stem == "syntax" and not yaml.__with_libyaml__:
        pytest.skip("the pure parser words its errors differently")
    parts = sections(golden)
    shown = parts.pop(OUTPUT)
    put(tmp_path, parts)
    monkeypatch.chdir(tmp_path)
    checked, compiled = run("check", "."), run("compile", ".", "-o", "build")
    assert (checked.code, compiled.code) == (1, 2)
    for finding in shown.rstrip("\n").split("\n\n"):
        assert finding in checked.out
    assert shown.rstrip("\n") in compiled.err
    assert not (tmp_path / "build").exists()


def test_every_code_that_compiling_finds_has_a_golden() -> None:
    shown = "".join(split(golden)[2] for golden in OURS)
    assert {name for name in ELSEWHERE if f"{name}]" not in shown} <= BOUND
    assert {code.name for code in codes.ALL} >= ELSEWHERE
