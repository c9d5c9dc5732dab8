"""What the real automata say of one text: no witness is printed that they do not confirm.

It shares no code with the search for witnesses. Places are code points of the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from policyengine.automata.phrases import PhraseAutomaton
from policyengine.automata.threads import BEFORE, NOW, ThreadAutomaton
from policyengine.review.diff_patterns import Part
from policyengine.runtime.irregular import Irregular


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A match. known: how many characters had been read when it counted; one more than the text has: at its end."""

    start: int
    end: int
    known: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """All matches of a rule in one text, and whether the token level refuses to leave the text like this."""

    text: str
    matches: tuple[Occurrence, ...]
    waits: bool

    @property
    def caught(self) -> bool:
        """Whether there is a match."""
        return bool(self.matches)

    @property
    def done(self) -> bool:
        """Whether one counts before the text has ended."""
        return any(one.known <= len(self.text) for one in self.matches)

    @property
    def covered(self) -> frozenset[int]:
        """The places of characters that lie in a match."""
        return frozenset(at for one in self.matches for at in range(one.start, one.end))

    @property
    def links(self) -> frozenset[int]:
        """The places of characters that lie in one match with the next character."""
        return frozenset(at for one in self.matches for at in range(one.start, one.end - 1))

    @property
    def cut(self) -> int:
        """Where the text ends for a client, if the rule ends it: where the first match to count begins."""
        known = min((one.known for one in self.matches), default=0)
        return min((one.start for one in self.matches if one.known == known), default=len(self.text))


def evidence(parts: Sequence[Part], text: str) -> Evidence:
    """What the automata of a rule find in a text."""
    found: set[Occurrence] = set()
    waits = False
    for part in parts:
        if isinstance(part.automaton, Irregular):
            found.update(_searched(part, text))
            continue
        reader = _phrases if isinstance(part.automaton, PhraseAutomaton) else _threads
        matches, waiting = reader(part, text)
        found.update(matches)
        waits = waits or waiting
    return Evidence(text, tuple(sorted(found, key=lambda one: (one.start, one.end, one.known))), waits)


def _phrases(part: Part, text: str) -> tuple[list[Occurrence], bool]:
    automaton = part.automaton
    assert isinstance(automaton, PhraseAutomaton)
    wanted, state, found = set(part.patterns), automaton.START, []
    origins: list[int] = []  # by symbol, the character that it comes from

    def note(patterns: Sequence[int], known: int) -> None:
        for pattern in wanted.intersection(patterns):
            start = origins[len(origins) - automaton.pattern_length(pattern)]
            found.append(Occurrence(start, origins[-1] + 1, known))

    for at, ch in enumerate(text):
        for symbol in automaton.folding.table[ch]:
            repeated = automaton.is_repeat(state, symbol)
            state, before, now = automaton.step(state, symbol)
            note(before, at + 1)
            if not repeated:
                origins.append(at)
            note(now, at + 1)
    note(automaton.at_end(state), len(text) + 1)
    return found, bool(wanted.intersection(automaton.waiting(state)))


def _threads(part: Part, text: str) -> tuple[list[Occurrence], bool]:
    automaton = part.automaton
    assert isinstance(automaton, ThreadAutomaton)
    wanted, state, found = set(part.patterns), automaton.START, []
    begun: list[
        tuple[int, int]
    ] = []  # by thread: the characters where it began and, if it waits, behind which it ended
    last = 0  # behind the last character that was not dropped
    for at, ch in enumerate(text):
        for symbol in automaton.folding.table[ch]:
            reading = automaton.read(state, automaton.anchored.column(symbol))
            for hit in reading.hits:
                start, end = begun[hit.thread] if hit.thread >= 0 else (at, at + 1)
                end = at + 1 if hit.end == NOW else last if hit.end == BEFORE else end
                if hit.pattern in wanted:
                    found.append(Occurrence(start, end, at + 1))
            after = []
            for kept in reading.kept:
                start, end = begun[kept.thread] if kept.thread >= 0 else (at, at + 1)
                after.append((start, at + 1 if kept.end == NOW else last if kept.end == BEFORE else end))
            state, begun, last = reading.state, after, at + 1
    for hit in automaton.at_end(state):
        start, end = begun[hit.thread]
        if hit.pattern in wanted:
            found.append(Occurrence(start, last if hit.end == BEFORE else end, len(text) + 1))
    return found, bool(wanted.intersection(automaton.waiting(state)))


def _searched(part: Part, text: str) -> Iterator[Occurrence]:
    """What the `regex` package finds of expressions that are not regular. When one counts is not known."""
    import regex

    for source in part.texts:
        for match in regex.finditer(source, text, overlapped=True, timeout=1.0):
            if match.end() > match.start():
                yield Occurrence(match.start(), match.end(), len(text))


__all__ = ["Evidence", "Occurrence", "evidence"]
