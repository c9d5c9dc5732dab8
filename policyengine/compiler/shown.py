"""Which banned phrases occur in a text that we ourselves would put into an output."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from policyengine.automata.phrases import PhraseAutomaton
from policyengine.compiler.work import Work
from policyengine.language.policyset import Phrase

# How much is known of what stands around the text:
# start: nothing stands before it, anything may follow; middle: anything may stand on both sides, so that only what is
# found in every case counts; alone: it may stand alone, so that edges on both sides count.
Place = Literal["start", "middle", "alone"]

_JOINS_TO_ALL = "0"  # a word character of no particular script: no word that follows it begins at an edge


@dataclass(frozen=True, slots=True)
class Hit:
    """A phrase that the text contains, and the rule (by rank) that bans it."""

    rule: int
    phrase: Phrase


def banned_in(work: Work, source: int, text: str, place: Place) -> Iterator[Hit]:
    """Bans that act together with the rule `source` and match within the text; each once, with its first phrase."""
    if not text:
        return
    seen: set[int] = set()
    for component, phrases in zip(work.components, work.patterns, strict=True):
        if component.use not in ("avoid", "text") or not isinstance(component.automaton, PhraseAutomaton):
            continue
        for pattern in sorted(_matches(component.automaton, text, place, masks=component.use == "avoid")):
            rule = component.rules[pattern]
            if rule not in seen and work.together(work.sources[source], work.sources[rule]):
                seen.add(rule)
                yield Hit(rule, phrases[pattern])


def _matches(automaton: PhraseAutomaton, text: str, place: Place, *, masks: bool) -> set[int]:
    """Patterns that match within the text. masks: what `word_end: eager` masks at its end counts too."""
    table = automaton.folding.table
    state = automaton.START
    if place == "middle":
        for symbol in table[_JOINS_TO_ALL]:
            state, _, _ = automaton.step(state, symbol)
    found: set[int] = set()
    read = 0  # symbols of the text: a pattern longer than this began before it
    for ch in text:
        for symbol in table[ch]:
            repeat = automaton.is_repeat(state, symbol)
            state, before, by = automaton.step(state, symbol)
            found.update(p for p in before if automaton.pattern_length(p) <= read)
            read += not repeat
            found.update(p for p in by if automaton.pattern_length(p) <= read)
    for pattern in automaton.at_end(state):
        counts = place == "alone" or (masks and automaton.patterns[pattern].eager)
        if counts and automaton.pattern_length(pattern) <= read:
            found.add(pattern)
    return found
