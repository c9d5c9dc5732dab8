"""A phrase that also matches inside a word with an apostrophe, which means something else.

An apostrophe is an edge, so that `Titan` is found in `Titan's`. With `can`, `won` or `let` that reaches too far: `we
can` is found in `we can't`. Except those words; there are two apostrophes, and both are written.

Wrong:

    rules:
      prizes: {ban: {phrases: [you won]}}

Right:

    rules:
      prizes: {ban: {phrases: [you won], except: ["you won't", "you won’t"]}}
"""

from __future__ import annotations

from collections.abc import Iterator

from policyengine.automata.phrases import PhraseAutomaton
from policyengine.automata.threads import ThreadAutomaton
from policyengine.language.diagnostics import quoted
from policyengine.language.policyset import Ban
from policyengine.lint.checked import Checked
from policyengine.lint.everyday import BEFORE_APOSTROPHE, BEHIND_APOSTROPHE
from policyengine.lint.model import Finding
from policyengine.runtime.program import Automaton

_APOSTROPHES = ("'", "’")


def findings(checked: Checked) -> Iterator[Finding]:
    """One a phrase of a ban."""
    for pattern in checked.patterns("avoid", "text"):
        for longer in _longer(pattern.phrase.text):
            body = checked.work.sources[pattern.rule].rule.body
            if not isinstance(body, Ban) or not body.phrases:
                continue
            texts = [longer.replace("'", sign) for sign in _APOSTROPHES]
            if any(_matches(pattern.component.automaton, pattern.number, text) for text in texts):
                message = f"{quoted(pattern.phrase.text)} also matches in {quoted(longer)}"
                listed = ", ".join(f'"{text}"' for text in texts)
                yield Finding(message, pattern.phrase.span, f"if that is not meant, add `except: [{listed}]`")
                break


def _longer(text: str) -> list[str]:
    """The phrase with the rest of a word that an apostrophe ends it in, or begins it with."""
    words = text.split()
    first, last = words[0].lower(), words[-1].lower()
    found = []
    if last in BEFORE_APOSTROPHE:
        found.append(text.rstrip() + BEFORE_APOSTROPHE[last][len(last) :])
    if first in BEHIND_APOSTROPHE:
        found.append(BEHIND_APOSTROPHE[first][: -len(first)] + text.lstrip())
    return found


def _matches(automaton: Automaton, number: int, text: str) -> bool:
    if not isinstance(automaton, PhraseAutomaton | ThreadAutomaton):
        return False
    state, done = automaton.follow(automaton.START, text)  # type: ignore[arg-type]
    ends = automaton.at_end(state) if isinstance(automaton, PhraseAutomaton) else automaton.ends(state)  # type: ignore[arg-type]
    return number in done or number in ends
