"""A replacement that can become part of a banned phrase.

What a redaction puts in stands beside what the model wrote, and the two together may be a phrase that is banned: with
`Project Titan` banned, the replacement `Project` before ` Titan` is one. Nothing banned reaches a client, so that the
joint is acted on as well, and more of the answer is replaced, or it ends. Choose a replacement that no phrase begins or
ends with; one in brackets rarely does.

Wrong:

    targets: [trtllm]
    rules:
      places: {ban: {phrases: [bluebird hall]}, action: {redact: the project}}
      names: {ban: {phrases: [the project titan]}, action: terminate}

Right:

    targets: [trtllm]
    rules:
      places: {ban: {phrases: [bluebird hall]}, action: {redact: "[place]"}}
      names: {ban: {phrases: [the project titan]}, action: terminate}
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from policyengine.automata.folding import SPACE
from policyengine.automata.phrases import N_BASES, PhraseAutomaton
from policyengine.automata.threads import ThreadAutomaton
from policyengine.automata.unicode_data import join_class
from policyengine.language.diagnostics import Label, quoted
from policyengine.language.policyset import Ban
from policyengine.lint.checked import Checked
from policyengine.lint.model import Finding
from policyengine.runtime.program import Component

_BITS = 21  # of a symbol in `PhraseAutomaton.keys`


def findings(checked: Checked) -> Iterator[Finding]:
    """One a rule and a rule whose phrase its replacement may become part of."""
    for rank, source in enumerate(checked.work.sources):
        body = source.rule.body
        if not isinstance(body, Ban) or body.token_ids or body.fallback.kind != "redact" or not body.fallback.text:
            continue
        text, seen = body.fallback.text, set()
        for component, phrases in zip(checked.work.components, checked.work.patterns, strict=True):
            if component.use not in ("avoid", "text"):
                continue
            for number in _fed(component, text):
                rule = component.rules[number]
                other = checked.work.sources[rule]
                # Inside it, a text that holds the phrase whole is refused.
                if rule in seen or not checked.work.together(source, other) or not _phrases(other.rule.body):
                    continue
                seen.add(rule)
                whose = "itself" if rule == rank else quoted(checked.name(rule))
                message = f"the replacement {quoted(text)} can become part of {quoted(phrases[number].text)}, which "
                message += f"{whose} bans" if rule != rank else "the rule itself bans"
                span = source.rule.action_span if body.action.kind != "avoid" else None
                labels = (Label(phrases[number].span, "with what stands beside the replacement"),)
                hint = "choose a replacement that no banned phrase begins or ends with"
                yield Finding(message, span or source.rule.body_span, hint, labels=labels)


def _phrases(body: object) -> bool:
    return isinstance(body, Ban) and bool(body.phrases)


def _fed(component: Component, text: str) -> tuple[int, ...]:
    """The patterns of which the text may be a part, the rest standing before it or behind it."""
    automaton = component.automaton
    if isinstance(automaton, PhraseAutomaton):
        return tuple(dict.fromkeys((*_behind(automaton, text), *_before(automaton, text))))
    return _threads(automaton, component.phrases, text) if isinstance(automaton, ThreadAutomaton) else ()


def _behind(automaton: PhraseAutomaton, text: str) -> Iterator[int]:
    """Patterns that begin in the text and go on behind it. A whole word is followed by no other letter."""
    symbols = automaton.folding.fold(text)
    for number in _starting(automaton, symbols):
        pattern = automaton.patterns[number]
        for size in range(min(len(symbols), len(pattern.symbols) - 1), 0, -1):
            if tuple(symbols[-size:]) != pattern.symbols[:size]:
                continue
            before = symbols[-size - 1] if size < len(symbols) else SPACE
            begins = not pattern.left_edge or not _joined(before, symbols[-size])
            if begins and not (pattern.right_edge and _joined(symbols[-1], pattern.symbols[size])):
                yield number
                break


def _before(automaton: PhraseAutomaton, text: str) -> Iterator[int]:
    """Patterns that begin before the text and end in it, or go on behind it."""
    symbols = automaton.folding.fold(text)
    keys = automaton.keys
    parents = (keys[(keys & ((1 << _BITS) - 1)) == symbols[0]] >> _BITS) - 2
    for state in (np.unique(parents[parents >= 0]) + N_BASES).tolist():
        if _joined_context(automaton, state, symbols[0]):
            continue
        current = state
        for read, symbol in enumerate(symbols, start=1):
            current, before, now = automaton.step(current, symbol)
            yield from (one for one in before if read > 1 and automaton.pattern_length(one) >= read)
            yield from (one for one in now if automaton.pattern_length(one) > read)
            if int(automaton.depth[current]) <= read:
                break  # what began before the text is no longer part of it
        else:
            yield from (one for one in automaton.at_end(current) if automaton.pattern_length(one) > len(symbols))
            yield from _going_on(automaton, current)


def _going_on(automaton: PhraseAutomaton, state: int) -> Iterator[int]:
    """Patterns of which a state is the beginning, as far as what follows a whole word can go on with them."""
    node, path = state - N_BASES, []
    while node >= 0:
        path.append(int(automaton.keys[node]) & ((1 << _BITS) - 1))
        node = (int(automaton.keys[node]) >> _BITS) - 2
    path.reverse()
    for number, pattern in enumerate(automaton.patterns):
        begins = len(pattern.symbols) > len(path) and list(pattern.symbols[: len(path)]) == path
        if begins and not (pattern.right_edge and _joined(path[-1], pattern.symbols[len(path)])):
            yield number


def _threads(automaton: ThreadAutomaton, phrases: tuple[str, ...], text: str) -> tuple[int, ...]:
    """With gaps there is much that could stand beside; looked for is what goes on behind the text and a space."""
    state, _ = automaton.follow(automaton.START, f"{text} ")
    if not any(automaton.is_live(thread) for thread in state[1]):
        return ()
    alone = state[0], ()  # the same place, with nothing begun
    found = []
    for number, phrase in enumerate(phrases):
        for place in range(1, len(phrase)):
            rest = phrase[place:].lstrip() + " "
            if number in automaton.follow(state, rest)[1] and number not in automaton.follow(alone, rest)[1]:
                found.append(number)
                break
    return tuple(found)


def _starting(automaton: PhraseAutomaton, symbols: list[int]) -> list[int]:
    """The patterns that begin with a symbol of the text."""
    among = set(symbols)
    return [number for number, pattern in enumerate(automaton.patterns) if pattern.symbols[0] in among]


def _joined(a: int, b: int) -> bool:
    return join_class(a) != 0 and join_class(b) != 0


def _joined_context(automaton: PhraseAutomaton, state: int, symbol: int) -> bool:
    """Whether the text would go on a word that a match has begun: what was replaced stood at an edge."""
    return int(automaton.context[state]) not in (0, N_BASES - 1) and join_class(symbol) != 0
