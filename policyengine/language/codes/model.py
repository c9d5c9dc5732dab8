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
        bad: an example that gives this code, a file each: (file name, text). Tests check it. A byte that is not UTF-8
            is written as a surrogate, as the error handler `surrogateescape` does.
        good: the same, mended.
    """

    code: str
    name: str
    severity: Literal["error", "warning", "info"]
    summary: str
    why: str
    bad: tuple[tuple[str, str], ...]
    good: tuple[tuple[str, str], ...]

    @property
    def page(self) -> str:
        """The page of the code, as `policyengine code` prints it."""
        parts = [f"{self.code} {self.name} ({self.severity})", self.summary[:1].upper() + self.summary[1:] + "."]
        parts.append(textwrap.fill(" ".join(self.why.split()), 100))
        for title, files in (("Wrong", self.bad), ("Right", self.good)):
            for file, text in files:
                shown = _shown(text)
                where = "" if file == POLICY else f" ({file})"
                where += "" if shown == text else ", with an escape for what would not show"
                parts.append(f"{title}{where}:\n\n{textwrap.indent(shown.rstrip(), '    ')}")
        return "\n\n".join(parts) + "\n"


def _shown(text: str) -> str:
    """An example as it is printed: bytes that are no characters, and characters that do not show, as escapes."""
    characters = text.encode(errors="surrogateescape").decode(errors="backslashreplace")
    return "".join(ch if ch.isprintable() or ch == "\n" else ascii(ch)[1:-1] for ch in characters)


def policy(rules: str, head: str = "") -> tuple[tuple[str, str], ...]:
    """An example file that holds these rules, and above them these keys."""
    rules = textwrap.indent(textwrap.dedent(rules).strip("\n"), "  ")
    return ((POLICY, f"{HEAD}{head}rules:\n{rules}\n"),)


def whole(text: str) -> tuple[tuple[str, str], ...]:
    """An example file, given whole."""
    return ((POLICY, textwrap.dedent(text).lstrip("\n")),)
