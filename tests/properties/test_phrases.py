"""The phrase automaton finds in a text what the oracle finds there, to the code point."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from policyengine.automata.folding import Folding
from policyengine.automata.phrases import PhraseAutomaton
from policyengine.automata.threads import BEFORE, NOW, Hit, ThreadAutomaton
from tests import oracle
from tests.oracle import Found, Phrase
from tests.programs import automaton_of, spec_of
from tests.properties.texts import alike, rules, texts_with


def scan(automaton: PhraseAutomaton, text: str) -> list[Found]:
    """All matches, by stepping through a text as a stream would."""
    origins: list[int] = []  # the place of each symbol in the text
    found: list[Found] = []
    state = automaton.START

    def note(patterns: tuple[int, ...], end: int) -> None:
        for pattern in patterns:
            start = end - automaton.pattern_length(pattern)
            found.append(Found(pattern, origins[start], origins[end - 1] + 1))

    for place, ch in enumerate(text):
        for symbol in automaton.folding.table[ch]:
            if automaton.is_repeat(state, symbol):
                assert automaton.step(state, symbol) == (state, (), ())
                continue
            state, before, now = automaton.step(state, symbol)
            note(before, len(origins))
            origins.append(place)
            note(now, len(origins))
            assert automaton.live_depth(state) <= len(origins)
    note(automaton.at_end(state), len(origins))
    return found


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Phrase], str]:
    banned = draw(alike())
    return banned, draw(texts_with(banned))


@settings(max_examples=600)
@given(cases())
@example(([Phrase("Titan")], "使用Titan项目 Titan는 titanic Titan's"))
@example(([Phrase("alter")], "alter alternative altér ALTER; alte\u0301r"))
@example(([Phrase("strasse")], "STRAẞE Straße strasse straßen"))
@example(([Phrase("が")], "がTitan かTitan が"))
@example(([Phrase("s", "substring"), Phrase("ss", "substring")], "ßß"))
@example(([Phrase("a b", "substring")], "a \u200b \tb"))
@example(([Phrase("rice "), Phrase(" rice")], " rice  rice"))
@example(([Phrase("i\u0307", "substring")], "İ I\u0307 i"))
def test_stepping_finds_what_the_oracle_finds(case: tuple[list[Phrase], str]) -> None:
    banned, text = case
    found = scan(automaton_of(banned), text)
    assert set(found) == oracle.find(text, banned)


@settings(max_examples=200)
@given(cases())
def test_a_match_is_told_as_soon_as_it_is_certain(case: tuple[list[Phrase], str]) -> None:
    """Nothing is told that a longer text takes back, and nothing waits longer than for its edge."""
    banned, text = case
    automaton = automaton_of(banned)
    for end in range(len(text) + 1):
        so_far = set(scan(automaton, text[:end]))
        assert so_far == oracle.find(text[:end], banned)


@settings(max_examples=200)
@given(cases())
def test_live_depth_covers_every_match_still_to_come(case: tuple[list[Phrase], str]) -> None:
    """No later match begins before the symbols that are called alive, or a stream would have let its head go."""
    banned, text = case
    automaton = automaton_of(banned)
    origins: list[int] = []
    alive_from = []  # after each symbol: from which symbol on something is alive
    told = []  # (symbols read when a match was told, its first symbol)
    state = automaton.START
    for place, ch in enumerate(text):
        for symbol in automaton.folding.table[ch]:
            if automaton.is_repeat(state, symbol):
                continue
            state, before, now = automaton.step(state, symbol)
            told += [(len(origins), len(origins) - automaton.pattern_length(p)) for p in before]
            origins.append(place)
            told += [(len(origins) - 1, len(origins) - automaton.pattern_length(p)) for p in now]
            alive_from.append(len(origins) - automaton.live_depth(state))
    told += [(len(origins), len(origins) - automaton.pattern_length(p)) for p in automaton.at_end(state)]
    for read, first in told:
        assert all(alive_from[i] <= first for i in range(first, read))


@settings(max_examples=100)
@given(cases())
def test_arrays_give_the_automaton_back(case: tuple[list[Phrase], str]) -> None:
    banned, text = case
    automaton = automaton_of(banned)
    again = PhraseAutomaton.from_arrays(automaton.spec, automaton.to_arrays())
    assert again.patterns == automaton.patterns
    assert scan(again, text) == scan(automaton, text)


@settings(max_examples=100)
@given(cases())
def test_many_states_at_once_step_as_one_does(case: tuple[list[Phrase], str]) -> None:
    banned, text = case
    automaton = automaton_of(banned)
    symbols = sorted({s for ch in text for s in automaton.folding.table[ch]} | {0x20, 0x61})
    states = np.repeat(np.arange(automaton.n_states), len(symbols))
    after = automaton.advance(states, np.array(symbols * automaton.n_states, dtype=np.int64))
    one_by_one = [automaton.step(s, symbol)[0] for s in range(automaton.n_states) for symbol in symbols]
    assert after.tolist() == one_by_one


def scan_threads(automaton: ThreadAutomaton, text: str) -> list[Found]:
    """The same for what needs threads: gaps of punctuation or between letters, and exceptions."""
    origins: list[int] = []
    found: list[Found] = []
    spans: list[tuple[int, int]] = []  # of each thread: its first symbol, and where it ended if it is pending
    state, column = automaton.START, automaton.anchored.column

    def span(thread: int, end: int, here: int) -> tuple[int, int]:
        start = here if thread < 0 else spans[thread][0]
        return start, here + 1 if end == NOW else here if end == BEFORE else spans[thread][1]

    def note(hits: Sequence[Hit], here: int) -> None:
        for hit in hits:
            start, end = span(hit.thread, hit.end, here)
            found.append(Found(hit.pattern, origins[start], origins[end - 1] + 1))

    for place, ch in enumerate(text):
        for symbol in automaton.folding.table[ch]:
            here = len(origins)
            origins.append(place)
            state, kept, hits = automaton.read(state, column(symbol))
            note(hits, here)
            spans = [span(thread.thread, thread.end, here) for thread in kept]
    note(automaton.at_end(state), len(origins))
    return found


@st.composite
def rule_cases(draw: st.DrawFn) -> tuple[list[Phrase], str]:
    banned = draw(rules())
    return banned, draw(texts_with(banned))


def earliest(found: Iterable[Found]) -> set[Found]:
    """Of the matches of a phrase that cover the same last character, that which starts first."""
    starts: dict[tuple[int, int], int] = {}
    for match in found:
        key = match.phrase, match.end
        starts[key] = min(match.start, starts.get(key, match.start))
    return {Found(phrase, start, end) for (phrase, end), start in starts.items()}


@settings(max_examples=400)
@given(rule_cases())
@example(([Phrase("a b", "substring", gaps="punctuation")], "a a , b"))
@example(([Phrase("foo bar", gaps="punctuation"), Phrase("foo", gaps="punctuation")], "foo_bar"))
@example(([Phrase("titan", exceptions=("titan press kit", "the titan"))], "the titan press titan titan press kit"))
@example(([Phrase("c++", gaps="letters")], "c + + c+-+"))
def test_threads_find_what_the_oracle_finds(case: tuple[list[Phrase], str]) -> None:
    """At every end of the text that there might be, to the code point."""
    banned, text = case
    automaton = automaton_of(banned)
    if not isinstance(automaton, ThreadAutomaton):
        return
    for end in range(len(text) + 1):
        assert earliest(scan_threads(automaton, text[:end])) == earliest(oracle.find(text[:end], banned))


@pytest.mark.parametrize("case", ["insensitive", "sensitive"])
@pytest.mark.parametrize("normalize", ["confusables", "nfkc confusables", "nfkc invisible marks confusables"])
def test_every_character_folds_as_the_oracle_says(case: Literal["insensitive", "sensitive"], normalize: str) -> None:
    """Every character but those that come by the ten thousand (Han, Hangul)."""
    phrase = Phrase("", case=case, normalize=frozenset(normalize.split()), gaps="literal")
    table, wrong = Folding(spec_of(phrase)).table, []
    for code in (*range(0x3400), *range(0xA000, 0xAC00), *range(0xE000, 0x17000), *range(0x1B000, 0x20000)):
        ch = chr(code)
        expected = oracle.fold_char(ch, case, phrase.normalize, "literal")
        if unicodedata.category(ch) != "Cn" and "".join(map(chr, table[ch])) != expected:
            wrong.append((f"{code:04X}", ch, expected))
    assert not wrong


@pytest.mark.parametrize("text", ["", "\u200b", "\u00ad\ufeff"])
def test_a_phrase_that_folds_to_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="empty once folded"):
        automaton_of([Phrase(text)])
