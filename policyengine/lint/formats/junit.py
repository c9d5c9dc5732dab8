"""JUnit XML: a suite a file, a case a finding. What is grave enough to exit with 1 has failed, the rest has not."""

from __future__ import annotations

from itertools import groupby
from xml.etree import ElementTree

from policyengine.language.diagnostics import Diagnostic, Severity, visible
from policyengine.lint.formats import summary
from policyengine.lint.run import SEVERITIES, Result


def write(result: Result, level: Severity) -> str:
    """One file. Without findings it holds one case, which passed."""
    failing = SEVERITIES[: SEVERITIES.index(level) + 1]
    found = result.diagnostics
    failed = sum(one.severity in failing for one in found)
    root = ElementTree.Element("testsuites", name="policyengine", tests=str(len(found) or 1), failures=str(failed))
    for file, group in groupby(found, key=lambda one: one.span.file):
        ones = list(group)
        failures = sum(one.severity in failing for one in ones)
        suite = _suite(root, file, len(ones), failures)
        for one in ones:
            _case(suite, one, failed=one.severity in failing)
    if not found:
        case = ElementTree.SubElement(
            _suite(root, "policyengine", 1, 0), "testcase", name="check", classname="policyengine"
        )
        ElementTree.SubElement(case, "system-out").text = summary(result)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(root: ElementTree.Element, name: str, tests: int, failures: int) -> ElementTree.Element:
    counts = {"tests": str(tests), "failures": str(failures), "errors": "0"}
    return ElementTree.SubElement(root, "testsuite", {"name": _xml(name), **counts})


def _case(suite: ElementTree.Element, one: Diagnostic, *, failed: bool) -> None:
    at = one.span
    name = f"{one.code} {one.name} at {at.line}:{at.column}"
    attributes = {"name": name, "classname": _xml(at.file), "file": _xml(at.file), "line": str(at.line)}
    case = ElementTree.SubElement(suite, "testcase", attributes)
    text = f"{at.file}:{at.line}:{at.column}: {one.message}" + (f"\n{one.help}" if one.help else "")
    if failed:
        failure = ElementTree.SubElement(case, "failure", type=one.severity, message=_xml(one.message))
        failure.text = _xml(text)
    else:
        ElementTree.SubElement(case, "system-out").text = _xml(f"{one.severity}: {text}")


def _xml(text: str) -> str:
    """Text that XML can hold: what does not show is an escape, but for line breaks."""
    return "\n".join(map(visible, text.split("\n")))
