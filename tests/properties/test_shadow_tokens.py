"""Rules in shadow at the token level: nothing of what an engine asks changes, and what is counted is what masks say."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.runtime.errors import RequestError
from policyengine.runtime.program import BiasPlan, Program, RulePlan
from policyengine.runtime.token_session import TokenSession
from tests.oracle import Phrase
from tests.programs import program
from tests.properties.session_cases import EOS, IDS, SIZE, VOCABULARY, Case, cases, phrases
from tests.session_programs import ban, make
from tests.shadows import in_shadow

HISTORY = st.lists(IDS, max_size=8)


def started(policies: Program, case: Case) -> TokenSession | None:
    try:
        return policies.bind(VOCABULARY).token_session(case.request, **case.options)
    except RequestError:
        return None


def only(case: Case, ranks: set[int]) -> TokenSession | None:
    """A session under these rules alone."""
    names = [plan.name for i, plan in enumerate(case.program.policies) if i in ranks]
    try:
        return case.bound().token_session({"policies": names}, **case.options)
    except RequestError:
        return None


def asked(session: TokenSession) -> tuple[object, ...]:
    """All that an engine asks, in a form that can be compared."""
    stand_in, allowed = session.stand_in, session.only
    return (
        session.masked().tolist(),
        session.biases(),
        session.forced,
        None if allowed is None else allowed.tolist(),
        None if stand_in is None else (stand_in.token, stand_in.sources.tolist()),
        [part.tolist() for part in session.mask_parts()],
    )


@settings(max_examples=300)
@given(cases(), HISTORY)
def test_all_in_shadow_is_no_rule_at_all(case: Case, history: list[int]) -> None:
    """Masks, biases, forces and lengths are those of a request without rules, whatever is chosen."""
    session = started(in_shadow(case.program), case)
    assert session is not None, "a rule in shadow refuses nothing"
    free = only(case, set())
    assert free is not None
    for token in history:
        assert asked(session) == asked(free)
        session.choose(token)
        free.choose(token)
    assert session.masked_choices == free.masked_choices


def pairs(case: Case, chosen: set[int]) -> Iterator[tuple[int, TokenSession]]:
    for rank in sorted(chosen):
        alone = only(case, {rank})
        if alone is not None:
            yield rank, alone


@settings(max_examples=300)
@given(cases(), HISTORY, st.data())
def test_mixtures(case: Case, history: list[int], data: st.DataObject) -> None:
    """Rules that act do so as if those in shadow were not there; those count what each alone would have masked."""
    ranks = range(len(case.program.rules))
    chosen = data.draw(st.sets(st.sampled_from(ranks))) if ranks else set()
    session, rest = started(in_shadow(case.program, chosen), case), only(case, set(ranks) - chosen)
    assert (session is None) == (rest is None)
    if session is None or rest is None:
        return
    alone = dict(pairs(case, chosen))
    ends = set(case.options["stop_token_ids"]) | set(VOCABULARY.eos_token_ids)
    for token in history:
        assert asked(session) == asked(rest)
        before = {rank: one.masked_choices for rank, one in alone.items()}
        told = session.choose(token)
        rest.choose(token)
        for rank, one in alone.items():
            one.choose(token)
            assert (rank in told) == (one.masked_choices > before[rank]), (rank, token)
        assert not chosen.intersection(told) - set(alone)
        assert session.masked_choices == rest.masked_choices
        if token in ends:
            return


@settings(max_examples=200)
@given(cases(), HISTORY, HISTORY, st.data())
def test_equal_states_and_moves(case: Case, one: list[int], other: list[int], data: st.DataObject) -> None:
    """A session that moved to a place goes on as the one that stood there, shadows included."""
    ranks = range(len(case.program.rules))
    chosen = data.draw(st.sets(st.sampled_from(ranks))) if ranks else set()
    bound = in_shadow(case.program, chosen).bind(VOCABULARY)
    try:
        a, b = (bound.token_session(case.request, **case.options) for _ in range(2))
    except RequestError:
        return
    for token in one:
        a.choose(token)
    for token in other:
        b.choose(token)
    b.move(a.place, a.length)
    assert a.state == b.state
    for token in other:
        assert asked(a) == asked(b)
        assert a.dead_ends() == b.dead_ends()
        assert a.choose(token) == b.choose(token)


@settings(max_examples=200)
@given(cases(), HISTORY)
def test_who_is_named_masks_it(case: Case, history: list[int]) -> None:
    """Of rules that act: a masked token that was chosen names some of them, a permitted one none."""
    try:
        session = case.session()
    except RequestError:
        return
    for token in history:
        wrong = session.masked_choices
        told = session.choose(token)
        assert bool(told) == (session.masked_choices > wrong)


@settings(max_examples=200)
@given(st.lists(phrases(), min_size=1, max_size=3), HISTORY)
def test_bans_are_named_by_their_own_masks(bans: list[Phrase], history: list[int]) -> None:
    """Of several bans, exactly those are named that mask the token by themselves."""
    policies = make(*(ban(phrase) for phrase in bans))
    session = policies.bind(VOCABULARY).token_session()
    alone = [make(ban(phrase)).bind(VOCABULARY).token_session() for phrase in bans]
    for token in history:
        before = [one.masked_choices for one in alone]
        told = session.choose(token)
        for one in alone:
            one.choose(token)
        assert told == tuple(i for i, one in enumerate(alone) if one.masked_choices > before[i])


@settings(max_examples=200)
@given(cases(), st.randoms(use_true_random=False))
def test_dead_ends_of_rules_that_act(case: Case, rng: random.Random) -> None:
    """Named exactly where all that is real is masked but the way out."""
    try:
        session = case.session()
    except RequestError:
        return
    for _ in range(6):
        free = set(range(SIZE)) - set(session.masked().tolist())
        dead = session.dead_ends()
        blocked = free == {EOS} and set(session.masked(range(1, SIZE)).tolist()) == set(range(1, SIZE))
        if dead:
            assert blocked
        token = rng.choice(sorted(free))
        session.advance(token)


@settings(max_examples=100)
@given(st.lists(phrases(), min_size=1, max_size=2, unique=True), HISTORY)
def test_a_bias_counts_what_it_would_push(found: list[Phrase], history: list[int]) -> None:
    """Tokens that complete a phrase of the bias; the logits stay as they are."""
    acting = program(biases=[(phrase, 2.0) for phrase in found])
    acting = replace(acting, rules=(RulePlan(0, "r0", 1, BiasPlan(())),))
    session = in_shadow(acting).bind(VOCABULARY).token_session()
    pushing = acting.bind(VOCABULARY).token_session()
    for token in history:
        assert session.biases() == {}
        expected = token in pushing.biases()
        assert session.choose(token) == ((0,) if expected else ())
        pushing.choose(token)
