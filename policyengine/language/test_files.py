"""Test files, `*.test.yaml`: what they hold, with the place of each test. `files.tests_in` finds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from policyengine.language import nodes
from policyengine.language.files import shown
from policyengine.language.nodes import Node, compose
from policyengine.language.policy_test import Case, PolicyTests
from policyengine.language.policyset import Span
from policyengine.language.reading import Reading
from policyengine.language.source import Report, read
from policyengine.language.variables import Variables


@dataclass(frozen=True, slots=True)
class Test:
    """One test. `span`: its id in the file. `places`: the values of its keys."""

    id: str
    span: Span
    case: Case
    places: Mapping[str, Span] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TestFile:
    """One test file.

    name: as people see it. policies: the paths that it names, joined with its folder; policy_spans: where it does.
    """

    path: Path
    name: str
    policies: tuple[Path, ...]
    tests: tuple[Test, ...]
    policy_spans: tuple[Span, ...] = ()


def read_tests(path: Path, report: Report) -> TestFile | None:
    """The tests of a file; None where something is wrong with it, which is reported."""
    source = read(path, shown(path), report)
    root = compose(source, report) if source else None
    if source is None or root is None:
        return None
    before = len(report.diagnostics)
    reading = Reading(source, report, Variables({}))
    form = reading.validate(PolicyTests, root, reading.data(root))
    mapping = root.value("tests")
    if form is None or len(report.diagnostics) > before or not isinstance(mapping, nodes.Mapping):
        return None
    named = root.value("policies")
    spans = tuple(reading.span(item) for item in named.items) if isinstance(named, nodes.Sequence) else ()
    tests = tuple(_test(name, case, *mapping.entries[name], reading) for name, case in form.tests.items())
    return TestFile(path, source.name, tuple(path.parent / name for name in form.policies), tests, spans)


def _test(name: str, case: Case, key: Node, value: Node, reading: Reading) -> Test:
    entries = value.entries if isinstance(value, nodes.Mapping) else {}
    places = {str(inner): reading.span(node) for inner, (_, node) in entries.items()}
    return Test(name, reading.span(key), case, places)
