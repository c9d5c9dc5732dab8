"""SARIF 2.1.0, which code scanning reads. Every result has a place: GitHub refuses a file in which one has none."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

import policyengine
from policyengine.language.diagnostics import Diagnostic, Severity
from policyengine.language.policyset import Span
from policyengine.language.render import Lines
from policyengine.lint.registry import find
from policyengine.lint.run import Result

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def write(result: Result, level: Severity) -> str:
    """One run, with a rule for each kind of finding there is."""
    found = result.diagnostics
    names = sorted({(one.code, one.name) for one in found})
    driver = {
        "name": "policyengine",
        "version": policyengine.__version__,
        "rules": [_rule(code, name) for code, name in names],
    }
    prints = _fingerprints(found, result)
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(one, names.index((one.code, one.name)), prints[i]) for i, one in enumerate(found)],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False) + "\n"


def _rule(code: str, name: str) -> dict[str, Any]:
    page = find(code)
    assert page is not None
    return {
        "id": code,
        "name": name,
        "shortDescription": {"text": page.summary[:1].upper() + page.summary[1:] + "."},
        "fullDescription": {"text": " ".join(page.why.split())},
        "help": {"text": page.page},
        "defaultConfiguration": {"level": _LEVELS[page.severity]},
    }


def _result(one: Diagnostic, index: int, fingerprint: str) -> dict[str, Any]:
    message = one.message if not one.help else f"{one.message}\n\n{one.help}"
    found: dict[str, Any] = {
        "ruleId": one.code,
        "ruleIndex": index,
        "level": _LEVELS[one.severity],
        "message": {"text": message},
        "locations": [_location(one.span)],
        "partialFingerprints": {"policyengine/v1": fingerprint},
    }
    if one.labels:
        found["relatedLocations"] = [_location(label.span) | {"message": {"text": label.text}} for label in one.labels]
    return found


def _location(span: Span) -> dict[str, Any]:
    path = PurePosixPath(span.file or ".")
    uri = path.as_uri() if path.is_absolute() else quote(span.file or ".")
    region = {"startLine": span.line, "startColumn": span.column}
    region |= {"endLine": span.end_line, "endColumn": span.end_column}
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}


def _fingerprints(found: Sequence[Diagnostic], result: Result) -> list[str]:
    """What stays the same when lines are put in above: code, file, the text of the line, and which of equal ones."""
    lines = {file: Lines(text) for file, text in result.sources.items()}
    seen: Counter[str] = Counter()
    prints = []
    for one in found:
        text = lines[one.span.file][one.span.line].strip() if one.span.file in lines else ""
        key = "\n".join((one.code, one.span.file, text))
        seen[key] += 1
        prints.append(hashlib.sha256(f"{key}\n{seen[key]}".encode(errors="surrogatepass")).hexdigest()[:32])
    return prints
