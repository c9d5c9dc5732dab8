"""Every way to spell a phrase: of each path of up to six tokens exactly the step that completes it is masked.

A path may begin with a token whose end is the phrase's head, go on with any pieces of the phrase, and end with a token
that holds the rest and more. All of them are walked, as a tree: at every node the mask must hold the tokens with which
the output would contain the phrase, found by plain search, and no other id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from policyengine.automata.vocabulary import Vocabulary
from policyengine.runtime.token_session import TokenSession
from tests.oracle import Phrase
from tests.programs import program
from tests.vocabularies import FAMILIES, toy

LONGEST = 6  # tokens of a path


class Tree:
    """All paths that spell one phrase, `substring` and `exact`."""

    def __init__(self, vocabulary: Vocabulary, phrase: str, fold: Callable[[bytes], bytes]) -> None:
        self.wanted = fold(phrase.encode())
        self.tokens = [fold(token or b"") for token in vocabulary.tokens]
        for token_id in vocabulary.eos_token_ids:
            self.tokens[token_id] = b""
        case = "sensitive" if fold is bytes else "insensitive"
        self.banned = Phrase(phrase, "substring", case, frozenset(), "literal", "exact")  # type: ignore[arg-type]
        self.bound = program(bans=[self.banned]).bind(vocabulary)
        self.by_text: dict[bytes, list[int]] = {}
        for token_id, token in enumerate(self.tokens):
            if token:
                self.by_text.setdefault(token, []).append(token_id)
        self._completing: dict[bytes, set[int]] = {}
        self.nodes = self.paths = 0

    def completing(self, text: bytes) -> set[int]:
        """The ids with which a text that does not hold the phrase yet holds it."""
        end = text[max(len(text) - len(self.wanted) + 1, 0) :]
        if end not in self._completing:
            found = {i for i, token in enumerate(self.tokens) if token and self.wanted in end + token}
            self._completing[end] = found
        return self._completing[end]

    def heads(self) -> Iterator[tuple[int, int]]:
        """Tokens that end in a head of the phrase but do not hold it, and how much of it that is."""
        for token_id, token in enumerate(self.tokens):
            for size in range(1, len(self.wanted)):
                if token.endswith(self.wanted[:size]) and self.wanted not in token:
                    yield token_id, size

    def walk(self) -> None:
        """Check every node."""
        self.check([])
        for token_id, size in self.heads():
            self.follow([token_id], size)

    def follow(self, path: list[int], done: int) -> None:
        """A path whose last bytes are the first `done` of the phrase, and all that go on with it."""
        self.check(path)
        if len(path) + 1 == LONGEST:
            return
        for size in range(done + 1, len(self.wanted)):
            for token_id in self.by_text.get(self.wanted[done:size], ()):
                self.follow([*path, token_id], size)

    def check(self, path: list[int]) -> None:
        session: TokenSession = self.bound.token_session()
        for token_id in path:
            session.advance(token_id)
        assert session.masked_choices == 0, f"{self.shown(path)} spells no phrase yet"
        masked, expected = set(session.masked().tolist()), self.completing(b"".join(self.tokens[i] for i in path))
        assert masked == expected, f"{self.wanted!r} after {self.shown(path)}: {self.shown(masked ^ expected)}"
        self.nodes += 1
        self.paths += len(expected)

    def shown(self, ids: set[int] | list[int]) -> list[bytes]:
        return [self.tokens[i] for i in ids]


@pytest.mark.parametrize(
    "phrase", ["rice", "ice", "the rice", "cerice", "rice the", "icrice", "iiii", "r r", "ricerice"]
)
def test_over_the_toy_vocabulary(phrase: str) -> None:
    tree = Tree(toy(), phrase, bytes.lower)
    tree.walk()
    assert tree.paths > 3


@pytest.mark.parametrize(
    ("family", "phrase", "at_least"),
    [
        ("byte-level", "number", 1_000_000),
        ("byte-level", "the one", 2_000_000),
        ("tekken", "would", 10_000),
        ("tekken", "form the", 400_000),
        ("sentencepiece", "than", 10_000),
        ("wordpiece", "other", 40_000),
    ],
)
def test_in_any_case(family: str, phrase: str, at_least: int) -> None:
    """Phrases of letters that only look-alikes of ASCII fold to: no ligature, no Kelvin sign."""
    tree = Tree(FAMILIES[family](), phrase, bytes.lower)
    tree.walk()
    assert tree.paths >= at_least


@pytest.mark.parametrize(
    ("family", "phrase", "at_least"),
    [
        ("byte-level", "für", 3_000),
        ("tekken", "мир", 100),
        ("tekken", "при", 100),
        ("tekken", "的是", 20),
        ("byte-level", "🙂é", 1),
        ("sentencepiece", "für é", 2_000),
    ],
)
def test_cut_inside_characters(family: str, phrase: str, at_least: int) -> None:
    """The bytes of a character may be spread over tokens; the one that completes the last is masked."""
    tree = Tree(FAMILIES[family](), phrase, bytes)
    tree.walk()
    assert tree.paths >= at_least
