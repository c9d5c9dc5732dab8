"""The command itself: its version, its help, and how it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import policyengine as pe
from tests.unit.cli.conftest import BAN, Run, Write


def test_version(run: Run) -> None:
    result = run("--version")
    assert (result.code, result.out) == (0, f"policyengine {pe.__version__}\n")


def test_help_lists_the_commands(run: Run) -> None:
    result = run("--help")
    assert result.code == 0
    assert "compile" in result.out


def test_python_m_is_the_same_command(write: Write, tmp_path: Path) -> None:
    build = tmp_path / "build"
    command = [sys.executable, "-m", "policyengine", "compile", str(write(a=BAN)), "-o", str(build)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 policy, 1 rule, digest ")


def test_a_terminal_without_unicode_is_no_reason_to_fail(write: Write, tmp_path: Path) -> None:
    policies = write(a="rules: {x: {ban: {phrasess: ['größe 大']}}}\n")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    command = [sys.executable, "-m", "policyengine", "compile", str(policies), "-o", str(tmp_path / "build")]
    done = subprocess.run(command, capture_output=True, check=False, env=environment)
    assert done.returncode == 2
    assert b"did you mean `phrases`?" in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no device that is always full")
@pytest.mark.parametrize(("ending", "code"), [(">/dev/full", 2), (">&-", 0)])
def test_a_stdout_that_takes_nothing_is_no_crash(write: Write, ending: str, code: int) -> None:
    command = f'"$0" -m policyengine check "$1" {ending}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, str(write(a=BAN))], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (code, "error: No space left on device\n" if code else "")


def test_importing_the_package_and_asking_for_the_version_is_cheap() -> None:
    code = (
        "import sys, policyengine, policyengine.cli.app\n"
        "print(sorted({'numpy', 'pydantic', 'torch', 'vllm', 'yaml', 'jinja2', 'safetensors'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
