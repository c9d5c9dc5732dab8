"""From paths to test files that are ready to run: found, read, and compiled with the policies that they name."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from policyengine.compiler.pipeline import compile_policies
from policyengine.language import NoPoliciesFound, PolicyError, load
from policyengine.language.diagnostics import quoted
from policyengine.language.files import TEST_ENDING, StrPath, shown
from policyengine.language.policyset import PolicySet
from policyengine.language.source import Report, top
from policyengine.language.test_files import Test, TestFile, read_tests
from policyengine.runtime.errors import RequestError
from policyengine.runtime.program import Program, Request


@dataclass(frozen=True, slots=True)
class Compiled:
    """Policies that some test files name together."""

    policies: PolicySet
    program: Program


@dataclass(frozen=True, slots=True)
class Ready:
    """One test and the request that it makes."""

    file: str
    test: Test
    request: Request
    compiled: Compiled

    @property
    def name(self) -> str:
        """How people call it; `--run` looks in here."""
        return f"{self.file}::{self.test.id}"

    @property
    def place(self) -> str:
        """`file:line:column`."""
        return f"{self.file}:{self.test.span.line}:{self.test.span.column}"


@dataclass(frozen=True, slots=True)
class Suite:
    """All tests of some paths. files: how many files hold them; read: every file that was read, as people see it."""

    tests: tuple[Ready, ...]
    files: int
    read: tuple[str, ...]


def load_tests(paths: Sequence[StrPath], variables: Mapping[str, str] | None = None) -> Suite:
    """Everything that the test files of these paths need; raises `PolicyError` with all that is wrong.

    A folder means every `*.test.yaml` below it, except in hidden folders and in what a compile wrote.
    """
    report = Report()
    files = [file for path in find(paths, report) if (file := read_tests(path, report)) is not None]
    loading = _Loading(report, variables)
    tests = [ready for file in files for ready in loading.ready(file)]
    if report.diagnostics:
        raise PolicyError(report.diagnostics, report.sources)
    return Suite(tuple(tests), len(files), tuple(sorted(report.sources)))


def find(paths: Sequence[StrPath], report: Report) -> list[Path]:
    """The test files of these paths, each once, in order."""
    found: dict[str, Path] = {}
    for given in paths:
        path = Path(given)
        name = shown(path)
        if not os.fspath(given):  # an unset variable of a shell, which must not mean the working directory
            report.add("unreadable-file", "an empty path names nothing", top(""))
        elif path.is_dir():
            for one in _below(path, report):
                found.setdefault(os.path.realpath(one), one)
        elif not os.path.lexists(path):
            report.add("unreadable-file", f"`{name}` does not exist", top(name))
        elif not path.name.endswith(TEST_ENDING):
            hint = f"name a `*{TEST_ENDING}`, or the directory that holds it"
            report.add("unreadable-file", f"`{name}` is not a test file", top(name), hint=hint)
        else:
            found.setdefault(os.path.realpath(path), path)
    return sorted(found.values(), key=shown)


def _below(root: Path, report: Report) -> Iterator[Path]:
    def failed(error: OSError) -> None:
        name = shown(Path(error.filename)) if isinstance(error.filename, str) else shown(root)
        report.add("unreadable-file", f"cannot read `{name}`: {(error.strerror or str(error)).lower()}", top(name))

    for folder, folders, names in os.walk(root, onerror=failed):
        if any(name.endswith(".dist-info") for name in folders):  # a build
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if name.endswith(TEST_ENDING) and not name.startswith("."):
                yield Path(folder, name)


class _Loading:
    """Policies of test files, each set loaded once. What is wrong goes into the report."""

    def __init__(self, report: Report, variables: Mapping[str, str] | None) -> None:
        self._report = report
        self._variables = variables
        self._known: dict[tuple[str, ...], Compiled | None] = {}

    def ready(self, file: TestFile) -> Iterator[Ready]:
        """The tests of a file."""
        compiled = self._compiled(file)
        if compiled is None:
            return
        rules = {f"{policy.name}/{rule.id}" for policy in compiled.policies.policies for rule in policy.rules}
        for test in file.tests:
            self._check_rules(test, rules)
            try:
                request = compiled.program.parse_request(test.case.request)
            except RequestError as error:
                span = test.places.get("request", test.span)
                self._report.add("invalid-value", f"the policies refuse this request: {error}", span)
                continue
            yield Ready(file.name, test, request, compiled)

    def _check_rules(self, test: Test, known: set[str]) -> None:
        for name in test.case.rules or ():
            if name not in known:
                near = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.5)
                hint = f"did you mean `{near[0]}`?" if near else None
                message = f"the policies have no rule {quoted(name)}"
                self._report.add("invalid-value", message, test.places.get("rules", test.span), hint=hint)

    def _compiled(self, file: TestFile) -> Compiled | None:
        paths = [_plain(path) for path in file.policies]
        key = tuple(sorted(map(os.path.realpath, paths)))
        if not self._are_there(file, paths):
            return None
        if key not in self._known:
            self._known[key] = self._load(file, paths)
        return self._known[key]

    def _are_there(self, file: TestFile, paths: Sequence[Path]) -> bool:
        there = True
        for path, span in zip(paths, file.policy_spans, strict=True):
            if not path.exists():
                there = False
                self._report.add("unreadable-file", f"`{shown(path)}` does not exist", span)
        return there

    def _load(self, file: TestFile, paths: Sequence[Path]) -> Compiled | None:
        try:
            policies = load(list(paths), variables=self._variables)
            self._report.sources.update(policies.sources)
            return Compiled(policies, compile_policies(policies))
        except NoPoliciesFound as error:
            message = error.diagnostics[0].message
            self._report.add("no-policies", message, file.policy_spans[0], hint=error.diagnostics[0].help)
        except PolicyError as error:
            self._report.sources.update(error.sources)
            self._report.diagnostics += [one for one in error.diagnostics if one not in self._report.diagnostics]
        return None


def _plain(path: Path) -> Path:
    """A path without detours through `..`, as long as it stays the same file."""
    plain = Path(os.path.normpath(path))
    return plain if os.path.realpath(plain) == os.path.realpath(path) else path


def selected(suite: Suite, pattern: str) -> Suite:
    """The tests in whose name (`file::id`) the regular expression is found; raises re.error."""
    import re

    wanted = re.compile(pattern)
    return replace(suite, tests=tuple(test for test in suite.tests if wanted.search(test.name)))
