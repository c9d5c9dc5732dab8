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

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from policyengine.automata.folding import Folding
from policyengine.automata.phrases import PhraseAutomaton
from policyengine.automata.threads import ThreadAutomaton
from policyengine.automata.unicode_data import is_punctuation_or_symbol, is_white_space
from policyengine.language.diagnostics import quoted
from policyengine.language.phrases import fold_spec
from policyengine.language.policyset import Ban
from policyengine.lint.checked import Checked
from policyengine.lint.model import Finding, Fix
from policyengine.lint.removing import is_settled, removal

_GAP = "\x00"  # stands for a gap of an exception; no phrase holds one
_SIGNS = r"[\W_]+"  # signs that an exception spells, which a gap of a phrase may be


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
            if not found and not ends and not _between_gaps(body, phrase.text):
                message = f"the exception {quoted(phrase.text)} holds none of the phrases of its rule"
                edit = removal(checked, phrase.span)
                safe = is_settled(checked, phrase.span, *(one.span for one in body.phrases))
                fix = Fix(f"removed the exception {quoted(phrase.text)}", (edit,), safe) if edit else None
                yield Finding(message, phrase.span, "write the whole text in which a phrase is fine", fix=fix)


def _between_gaps(ban: Ban, exception: str) -> bool:
    """Whether a phrase may stand in other texts that the exception matches: its gaps may hold what the phrase spells.

    Of `gaps: punctuation` a run around a space is one, and with `letters` there may be one anywhere.
    """
    if ban.options.gaps not in ("punctuation", "letters"):
        return False
    fold = Folding(replace(fold_spec(ban.options), collapse=False)).fold
    anywhere = ban.options.gaps == "letters"
    whole = "".join(
        run if not is_gap else "" if anywhere else _GAP if spaced else run
        for run, is_gap, spaced in _runs(fold(exception))
    )
    for phrase in ban.phrases:
        wanted = ""
        for run, is_gap, spaced in _runs(fold(phrase.text)):
            if not is_gap:
                wanted += re.escape(run)
            elif not anywhere:
                wanted += f"(?:{_GAP}|{_SIGNS if spaced else re.escape(run)})"
        if re.search(wanted, whole):
            return True
    return False


def _runs(symbols: Sequence[int]) -> Iterator[tuple[str, bool, bool]]:
    """A text in runs of gap characters and of others: the run, whether it may be a gap, whether it holds a space."""
    for is_gap, run in groupby(symbols, key=lambda one: is_white_space(one) or is_punctuation_or_symbol(one)):
        found = list(run)
        yield "".join(map(chr, found)), is_gap, any(map(is_white_space, found))


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
