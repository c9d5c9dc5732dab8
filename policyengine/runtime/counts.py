"""What each rule did, in numbers: no text, no tokens. One object serves all outputs of an engine's process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from policyengine.runtime.program import Mode, Program
    from policyengine.runtime.text_session import Verdict

_SHOWN = 20  # rules that one line names

BUSY = 60.0  # seconds between two lines of a log while outputs are under way


class Tally(NamedTuple):
    """The counts of one rule.

    outputs: those in which it matched, or had anything counted of it; each once (a request for n answers has n).
    matches: at the text level. steps: tokens that were chosen although the rule masks them, at the token level; of a
    rule in shadow: which it would have masked, or, a bias, pushed.
    dead_ends: steps at which the rules left nothing but the end, and this was one of those that masked.
    """

    outputs: int = 0
    matches: int = 0
    steps: int = 0
    dead_ends: int = 0


class OutputCounts:
    """What is counted of one output."""

    __slots__ = ("_counts", "_seen")

    def __init__(self, counts: RuleCounts) -> None:
        self._counts = counts
        self._seen: set[int] = set()

    def verdict(self, verdict: Verdict) -> None:
        """Count what rules matched, in shadow and not, at the text level."""
        if verdict.matches or verdict.shadowed:
            ranks = self._counts.ranks
            self._add([ranks[match.policy, match.rule] for match in (*verdict.matches, *verdict.shadowed)], "matches")

    def steps(self, rules: Iterable[int]) -> None:
        """Count a token that these rules (by rank) mask and that was chosen (`TokenSession.choose`)."""
        self._add(rules, "steps")

    def dead_ends(self, rules: Iterable[int]) -> None:
        """Count a step at which these rules left nothing (`TokenSession.dead_ends`)."""
        self._add(rules, "dead_ends")

    def _add(self, rules: Iterable[int], what: str) -> None:
        for rule in rules:
            column = self._counts.columns[what]
            column[rule] += 1
            if rule not in self._seen:
                self._seen.add(rule)
                self._counts.columns["outputs"][rule] += 1


class RuleCounts:
    """Counts by rule since the process started.

    ranks: by policy and rule. columns: by the fields of `Tally`, a number a rule, in the order of the program's rules.
    """

    def __init__(self, program: Program) -> None:
        names = [(program.policies[rule.policy].name, rule.id) for rule in program.rules]
        self.ranks = {name: rank for rank, name in enumerate(names)}
        self.names = tuple("/".join(name) for name in names)
        self.modes: tuple[Mode, ...] = tuple(rule.mode for rule in program.rules)
        self.columns: dict[str, list[int]] = {field: [0] * len(names) for field in Tally._fields}

    def output(self) -> OutputCounts:
        """What counts for an output that begins."""
        return OutputCounts(self)

    def snapshot(self) -> dict[str, Tally]:
        """The counts of every rule of which anything was counted, by `policy/rule`."""
        rows = zip(self.names, zip(*self.columns.values(), strict=True), strict=True)
        return {name: Tally(*row) for name, row in rows if any(row)}

    def describe(self) -> str:
        """The same on a line, for a log: those in shadow say so; the rules with the most outputs, where there are many.

        Empty where nothing was counted.
        """
        shadows = {name for name, mode in zip(self.names, self.modes, strict=True) if mode == "shadow"}
        rows = sorted(self.snapshot().items(), key=lambda row: -row[1].outputs)
        parts = []
        for name, tally in rows[:_SHOWN]:
            numbers = ", ".join(f"{what} {n}" for what, n in tally._asdict().items() if n)
            parts.append(f"{name}{' (shadow)' if name in shadows else ''}: {numbers}")
        more = len(rows) - _SHOWN
        return "; ".join(parts) + (f"; and {more} more" if more > 0 else "")


class RuleLog:
    """Says the counts in a log now and then, if they changed."""

    def __init__(
        self, counts: RuleCounts, digest: str, say: Callable[..., object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """digest: of the bundle. say: a logger's method; it gets a format and its values."""
        self._counts, self._digest, self._say, self._clock = counts, digest, say, clock
        self._last, self._said = clock(), ""

    def tell(self, every: float) -> bool:
        """Say the counts unless that was less than `every` seconds ago; whether they were looked at."""
        now = self._clock()
        if now - self._last < every:
            return False
        self._last = now
        text = self._counts.describe()
        if text != self._said:
            self._said = text
            self._say("policy rules, bundle digest %s: %s", self._digest, text)
        return True


__all__ = ["BUSY", "OutputCounts", "RuleCounts", "RuleLog", "Tally"]
