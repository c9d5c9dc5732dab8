"""Which banned patterns occur in a text that we ourselves would put into an output."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from policyengine.automata.phrases import PhraseAutomaton
from policyengine.automata.threads import State, ThreadAutomaton
from policyengine.automata.unicode_data import join_class
from policyengine.compiler.work import Source, Work
from policyengine.language.diagnostics import quoted
from policyengine.language.policyset import Ban, Force, Phrase
from policyengine.runtime.irregular import Irregular
from policyengine.runtime.program import Automaton

# How much is known of what stands around the text:
# start: nothing stands before it, anything may follow; edge: something may stand before it, with an edge between;
# middle: anything may stand on both sides, so that only what is found in every case counts; end: anything may stand
# before it, nothing follows; alone: it may stand alone, so that edges on both sides count.
Place = Literal["start", "edge", "middle", "end", "alone"]

_JOINS_TO_ALL = "0"  # a word character of no particular script: no word that follows it begins at an edge


@dataclass(frozen=True, slots=True)
class Hit:
    """A pattern that the text contains, and the rule (by rank) that bans it."""

    rule: int
    phrase: Phrase


def forced_texts(work: Work, source: Source) -> list[str]:
    """What a force certainly writes, or may: its text, or what a parameter has for a default and choices."""
    body = source.rule.body
    if not isinstance(body, Force) or body.text is None:
        return []
    if isinstance(body.text, str):
        return [body.text]
    parameter = work.policies[source.policy].parameters.get(body.text.name)
    if parameter is None:
        return []  # reported by the language
    default = [parameter.default] if isinstance(parameter.default, str) else []
    return list(dict.fromkeys(text for text in (*default, *(parameter.choices or ())) if text))


def banned_in(work: Work, source: int, text: str, place: Place) -> Iterator[Hit]:
    """Bans that act together with the rule `source` and match within the text; each once, with its first phrase."""
    if not text:
        return
    seen: set[int] = set()
    for component, phrases in zip(work.components, work.patterns, strict=True):
        if component.use not in ("avoid", "text"):
            continue
        for pattern in sorted(_matches(component.automaton, text, place, masks=component.use == "avoid")):
            rule = component.rules[pattern]
            if rule not in seen and work.together(work.sources[source], work.sources[rule]):
                seen.add(rule)
                yield Hit(rule, phrases[pattern])


def contains(work: Work, hit: Hit) -> str:
    """What a text holds, in words that go on from it."""
    rule = work.sources[hit.rule]
    shown, name = quoted(hit.phrase.text), f"`{work.name(rule)}`"
    body = rule.rule.body
    if isinstance(body, Ban) and body.expressions:
        return f"holds a match of {shown}, an expression that {name} bans"
    if isinstance(body, Ban) and body.scripts:
        return f"holds a character of {shown}, a script that {name} bans"
    return f"contains {shown}, a phrase that {name} bans"


def _matches(automaton: Automaton, text: str, place: Place, *, masks: bool) -> set[int]:
    """Patterns that match within the text. masks: what `word_end: eager` masks at its end counts too."""
    if isinstance(automaton, PhraseAutomaton):
        return _in_phrases(automaton, text, place, masks=masks)
    if isinstance(automaton, ThreadAutomaton):
        return _in_threads(automaton, text, place, masks=masks)
    return _in_irregular(automaton, text) if place == "alone" else set()  # what stands around decides, elsewhere


def _in_phrases(automaton: PhraseAutomaton, text: str, place: Place, *, masks: bool) -> set[int]:
    table = automaton.folding.table
    state = automaton.START
    if place in ("middle", "end"):
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
        counts = place in ("end", "alone") or (masks and automaton.patterns[pattern].eager)
        if counts and automaton.pattern_length(pattern) <= read:
            found.add(pattern)
    return found


def _in_irregular(automaton: Irregular, text: str) -> set[int]:
    import regex  # most programs have no such expression

    found = set()
    for pattern, source in enumerate(automaton.sources):
        with suppress(TimeoutError):  # then it is not certain
            match = regex.search(source, text, timeout=1)
            if match is not None and match.end() > match.start():
                found.add(pattern)
    return found


def _in_threads(automaton: ThreadAutomaton, text: str, place: Place, *, masks: bool) -> set[int]:
    before = place in ("edge", "middle", "end")
    if before and automaton.anchored.has_exceptions:
        return set()  # one may stand around the text
    # No thread: what began before the text is not in it.
    joins = join_class(ord(_JOINS_TO_ALL)) if automaton.anchored.needs_edges and place != "edge" else 0
    state: State = (joins, ()) if before else automaton.START
    state, found = automaton.follow(state, text)
    if place in ("end", "alone"):
        return found | automaton.ends(state)
    return found | set(automaton.waiting(state)) if masks else found
