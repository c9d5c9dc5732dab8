"""One automaton read over one text: what began to match where, what became of it, and every occurrence.

It reads with the scanners of the text level, one pattern standing for one rule, so that nothing is matched in a way of
its own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from policyengine.automata.folding import SPACE
from policyengine.automata.phrases import PhraseAutomaton, joins
from policyengine.automata.threads import ThreadAutomaton
from policyengine.runtime.program import Component, TextAction
from policyengine.runtime.scanner_threads import Situation
from policyengine.runtime.scanners import Scanner
from policyengine.runtime.text_plan import scanner_of

# Why a partial match is over. matched: it counts. edge: a letter stands where a word must end. text: the text goes on
# differently. except: an exception stands around it. end: the output ends.
Outcome = Literal["matched", "edge", "text", "except", "end"]

_TOLD_APART = 64  # patterns of an automaton of threads up to which each is asked about by itself


class Occurrence(NamedTuple):
    """A match that counts by itself, whatever other rules do. start, end: code points; known: how many were read."""

    pattern: int
    start: int
    end: int
    known: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """Something that began to match. start: its first code point; end: how many were read when it was over.

    patterns: those it may have become when it had come as far as it did; empty: it is not known which.
    """

    patterns: tuple[int, ...]
    start: int
    end: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Reading:
    """What one component finds in a text."""

    occurrences: tuple[Occurrence, ...]
    attempts: tuple[Attempt, ...]


def read(component: Component, text: str) -> Reading:
    """Read a text that begins and ends with an edge. Raises SearchTimeoutError."""
    count = len(component.rules)
    action = TextAction("redact", None, None)
    apart = replace(component, rules=tuple(range(count)))
    scanner = scanner_of(apart, (action,) * count)
    return _Reader(scanner, component.automaton, text).read()


def occurrences(components: Iterable[Component], text: str) -> Iterator[tuple[Component, Occurrence]]:
    """Every occurrence of several components."""
    for component in components:
        for found in read(component, text).occurrences:
            yield component, found


class _Reader:
    def __init__(self, scanner: Scanner[Any], automaton: object, text: str) -> None:
        self._scanner, self._text, self._state = scanner, text, scanner.start
        self._naming = _naming(automaton)
        self._begins: list[int] = []  # the character that each symbol is of
        self._found: dict[tuple[int, int, int], Occurrence] = {}
        self._open: dict[int, tuple[int, ...]] = {}  # patterns, by where an attempt began
        self._counted: set[int] = set()  # where those began that counted and go on
        self._attempts: list[Attempt] = []

    def read(self) -> Reading:
        for place, ch in enumerate(self._text):
            before = self._state
            self._state, symbols, hits = self._scanner.step(before, ch)
            had = len(self._begins)
            self._begins += [place] * symbols
            if self._naming is not None:
                self._naming.add(ch)
            counted: dict[int, tuple[int, ...]] = {}  # patterns, by where they began
            for hit in hits:
                start = self._note(had + hit.end, hit.length, hit.rule, place + 1)
                counted[start] = (*counted.get(start, ()), hit.rule)
            self._follow(before, counted, place + 1)
        size = len(self._text)
        begun = [
            self._note(len(self._begins) + hit.end, hit.length, hit.rule, size + 1)
            for hit in self._scanner.at_end(self._state)
        ]
        for start, patterns in sorted(self._open.items()):
            self._attempts.append(
                Attempt(patterns, start, size, "matched" if start in {*begun, *self._counted} else "end")
            )
        return Reading(tuple(self._merged()), tuple(sorted(self._attempts, key=lambda one: (one.end, one.start))))

    def _note(self, after: int, length: int, pattern: int, known: int) -> int:
        """Keep an occurrence that ends before a symbol; where it starts."""
        start, end = self._begins[after - length], self._begins[after - 1] + 1
        self._found.setdefault((pattern, start, end), Occurrence(pattern, start, end, known))
        return start

    def _merged(self) -> list[Occurrence]:
        """The occurrences; of a match that went on after it had counted, the longest."""
        if not self._scanner.merges:
            return sorted(self._found.values(), key=_order)
        longest: dict[tuple[int, int], Occurrence] = {}
        for one in sorted(self._found.values(), key=lambda found: found.known):
            first = longest.get((one.pattern, one.start))
            if first is None or first.end < one.end:
                longest[one.pattern, one.start] = one if first is None else one._replace(known=first.known)
        return sorted(longest.values(), key=_order)

    # -- what is under way -----------------------------------------------------------------------------------------

    def _follow(self, before: Any, counted: Mapping[int, tuple[int, ...]], place: int) -> None:
        if self._naming is None:
            return
        live: dict[int, tuple[int, ...]] = {}
        for length, patterns in self._naming.live(self._scanner, self._state):
            start = self._begins[-length]
            live[start] = tuple(dict.fromkeys((*live.get(start, ()), *patterns)))
        over = self._open.keys() - live.keys()
        done = counted.keys() | self._counted
        waiting = self._waiting(before) if over - done else {}
        for start in over:
            outcome: Outcome = "matched" if start in done else waiting.get(start, "text")
            self._attempts.append(Attempt(self._open[start], start, place, outcome))
        for start in counted.keys() - self._open.keys() - live.keys():
            self._attempts.append(Attempt(counted[start], start, place, "matched"))  # by its first character
        self._open, self._counted = live, done & live.keys()

    def _waiting(self, state: Any) -> dict[int, Outcome]:
        """What was complete in a state, by where it began, and what it waited for."""
        found: dict[int, Outcome] = {}
        had = bisect_left(self._begins, self._begins[-1]) if self._begins else 0
        for hit in self._scanner.at_end(state):
            start = had + hit.end - hit.length
            if 0 <= start < len(self._begins):
                found[self._begins[start]] = "edge"
        if isinstance(state, Situation):
            for thread, length in zip(state.state[1], state.begun, strict=True):
                if thread < 0 and 0 <= had - length < len(self._begins):
                    found[self._begins[had - length]] = "except"
        return found


def _order(one: Occurrence) -> tuple[int, int, int]:
    return one.start, one.end, one.pattern


# -- which patterns a partial match may become ------------------------------------------------------------------------


class _PhraseNames:
    """Of a `PhraseAutomaton`: the patterns that begin with what was read."""

    def __init__(self, automaton: PhraseAutomaton) -> None:
        self._automaton = automaton
        self._symbols: list[int] = []
        self._order = sorted(range(automaton.n_patterns), key=lambda i: automaton.patterns[i].symbols)
        self._sorted = [automaton.patterns[i].symbols for i in self._order]

    def add(self, ch: str) -> None:
        collapse = self._automaton.spec.collapse
        for symbol in self._automaton.folding.table[ch]:
            if not (collapse and symbol == SPACE and self._symbols and self._symbols[-1] == SPACE):
                self._symbols.append(symbol)

    def live(self, scanner: Scanner[Any], state: Any) -> Iterator[tuple[int, Sequence[int]]]:
        for length in scanner.live(state):
            yield length, self._beginning_with(length)

    def _beginning_with(self, length: int) -> list[int]:
        head, join = tuple(self._symbols[-length:]), self._automaton.folding.join_class
        before = self._symbols[-length - 1] if length < len(self._symbols) else None
        edge = before is None or not joins(join(before), join(head[0]))
        low = bisect_left(self._sorted, head)
        high = bisect_right(self._sorted, head, lo=low, key=lambda symbols: symbols[:length])
        patterns = self._automaton.patterns
        return [i for i in self._order[low:high] if (edge or not patterns[i].left_edge) and self._may_go_on(i, length)]

    def _may_go_on(self, pattern: int, length: int) -> bool:
        one = self._automaton.patterns[pattern]
        return len(one.symbols) > length or one.right_edge


class _ThreadNames:
    """Of a `ThreadAutomaton`: the patterns that its threads can still become."""

    def __init__(self, automaton: ThreadAutomaton) -> None:
        self._patterns = [p for p in range(automaton.anchored.n_patterns) if not automaton.anchored.is_exception(p)]
        apart = len(self._patterns) <= _TOLD_APART
        self._reached = [automaton.anchored.reached([p]) for p in self._patterns] if apart else []

    def add(self, ch: str) -> None:
        """Threads say it all."""

    def live(self, scanner: Scanner[Any], state: Situation) -> Iterator[tuple[int, Sequence[int]]]:
        pairs = zip(state.state[1], state.begun, strict=True)
        for thread, length in pairs:
            if not length:
                continue
            if thread < 0:
                yield length, (~thread,)
            else:
                yield length, [p for p, reached in zip(self._patterns, self._reached, strict=False) if reached[thread]]


def _naming(automaton: object) -> _PhraseNames | _ThreadNames | None:
    """None: an expression that is not regular tells nothing of what is under way."""
    if isinstance(automaton, PhraseAutomaton):
        return _PhraseNames(automaton)
    return _ThreadNames(automaton) if isinstance(automaton, ThreadAutomaton) else None


__all__ = ["Attempt", "Occurrence", "Outcome", "Reading", "occurrences", "read"]
