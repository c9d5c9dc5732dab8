"""The result of a check in the formats of people and machines: a module each, imported when it is asked for.

Every format shows all findings in the same order, and none has a say in the exit code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from importlib import import_module

from policyengine.language.diagnostics import Severity
from policyengine.lint.run import SEVERITIES, Result

FORMATS = ("text", "concise", "json", "sarif", "github", "junit", "markdown")


def write(name: str, result: Result, level: Severity = "error") -> str:
    """A result in the format of this name. level: how grave what fails a run is, for formats that know failures."""
    module = import_module(f"policyengine.lint.formats.{'machine' if name == 'json' else name}")
    written: Callable[[Result, Severity], str] = module.write
    return written(result, level)


def summary(result: Result) -> str:
    """What was looked at, how much was found and what `--fix` would do, in one line."""
    counts = Counter(one.severity for one in result.diagnostics)
    found = [_count(counts[name], name, name if name == "info" else f"{name}s") for name in SEVERITIES if counts[name]]
    ignored = f" ({result.ignored} ignored)" if result.ignored else ""
    looked_at = f"{_count(result.files, 'file', 'files')}, {_count(result.rules, 'rule', 'rules')}"
    looked_at += f" ({result.shadows:,} in shadow)" if result.shadows else ""
    return f"{looked_at}: {', '.join(found) or 'no findings'}{ignored}{_fixable(result)}"


def _fixable(result: Result) -> str:
    fixes = [result.fixes[one].safe for one in result.found if one in result.fixes]
    safe, unsafe = fixes.count(True), fixes.count(False)
    parts = [f"{safe} fixable with --fix"] if safe else []
    parts += [f"{unsafe} {'more ' if safe else 'fixable '}with --fix=unsafe"] if unsafe else []
    return f"; {', '.join(parts)}" if parts else ""


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
