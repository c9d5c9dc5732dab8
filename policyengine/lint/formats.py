"""The result of a check as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from policyengine.language.render import render
from policyengine.lint.run import SEVERITIES, Result


def text(result: Result) -> str:
    """For people: each finding with its source line, and a summary."""
    shown = render(result.diagnostics, result.sources)
    return f"{shown}\n\n{summary(result)}\n" if shown else f"{summary(result)}\n"


def concise(result: Result) -> str:
    """A finding a line, `file:line:column: severity[code name] message`, and a summary."""
    lines = [
        f"{one.span.file}:{one.span.line}:{one.span.column}: {one.severity}[{one.code} {one.name}] {one.message}"
        for one in result.diagnostics
    ]
    return "\n".join([*lines, summary(result)]) + "\n"


FORMATS: Mapping[str, Callable[[Result], str]] = {"text": text, "concise": concise}


def summary(result: Result) -> str:
    """What was looked at and how much was found, in one line."""
    counts = Counter(one.severity for one in result.diagnostics)
    found = [_count(counts[name], name, name if name == "info" else f"{name}s") for name in SEVERITIES if counts[name]]
    ignored = f" ({result.ignored} ignored)" if result.ignored else ""
    looked_at = f"{_count(result.files, 'file', 'files')}, {_count(result.rules, 'rule', 'rules')}"
    return f"{looked_at}: {', '.join(found) or 'no findings'}{ignored}"


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
