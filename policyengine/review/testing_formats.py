"""The results of policy tests for machines: JSON, JUnit, GitHub and a comment on a pull request."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any
from xml.etree import ElementTree

from policyengine.language.diagnostics import visible
from policyengine.lint.formats.github import escaped
from policyengine.lint.formats.markdown import cell
from policyengine.review.testing import Result
from policyengine.review.testing_output import TAGS, Run, both, details, piece_text, pieces, summary, text


def as_json(run: Run) -> str:
    """One object; its `version` changes when a key goes or means something else."""
    found: dict[str, Any] = {
        "version": 1,
        "tests": [_object(result) for result in run.results],
        "summary": {
            "tests": len(run.results),
            "passed": run.count("passed"),
            "failed": run.count("failed"),
            "todo": run.count("todo"),
            "chunkings": sum(result.chunkings for result in run.results),
            "segmentations": sum(result.segmentations for result in run.results),
            "unspelled": sum(result.unspelled for result in run.results),
        },
    }
    if run.coverage is not None:
        found["coverage"] = {
            "percent": round(run.coverage.percent, 2),
            "threshold": run.threshold,
            "covered": run.coverage.covered,
            "rules": run.coverage.rules,
            "uncovered": [
                {"rule": one.rule, "file": one.span.file, "line": one.span.line, "column": one.span.column}
                for one in run.coverage.uncovered
            ],
            "unseen": run.coverage.unseen,
        }
    return json.dumps(found, ensure_ascii=False, indent=2) + "\n"


def _object(result: Result) -> dict[str, Any]:
    span, seen = result.ready.test.span, result.seen
    problems = []
    for one in result.problems:
        problem: dict[str, Any] = {"what": one.what, "expected": one.expected, "actual": one.actual}
        if one.pieces is not None:
            problem["pieces"] = [*map(piece_text, one.pieces)]
        if one.ids:
            problem["ids"] = list(one.ids)
        problems.append(problem)
    return {
        "file": span.file,
        "line": span.line,
        "column": span.column,
        "id": result.ready.test.id,
        "outcome": result.outcome,
        "todo": result.todo,
        "problems": problems,
        "seen": {"verdict": seen.verdict, "output": seen.output, "rules": list(seen.rules), "reason": seen.reason},
        "chunkings": result.chunkings,
        "segmentations": result.segmentations,
        "surplus": result.surplus,
    }


def junit(run: Run) -> str:
    """JUnit's XML as CI systems read it: a suite a file; a todo is skipped."""
    root = ElementTree.Element("testsuites", {"name": "policyengine test", **_numbers(run.results)})
    for file, group in groupby(run.results, key=lambda result: result.ready.file):
        results = tuple(group)
        suite = ElementTree.SubElement(root, "testsuite", {"name": file, **_numbers(results)})
        for result in results:
            line = str(result.ready.test.span.line)
            case = ElementTree.SubElement(
                suite, "testcase", classname=file, name=result.ready.test.id, file=file, line=line
            )
            if result.outcome == "failed":
                first = result.problems[0]
                failure = ElementTree.SubElement(case, "failure", message=one_line(result), type=first.what)
                failure.text = "\n".join([result.ready.place, *details(result)])
            elif result.outcome == "todo":
                ElementTree.SubElement(case, "skipped", message=f"todo: {visible(result.todo or '')}")
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _numbers(results: tuple[Result, ...]) -> dict[str, str]:
    failed = sum(1 for result in results if result.outcome == "failed")
    skipped = sum(1 for result in results if result.outcome == "todo")
    return {"tests": str(len(results)), "failures": str(failed), "errors": "0", "skipped": str(skipped)}


def one_line(result: Result) -> str:
    """What is wrong with a test first of all."""
    first = result.problems[0]
    expected, actual = both(first)
    return f"{first.what}: expected {expected}, got {actual}"


def github(run: Run) -> str:
    """Workflow commands of GitHub Actions, which become annotations, and the summary."""
    lines = []
    for result in run.results:
        if result.outcome == "failed":
            span = result.ready.test.span
            title = f"policy test {result.ready.test.id}"
            lines.append(_command("error", span.file, span.line, span.column, title, "\n".join(details(result))))
    for one in run.coverage.uncovered if run.coverage else ():
        level = "error" if run.is_below else "warning"
        message = f"no test makes {one.rule} act"
        lines.append(_command(level, one.span.file, one.span.line, one.span.column, "untested rule", message))
    return "\n".join([*lines, *summary(run)]) + "\n"


def _command(level: str, file: str, line: int, column: int, title: str, message: str) -> str:
    keys = {"title": title, "file": file, "line": line, "col": column}
    properties = ",".join(f"{key}={escaped(str(value), ':,')}" for key, value in keys.items())
    return f"::{level} {properties}::{escaped(message)}"


def markdown(run: Run) -> str:
    """A summary for a pull request."""
    lines = [f"### Policy tests: {', '.join(f'{run.count(one):,} {one}' for one in TAGS if run.count(one))}"]
    failed = [result for result in run.results if result.outcome == "failed"]
    if failed:
        lines += ["", "| test | | expected | got |", "|---|---|---|---|"]
    for result in failed:
        for problem in result.problems:
            expected, actual = both(problem)
            where = f"{result.ready.test.id}\n{result.ready.place}"
            with_pieces = f"{problem.what} {pieces(problem)}" if problem.pieces is not None else problem.what
            lines.append(f"| {' | '.join(map(cell, (where, with_pieces, expected, actual)))} |")
    todo = [result for result in run.results if result.outcome == "todo"]
    if todo:
        said = (f"todo {one.ready.test.id} ({one.ready.place}): {visible(one.todo or '')}" for one in todo)
        lines += ["", *(f"- {cell(one)}" for one in said)]
    return "\n".join([*lines, "", *_markdown_end(run)]) + "\n"


def _markdown_end(run: Run) -> Iterator[str]:
    first, *rest = summary(run)
    yield cell(first)
    for line in rest:
        yield f"- {cell(line.strip())}"


FORMATS: Mapping[str, Callable[[Run], str]] = {
    "text": text,
    "json": as_json,
    "junit": junit,
    "github": github,
    "markdown": markdown,
}
