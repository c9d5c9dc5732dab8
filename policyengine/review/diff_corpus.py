"""Both sides over real answers: what would have changed for clients. Reads a line at a time, keeps a few examples."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from policyengine.review.inputs import Record
from policyengine.review.scan import Finding, Outcome, Scanner
from policyengine.runtime.program import Program

_EXAMPLES = 3  # kept of each rule
_LONGEST = 200  # code points of a text that are kept


@dataclass(frozen=True, slots=True)
class Seen:
    """An answer that changed: its line, what was matched (or its head), and its verdicts."""

    line: int
    text: str
    base: str
    head: str


@dataclass(slots=True)
class Tally:
    """How often a rule decided on one side and not on the other, with examples."""

    newly: int = 0
    no_longer: int = 0
    examples: list[Seen] = field(default_factory=list)


@dataclass(slots=True)
class Replay:
    """What a corpus shows. changed: answers of which a client would have seen something else."""

    answers: int = 0
    changed: int = 0
    unreadable: int = 0
    rules: dict[str, Tally] = field(default_factory=dict)
    examples: list[Seen] = field(default_factory=list)  # of answers that changed though the same rules decided


def replay(base: Program, head: Program, records: Iterable[Record], tell: Callable[[Record], object]) -> Replay:
    """Run both programs, under their `always` policies, over every answer. tell: gets each line that holds none."""
    found, scanners = Replay(), (Scanner(base), Scanner(head))
    for record in records:
        if record.text is None:
            found.unreadable += 1
            tell(record)
            continue
        found.answers += 1
        was, now = (_run(scanner, record.text) for scanner in scanners)
        if was.shown != now.shown or was.verdict != now.verdict:
            found.changed += 1
            _note(found, record, was, now)
    return found


@dataclass(frozen=True, slots=True)
class _Run:
    verdict: tuple[str, str | None]
    shown: str
    rules: dict[str, str]  # with the first text that each matched


def _run(scanner: Scanner, text: str) -> _Run:
    shown: list[str] = []
    rules: dict[str, str] = {}

    def find(one: Finding) -> None:
        rules.setdefault(one.rule, one.text)

    outcome: Outcome = scanner.scan([text], show=shown.append, find=find)
    return _Run((outcome.action, outcome.reason), "".join(shown), rules)


def _note(found: Replay, record: Record, was: _Run, now: _Run) -> None:
    def seen(text: str) -> Seen:
        return Seen(record.line, text[:_LONGEST], was.verdict[0], now.verdict[0])

    for name in sorted(was.rules.keys() ^ now.rules.keys()):
        tally = found.rules.setdefault(name, Tally())
        if name in now.rules:
            tally.newly += 1
        else:
            tally.no_longer += 1
        if len(tally.examples) < _EXAMPLES:
            tally.examples.append(seen(now.rules.get(name) or was.rules.get(name) or ""))
    if was.rules.keys() == now.rules.keys() and len(found.examples) < _EXAMPLES:
        found.examples.append(seen(record.text or ""))


__all__ = ["Replay", "Seen", "Tally", "replay"]
