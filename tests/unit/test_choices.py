"""A set of texts on a vocabulary: any segmentation, and nothing that leaves the texts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from policyengine.automata.choices import Choices
from tests.vocabularies import TOY_TOKENS


def allowed(choices: Choices, before: bytes) -> list[int]:
    """The tokens that go on from these bytes."""
    return [token for token, _ in choices.edges(choices.step(choices.ROOT, before))]


def test_any_segmentation() -> None:
    """`rice` in one token or in pieces, but with nothing before it."""
    choices = Choices([b"rice", b"ri"], TOY_TOKENS)
    assert allowed(choices, b"") == [3, 5]
    assert allowed(choices, b"r") == [7, 9]
    assert allowed(choices, b"ri") == [8, 11]
    assert choices.whole[choices.step(0, b"ri")]
    assert not choices.whole[choices.step(0, b"ric")]
    assert choices.step(0, b"rise") == -1


def test_pieces_of_characters() -> None:
    """A character that is not complete yet keeps a text that holds it possible, and only such a text."""
    tokens = [b"", "東".encode()[:1], "東".encode()[1:], "京".encode(), "東京".encode()[:4], "東京".encode()[4:]]
    choices = Choices(["東京".encode(), "東".encode()], tokens)
    assert allowed(choices, b"") == [1, 4]
    assert allowed(choices, "東".encode()[:1]) == [2]
    assert allowed(choices, "東京".encode()[:4]) == [5]


def test_unspellable() -> None:
    """The vocabulary has no `y` and no single `h`: what needs them cannot be written, whatever else can."""
    choices = Choices([b"icy", b"ice", b"th", b"the"], TOY_TOKENS)
    assert choices.unspellable() == [b"icy", b"th"]


def test_ids_of_equal_bytes() -> None:
    """All of them lead on; ids without text and padding never do."""
    choices = Choices([b"ab"], [b"", None, b"a", b"a", b"b", b"c"])
    assert allowed(choices, b"") == [2, 3]
    assert allowed(choices, b"a") == [4]


@given(
    st.lists(st.binary(min_size=1, max_size=5), min_size=1, max_size=4),
    st.lists(st.one_of(st.none(), st.binary(max_size=3)), min_size=1, max_size=12),
    st.binary(max_size=3),
)
def test_edges_are_the_tokens_that_keep_a_text_possible(
    texts: list[bytes], tokens: list[bytes | None], before: bytes
) -> None:
    choices = Choices(texts, tokens)
    node = choices.step(choices.ROOT, before)
    assert (node >= 0) == any(text.startswith(before) for text in texts)
    if node < 0:
        return
    expected = [i for i, t in enumerate(tokens) if t and any(text.startswith(before + t) for text in texts)]
    assert [token for token, _ in choices.edges(node)] == expected
    assert all(target == choices.step(node, tokens[token] or b"") for token, target in choices.edges(node))
    assert choices.whole[node] == (before in texts)
