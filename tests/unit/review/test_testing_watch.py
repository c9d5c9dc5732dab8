"""Running again when files change."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from policyengine.review.testing_watch import watch


def runs(root: Path, files: set[str], edits: list[Callable[[], object]]) -> int:
    """How often something runs that reads these files, while each look comes after one of the edits."""
    count = 0
    left: Iterator[Callable[[], object]] = iter(edits)

    def once() -> tuple[int, set[str]]:
        nonlocal count
        count += 1
        return count, files

    def wait() -> None:
        edit = next(left, None)
        if edit is None:
            raise KeyboardInterrupt
        edit()

    assert watch(once, [root], wait=wait) == count
    return count


def test_what_counts_as_a_change(tmp_path: Path) -> None:
    root, away = tmp_path / "policies", tmp_path / "list.txt"
    root.mkdir()
    (root / "a.yaml").write_text("a")
    away.write_text("a")
    (root / "notes.txt").write_text("a")
    read = {str(root / "a.yaml"), str(away)}
    for edit, again in (
        (lambda: (root / "a.yaml").write_text("ab"), True),
        (lambda: away.write_text("ab"), True),  # read, although it lies elsewhere
        (lambda: (root / "b.test.yaml").write_text("new"), True),
        (lambda: (root / "b.test.yaml").unlink(), True),
        (lambda: os.utime(root / "a.yaml", ns=(1, 1)), True),
        (lambda: (root / "notes.txt").write_text("ab"), False),
        (lambda: (root / ".hidden").mkdir(), False),
        (lambda: None, False),
    ):
        assert runs(root, read, [edit, lambda: None]) == 1 + again


def test_a_change_during_a_run_is_not_missed(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a")
    count = 0

    def once() -> tuple[int, set[str]]:
        nonlocal count
        count += 1
        if count == 1:
            path.write_text("changed while it ran")
        return count, {str(path)}

    def wait() -> None:
        raise KeyboardInterrupt

    assert watch(once, [tmp_path], wait=wait) == 2


@pytest.mark.parametrize("code", [0, 1])
def test_the_command_runs_again_and_ctrl_c_ends_it(tmp_path: Path, code: int) -> None:
    """In a process of its own, with a real interrupt; the exit code is that of the last run."""
    (tmp_path / "a.yaml").write_text("version: 1\npolicy: a\nrules: {a: {ban: {phrases: [bluebird]}}}\n")
    tests = tmp_path / "a.test.yaml"
    text = "version: 1\npolicies: [a.yaml]\ntests: {a: {text: bluebird, verdict: VERDICT}}\n"
    verdicts = ["terminate", "redact"] if code else ["redact", "terminate"]
    tests.write_text(text.replace("VERDICT", verdicts[0]))
    command = [sys.executable, "-u", "-m", "policyengine", "test", str(tmp_path), "--watch"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        # Whoever runs the tests in the background may have had the signal ignored, which would be inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert process.stdout is not None
        seen = iter(process.stdout.readline, "")
        assert any(line.startswith("run in") for line in seen)
        time.sleep(0.01)  # a time stamp of its own
        tests.write_text(text.replace("VERDICT", verdicts[1]))
        assert any(line.startswith("run in") for line in seen)
        time.sleep(0.5)  # the code is settled when the last line is out, or a little later
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == code
    finally:
        process.kill()
        process.wait()
