"""Text that ends where YAML reads a comment.

Behind a space `#` begins a comment in YAML: `room #4` without quotes is the text `room`, and the rest is gone. Quote
the text. If it is a comment, put a space behind the `#`.

Wrong:

    rules:
      rooms:
        ban:
          phrases:
            - secret room #4

Right:

    rules:
      rooms:
        ban:
          phrases:
            - 'secret room #4'
            - secret hall  # that is a comment
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from policyengine.language.diagnostics import quoted
from policyengine.lint.checked import Checked
from policyengine.lint.model import Edit, Finding, Fix

_MAYBE = re.compile(r"[ \t]#[^\s#!:;,.\-=_*/]")
_COMMENT = re.compile(r"([ \t]+)(#[^\s#!:;,.\-=_*/][^\r\n]*)")


def findings(checked: Checked) -> Iterator[Finding]:
    """One a value without quotes that such a comment follows."""
    for file in checked.files:
        text = checked.sources[file]
        if file not in checked.yaml_files or not _MAYBE.search(text):
            continue
        for scalar, _ in checked.scalars(file):
            found = _COMMENT.match(text, scalar.end.index)
            if scalar.style is not None or not scalar.text or found is None:
                continue
            start, end = scalar.start.index, found.start() + len(found[0].rstrip())
            whole = text[start:end]
            span = checked.source(file).span(start, scalar.end.index)
            message = f"YAML reads {quoted(scalar.text)} and takes {quoted(found[2].rstrip())} for a comment"
            yield Finding(message, span, "quote the text; or put a space behind the `#`", fix=_fix(file, start, whole))


def _fix(file: str, start: int, whole: str) -> Fix | None:
    if re.search(r"[\n\r,\[\]{}]", whole) or ": " in whole:
        return None
    written = "'" + whole.replace("'", "''") + "'"
    return Fix("quoted a text with a `#`", (Edit(file, start, start + len(whole), written),), safe=False)
