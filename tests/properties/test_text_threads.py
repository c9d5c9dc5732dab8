"""Streaming is the whole (G3) for gaps, exceptions and expressions, alone and beside plain phrases."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from policyengine.automata.regex_errors import EmptyMatchError
from policyengine.automata.threads import ThreadAutomaton
from policyengine.runtime.program import Channel, Reasoning
from tests import text_oracle
from tests.oracle import Phrase, find
from tests.streams import cut, held_after, run, splits
from tests.text_programs import Rule, program

_LETTERS = "".join(text_oracle.LETTERS)
TEXTS = st.text(st.sampled_from(_LETTERS + "xyY"), max_size=13)
# Replacements that join with the text, continue it, or are banned themselves.
_NASTY = st.sampled_from([None, "", "x", "y", "xy", " ", "!"])


def _word(text: str) -> bool:
    return text.strip() == text and "  " not in text and bool(text)


_WORDS = st.text(st.sampled_from(_LETTERS), min_size=1, max_size=4).filter(_word)
_GAPS = st.sampled_from(["spaces", "punctuation", "letters", "literal"])


@st.composite
def phrases(draw: st.DrawFn) -> Phrase:
    """A phrase with any gaps, and often with exceptions that hold it."""
    text, longer = draw(_WORDS), []
    for _ in range(draw(st.integers(0, 2))):
        before, after = draw(st.text(st.sampled_from(_LETTERS), max_size=3)), draw(st.text("xy! ", max_size=3))
        longer.append(before + text + after if draw(st.booleans()) else draw(_WORDS))
    return Phrase(
        text,
        draw(st.sampled_from(["word", "prefix", "substring", "substring"])),
        case=draw(st.sampled_from(["sensitive", "insensitive"])),
        gaps=draw(_GAPS),
        exceptions=tuple(filter(_word, longer)),
    )


_ATOMS = st.sampled_from(["x", "y", "z", "[xy]", ".", "(xy)", "(x|zy)", "[^x]", " ", "!", r"\b", r"\B", r"\w"])
_TIMES = st.sampled_from(["", "", "", "+", "*", "?", "{2}", "{1,2}", "{2,}"])
_PARTS = st.builds(lambda atom, times: atom + times * (atom not in (r"\b", r"\B")), _ATOMS, _TIMES)


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """A small expression that matches no empty text; with unbounded parts more often than not."""
    first = draw(st.sampled_from(["x", "y", "z", "[yz]", "x+", "[xy]{2,}", "(zy)+"]))
    parts = [*draw(st.lists(_PARTS, max_size=2)), first, *draw(st.lists(_PARTS, max_size=3))]
    whole = draw(st.sampled_from(["", "", "", "^"])) + "".join(parts) + draw(st.sampled_from(["", "", "", "$"]))
    try:
        ThreadAutomaton.from_expressions([whole])
    except EmptyMatchError:
        reject()  # it asks for what it excludes
    return whole


def rules(replacements: st.SearchStrategy[Any], messages: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Rule]]:
    """Rules of phrases or of expressions, with all text actions."""
    some = st.one_of(
        st.tuples(st.lists(phrases(), min_size=1, max_size=2).map(tuple), st.just(())),
        st.tuples(st.just(()), st.lists(expressions(), min_size=1, max_size=2).map(tuple)),
    )
    redact = st.builds(lambda bans, text: Rule(bans[0], "redact", text, expressions=bans[1]), some, replacements)
    stop = st.builds(lambda bans, text: Rule(bans[0], "terminate", text, "why", False, bans[1]), some, messages)
    block = st.builds(lambda bans: Rule(bans[0], "block", "#", "why", False, bans[1]), some)
    return st.lists(st.one_of(redact, redact, redact, st.one_of(stop, stop, block)), min_size=1, max_size=3)


PLAIN = rules(st.none(), st.none())
NASTY = rules(_NASTY, _NASTY)


@st.composite
def cuts(draw: st.DrawFn, text: str) -> list[str]:
    """A text in pieces."""
    places = draw(st.lists(st.integers(0, len(text)), max_size=6))
    return cut(text, sorted(places))


_MARKERS = Reasoning("<t>", "</t>")


def _parts(text: str) -> list[tuple[Channel | None, str]]:
    """An output by channels: reasoning comes first, behind white space only, and once; None: a marker."""
    match = re.fullmatch(r"([ ]*)(<t>)(?:(.*?)(</t>)(.*)|(.*))", text, re.DOTALL)
    if not match:
        return [("answer", text)]
    before, start, reasoning, end, answer, unfinished = match.groups()
    if end is None:
        return [("answer", before), (None, start), ("reasoning", unfinished)]
    return [("answer", before), (None, start), ("reasoning", reasoning), (None, end), ("answer", answer)]


@settings(max_examples=200)
@given(PLAIN, st.lists(st.sampled_from(["all", "answer", "reasoning"]), min_size=3, max_size=3), st.data())
def test_channels_are_texts_of_their_own(found: list[Rule], channels: list[Channel], data: st.DataObject) -> None:
    """What leaves is what each channel alone gives, up to the first that ends the output."""
    found = [replace(rule, channel=channel) for rule, channel in zip(found, channels, strict=False)]
    assume(not any(rule.kind == "block" for rule in found))
    pieces = ["<t>", "</t>", "<", "/t>", " ", *"xyz!"]
    text = data.draw(st.sampled_from(["", "<t>", " <t>"])) + data.draw(st.lists(st.sampled_from(pieces)).map("".join))
    expected, reason = "", None
    for channel, part in _parts(text):
        if reason is None and channel is None:
            expected += part
        elif reason is None:
            alone = program(
                *(
                    rule if rule.channel in ("all", channel) else replace(rule, phrases=(), expressions=())
                    for rule in found
                )
            )
            result = run(alone, [part])
            expected, reason = expected + result.text, result.reason
    policies = program(*found, reasoning=_MARKERS)
    whole = run(policies, [text])
    assert (whole.text, whole.reason) == (expected, reason)
    for chunks in (list(text), data.draw(cuts(text))):
        assert run(policies, chunks) == whole


def _banned(found: list[Rule], text: str) -> list[object]:
    """What a text holds that it must not."""
    wanted = [phrase for rule in found for phrase in rule.phrases]
    sources = [source for rule in found for source in rule.expressions]
    return [*find(text, wanted), *(match for source in sources for match in text_oracle.matches(text, source))]


@settings(max_examples=400)
@given(PLAIN, TEXTS)
def test_the_whole_is_what_regular_expressions_say(found: list[Rule], text: str) -> None:
    assume(not text_oracle.joins(text, found))  # what a redaction brings about is for the other properties
    result = run(program(*found), [text])
    assert (result.text, result.reason) == text_oracle.expected(text, found)


@settings(max_examples=400)
@given(NASTY, TEXTS, st.data(), st.sampled_from([3, 4096]))
def test_any_chunking_gives_the_same(found: list[Rule], text: str, data: st.DataObject, max_hold: int) -> None:
    """Text, reason and matches; with replacements that bring dead matches back to life; twice, as sessions learn."""
    policies = program(*found, max_hold=max_hold)
    whole = run(policies, [text])
    chunks = data.draw(cuts(text))
    for pieces in (list(text), chunks, list(text), chunks):
        assert run(policies, pieces) == whole
    if whole.reason != "max_hold":
        assert not _banned(found, whole.text)


@settings(max_examples=10)
@given(NASTY, TEXTS)
def test_every_split(found: list[Rule], text: str) -> None:
    """All ways of cutting a text of up to 13 characters."""
    policies = program(*found)
    whole = run(policies, [text])
    for chunks in splits(text):
        assert run(policies, chunks) == whole


@settings(max_examples=200)
@given(PLAIN, TEXTS, st.data())
def test_no_more_is_held_than_a_match_may_need(found: list[Rule], text: str, data: st.DataObject) -> None:
    """After each chunk, what is held is at most the longest live partial match, or what its redaction brings back."""
    assume(not any(rule.kind == "block" for rule in found))
    for held, read in held_after(program(*found), data.draw(cuts(text))):
        assert held <= text_oracle.held(read, found)


@pytest.mark.parametrize(
    ("expression", "text", "held"),
    [(r"y.\B", "y!", 0), (r"y.\B", "yx", 2), (r"y ?\B", "y ", 0), (r"x.\B|y", "x ", 0), (r"y.\Bx|y..z", "y!x", 3)],
)
def test_nothing_waits_for_an_edge_that_cannot_be_missing(expression: str, text: str, held: int) -> None:
    """Behind a character that makes no word there is always an edge."""
    rules = [Rule((), "redact", None, expressions=(expression,))]
    assert [now for now, _ in held_after(program(*rules), [text])] == [held]
    assert text_oracle.held(text, rules) == held


_LONG = 10_000
_RUNAWAY = 20.0  # seconds of this process for such a text; it takes one or two


@pytest.mark.parametrize("size", [1, _LONG], ids=["by character", "whole"])
@pytest.mark.parametrize(
    ("rule", "text", "shown"),
    [
        (Rule((), "redact", "*", expressions=("[a-z]+",)), "a" * _LONG, "*"),
        (Rule((), "redact", "*", expressions=("ab?(cd)*", "b+")), "a" + "cd" * (_LONG // 2), "*"),
        (Rule((), "redact", "", expressions=("[a-z]+@",)), "a" * _LONG, "a" * _LONG),
        (Rule((), "redact", "x", expressions=("a.{0,50}@",)), "a" * _LONG, "a" * _LONG),
        (
            Rule((Phrase("!", "substring", gaps="punctuation", exceptions=("a ! b",)),), "redact", "*"),
            "a" + "!" * _LONG,
            "a" + "*" * _LONG,
        ),
        (
            Rule((Phrase("a c", "substring", gaps="punctuation", exceptions=("a c b",)),), "redact", ""),
            "a" + "-" * _LONG,
            "a" + "-" * _LONG,
        ),
    ],
)
def test_long_matches_cost_no_more_than_short_ones(rule: Rule, text: str, shown: str, size: int) -> None:
    """What is swallowed, what is held and what waits: the limit does not depend on how fast a machine is."""
    session = program(rule, max_hold=2 * _LONG).text_session()
    start, seen = time.process_time(), ""
    for at in range(0, len(text), size):
        seen += session.feed(text[at : at + size]).text
        assert time.process_time() - start < _RUNAWAY
    assert seen + session.finish().text == shown
