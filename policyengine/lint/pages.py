"""The page of a lint, written as the docstring of its module.

The first line sums it up, what follows says why it matters and what to do. Then come examples, each below a line
`Wrong:` or `Right:`, or `Wrong (FILE):` for another file than the policy, indented by four. A policy that does not
begin with its version gets the lines that every policy has.
"""

from __future__ import annotations

import re
import textwrap

from policyengine.language.codes import Code
from policyengine.language.codes.model import HEAD, POLICY
from policyengine.language.diagnostics import Severity

_EXAMPLE = re.compile(r"^(Wrong|Right)(?: \((\S+)\))?:\n\n((?:(?: {4}.*)?\n)+)", flags=re.MULTILINE)

Files = tuple[tuple[str, str], ...]


def code_of(code: str, name: str, severity: Severity, docstring: str) -> Code:
    """The entry of the registry of codes that a docstring stands for."""
    text = docstring.rstrip("\n") + "\n"
    examples = list(_EXAMPLE.finditer(text))
    summary, _, why = (text[: examples[0].start()] if examples else text).partition("\n\n")
    summary = " ".join(summary.split())
    return Code(
        code,
        name,
        severity,
        (summary[0].lower() + summary[1:]).rstrip("."),
        why,
        bad=_files(examples, "Wrong"),
        good=_files(examples, "Right"),
    )


def _files(examples: list[re.Match[str]], kind: str) -> Files:
    return tuple((found[2] or POLICY, _text(found)) for found in examples if found[1] == kind)


def _text(found: re.Match[str]) -> str:
    text = textwrap.dedent(found[3]).strip("\n") + "\n"
    return text if found[2] or text.startswith("version:") else HEAD + text
