"""The pytest plugin: what it collects and shows, and that a project without policy tests does not notice it."""

from __future__ import annotations

import importlib.metadata
import sys
import tomllib
from pathlib import Path

import pytest

from policyengine.language.files import TEST_ENDING
from policyengine.review import testing, testing_files, testing_pytest

pytest_plugins = ["pytester"]

POLICY = "version: 1\npolicy: names\nrules: {names: {ban: {phrases: [bluebird]}, fallback: redact}}\n"
TESTS = """version: 1
policies: [names.yaml]
tests:
  caught: {text: A bluebird., verdict: redact, rules: [names/names]}
  plural: {text: Bluebirds., verdict: redact, output: "[redacted]."}
  later: {text: Bluebirds., verdict: redact, todo: "plurals, #12"}
"""

# A run inside this process forgets what it imports, and numpy can be imported once only.
IMPORTED = (testing, testing_files)

NAME = "policyengine.review.testing_pytest"
IS_INSTALLED = any(point.value == NAME for point in importlib.metadata.entry_points(group="pytest11"))


PLUGIN = () if IS_INSTALLED else ("-p", NAME)


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run pytest with the plugin as an installation has it."""
    return pytester.runpytest_inprocess(*PLUGIN, *arguments)


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with policies and their tests."""
    folder = pytester.mkdir("policies")
    (folder / "names.yaml").write_text(POLICY)
    (folder / "names.test.yaml").write_text(TESTS)
    return pytester


def test_each_test_is_an_item(project: pytest.Pytester) -> None:
    result = run(project, "-rA", "--tb=long")
    result.assert_outcomes(passed=1, failed=1, xfailed=1)
    result.stdout.fnmatch_lines(
        [
            "*_ plural _*",
            "verdict: expected redact, got pass",
            "--> policies/names.test.yaml:5:3",
            "  verdict expected redact",
            "          got      pass",
            "  output  expected `[[]redacted[]].`",
            "          got      `Bluebirds.`",
            "  text    `Bluebirds.`",
            "*",
            "PASSED policies/names.test.yaml::caught",
            "XFAIL policies/names.test.yaml::later - plurals, #12",
            "FAILED policies/names.test.yaml::plural - verdict: expected redact, got pass",
        ],
        consecutive=False,
    )
    result.stdout.no_fnmatch_line("*Traceback*")


def test_items_are_chosen_as_any_other(project: pytest.Pytester) -> None:
    run(project, "policies/names.test.yaml::caught").assert_outcomes(passed=1)
    run(project, "-k", "caught or later").assert_outcomes(passed=1, xfailed=1, deselected=1)


def test_it_can_be_turned_off(project: pytest.Pytester) -> None:
    result = project.runpytest_inprocess("-p", "no:policyengine")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_todo_that_passes_fails(project: pytest.Pytester) -> None:
    (project.path / "policies" / "names.yaml").write_text(POLICY.replace("bluebird]", "bluebird], match: prefix"))
    result = run(project, "policies/names.test.yaml::later")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*got      it passes now: remove `todo`"])


def test_a_wrong_file_is_an_error_with_its_place(project: pytest.Pytester) -> None:
    (project.path / "policies" / "names.test.yaml").write_text(
        TESTS.replace("verdict: redact, rules", "verdct: x, rules")
    )
    result = run(project)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*unknown-key]: unknown key `verdct`", "*--> policies/names.test.yaml:4:31"])


def test_files_of_other_tools_are_left_alone(pytester: pytest.Pytester) -> None:
    (pytester.path / "kube.test.yaml").write_text("apiVersion: v1\ntests: []\n")
    assert run(pytester).ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_start_without_policy_tests_imports_nothing_of_ours(pytester: pytest.Pytester) -> None:
    """But the plugin itself, which needs pytest alone."""
    pytester.makepyfile(
        """
        import sys

        def test_nothing_was_imported():
            ours = {name for name in sys.modules if name.partition(".")[0] == "policyengine"}
            assert ours == {"policyengine", "policyengine.review", "policyengine.review.testing_pytest"}
            assert not {"yaml", "pydantic", "numpy"} & set(sys.modules)
        """
    )
    result = pytester.runpytest_subprocess(*PLUGIN, "-p", "no:hypothesispytest")
    result.assert_outcomes(passed=1)


def test_it_is_declared_and_means_the_same_files() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"policyengine": NAME}
    assert sys.modules[NAME] is testing_pytest
    assert testing_pytest.ENDING == TEST_ENDING
