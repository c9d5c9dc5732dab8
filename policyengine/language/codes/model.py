"""What the registry holds for each code."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Literal

POLICY = "policy.yaml"

# A short policy for examples that need a whole one around them.
HEAD = "version: 1\npolicy: example\n"


@dataclass(frozen=True, slots=True)
class Code:
    """One kind of finding. A code and its name are stable and never used for anything else.

    Attributes:
        code: "PE" and three digits; the first digit is the family (0 file, 1 logic, 2 target, 3 governance, 4 tests).
        name: kebab-case; what suppressions use.
        severity: the one a finding has unless its maker says otherwise.
        summary: one line.
        why: a paragraph: what is found, why it matters, what to do.
        bad: examples that give this code, a file each: (file name, text). Tests load them. Empty where none can be
            written as files.
        good: the same, mended.
    """

    code: str
    name: str
    severity: Literal["error", "warning", "info"]
    summary: str
    why: str
    bad: tuple[tuple[str, str], ...] = ()
    good: tuple[tuple[str, str], ...] = ()

    @property
    def page(self) -> str:
        """The page of the code, as `policyengine code` prints it."""
        parts = [f"{self.code} {self.name} ({self.severity})", self.summary[:1].upper() + self.summary[1:] + "."]
        parts.append(textwrap.fill(" ".join(self.why.split()), 100))
        for title, files in (("Wrong", self.bad), ("Right", self.good)):
            for file, text in files:
                where = "" if file == POLICY else f" ({file})"
                parts.append(f"{title}{where}:\n\n{textwrap.indent(text.rstrip(), '    ')}")
        return "\n\n".join(parts) + "\n"


def policy(rules: str) -> tuple[tuple[str, str], ...]:
    """An example file that holds these rules."""
    return ((POLICY, HEAD + "rules:\n" + textwrap.indent(textwrap.dedent(rules).strip("\n"), "  ") + "\n"),)


def whole(text: str) -> tuple[tuple[str, str], ...]:
    """An example file, given whole."""
    return ((POLICY, textwrap.dedent(text).lstrip("\n")),)
