"""GitHub's workflow commands: an annotation at the line of each finding, and the summary for the log."""

from __future__ import annotations

from policyengine.language.diagnostics import Diagnostic, Severity
from policyengine.lint.formats import summary
from policyengine.lint.run import Result

_LEVELS = {"error": "error", "warning": "warning", "info": "notice"}


def write(result: Result, level: Severity) -> str:
    """A command a line. GitHub shows the first ten of each level; the log has them all."""
    return "\n".join([*map(_command, result.diagnostics), summary(result)]) + "\n"


def _command(one: Diagnostic) -> str:
    at = one.span
    keys = {"title": f"{one.code} {one.name}", "file": at.file, "line": at.line}
    if at.line == at.end_line:  # columns of several lines are refused
        keys |= {"col": at.column, "endLine": at.end_line, "endColumn": at.end_column}
    properties = ",".join(f"{key}={escaped(str(value), ':,')}" for key, value in keys.items())
    text = one.message if not one.help else f"{one.message}\n{one.help}"
    return f"::{_LEVELS[one.severity]} {properties}::{escaped(text)}"


def escaped(text: str, more: str = "") -> str:
    """Percent signs, line breaks, and in properties what separates them."""
    for ch in ("%", "\r", "\n", *more):
        text = text.replace(ch, f"%{ord(ch):02X}")
    return text
