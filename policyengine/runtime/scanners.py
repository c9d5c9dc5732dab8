"""Scanners: the automata of components read character by character, each for one kind of automaton.

What a scanner says is in *symbols* (folded code points), counted back from where the text stands. A scanner's state is
a value: states that are equal behave alike, whatever text led to them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator
from itertools import takewhile
from typing import Any, Generic, NamedTuple, TypeVar

from policyengine.automata.phrases import PhraseAutomaton
from policyengine.runtime.program import Component, TextAction

REDACTED = "[redacted]"

_KEPT_STEPS = 1 << 17  # character steps that one scanner remembers
_SYMBOL_BITS = 21

S = TypeVar("S", bound=Hashable)


class Hit(NamedTuple):
    """A pattern that counts from here on.

    end: how many symbols of the text just read it includes; 0: it ended before that text, and below 0: so much before.
    """

    end: int
    length: int  # in symbols
    rule: int


class Step(NamedTuple):
    """What reading one character does. `symbols`: how many it adds (0: dropped, or more of the same white space)."""

    state: Any
    symbols: int
    hits: tuple[Hit, ...]


class Effect(NamedTuple):
    """What a rule puts in place of a match. `ends`: the output ends after `text`."""

    text: str
    ends: bool


class Source(NamedTuple):
    """What an effect revives: matches that reach `found` symbols back, and those live `after` it that began before.

    own: how many symbols the effect itself adds.
    """

    found: tuple[int, ...]
    after: Any  # a state
    own: int


NOTHING = 0  # the choice that puts nothing in place of a match, which is what a unit that grows does


class Scanner(ABC, Generic[S]):
    """The automaton of one component, read by characters. Safe to share; everything it keeps is a cache.

    Attributes:
        start: the state before the first character.
        rules: by pattern.
        actions: those of its rules.
        choices: what may be put in place of a match, by choice; the first is `NOTHING`. Set by the plan, as are
        effects, endings: which choice holds the effects of all rules, and which those that end the output.
        merges: whether a match that goes on after it has counted is one match with what it becomes.
        recurs: whether different texts often lead to the same state, so that situations are worth remembering.
        searches: whether it searches the text again with every character, which takes time that is counted.
    """

    start: S
    merges = False
    recurs = True
    searches = False

    def __init__(self, component: Component, actions: tuple[TextAction | None, ...]) -> None:
        self.rules = component.rules
        self.actions = tuple(dict.fromkeys(action for rule in component.rules if (action := actions[rule]) is not None))
        self.choices: tuple[tuple[Effect, ...], ...] = ()
        self.effects = self.endings = NOTHING
        self._revived: dict[int, dict[S, tuple[Source, ...]]] = {}  # by choice

    @abstractmethod
    def step(self, state: S, ch: str) -> Step:
        """Read one character."""

    @abstractmethod
    def at_end(self, state: S) -> tuple[Hit, ...]:
        """What counts if the output ends here."""

    @abstractmethod
    def longest(self, state: S) -> int:
        """The length, in symbols, of the longest match that may still come to count; 0: none."""

    @abstractmethod
    def live(self, state: S) -> Iterator[int]:
        """The lengths, in symbols, of all matches that may still come to count; the longest first."""

    def shows(self, state: S, length: int) -> str | None:
        """The replacement that all matches show that began so many symbols ago and may still come to count.

        None: they may do different things, or it is not known.
        """
        return None

    def may_hold(self, text: str) -> bool:
        """Whether a match may stand inside a text, in the surroundings that suit it best."""
        after = self.read(self.start, text)
        return bool(after.hits or self.at_end(after.state))

    def worth_keeping(self, state: S) -> bool:
        """Whether a state is likely to be seen again, and small."""
        return True

    def read(self, state: S, text: str) -> Step:
        """Read any text as one step."""
        if len(text) == 1:
            return self.step(state, text)
        count, hits = 0, []
        for ch in text:
            state, symbols, found = self.step(state, ch)
            hits += [Hit(count + hit.end, hit.length, hit.rule) for hit in found]
            count += symbols
        return Step(state, count, tuple(hits))

    def revived(self, state: S, choice: int) -> Iterator[Iterable[int]]:
        """How many symbols back matches reach that a choice of effects, put here, completes or leaves alive.

        In groups, each with the longest first.
        """
        for found, after, own in self._sources(state, choice):
            yield found
            yield (length - own for length in takewhile(own.__lt__, self.live(after)))

    def _sources(self, state: S, choice: int) -> tuple[Source, ...]:
        cache = self._revived.setdefault(choice, {})
        known = cache.get(state)
        if known is None:
            known = tuple(filter(None, (self._source(state, effect) for effect in self.choices[choice])))
            if self.worth_keeping(state):
                if len(cache) >= _KEPT_STEPS:
                    cache.clear()
                cache[state] = known
        return known

    def _source(self, state: S, effect: Effect) -> Source | None:
        found: list[int] = []
        after, own = state, 0
        for ch in effect.text:
            if not self.longest(after):
                break  # what begins inside the effect is none of what it revives
            after, symbols, hits = self.step(after, ch)
            found += [hit.length - hit.end - own for hit in hits]
            own += symbols
        if effect.ends:
            found += [hit.length - hit.end - own for hit in self.at_end(after)]
            after = self.start  # nothing is live
        found = sorted({back for back in found if back > 0}, reverse=True)
        return Source(tuple(found), after, own) if found or self.longest(after) > own else None


class PhraseScanner(Scanner[int]):
    """Scans with a `PhraseAutomaton`: how long a match is follows from the automaton's state."""

    start = PhraseAutomaton.START

    def __init__(
        self, automaton: PhraseAutomaton, component: Component, actions: tuple[TextAction | None, ...]
    ) -> None:
        super().__init__(component, actions)
        self.automaton = automaton
        self._table = automaton.folding.table
        self._steps: dict[int, Step] = {}

    def step(self, state: int, ch: str) -> Step:
        """Read one character."""
        return self._steps.get(state << _SYMBOL_BITS | ord(ch)) or self._learn(state, ch)

    def _learn(self, state: int, ch: str) -> Step:
        automaton, symbols = self.automaton, self._table[ch]
        if len(symbols) == 1 and (other := automaton.falls(state, symbols[0])) != state:
            return self._keep(state, ch, self.step(other, ch))
        current, count, hits = state, 0, []
        for symbol in symbols:
            if automaton.is_repeat(current, symbol):
                continue
            current, before, by = automaton.step(current, symbol)
            hits += [Hit(count, automaton.pattern_length(p), self.rules[p]) for p in before]
            count += 1
            hits += [Hit(count, automaton.pattern_length(p), self.rules[p]) for p in by]
        if not automaton.live_depth(current):
            # All that such a state still tells is what an edge depends on: fewer states, more that is known of them.
            current = automaton.base(current)
        return self._keep(state, ch, Step(current, count, tuple(hits)))

    def _keep(self, state: int, ch: str, step: Step) -> Step:
        if len(self._steps) >= _KEPT_STEPS:
            self._steps.clear()
        self._steps[state << _SYMBOL_BITS | ord(ch)] = step
        return step

    def at_end(self, state: int) -> tuple[Hit, ...]:
        """What completes if the output ends here."""
        patterns = self.automaton.at_end(state)
        return tuple(Hit(0, self.automaton.pattern_length(p), self.rules[p]) for p in patterns)

    def longest(self, state: int) -> int:
        """The length, in symbols, of the longest partial match that can still complete; 0: none."""
        return self.automaton.live_depth(state)

    def live(self, state: int) -> Iterator[int]:
        """The lengths, in symbols, of all partial matches that can still complete; the longest first."""
        automaton = self.automaton
        while length := automaton.live_depth(state):
            yield length
            state = automaton.shorter(state, length)


def replacement(action: TextAction) -> str:
    """What a redaction shows in place of its matches."""
    return REDACTED if action.text is None else action.text
