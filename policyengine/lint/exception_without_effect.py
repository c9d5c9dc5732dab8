"""An exception that holds none of the phrases of its rule.

`except` lists longer texts in which a banned phrase may stand: with `Titan` banned, `Titan press kit`. One that holds
no banned phrase changes nothing; it is a typing error, or the phrase it belonged to has gone. Mend or remove it.

Wrong:

    rules:
      names: {ban: {phrases: [Titan], except: [Titan press kit, Project Triton]}}

Right:

    rules:
      names: {ban: {phrases: [Titan], except: [Titan press kit]}}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from policyengine.automata.phrases import PhraseAutomaton
from policyengine.automata.threads import ThreadAutomaton
from policyengine.language.diagnostics import quoted
from policyengine.language.phrases import fold_spec
from policyengine.language.policyset import Ban
from policyengine.lint.checked import Checked
from policyengine.lint.model import Finding, Fix
from policyengine.lint.removing import removal


def findings(checked: Checked) -> Iterator[Finding]:
    """One an exception."""
    for _, rule in checked.rules():
        body = rule.body
        if not isinstance(body, Ban) or not body.exceptions:
            continue
        automaton = _without_exceptions(body)
        for phrase in body.exceptions:
            state, found = automaton.follow(automaton.START, phrase.text)  # type: ignore[arg-type]
            ends = automaton.at_end(state)  # type: ignore[arg-type]
            if not found and not ends:
                message = f"the exception {quoted(phrase.text)} holds none of the phrases of its rule"
                edit = removal(checked, phrase.span)
                fix = Fix(f"removed the exception {quoted(phrase.text)}", (edit,), safe=True) if edit else None
                yield Finding(message, phrase.span, "write the whole text in which a phrase is fine", fix=fix)


def _without_exceptions(ban: Ban) -> PhraseAutomaton | ThreadAutomaton:
    """The automaton of the phrases alone. Edges are as generous as they can be: the exception stands alone."""
    spec, texts = fold_spec(ban.options), [phrase.text for phrase in ban.phrases]
    left = [ban.options.match != "substring"] * len(texts)
    right, eager = [ban.options.match == "word"] * len(texts), [False] * len(texts)
    if ban.options.gaps in ("spaces", "literal"):
        return PhraseAutomaton.from_phrases(spec, texts, left_edge=left, right_edge=right, eager=eager)
    return ThreadAutomaton.from_phrases(
        replace(spec, collapse=False), texts, gaps=ban.options.gaps, left_edge=left, right_edge=right, eager=eager
    )
