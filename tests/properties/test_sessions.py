"""Any mixture of rules on one output permits exactly what their definitions say, and never leads nowhere."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.runtime.errors import RequestError
from policyengine.runtime.token_session import TokenSession
from tests import oracle
from tests.properties.session_cases import EOS, GRAMMARS, SIZE, Case, cases, choose


def left(session: TokenSession, allowed: list[int] | None = None) -> set[int]:
    return set(range(SIZE)) - set(session.masked(allowed).tolist())


@settings(max_examples=500)
@given(cases(), GRAMMARS, st.booleans(), st.randoms(use_true_random=False))
def test_permitted_is_what_the_definitions_say(
    case: Case, grammar: list[list[int] | None], obedient: bool, rng: random.Random
) -> None:
    """At every step of an output, some of whose tokens were not permitted, under a grammar that changes at each."""
    output = case.output()
    try:
        session = case.session()
    except RequestError:
        return  # what cannot act together is refused, see below
    history: tuple[int, ...] = ()
    for allowed in grammar[: case.options["max_tokens"] or 8]:
        expected = output.permitted(history, allowed)
        found = left(session, allowed)
        assert found == expected, (history, allowed, sorted(found - expected), sorted(expected - found))
        free = expected if allowed is None else expected & set(allowed) or expected
        token = choose(free, output, rng) if obedient or rng.random() < 0.8 else rng.randrange(SIZE)
        if token in output.ends:
            break
        wrong = session.masked_choices
        session.advance(token)
        anything = output.permitted(history)
        if token not in anything:
            assert session.masked_choices == wrong + 1
        elif anything != {EOS}:
            assert session.masked_choices == wrong, (history, token)
        history += (token,)


@settings(max_examples=300)
@given(cases())
def test_refused_is_what_can_never_be_written(case: Case) -> None:
    """A request is refused for its choices exactly where none of them can be written under its other rules."""
    output, limit = case.output(), case.options["max_tokens"]
    asked = case.asked
    hopeless = asked.choices is not None and not output.finishes(b"", 99 if limit is None else limit)
    said = ""
    try:
        case.session()
    except RequestError as error:
        said = str(error)
    assert ("choice" in said) == hopeless


@settings(max_examples=300)
@given(cases(), st.randoms(use_true_random=False))
def test_an_output_of_permitted_tokens_keeps_every_rule(case: Case, rng: random.Random) -> None:
    """What is promised of a whole output, looked for in its text, unless it ran into a dead end."""
    try:
        session = case.session()
    except RequestError:
        return
    output, asked = case.output(), case.asked
    history: list[int] = []
    for _ in range(case.options["max_tokens"] or 12):
        free = left(session)
        assert free, "no row without a choice"
        if free == {EOS} and output.permitted(tuple(history), set(range(SIZE)) - {EOS}) == {EOS}:
            return  # a dead end, or the end
        token = choose(free, output, rng)
        session.advance(token)
        history.append(token)
        if token in output.ends:
            break
    assert session.masked_choices == 0
    ended = history[-1] in output.ends
    stopped = ended and history[-1] in output.stop
    shown = history[:-1] if stopped else history
    text = b"".join(output.tokens[i] or b"" for i in shown).decode("utf-8", "replace")
    assert not asked.ban_ids.intersection(history)
    if ended or len(history) == case.options["max_tokens"]:
        assert not oracle.find(text, asked.bans), text
        if asked.choices is not None:
            assert text in asked.choices
    if ended:
        assert len(history) > asked.least
        written = [i for i in shown if i not in output.eos]
        forced_end = history[-1] in (*dict(asked.at).values(), asked.every, *(i for _, ids in asked.after for i in ids))
        cut = stopped and history[-1] in asked.end  # a token of the text that the client itself made an end
        assert not asked.end or forced_end or cut or tuple(written[-len(asked.end) :]) == asked.end
    if asked.only is not None:
        assert all(i in asked.only or i in output.ends or i in output.eos for i in history)
    assert all(asked.every in (None, i) for i in history)
