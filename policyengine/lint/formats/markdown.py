"""Markdown for a comment on a pull request or a job's summary: a table, the gravest first, and what helps below it."""

from __future__ import annotations

import re

from policyengine.language.diagnostics import Diagnostic, Severity
from policyengine.lint.formats import summary
from policyengine.lint.run import SEVERITIES, Result

_PLAIN = re.compile(r"[*_<\[~]")
_MOST = 100  # rows; a comment of GitHub has 65,536 characters


def write(result: Result, level: Severity) -> str:
    """A headline, then a row a finding."""
    found = sorted(result.diagnostics, key=lambda one: SEVERITIES.index(one.severity))
    headline = f"**policyengine check**: {cell(summary(result))}\n"
    if not found:
        return headline
    rows = [_row(one) for one in found[:_MOST]]
    table = "\n".join(["| | where | what | help |", "|---|---|---|---|", *rows])
    more = f"\n\nand {len(found) - _MOST} more" if len(found) > _MOST else ""
    return f"{headline}\n{table}{more}\n"


def _row(one: Diagnostic) -> str:
    where = f"`{one.span.file}:{one.span.line}`"
    kind = f"{one.severity} {one.code} {one.name}"
    return f"| {kind} | {cell(where)} | {cell(one.message)} | {cell(one.help or '')} |"


def cell(text: str) -> str:
    """Text that stays in its cell and makes no markup but for code in backticks."""
    parts = text.replace("|", "\\|").split("`")
    parts[::2] = [_PLAIN.sub(r"\\\g<0>", part) for part in parts[::2]]
    return "`".join(parts).replace("\n", "<br>")
