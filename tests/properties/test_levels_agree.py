"""G4 inside the matcher: the tables over a vocabulary say of every token what reading its text says.

The text side is the automaton stepped one character at a time; the oracle in `tests/oracle.py`, which shares no code
with it, is held against both elsewhere. Here the question is only whether binding lost or invented anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import example, given, settings
from hypothesis import strategies as st

from policyengine.automata import utf8
from policyengine.automata.folding import Folding, FoldSpec
from policyengine.automata.phrases import PhraseAutomaton
from policyengine.automata.token_matcher import TokenMatcher
from policyengine.automata.token_tables import TokenTables
from policyengine.automata.vocabulary import Vocabulary
from policyengine.automata.vocabulary_trie import VocabularyTrie

# Few characters of many kinds, so that phrases meet tokens: two scripts that space words and one that does not, a
# combining sequence, an expanding one, a digit, a joiner, punctuation, white space of two kinds, an invisible one.
ALPHABET = ["a", "b", "A", " ", "\n", "é", "е", "中", "_", ".", "\u200b", "ß", "1", "가"]
TEXTS = st.lists(st.sampled_from(ALPHABET), min_size=1, max_size=4).map("".join)


@dataclass
class Case:
    automaton: PhraseAutomaton
    vocabulary: Vocabulary
    matcher: TokenMatcher


@st.composite
def cases(draw: st.DrawFn) -> Case:
    spec = FoldSpec(*(draw(st.booleans()) for _ in range(5)))
    tokens = {bytes([byte]) for ch in ALPHABET for byte in ch.encode()}
    for text in draw(st.lists(TEXTS, min_size=10, max_size=60)):
        data = text.encode()
        start = draw(st.integers(0, len(data) - 1))
        tokens.add(data[start : draw(st.integers(start + 1, len(data)))] if draw(st.booleans()) else data)
    vocabulary = Vocabulary([b"", None, b"<end>", *sorted(tokens)], eos_token_ids=[2])
    phrases = [p for p in draw(st.lists(TEXTS, min_size=1, max_size=6)) if Folding(spec).fold(p)] or ["a"]
    flags = st.lists(st.booleans(), min_size=len(phrases), max_size=len(phrases))
    automaton = PhraseAutomaton.from_phrases(
        spec, phrases, left_edge=draw(flags), right_edge=draw(flags), eager=draw(flags)
    )
    return Case(automaton, vocabulary, TokenMatcher(TokenTables(automaton, VocabularyTrie(vocabulary, spec))))


def read(automaton: PhraseAutomaton, state: int, text: str) -> tuple[int, set[int], bool]:
    """Step through a text: the state after it, what it completed, and whether any of it counted."""
    done: set[int] = set()
    moved = False
    for ch in text:
        for symbol in automaton.folding.table[ch]:
            if not automaton.is_repeat(state, symbol):
                state, before, now = automaton.step(state, symbol)
                done |= {*before, *now}
                moved = True
    return state, done, moved


def completed(automaton: PhraseAutomaton, state: int, ch: str, arriving: bool) -> set[int]:
    """The patterns that a character completes; `arriving`: the text comes to this state with the same token."""
    after, done, moved = read(automaton, state, ch)
    return done | {p for p in automaton.at_end(after) if (arriving or moved) and automaton.patterns[p].eager}


def expected(automaton: PhraseAutomaton, state: int, pending: bytes, token: bytes, last: bool) -> set[int]:
    """The patterns that a token completes, by design 3.2, from the text of the token."""
    text, rest = utf8.decode(pending + token)
    state, done, moved = read(automaton, state, text)
    if last:
        if rest:
            state, more, _ = read(automaton, state, utf8.REPLACEMENT)
            done |= more
        return done | set(automaton.at_end(state))
    if rest and token:
        characters = (chr(c) for c in utf8.completions(rest) if not 0xD800 <= c < 0xE000)
        results = (completed(automaton, state, ch, moved or bool(pending)) for ch in characters)
        every = next(results)
        for result in results:
            every &= result
            if not every:
                break
        return done | every
    # Brought there by this token: it was read further, or what was open has become a character that folding drops.
    arrived = (moved or (pending and token)) and not rest
    return done | {p for p in automaton.at_end(state) if arrived and automaton.patterns[p].eager}


@settings(max_examples=150, deadline=None)
@given(cases(), st.lists(st.integers(0, 1 << 30), max_size=5))
def test_tables_agree_with_text(case: Case, choices: list[int]) -> None:
    """From where a random history leads, each token completes what its text completes; at the end of output too."""
    automaton, matcher, tokens = case.automaton, case.matcher, case.vocabulary.tokens
    position, data = matcher.START, b""
    for choice in choices:
        token = choice % len(tokens)
        position, _ = matcher.advance(position, token)
        data += b"" if token == 2 else tokens[token] or b""
    text, pending = utf8.decode(data)
    state, _, _ = read(automaton, automaton.START, text)
    assert position == (state, pending)
    for last in (False, True):
        ids, patterns = matcher.completions(position, last=last)
        pairs = set(zip(ids.tolist(), patterns.tolist(), strict=True))
        masked = {int(i) for part in matcher.masks(position, last=last) for i in part}
        for token, shown in enumerate(tokens):
            want = set() if shown is None else expected(automaton, state, pending, b"" if token == 2 else shown, last)
            assert {p for i, p in pairs if i == token} == want
            assert matcher.completes(position, token, last=last) == want
            assert (token in masked) == bool(want)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=12), st.integers(0, 12))
@example(b"\xed\xa0", 0)
@example(b"\xed\xa0\x80", 1)
def test_characters_in_pieces(data: bytes, cut: int) -> None:
    """Decoding in two pieces through `finish` gives what decoding at once gives."""
    text, pending = utf8.decode(data[:cut])
    rest = data[cut:]
    if pending and rest:
        character, used = utf8.finish(pending, rest)
        if not character:
            text, pending = text, pending + rest
        else:
            more, pending = utf8.decode(rest[used:])
            text += character + more
    elif rest:
        more, pending = utf8.decode(rest)
        text += more
    assert text + (utf8.REPLACEMENT if pending else "") == data.decode("utf-8", "replace")
