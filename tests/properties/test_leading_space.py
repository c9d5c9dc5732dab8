"""A space that the decoder may drop at the start of the output: what either reading makes a match is masked.

The matcher keeps the space. That covers the other reading: a phrase that stands in the text without the space stands in
the text with it, behind an edge in both, since the start of an output and a space are edges alike.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.automata.vocabulary import Vocabulary
from tests.oracle import Phrase, TokenOracle
from tests.programs import program
from tests.properties.texts import phrases

# As SentencePiece has them: most words with a space, the space alone, two spaces, a space and half a character.
TOKENS: list[bytes | None] = [
    *(b"", b" the", b"the", b" rice", b"rice", b" r", b"ice", b" ", b"  ", b"s", b" \xe4\xbd", b"\xa0", b"\xcc\x81"),
    *(b"-", b" -rice", b"\xe2\x80\x8b", b" \xe2\x80\x8brice", None),
]
WORDS = st.lists(st.sampled_from(["rice", "r", "ice", "the", " ", "  ", "你", "-", "s"]), min_size=1, max_size=3).map(
    "".join
)


def stripped(token: bytes | None) -> bytes | None:
    """What an output that begins with the token shows where the decoder drops the space."""
    return token[1:] if token and token[:1] == b" " else token


@settings(max_examples=150)
@given(
    st.lists(phrases(WORDS).filter(lambda p: not p.exceptions), min_size=1, max_size=3),
    st.lists(st.integers(0, len(TOKENS) - 1), max_size=5),
)
def test_both_readings_are_masked(banned: list[Phrase], history: list[int]) -> None:
    """The first token with and without its space, and everything that follows it."""
    vocabulary = Vocabulary(TOKENS, [0], drops_leading_space=True)
    session = program(bans=banned).bind(vocabulary).token_session()
    at_start = TokenOracle([stripped(token) for token in TOKENS], [0], banned)
    assert at_start.masked([]) <= set(session.masked().tolist())
    if not history:
        return
    dropped = TokenOracle([*TOKENS, stripped(TOKENS[history[0]])], [0], banned)
    kept = TokenOracle(TOKENS, [0], banned)
    for step, token in enumerate(history, 1):
        session.advance(token)
        masked = set(session.masked().tolist())
        assert masked == kept.masked(history[:step])
        other = dropped.masked([len(TOKENS), *history[1:step]]) - {len(TOKENS)}
        assert other <= masked, [TOKENS[i] for i in history[:step]]
