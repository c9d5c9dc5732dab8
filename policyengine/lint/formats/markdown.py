"""Markdown for a comment on a pull request or a job's summary: a table, the gravest first, and what helps below it."""

from __future__ import annotations

import re

from policyengine.language.diagnostics import Diagnostic, Severity
from policyengine.lint.formats import summary
from policyengine.lint.run import SEVERITIES, Result

_CODE = re.compile(r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)", re.DOTALL)
_MARKUP = re.compile(r"[\\`*_<\[~&|]")
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
    where = code(f"{one.span.file}:{one.span.line}")
    kind = f"{one.severity} {one.code} {one.name}"
    return f"| {kind} | {cell(where)} | {cell(one.message)} | {cell(one.help or '')} |"


def code(text: str) -> str:
    """A text of one line as code, whatever it holds."""
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    pad = " " if fence != "`" or (text.startswith(" ") and text.endswith(" ")) else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def cell(text: str) -> str:
    """Text that stays in its cell and makes no markup but for code in backticks, and calls nobody."""
    parts, last = [], 0
    for found in _CODE.finditer(text):
        parts += [_plain(text[last : found.start()]), found[0].replace("|", "\\|")]
        last = found.end()
    return "".join([*parts, _plain(text[last:])]).replace("\n", "<br>")


def _plain(text: str) -> str:
    return _MARKUP.sub(r"\\\g<0>", text).replace("@", "@<!-- -->")
