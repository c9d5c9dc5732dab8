"""What `doctor` finds about an engine: findings as data, and how the engine would run the policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with how an engine is set up.

    name: of a registered diagnostic. where: what has to change, for people ("command line", a path, a variable).
    severity: None: the diagnostic's own.
    """

    name: str
    message: str
    change: str
    where: str
    severity: Severity | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """How one engine would run the policies.

    how: lines for people: what is known of the engine, and by what it is told of the policies. Where something is
    wrong, `findings` say so.
    facts: the same for programs.
    """

    engine: str
    version: str
    how: tuple[str, ...]
    facts: dict[str, str | bool | None]
    findings: tuple[Finding, ...]
