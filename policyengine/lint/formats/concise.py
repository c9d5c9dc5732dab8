"""A finding a line, `file:line:column: severity[code name] message`, and a summary."""

from __future__ import annotations

from policyengine.language.diagnostics import Severity
from policyengine.lint.formats import summary
from policyengine.lint.run import Result


def write(result: Result, level: Severity) -> str:
    """Lines that editors and `grep` understand."""
    lines = [
        f"{one.span.file}:{one.span.line}:{one.span.column}: {one.severity}[{one.code} {one.name}] {one.message}"
        for one in result.diagnostics
    ]
    return "\n".join([*lines, summary(result)]) + "\n"
