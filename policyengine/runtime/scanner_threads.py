"""Scanning with a `ThreadAutomaton`: phrases with gaps and exceptions, expressions.

How long a match is does not follow from the automaton's state here, so a scanner's state says it of each thread.
Threads that can only become exceptions hold nothing back and carry no length: fewer states, more that is known of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from policyengine.automata.gap_phrases import GapPhrases
from policyengine.automata.threads import NOW, PENDING, Reading, State, ThreadAutomaton
from policyengine.automata.threads import Hit as ThreadHit
from policyengine.runtime.program import Component, TextAction
from policyengine.runtime.scanners import Hit, Scanner, Step, replacement

_KEPT_STEPS = 1 << 15
# Situations beyond this size are not remembered: they are large, and seldom come again.
_KEPT_LENGTH = 128  # symbols of the longest match
_KEPT_THREADS = 32

_BITS = 32  # a replacement has fewer symbols


class Waiting(NamedTuple):
    """Matches of one pattern that have ended and wait for the same exceptions, listed from the last to end on.

    length: symbols of the one that ended last; gap: symbols from the end of the next one, in `older`, to its end.
    Situations share their lists, as what is pending only grows at its head.
    """

    length: int
    gap: int
    older: Waiting | None


Pending = tuple[int, Waiting]  # and the symbols read since the last of them ended


class Situation(NamedTuple):
    """A state of the automaton, and where its threads come from.

    begun: by thread, the symbols since it began, of several pending matches the first; 0: it cannot come to count.
    pending: one entry a thread that is a pending match.
    """

    state: State
    begun: tuple[int, ...]
    pending: tuple[Pending, ...]


class ThreadScanner(Scanner[Situation]):
    """Scans with a `ThreadAutomaton`. A step that is not remembered costs some microseconds, and more with threads."""

    start = Situation(ThreadAutomaton.START, (), ())

    def __init__(
        self, automaton: ThreadAutomaton, component: Component, actions: tuple[TextAction | None, ...]
    ) -> None:
        super().__init__(component, actions)
        self.automaton = automaton
        self.merges = not isinstance(automaton.anchored, GapPhrases)
        self._table = automaton.folding.table
        self._steps: dict[tuple[Situation, str], Step] = {}
        self._revived_places: dict[State, tuple[tuple[int, ...], ...]] = {}
        # What a match of each pattern shows in its place; None: something else happens, which is no replacement.
        self._texts = [
            replacement(action) if (action := actions[rule]) is not None and action.kind == "redact" else None
            for rule in self.rules
        ]

    def step(self, state: Situation, ch: str) -> Step:
        """Read one character."""
        if state.pending:
            return self._learn(state, ch)  # such a situation may be large, and does not last
        return self._steps.get((state, ch)) or self._learn(state, ch)

    def _learn(self, state: Situation, ch: str) -> Step:
        automaton, current, hits = self.automaton, state, []
        column, symbols = automaton.anchored.column, self._table[ch]
        for count, symbol in enumerate(symbols):
            reading = automaton.read(current.state, column(symbol))
            if reading.hits:
                hits += [
                    Hit(count + end, length, self.rules[pattern])
                    for pattern, end, length in _counting(current, reading.hits, 1)
                ]
            current = self._after(current, reading)
        step = Step(current, len(symbols), tuple(hits))
        if self.worth_keeping(state) and self.worth_keeping(current):
            if len(self._steps) >= _KEPT_STEPS:
                self._steps.clear()
            self._steps[state, ch] = step
        return step

    def worth_keeping(self, state: Situation) -> bool:
        return not state.pending and len(state.begun) <= _KEPT_THREADS and self.longest(state) <= _KEPT_LENGTH

    def _after(self, before: Situation, reading: Reading) -> Situation:
        threads, live = reading.state[1], self.automaton.anchored.live
        begun = (*before.begun, 0)  # the place -1 is that of what begins with the symbol
        if before.pending or (threads and min(threads) < 0):
            return _with_pending(before, reading, live)
        lengths = [
            begun[source] + 1 if live(thread) else 0 for thread, (source, _) in zip(threads, reading.kept, strict=True)
        ]
        return Situation(reading.state, tuple(lengths), ())

    def at_end(self, state: Situation) -> tuple[Hit, ...]:
        """What counts if the output ends here."""
        hits = self.automaton.at_end(state.state)
        return tuple(Hit(end, length, self.rules[pattern]) for pattern, end, length in _counting(state, hits, 0))

    def longest(self, state: Situation) -> int:
        """The length, in symbols, of the longest match that may still come to count; 0: none."""
        return max(state.begun, default=0)

    def live(self, state: Situation) -> Iterator[int]:
        """The lengths, in symbols, of all matches that may still come to count; the longest first."""
        if not state.pending:
            yield from filter(None, state.begun)
            return
        longest = max(state.begun)
        yield longest  # who asks seldom wants more, and there may be thousands
        yield from sorted({*state.begun, *_lengths(state)} - {0, longest}, reverse=True)

    def revived(self, state: Situation, choice: int) -> Iterator[Iterable[int]]:
        """As for every scanner. A pending match is taken to count even where an effect completes the exception."""
        if state.pending:
            context, threads = state.state
            if self.choices[choice]:
                yield _pending_first(state)
            kept = [(thread, begun) for thread, begun in zip(threads, state.begun, strict=True) if thread >= 0]
            slim = context, tuple(thread for thread, _ in kept)
            state = Situation(slim, tuple(begun for _, begun in kept), ())
        if places := self._places(state.state)[choice]:
            yield map(state.begun.__getitem__, places)

    def _places(self, state: State) -> tuple[tuple[int, ...], ...]:
        """By choice: the threads that it completes or leaves alive. How long they are does not matter for that."""
        known = self._revived_places.get(state)
        if known is None:
            threads, live = state[1], self.automaton.anchored.live
            begun = tuple((place + 1) << _BITS if live(thread) else 0 for place, thread in enumerate(threads))
            marked = Situation(state, begun, ())
            backs = (
                {b for g in super(ThreadScanner, self).revived(marked, c) for b in g} for c in range(len(self.choices))
            )
            known = tuple(tuple(sorted((back >> _BITS) - 1 for back in found)) for found in backs)
            if len(threads) <= _KEPT_THREADS:
                if len(self._revived_places) >= _KEPT_STEPS:
                    self._revived_places.clear()
                self._revived_places[state] = known
        return known

    def shows(self, state: Situation, length: int) -> str | None:
        """The replacement that all matches show that began so many symbols ago; None: not the same one."""
        first = self._texts[0]
        if self._texts.count(first) == len(self._texts):
            return first
        texts: set[str | None] = set()
        pending = iter(state.pending)
        for thread, begun in zip(state.state[1], state.begun, strict=True):
            if thread < 0:
                if any(ended + symbols == length for ended, symbols in _listed(next(pending))):
                    texts.add(self._texts[~thread])
            elif begun == length:
                texts.update(text for text, reached in self._reached.items() if reached[thread])
        return texts.pop() if len(texts) == 1 else None

    def may_hold(self, text: str) -> bool:
        """Whether a match may stand inside a text; an expression may ask for an edge around it, or for none."""
        for before in ("", " ", text[:1]):
            state = self.read(self.start, before).state
            size = self.read(state, text).symbols
            for behind in ("", " ", text[-1:]):
                after = self.read(state, text + behind)
                ends = (hit._replace(end=hit.end + after.symbols) for hit in self.at_end(after.state))
                if any(hit.length <= hit.end <= size for hit in (*after.hits, *ends)):
                    return True
        return False

    @cached_property
    def _reached(self) -> dict[str | None, Sequence[bool]]:
        """By what is shown: the states of the anchored automaton in which a match that shows it can still end."""
        patterns: dict[str | None, list[int]] = {}
        for pattern, text in enumerate(self._texts):
            patterns.setdefault(text, []).append(pattern)
        return {text: self.automaton.anchored.reached(mine) for text, mine in patterns.items()}


def _counting(state: Situation, hits: Sequence[ThreadHit], symbols: int) -> Iterator[tuple[int, int, int]]:
    """(pattern, end, length) of matches that count, in symbols after the situation; `symbols`: how many were read."""
    for pattern, place, end in hits:
        if end == PENDING:
            index = sum(thread < 0 for thread in state.state[1][:place])
            for ended, length in _listed(state.pending[index]):
                yield pattern, -ended, length
        else:
            now = symbols if end == NOW else 0
            yield pattern, now, (state.begun[place] if place >= 0 else 0) + now


def _with_pending(before: Situation, reading: Reading, live: Callable[[int], bool]) -> Situation:
    """The situation after a symbol, where matches are pending before or after it.

    Those between the same two threads wait for the same exceptions: one entry a pattern stands for them.
    """
    places = [place for place, thread in enumerate(before.state[1]) if thread < 0]
    waiting = dict(zip(places, before.pending, strict=True))
    begun = (*before.begun, 0)
    threads: list[tuple[int, int]] = []  # and the symbols since they began
    pending: list[Pending] = []
    run: dict[int, tuple[int, Pending]] = {}
    ended_here: set[tuple[int, int]] = set()

    def close_run() -> None:
        for thread, (length, entry) in sorted(run.items(), key=lambda item: item[0]):
            threads.append((thread, length))
            pending.append(entry)
        run.clear()

    for thread, (source, end) in zip(reading.state[1], reading.kept, strict=True):
        length = begun[source] + 1
        if thread >= 0:
            close_run()
            threads.append((thread, length if live(thread) else 0))
            continue
        if end == PENDING:
            ended, matches = waiting[source]
            entry = ended + 1, matches
        else:
            if (thread, end) in ended_here:
                continue  # an earlier one ends here too, and counts whenever this one does
            ended_here.add((thread, end))
            entry = end, Waiting(length - end, 0, None)
        known = run.get(thread)
        run[thread] = (max(known[0], length), _joined(known[1], entry)) if known else (length, entry)
    close_run()
    state = reading.state[0], tuple(thread for thread, _ in threads)
    return Situation(state, tuple(length for _, length in threads), tuple(pending))


def _lengths(state: Situation) -> Iterator[int]:
    """The symbols since each pending match began."""
    return (ended + length for pending in state.pending for ended, length in _listed(pending))


def _pending_first(state: Situation) -> Iterator[int]:
    """The same, the first to begin first, and the others only for who asks on."""
    first = max(begun for thread, begun in zip(state.state[1], state.begun, strict=True) if thread < 0)
    yield first
    yield from sorted({*_lengths(state)} - {first}, reverse=True)


def _listed(pending: Pending) -> Iterator[tuple[int, int]]:
    """(symbols since it ended, length) of each match, from the last to end on."""
    ended, at = pending[0], pending[1]
    while True:
        yield ended, at.length
        if at.older is None:
            return
        ended, at = ended + at.gap, at.older


def _joined(one: Pending, other: Pending) -> Pending:
    """Two lists as one; of matches that end at one place the longest."""
    (ended, last), (before, rest) = (one, other) if one[0] <= other[0] else (other, one)
    if last.older is None and before > ended:
        return ended, Waiting(last.length, before - ended, rest)
    lengths: dict[int, int] = {}
    for since, length in (*_listed(one), *_listed(other)):
        lengths[since] = max(length, lengths.get(since, 0))
    found: Waiting | None = None
    previous = 0
    for since in sorted(lengths, reverse=True):
        found = Waiting(lengths[since], previous - since if found else 0, found)
        previous = since
    assert found is not None
    return previous, found
