"""Streaming is the whole (G3), and nothing banned is shown."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Literal

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests import text_oracle
from tests.oracle import Phrase, find, fold
from tests.properties import texts
from tests.streams import cut, held_after, run, splits
from tests.text_programs import Rule, ban, program

_LETTERS = st.sampled_from(["ab", "abc", "ab ", "ab c", "a1 !", "aAé中"])
_NOT_IN_REDACTED = st.sampled_from(["xy", "xyz", "xy ", "xy z", "x1 !", "xXñ中"])


def _rules(phrases: st.SearchStrategy[Phrase], replacements: st.SearchStrategy[str | None]) -> Any:
    bans = st.lists(phrases, min_size=1, max_size=2).map(tuple)
    redact = st.builds(Rule, bans, st.just("redact"), replacements)
    final = st.builds(Rule, bans, st.sampled_from(["terminate", "terminate", "block"]), replacements, st.just("why"))
    return st.lists(st.one_of(redact, redact, redact, final), min_size=1, max_size=4)


def _plain(letters: str, match: Sequence[Literal["word", "prefix", "substring"]]) -> st.SearchStrategy[Phrase]:
    words = st.text(st.sampled_from(letters), min_size=1, max_size=4)
    spaced = words.filter(lambda word: word.strip() == word and "  " not in word and word)
    return st.builds(Phrase, spaced, st.sampled_from(match), case=st.sampled_from(["sensitive", "insensitive"]))


@st.composite
def cuts(draw: Any, text: str) -> list[str]:
    """A text in pieces."""
    places = draw(st.lists(st.integers(0, len(text)), max_size=6))
    return cut(text, sorted(places))


# Replacements that join with the text, continue it, or are banned themselves.
_NASTY = st.sampled_from([None, "", "a", "b", "ab", "ba", " ", "A", "[a]"])


@st.composite
def nasty(draw: Any) -> tuple[list[Any], str]:
    """Rules over a few letters that get in each other's way, and a text of these letters."""
    letters = draw(_LETTERS)
    phrases = st.builds(
        Phrase,
        st.text(st.sampled_from(letters), min_size=1, max_size=4).filter(str.strip),
        st.sampled_from(["word", "prefix", "substring", "substring"]),
        case=st.sampled_from(["sensitive", "insensitive"]),
        gaps=st.sampled_from(["spaces", "literal"]),
    )
    rules = draw(_rules(phrases, _NASTY)) + draw(st.lists(st.sampled_from(["upper", "lower"]), max_size=1))
    return rules, draw(st.text(st.sampled_from(letters + "\u200bB"), max_size=14))


def _banned(rules: Sequence[Any]) -> list[Phrase]:
    return [phrase for rule in rules if isinstance(rule, Rule) for phrase in rule.phrases]


@settings(max_examples=400)
@given(nasty(), st.data(), st.sampled_from([3, 4096]))
def test_any_chunking_gives_the_same(example: tuple[list[Any], str], data: st.DataObject, max_hold: int) -> None:
    """Text, reason and matches; with replacements that bring dead matches back to life; twice, as sessions learn."""
    rules, text = example
    policies = program(*rules, max_hold=max_hold)
    whole = run(policies, [text])
    chunks = data.draw(cuts(text))
    for pieces in (list(text), chunks, list(text), chunks):
        assert run(policies, pieces) == whole
    if whole.reason != "max_hold":
        assert not find(whole.text, _banned(rules))


@settings(max_examples=150)
@given(st.data())
def test_nothing_banned_is_shown_in_any_script(data: st.DataObject) -> None:
    """Random phrases with all options over ten scripts, in disguise; any chunking; what is shown holds none of them."""
    phrases = data.draw(st.lists(texts.phrases(), min_size=1, max_size=4))
    text = data.draw(texts.texts_with(phrases))
    policies = program(Rule(tuple(phrases), "redact", "*"))
    whole = run(policies, [text])
    assert not find(whole.text, phrases)
    assert run(policies, list(text)) == whole
    assert run(policies, data.draw(cuts(text))) == whole
    told = {(match.start, match.end) for match in whole.matches}
    for found in find(text, phrases):
        # A match that goes on, as one that ends in a gap, is told once, when it is over.
        grows = fold(phrases[found.phrase].text, phrases[found.phrase])[0].endswith(" ")
        assert (found.start, found.end) in told or (
            grows and any(start <= found.start and found.end <= end for start, end in told)
        )


@st.composite
def plain(draw: Any, match: Sequence[Literal["word", "prefix", "substring"]]) -> tuple[list[Rule], str]:
    """Rules and a text that the oracle of regular expressions understands."""
    letters = draw(_NOT_IN_REDACTED)
    rules = draw(_rules(_plain(letters, match), st.none()))
    for index, rule in enumerate(rules):
        if rule.kind == "block":
            rules[index] = Rule(rule.phrases, "block", "#", rule.reason)
    return rules, draw(st.text(st.sampled_from(letters + "Y"), max_size=13))


@settings(max_examples=300)
@given(plain(["word", "prefix", "substring"]))
def test_the_whole_is_what_regular_expressions_say(example: tuple[list[Rule], str]) -> None:
    rules, text = example
    assume(not text_oracle.joins(text, rules))  # what a redaction makes a word is for the other properties
    result = run(program(*rules), [text])
    assert (result.text, result.reason) == text_oracle.expected(text, rules)


@settings(max_examples=5)
@given(plain(["word", "prefix", "substring"]))
def test_every_split(example: tuple[list[Rule], str]) -> None:
    """All ways of cutting a text of up to 13 characters."""
    rules, text = example
    policies = program(*rules)
    whole = run(policies, [text])
    for chunks in splits(text):
        assert run(policies, chunks) == whole


@settings(max_examples=200)
@given(st.one_of(plain(["word"]), plain(["substring"])), st.data())
def test_no_more_is_held_than_a_match_may_need(example: tuple[list[Rule], str], data: st.DataObject) -> None:
    """After each chunk, what is held is at most the longest live partial match, and what left was right to leave."""
    rules, text = example
    assume(not any(rule.kind == "block" for rule in rules))
    for held, read in held_after(program(*rules), data.draw(cuts(text))):
        assert held <= text_oracle.longest_live(read, rules)


_LONG = 10_000
_RUNAWAY = 10.0  # seconds of this process for such a text; it takes a fraction of one


@pytest.mark.parametrize("size", [1, _LONG], ids=["by character", "whole"])
@pytest.mark.parametrize(
    ("phrase", "replacement", "text"),
    [
        ("a" * 400 + "b", "", "a" * _LONG),
        ("a" * 400 + "b", "a", "a" * _LONG),
        ("a" * 400 + "b", "x", "a" * _LONG),
        ("=" * 10 + "x", "", "=" * _LONG),
        ("a b", "", "a" + " " * _LONG),
        ("ab", None, "a" + "\u200b" * _LONG),
    ],
)
def test_held_text_is_not_searched_again(phrase: str, replacement: str | None, text: str, size: int) -> None:
    """Where much of what was read can still change, a character costs what it costs at first.

    Searched again with each chunk, the worst of these take hours: the limit does not depend on how fast a machine is.
    """
    session = program(ban(phrase, redact=replacement, match="substring"), max_hold=2 * _LONG).text_session()
    start, seen = time.process_time(), ""
    for at in range(0, len(text), size):
        seen += session.feed(text[at : at + size]).text
        assert time.process_time() - start < _RUNAWAY
    assert seen + session.finish().text == text
