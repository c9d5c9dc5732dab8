"""A phrase or expression that matches in everyday text.

It bans, or replaces, one of the most frequent words of English, or something that many of them hold: nearly every
answer would be touched. It is often a short phrase with `match: substring`, or half of one that was meant. Write the
whole phrase; whole words are the default.

Wrong:

    rules:
      names: {ban: {phrases: [he], match: substring}}

Right:

    rules:
      names: {ban: {phrases: [Helios], match: word}}
"""

from __future__ import annotations

from collections.abc import Iterator

from policyengine.automata.phrases import PhraseAutomaton
from policyengine.automata.threads import ThreadAutomaton
from policyengine.language.diagnostics import quoted
from policyengine.language.policyset import Ban
from policyengine.lint.checked import Checked
from policyengine.lint.everyday import WORDS
from policyengine.lint.model import Finding
from policyengine.runtime.program import Automaton

_MANY = 3  # so many everyday words hold it, where it need not be a word


def findings(checked: Checked) -> Iterator[Finding]:
    """One a pattern of a ban."""
    for component, patterns in zip(checked.work.components, checked.work.patterns, strict=True):
        if component.use not in ("avoid", "text"):
            continue
        for number, words in _matched(component.automaton).items():
            phrase, body = patterns[number], checked.work.sources[component.rules[number]].rule.body
            if not isinstance(body, Ban) or body.scripts:
                continue
            if body.phrases and body.options.match == "word":
                message = f"{quoted(phrase.text)} is one of the most frequent words of English"
                yield Finding(message, phrase.span, "write the whole phrase that is meant")
            elif len(words) >= _MANY:
                some = ", ".join(f"`{word}`" for word in words[:_MANY])
                message = f"{quoted(phrase.text)} matches in many everyday words: {some}"
                yield Finding(message, phrase.span, "write more of it, or let it match whole words only")


def _matched(automaton: Automaton) -> dict[int, list[str]]:
    """Patterns that match in a text of everyday words, each with the words in which it comes to an end."""
    found: dict[int, dict[str, None]] = {}
    if not isinstance(automaton, PhraseAutomaton | ThreadAutomaton):
        return {}
    state = automaton.START
    for word in WORDS:
        state, done = automaton.follow(state, word)  # type: ignore[arg-type]
        for number in done:
            found.setdefault(number, {})[word] = None
        state, done = automaton.follow(state, " ")  # type: ignore[arg-type]
        for number in done:
            found.setdefault(number, {})[word] = None
    return {number: list(words) for number, words in sorted(found.items())}
