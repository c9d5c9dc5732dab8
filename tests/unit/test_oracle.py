"""The oracle itself, against facts checked by hand: it judges everything else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle import Found, Phrase, TokenOracle, find


def shown(text: str, *phrases: Phrase) -> list[str]:
    """What the matches cover, in order."""
    return [text[m.start : m.end] for m in sorted(find(text, phrases), key=lambda m: (m.end, m.start))]


@pytest.mark.parametrize(
    ("gaps", "phrase", "text", "expected"),
    [
        ("spaces", "foo bar", "foo \n bar, foo-bar", ["foo \n bar"]),
        ("punctuation", "foo bar", "foo-bar foo, bar foobar", ["foo-bar", "foo, bar"]),
        ("punctuation", "foo bar", "foo_bar", ["foo_bar"]),
        ("punctuation", "foo", "foo_bar foo", ["foo"]),
        ("punctuation", "foo  bar", "foo bar", ["foo bar"]),
        ("punctuation", "foo bar", "foo a bar f.oo bar", []),
        ("punctuation", "e-mail me", "e-mail: me; e mail me", ["e-mail: me"]),
        ("punctuation", "at&t", "AT&T, at & t", ["AT&T"]),
        ("punctuation", "c++ d", "C++ +- d c+ d", ["C++ +- d"]),
        ("punctuation", "a -", "a -- a-", ["a -", "a --"]),
        ("letters", "titan", "t.i.t.a.n ti-tan tita.n titan", ["t.i.t.a.n", "ti-tan", "tita.n", "titan"]),
        ("letters", "titan", "t.i.t.a.n.s titans ti1tan", ["t.i.t.a.n"]),
        ("letters", "ab cd", "a b c d, abcd", ["a b c d"]),
        ("letters", "c++", "c + + c+-+", ["c + +", "c+-+"]),
        ("letters", "a_", "a_b a _ b", ["a _"]),
        ("literal", "foo bar", "foo  bar foo bar", ["foo bar"]),
        (
            "punctuation",
            "foo bar",
            "foo\u200b \u00a0bar foo\u2014\ufe0fbar",
            ["foo\u200b \u00a0bar", "foo\u2014\ufe0fbar"],
        ),
        ("letters", "ß", "s s", ["s s"]),
    ],
)
def test_gaps(gaps: Any, phrase: str, text: str, expected: list[str]) -> None:
    assert shown(text, Phrase(phrase, gaps=gaps)) == expected


def test_of_matches_with_one_end_the_earliest_start_is_told() -> None:
    assert find("a a b", [Phrase("a b", "substring", gaps="punctuation"), Phrase("a", "substring")]) == {
        Found(0, 2, 5),
        Found(1, 0, 1),
        Found(1, 2, 3),
    }
    assert find(". b", [Phrase(" b", gaps="punctuation")]) == {Found(0, 0, 3)}


@pytest.mark.parametrize(
    ("phrase", "exceptions", "text", "expected"),
    [
        ("titan", ["titan press kit"], "titan titan press kit", ["titan"]),
        ("titan", ["titan press kit"], "titan press kits", ["titan"]),
        ("titan", ["the titan"], "the titan, a titan", ["titan"]),
        ("titan", ["titan", "x"], "titan", []),
        ("titan press", ["titan"], "titan press", ["titan press"]),
        ("press kit", ["titan press"], "titan press kit", ["press kit"]),
        ("titan", ["a titan b"], "a titan, a titan b", ["titan"]),
    ],
)
def test_exceptions(phrase: str, exceptions: list[str], text: str, expected: list[str]) -> None:
    assert shown(text, Phrase(phrase, exceptions=tuple(exceptions))) == expected


TOKENS = [b"<eos>", b"titan", b" press", b" kit", b" kat", b"s", b".", b" titan", b" k", b"it"]


def masked(history: list[int], *banned: Phrase) -> list[bytes | None]:
    oracle = TokenOracle(TOKENS, [0], banned)
    return [TOKENS[i] for i in sorted(oracle.masked(history))]


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        pytest.param([], [], id="the exception may still come"),
        pytest.param([1], [b"<eos>", b" kit", b" kat", b".", b" titan", b" k"], id="at once, at an edge"),
        pytest.param([1, 2], [t for t in TOKENS if t not in (b" kit", b" k")], id="with letters too, once begun"),
        pytest.param([1, 2, 8], [t for t in TOKENS if t != b"it"], id="inside a word of the exception"),
        pytest.param([1, 2, 3], [b"titan", b"s", b"it"], id="its last word is another word"),
        pytest.param([1, 2, 3, 6], [], id="it is there"),
    ],
)
def test_the_step_is_masked_at_which_the_last_exception_dies(history: list[int], expected: list[bytes]) -> None:
    assert masked(history, Phrase("titan", exceptions=("titan press kit",))) == expected


def test_other_texts_around_exceptions() -> None:
    assert masked([1], Phrase("titan", "substring", exceptions=("titans",))) == [t for t in TOKENS if t != b"s"]
    assert masked([], Phrase("titan", exceptions=("the titan",))) == [b"titan", b" titan"], "none has begun"
