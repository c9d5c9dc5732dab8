"""What an expression is made of, read and checked: a tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from policyengine.automata.regex_sets import Runs

UNBOUNDED: Final = -1

Place = Literal["start", "end", "edge", "no_edge"]


@dataclass(frozen=True, slots=True)
class Chars:
    """One symbol of a set."""

    runs: Runs


@dataclass(frozen=True, slots=True)
class Assertion:
    """Nothing, but only at such a place: the output's start or end, at a word edge or not at one."""

    place: Place


@dataclass(frozen=True, slots=True)
class Sequence:
    """One part after the other; no parts: the empty text."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Any one of the parts."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`node`, from `least` to `most` times (`UNBOUNDED`: no end). `position`: of the quantifier in the pattern."""

    node: Node
    least: int
    most: int
    position: int


Node = Chars | Assertion | Sequence | Choice | Repeat

EMPTY: Final = Sequence(())
