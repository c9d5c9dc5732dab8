"""What a comparison of two sets of policies says, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

# What became of something: `changed` is neither more nor less (another text, say).
Direction = Literal["stronger", "weaker", "changed"]
Change = Literal["stronger", "weaker", "both", "same"]

# Worst first.
CHANGES: tuple[Change, ...] = ("weaker", "both", "stronger", "same")


@dataclass(frozen=True, slots=True)
class Example:
    """A text that shows a difference, checked by the automata of both sides. shortest: there is no shorter one."""

    text: str
    shortest: bool = False
    elsewhere: tuple[str, ...] = ()  # other rules of the side that lets it pass which catch it there


@dataclass(frozen=True, slots=True)
class Detail:
    """One difference. kind: what it is about (`catches`, `covers`, `word_end`, `action`, ...); text: in words."""

    kind: str
    direction: Direction
    text: str
    example: Example | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rule or policy stands on one side."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Difference:
    """What became of one rule, one policy, or the whole (`project`).

    was: its name in the base, where that is another. base, head: None where the side does not have it.
    unproven: what a search could not rule out within its limit; it counts as changed.
    notes: what was edited, where that can be said (phrases that came or went, options).
    """

    name: str
    what: Literal["rule", "policy", "project"]
    details: tuple[Detail, ...] = ()
    unproven: tuple[Direction, ...] = ()
    base: Place | None = None
    head: Place | None = None
    was: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def change(self) -> Change:
        """All details together."""
        found = {detail.direction for detail in self.details}
        if not found:
            return "both" if self.unproven else "same"
        if found == {"stronger"}:
            return "stronger"
        return "weaker" if found == {"weaker"} else "both"

    @property
    def may_be_weaker(self) -> bool:
        """Whether it is weaker in any respect, or that is not ruled out."""
        return self.change in ("weaker", "both") or bool(self.unproven)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both sides compared. rules, policies, project: in the order of the head, then what only the base has.

    base, head: the sides as they were named; edited: what differs and does nothing (descriptions, owners, places).
    """

    base: str
    head: str
    differences: tuple[Difference, ...]
    edited: tuple[str, ...] = ()
    corpus: Mapping[str, Any] = field(default_factory=dict)

    def ranked(self) -> list[Difference]:
        """Worst first; else as they stand."""
        return sorted(self.differences, key=lambda one: CHANGES.index(one.change))

    def count(self, change: Change) -> int:
        """How many rules, policies and the like changed so."""
        return sum(one.change == change for one in self.differences)

    @property
    def is_weaker(self) -> bool:
        """Whether anything is, or may be, weaker."""
        return any(one.may_be_weaker for one in self.differences)

    @property
    def is_changed(self) -> bool:
        """Whether anything but texts for people changed; a new name counts, since clients and counters show it."""
        return any(one.change != "same" or one.was is not None for one in self.differences)
