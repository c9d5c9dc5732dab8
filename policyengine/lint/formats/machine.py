"""JSON for other programs. `version` is that of this form; keys may be added to it, none goes or changes."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from policyengine.language.diagnostics import Diagnostic, Severity
from policyengine.language.policyset import Span
from policyengine.lint.run import SEVERITIES, Result


def write(result: Result, level: Severity) -> str:
    """One object: `version`, `summary`, `findings`."""
    counts = Counter(one.severity for one in result.diagnostics)
    data = {
        "version": 1,
        "summary": {
            "files": result.files,
            "rules": result.rules,
            **{str(name): counts[name] for name in SEVERITIES},
            "ignored": result.ignored,
        },
        "findings": [_finding(one, result) for one in result.diagnostics],
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _finding(one: Diagnostic, result: Result) -> dict[str, Any]:
    fix = result.fixes.get(one)
    return {
        "code": one.code,
        "name": one.name,
        "severity": one.severity,
        "message": one.message,
        "help": one.help,
        "label": one.label or None,
        **place(one.span),
        "related": [{"message": label.text, **place(label.span)} for label in one.labels],
        "fix": None if fix is None else "safe" if fix.safe else "unsafe",
    }


def place(span: Span) -> dict[str, Any]:
    """A span as keys. Lines and columns count from 1, columns in code points; the end is exclusive."""
    return {
        "file": span.file,
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
    }
