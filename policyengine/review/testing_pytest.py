"""The pytest plugin: each test of a `*.test.yaml` is an item, with a failure that a person can read.

pytest imports this module at every start, in projects that have no such file too. So it imports nothing but pytest
until a file is collected. `-p no:policyengine` turns it off.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from policyengine.review.testing import Result, Runner
    from policyengine.review.testing_files import Ready

ENDING = ".test.yaml"  # `language.files.TEST_ENDING`, which would import too much
_OURS = b"policies"  # a key that each of our files has, and those of other tools have not


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Take the files that are ours."""
    if not file_path.name.endswith(ENDING) or file_path.name.startswith("."):
        return None
    try:
        ours = _OURS in file_path.read_bytes()
    except OSError:
        ours = True  # which then says why it cannot be read
    return PolicyTestFile.from_parent(parent, path=file_path) if ours else None


class PolicyTestFile(pytest.File):
    """A test file."""

    def collect(self) -> Iterator[PolicyTest]:
        """Its tests; what is wrong with it or its policies is an error of the collection."""
        from policyengine.language import PolicyError
        from policyengine.review.testing import Runner
        from policyengine.review.testing_files import load_tests

        near = Path(os.path.relpath(self.path))
        try:
            suite = load_tests([self.path if near.parts[:1] == (os.pardir,) else near])
        except PolicyError as error:
            raise self.CollectError(str(error)) from None
        runner = Runner()
        for ready in suite.tests:
            yield PolicyTest.from_parent(self, name=ready.test.id, ready=ready, runner=runner)


class PolicyTest(pytest.Item):
    """One test. A todo is an expected failure."""

    def __init__(self, *, ready: Ready, runner: Runner, **more: Any) -> None:
        super().__init__(**more)
        self._ready, self._runner = ready, runner

    def runtest(self) -> None:
        """Run it in many chunkings."""
        result = self._runner.run_one(self._ready)
        if result.outcome == "failed":
            raise FailedTestError(result)
        if result.outcome == "todo":
            pytest.xfail(result.todo or "")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What was expected and what came, without a traceback."""
        if not isinstance(excinfo.value, FailedTestError):
            return super().repr_failure(excinfo, style)
        from policyengine.review.testing_output import details

        # pytest repeats the first line in its summary.
        return "\n".join(
            [str(excinfo.value), f"--> {self._ready.place}", *(f"  {line}" for line in details(excinfo.value.result))]
        )

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where the test stands; the line from 0."""
        return self.path, self._ready.test.span.line - 1, self._ready.test.id


class FailedTestError(Exception):
    """A test that failed."""

    def __init__(self, result: Result) -> None:
        super().__init__(result)
        self.result = result

    def __str__(self) -> str:
        from policyengine.review.testing_formats import one_line

        return one_line(self.result)
