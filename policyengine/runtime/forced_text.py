"""Which banned patterns occur in a text that we ourselves would put into an output."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Literal

from policyengine.automata.phrases import PhraseAutomaton
from policyengine.automata.threads import State, ThreadAutomaton
from policyengine.automata.unicode_data import join_class
from policyengine.runtime.forces import text_of
from policyengine.runtime.irregular import Irregular
from policyengine.runtime.program import (
    Automaton,
    BanPlan,
    Component,
    ForcePlan,
    Param,
    Program,
    Request,
    RulePlan,
)

# How much is known of what stands around the text:
# start: nothing stands before it, anything may follow; edge: something may stand before it, with an edge between;
# middle: anything may stand on both sides, so that only what is found in every case counts; end: anything may stand
# before it, nothing follows; alone: it may stand alone, so that edges on both sides count.
Place = Literal["start", "edge", "middle", "end", "alone"]

_JOINS_TO_ALL = "0"  # a word character of no particular script: no word that follows it begins at an edge


def refusal(
    program: Program, request: Request, rule: RulePlan, plan: ForcePlan, acts: Callable[[Component], bool]
) -> str | None:
    """What to tell a client that wants a text forced which an active ban would never let pass; None: it may pass.

    acts: which components the facts of the engine leave active.
    """
    if not isinstance(plan.text, Param) or (text := text_of(plan, request)) is None:
        return None

    def meets(component: Component) -> bool:
        together = component.channel in ("all", rule.channel) and request.policies.intersection(component.policies)
        return bool(together) and acts(component)

    for rank in banned_in(program, meets, text, place_of(plan)):
        ban = program.rules[rank]
        name = f"{program.policies[ban.policy].name}/{ban.id}"
        return f"parameter {plan.text.name!r}: {name} forbids what the text holds that is to be forced"
    return None


def place_of(plan: ForcePlan) -> Place:
    """What is known of the surroundings of a forced text."""
    return "start" if plan.at in ("start", 0) else "end" if plan.at == "end" else "middle"


def banned_in(program: Program, acts: Callable[[Component], bool], text: str, place: Place) -> Iterator[int]:
    """The rules (by rank) that never let this text pass whole: it holds a match of theirs, wherever it is put.

    acts: which components are looked at. Rules that redact are left out: what they do to a text, they may do to this.
    """
    for component in program.components:
        if component.use not in ("avoid", "allow", "text") or not acts(component):
            continue
        for pattern in sorted(matches(component.automaton, text, place, masks=component.use != "text")):
            rule = component.rules[pattern]
            body = program.rules[rule].body
            if not (isinstance(body, BanPlan) and not body.avoid and body.text_action.kind == "redact"):
                yield rule


def matches(automaton: Automaton, text: str, place: Place, *, masks: bool) -> set[int]:
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
        state, _ = automaton.follow(state, _JOINS_TO_ALL)
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


__all__ = ["Place", "banned_in", "matches", "place_of", "refusal"]
