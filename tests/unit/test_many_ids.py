"""Requests that name very many ids, or force very long texts: judged as others are, and forgotten in the end."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable, Sequence

import pytest

from policyengine.automata import kept
from policyengine.automata.vocabulary import Vocabulary
from policyengine.engines.vllm.memo import Mask, Memo, Spot
from policyengine.runtime.program import AllowPlan, BiasPlan, ForcePlan, Param, ParameterPlan
from policyengine.runtime.token_program import TokenProgram
from policyengine.runtime.token_session import TokenSession
from tests.oracle import Phrase
from tests.programs import program
from tests.session_programs import Rule, ban, choices, make, policy

LETTERS = "abc de"
TOKENS: list[bytes | None] = [b"", *sorted({(a + b).encode() for a in LETTERS for b in ("", *LETTERS)}), b"\xc3", b""]
SMALL = Vocabulary(TOKENS, [0])
N_IDS, N_NAMED, N_REQUESTS = 8_000, 5_000, 20
MOST_BYTES = 1 << 20  # in place of 64 MiB, so that a few requests show it; all of them hold ten times as much
LARGE = Vocabulary(
    [b"", b"a", b"b", *(f"{i:x}".encode() for i in range(3, N_IDS))], [0], encode=lambda text: [1] * len(text)
)
PHRASES = [
    Phrase("ab"),
    Phrase("a d", "substring"),
    Phrase("de", "prefix", gaps="letters"),
    Phrase("c", word_end="exact"),
]


def after(bound: TokenProgram, history: Sequence[int], stop: Sequence[int]) -> TokenSession:
    session = bound.token_session(None, stop)
    for token in history:
        session.advance(token)
    return session


@pytest.mark.parametrize("seed", range(20))
def test_each_of_many_stop_ids_is_judged_as_if_it_were_alone(seed: int) -> None:
    """Which of them leave the output ending in a match does not depend on how many there are."""
    rng = random.Random(seed)
    phrases = rng.sample(PHRASES, 2)
    history = [rng.randrange(1, len(TOKENS)) for _ in range(rng.randrange(4))]
    stop = rng.sample(range(1, len(TOKENS)), 40)

    bans = program(bans=phrases).bind(SMALL)
    masked = set(after(bans, history, stop).masked().tolist())
    assert masked.intersection(stop) == {i for i in stop if i in after(bans, history, [i]).masked()}

    pushed = program(biases=[(phrase, 2.0) for phrase in phrases]).bind(SMALL)
    biases = after(pushed, history, stop).biases()
    assert {i: biases.get(i) for i in stop} == {i: after(pushed, history, [i]).biases().get(i) for i in stop}


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(ban("ab", "5c"), id="ban"),
        pytest.param(choices("ab", "abba", "c0ffee"), id="choices"),
        pytest.param(Rule(AllowPlan(token_ids=tuple(range(1, 50)))), id="ids"),
        pytest.param(Rule(BiasPlan(((3, 1.0),))), id="bias"),
        pytest.param(Rule(ForcePlan("aba", None, "end")), id="end"),
    ],
)
def test_stop_ids_of_requests_that_are_over(rule: Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST_BYTES", MOST_BYTES)
    bound, memo, rng = make(rule).bind(LARGE), Memo(), random.Random(1)

    def request() -> None:
        session = bound.token_session(None, rng.sample(range(3, N_IDS), N_NAMED))
        for token in (1, 2, 1):
            session.answers()
            memo.keep(session, Spot(session.place, Mask(()), None))
            session.advance(token)

    assert grown(request) < 5 * MOST_BYTES


def test_texts_of_requests_that_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST_BYTES", MOST_BYTES)
    plans = [policy("p0", "always", ParameterPlan("text", "string"))]
    bound = make(Rule(ForcePlan(Param("text"), None, "start")), policies=plans).bind(LARGE)
    memo, lengths = Memo(), iter(range(10_000, 20_000))

    def request() -> None:
        session = bound.token_session({"text": "a" * next(lengths)})
        assert session.forced == 1
        memo.keep(session, Spot(session.place, Mask(()), None))

    assert grown(request) < 5 * MOST_BYTES


def grown(request: Callable[[], None]) -> int:
    """Bytes that are kept of requests that are over."""
    tracemalloc.start()
    try:
        for _ in range(N_REQUESTS):
            request()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
