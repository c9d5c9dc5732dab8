"""What YAML's parser refuses, as a diagnostic: the place that helps, and what to do."""

from __future__ import annotations

import re

import yaml

from policyengine.language.diagnostics import Label, quoted, visible
from policyengine.language.source import Report, Source

_PAIR = re.compile(r"\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)
# How libyaml and the pure parser say that a line belongs to no block around it.
_STRAY = ("did not find expected key", "did not find expected `-` indicator", "expected <block end>")


def surrogate_hint(text: str, start: int, end: int) -> str | None:
    """What to write for the first character here that is escaped as JSON does, in two halves; None where none is."""
    pair = _PAIR.search(text, start, end)
    if pair is None:
        return None
    code = 0x10000 + ((int(pair[1], 16) - 0xD800) << 10) + int(pair[2], 16) - 0xDC00
    return f"YAML knows no surrogate pairs; write the character itself, or `\\U{code:08X}`"


def report_syntax(error: yaml.MarkedYAMLError, source: Source, report: Report) -> None:
    """Report where the parser gave up, in words for people who have never seen one."""
    mark, context = error.problem_mark, error.context_mark
    problem = visible((error.problem or error.context or "not YAML").replace("'", "`"))
    index = min(mark.index, len(source.text)) if mark else 0
    labels = []
    if context is not None and mark is not None and context.index != mark.index:
        unclosed = "expected `,` or" in problem and context.line != mark.line
        if "end of stream" in problem or unclosed:
            # The opening quote or bracket says more than where its end was missed at last.
            index, other, label = context.index, index, "its end was expected before this"
        else:
            other, label = context.index, visible(error.context or "").replace("'", "`")
        if other < len(source.text):
            labels.append(Label(source.span(other, other + 1), label))
    hint = None
    if "end of stream" in problem and "quoted scalar" in str(error.context):
        problem = "the quote opened here is never closed"
        hint = f"add {quoted(source.text[index : index + 1])} where the text ends"
    elif problem.startswith(_STRAY):
        hint = "this line is indented differently from the ones around it"
    elif "expected `,` or" in problem:
        hint = "close the bracket, put a comma between values, or quote the text"
    elif "cannot start any token" in problem:
        tab = source.text[index : index + 1] == "\t"
        hint = "indent with spaces" if tab else f"quote text that starts with {quoted(source.text[index : index + 1])}"
    elif "mapping values are not allowed" in problem:
        hint = "check the indentation, or quote text that holds `: `"
    elif "character escape code" in problem:
        hint = surrogate_hint(source.text, index - 2, index + 10)  # the place is behind the first `\\u`
    elif "unknown escape" in problem:
        hint = "double quotes read backslashes as escapes; use single quotes"
    report.add("yaml-syntax", problem, source.span(index, index + 1), hint=hint, labels=labels)
