"""The token level masks exactly what the definition names, over small, random and real vocabularies."""

from __future__ import annotations

import functools
import random
from collections.abc import Hashable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.automata.vocabulary import Vocabulary
from policyengine.runtime.token_session import TokenSession
from tests import oracle
from tests.oracle import Phrase, TokenOracle
from tests.programs import program
from tests.properties.texts import phrases, phrases_of_few_foldings, texts_with
from tests.vocabularies import Segmenter, toy

RICE = st.lists(
    st.sampled_from(["rice", "ric", "ce", "i", "the", "RI", " ", " the", "e", "c", "r"]), min_size=1, max_size=3
).map("".join)


def oracle_of(vocabulary: Vocabulary, banned: list[Phrase]) -> TokenOracle:
    return TokenOracle(vocabulary.tokens, vocabulary.eos_token_ids, banned)


def session_of(vocabulary: Vocabulary, banned: list[Phrase], **options: object) -> TokenSession:
    return program(bans=banned).bind(vocabulary).token_session(**options)  # type: ignore[arg-type]


# -- every id, every step ------------------------------------------------------------------------------------------


@settings(max_examples=100)
@given(
    st.lists(phrases(RICE), min_size=1, max_size=4),
    st.lists(st.integers(0, 23), max_size=8),
    st.frozensets(st.integers(0, 23), max_size=2),
    st.one_of(st.none(), st.integers(1, 9)),
)
def test_over_the_toy_vocabulary(
    banned: list[Phrase], history: list[int], stop: frozenset[int], max_tokens: int | None
) -> None:
    vocabulary = toy()
    check_every_step(vocabulary, banned, history, stop, max_tokens)


def check_every_step(
    vocabulary: Vocabulary,
    banned: list[Phrase],
    history: list[int],
    stop: frozenset[int] = frozenset(),
    max_tokens: int | None = None,
) -> None:
    """Along a history, whether it was permitted or not, the masked ids are the oracle's."""
    session = session_of(vocabulary, banned, stop_token_ids=stop, max_tokens=max_tokens)
    expect = oracle_of(vocabulary, banned)
    for step in range(min(len(history) + 1, max_tokens or 99)):
        last = max_tokens is not None and step + 1 == max_tokens
        masked = set(session.masked().tolist())
        expected = expect.masked(history[:step], stop_token_ids=stop, last=last)
        may = {"stop_token_ids": stop, "last": last, "together": True}
        expected |= {i for i in masked - expected if expect.is_masked(history[:step], i, **may)}
        spelled = [vocabulary.tokens[i] for i in history[:step]]
        invented = {i: vocabulary.tokens[i] for i in masked - expected}
        missed = {i: vocabulary.tokens[i] for i in expected - masked}
        assert not invented, f"masked without reason after {spelled}"
        assert not missed, f"not masked after {spelled}"
        if step < len(history):
            session.advance(history[step])


@st.composite
def random_vocabularies(draw: st.DrawFn) -> tuple[Vocabulary, list[Phrase], str]:
    """Phrases, a text with them, and a vocabulary of pieces of both, cut anywhere, also inside characters."""
    banned = draw(st.lists(phrases(), min_size=1, max_size=3))
    text = draw(texts_with(banned, max_pieces=4))
    data = " ".join([text, *(phrase.text for phrase in banned), "s\u200b"]).encode()
    tokens = {bytes([byte]) for byte in data}
    for start, length in draw(st.lists(st.tuples(st.integers(0, len(data) - 1), st.integers(1, 7)), max_size=40)):
        tokens.add(data[start : start + length])
    return Vocabulary([b"", b"", None, b"<end>", *sorted(tokens)], [3, 0]), banned, text


@settings(max_examples=100)
@given(random_vocabularies(), st.randoms(use_true_random=False), st.one_of(st.none(), st.integers(1, 9)))
def test_over_random_vocabularies(
    case: tuple[Vocabulary, list[Phrase], str], rng: random.Random, max_tokens: int | None
) -> None:
    vocabulary, banned, text = case
    history = Segmenter(vocabulary).random(text, rng)
    assert history is not None
    check_every_step(vocabulary, banned, history, max_tokens=max_tokens)


@settings(max_examples=100)
@given(random_vocabularies(), st.lists(st.integers(0, 1 << 30), max_size=6))
def test_over_random_histories(case: tuple[Vocabulary, list[Phrase], str], choices: list[int]) -> None:
    """Any bytes in any order: characters that break off, bytes that begin none."""
    vocabulary, banned, _ = case
    check_every_step(vocabulary, banned, [choice % vocabulary.size for choice in choices])


# Ends of the output that are easy to forget, as the properties above found them.
ODD_ENDS = Vocabulary(
    [b"<end>", b"rice", b" rice", b"rice\xe2", b"rice\xe2\x80", b"\x80", b"\x8b", b"\x80\x8b", b"", b"s", b" "], [0]
)


@pytest.mark.parametrize(
    ("word_end", "history", "stop", "max_tokens"),
    [
        pytest.param("eager", [], [], 1, id="the last token ends inside a character, shown as U+FFFD: an edge"),
        pytest.param("eager", [3], [], None, id="the character turns out to be invisible: the text ends in the word"),
        pytest.param("eager", [4], [], None, id="the same, one byte later"),
        pytest.param("eager", [3, 7], [], 3, id="the last token, after the word"),
        pytest.param("eager", [1], [], 2, id="the last token, after a word that should not be there"),
        pytest.param("exact", [9], [2], None, id="a stop id whose own text is the word"),
        pytest.param("exact", [1], [9], None, id="a stop id whose text would go on with the word, but is not shown"),
    ],
)
def test_ends_of_the_output(word_end: str, history: list[int], stop: list[int], max_tokens: int | None) -> None:
    banned = [Phrase("rice", word_end=word_end)]  # type: ignore[arg-type]
    check_every_step(ODD_ENDS, banned, history, frozenset(stop), max_tokens)


@pytest.mark.parametrize("text", ["\ufffd", "rice\ufffd"])
def test_a_banned_replacement_character_at_the_last_token(text: str) -> None:
    """Where the output ends inside a character, it ends in U+FFFD; a phrase may hold that."""
    check_every_step(ODD_ENDS, [Phrase(text, "substring")], [], max_tokens=1)


@pytest.mark.parametrize(
    ("tokens", "history"),
    [
        pytest.param([b"rice\xd8"], [], id="an Arabic letter is an edge after Latin, an Arabic number sign is dropped"),
        pytest.param([b"rice\xef", b"\xbb", b"\xbc"], [1], id="so with Arabic presentation forms and U+FEFF"),
    ],
)
def test_every_way_to_complete_the_character_is_forbidden(tokens: list[bytes], history: list[int]) -> None:
    """Under `eager` such a token is forbidden too: behind it every token would be, and the output could only end."""
    check_every_step(Vocabulary([b"<end>", *tokens, b"\xa1", b"s"], [0]), [Phrase("rice")], history)


# -- real vocabularies: too wide for the oracle to ask for every id ------------------------------------------------

LOREM = (
    "import",
    "return",
    "Straße",
    "İstanbul",
    "für",
    "привет",
    "Ελλάδα",
    "שלום",
    "नमस्ते",
    "東京",
    "がぎ",
    "한국",
    "🙂",
)
WORDS = st.lists(
    st.sampled_from([*LOREM, "self", "in", "the", "of", "pre", " ", "-", "\u200b"]), min_size=1, max_size=3
)
REAL = st.lists(phrases_of_few_foldings(WORDS.map("".join)), min_size=1, max_size=3)


def samples(vocabulary: Vocabulary, banned: list[Phrase], masked: set[int], rng: random.Random) -> set[int]:
    """Ids worth asking for: some that are masked, tokens that look like pieces of the phrases, ends, and any."""
    chosen = set(rng.sample(sorted(masked), min(40, len(masked)))) | set(vocabulary.eos_token_ids)
    pieces = {phrase.text.casefold().encode() for phrase in banned}
    spelled = {phrase.text[i:j].encode() for phrase in banned for i in range(6) for j in range(i + 1, i + 9)}
    spelled |= {before + piece for piece in spelled for before in (b" ", b"s")} | {p + b" " for p in pieces}
    index = _index(vocabulary)
    chosen.update(index[piece] for piece in spelled if piece in index)
    chosen.update(rng.choices(range(vocabulary.size), k=60))
    return chosen


@functools.cache
def _index(vocabulary: Vocabulary) -> dict[bytes, int]:
    return {token: i for i, token in enumerate(vocabulary.tokens) if token}


@functools.cache
def _segmenter(vocabulary: Vocabulary) -> Segmenter:
    return Segmenter(vocabulary)


def check_sampled(vocabulary: Vocabulary, banned: list[Phrase], text: str, rng: random.Random) -> None:
    """Along a random segmentation of a text that holds the phrases, sampled ids are masked as the oracle says."""
    history = _segmenter(vocabulary).random(text, rng)
    assert history is not None
    max_tokens = rng.choice([None, len(history) + 1])
    session = session_of(vocabulary, banned, max_tokens=max_tokens)
    expect = oracle_of(vocabulary, banned)
    for step in range(len(history) + 1):
        masked = set(session.masked().tolist())
        last = max_tokens is not None and step + 1 == max_tokens
        ids = samples(vocabulary, banned, masked, rng) | set(history[step : step + 1])
        for token in sorted(ids):
            wrong = f"{vocabulary.tokens[token]!r} after {[vocabulary.tokens[i] for i in history[:step]]}"
            assert (token in masked) == expect.is_masked(history[:step], token, last=last), wrong
        if step < len(history):
            session.advance(history[step])


@settings(max_examples=30)
@given(st.data(), REAL, st.randoms(use_true_random=False))
def test_over_a_small_bpe(small: Vocabulary, data: st.DataObject, banned: list[Phrase], rng: random.Random) -> None:
    check_sampled(small, banned, data.draw(texts_with(banned)), rng)


@settings(max_examples=15)
@given(st.data(), REAL, st.randoms(use_true_random=False))
def test_over_a_real_vocabulary(
    real: Vocabulary, data: st.DataObject, banned: list[Phrase], rng: random.Random
) -> None:
    check_sampled(real, banned, data.draw(texts_with(banned)), rng)


@pytest.mark.slow
def test_many_ids_of_a_real_vocabulary(real: Vocabulary) -> None:
    """At two positions one id in twenty: with a phrase to end, where most are masked, and inside a character."""
    banned = [Phrase("rice"), Phrase("in the", word_end="exact"), Phrase("東京", "substring"), Phrase("pre", "prefix")]
    assert real.encode is not None
    expect, bound = oracle_of(real, banned), program(bans=banned).bind(real)
    inside_a_character = [_index(real)[bytes([byte])] for byte in "東京".encode()[:4]]
    for history in (real.encode("go in the"), inside_a_character):
        session = bound.token_session()
        for token in history:
            session.advance(token)
        masked = set(session.masked().tolist())
        for token in range(7, real.size, 20):
            assert (token in masked) == expect.is_masked(history, token), real.tokens[token]


# -- what follows from it ------------------------------------------------------------------------------------------


def check_walk(vocabulary: Vocabulary, banned: list[Phrase], rng: random.Random, steps: int) -> None:
    """G1: an output of permitted choices holds no match, although it keeps trying to spell one."""
    session = session_of(vocabulary, banned, max_tokens=steps)
    temptations = [t for phrase in banned for t in (phrase.text, phrase.text.upper(), phrase.text.title())]
    segmenter, plan, output = _segmenter(vocabulary), [], []
    for _ in range(steps):
        masked = session.masked()
        permitted = np.ones(vocabulary.size, dtype=bool)
        permitted[masked] = False
        if not plan:
            text = rng.choice(["", " ", "\n", "s", "-"]) + rng.choice(temptations)
            plan = segmenter.random(text, rng) or []
        token = plan.pop(0) if plan else 0
        if not permitted[token] or rng.random() < 0.1:
            plan = []
            options = [i for i in np.flatnonzero(permitted).tolist() if vocabulary.tokens[i] is not None]
            token = rng.choice(options)
            if len(masked) == vocabulary.size - 1:
                return  # a dead end: the one exception, and EOS is the way out
        if token in vocabulary.eos_token_ids:
            break
        session.advance(token)
        output.append(token)
    assert session.masked_choices == 0
    text = b"".join(vocabulary.tokens[i] or b"" for i in output).decode("utf-8", "replace")
    assert not oracle.find(text, banned), text


@settings(max_examples=100)
@given(st.lists(phrases(RICE), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_no_permitted_toy_output_holds_a_phrase(banned: list[Phrase], rng: random.Random) -> None:
    check_walk(toy(), banned, rng, steps=rng.randint(1, 12))


@settings(max_examples=100)
@given(random_vocabularies(), st.randoms(use_true_random=False))
def test_no_permitted_random_output_holds_a_phrase(
    case: tuple[Vocabulary, list[Phrase], str], rng: random.Random
) -> None:
    vocabulary, banned, _ = case
    check_walk(vocabulary, banned, rng, steps=rng.randint(1, 12))


@settings(max_examples=30)
@given(REAL, st.randoms(use_true_random=False))
def test_no_permitted_real_output_holds_a_phrase(real: Vocabulary, banned: list[Phrase], rng: random.Random) -> None:
    check_walk(real, banned, rng, steps=rng.randint(1, 16))


@settings(max_examples=60)
@given(
    st.lists(phrases(RICE), min_size=1, max_size=3),
    st.lists(st.lists(st.integers(0, 23), max_size=6), min_size=2, max_size=30),
    st.one_of(st.none(), st.integers(7, 9)),
)
def test_equal_states_behave_alike(banned: list[Phrase], histories: list[list[int]], max_tokens: int | None) -> None:
    bound = program(bans=banned, biases=[(phrase, 1.5) for phrase in banned]).bind(toy())
    seen: dict[Hashable, tuple[list[int], dict[int, float], list[Hashable]]] = {}
    for history in histories:
        session = bound.token_session(max_tokens=max_tokens)
        for token in history:
            session.advance(token)
        behaviour = session.masked().tolist(), session.biases()
        state = session.state
        following = []
        for token in (3, 4, 8, 14):
            after = bound.token_session(max_tokens=max_tokens)
            for earlier in [*history, token]:
                after.advance(earlier)
            following.append(after.state)
        assert seen.setdefault(state, (*behaviour, following)) == (*behaviour, following)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(phrases(RICE), st.sampled_from([-4.0, -0.5, 1.0, 8.0])), min_size=1, max_size=3),
    st.lists(st.integers(0, 16), max_size=6),
    st.booleans(),
)
def test_a_bias_acts_on_the_tokens_that_complete_its_phrase(
    biases: list[tuple[Phrase, float]], history: list[int], last: bool
) -> None:
    """The ids that a ban of the same phrase would mask, EOS and the last token among them; several biases add up."""
    vocabulary = toy()
    limit = len(history) + 1 if last else None
    session = program(biases=biases).bind(vocabulary).token_session(max_tokens=limit)
    for token in history:
        session.advance(token)
    expected: dict[int, float] = {}
    for phrase, weight in biases:
        for token in oracle_of(vocabulary, [phrase]).masked(history, last=last):
            expected[token] = expected.get(token, 0.0) + weight
    assert session.biases() == {token: weight for token, weight in expected.items() if weight}
    assert session.masked().size == 0
