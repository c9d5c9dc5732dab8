"""The search for a text that only one of two rules catches: what it finds, and the characters that stand for all."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from policyengine.automata.folding import Folding, FoldSpec
from policyengine.automata.phrases import PhraseAutomaton
from policyengine.automata.threads import ThreadAutomaton
from policyengine.review.diff_letters import letters
from policyengine.review.diff_search import Budget, Product, Question, TooFarError
from policyengine.review.diff_tracks import AnchoredTracks, PhraseTracks, Tracks

SENSITIVE = FoldSpec(casefold=False)


def phrases(*texts: str, match: str = "word", spec: FoldSpec = FoldSpec()) -> Tracks:  # noqa: B008 - frozen
    left, right = [match != "substring"] * len(texts), [match == "word"] * len(texts)
    made = PhraseAutomaton.from_phrases(spec, texts, left_edge=left, right_edge=right, eager=right)
    return PhraseTracks(spec, made.patterns)


def gapped(*texts: str, gaps: str = "punctuation") -> Tracks:
    spec, yes = FoldSpec(collapse=False), [True] * len(texts)
    made = ThreadAutomaton.from_phrases(spec, texts, gaps=gaps, left_edge=yes, right_edge=yes, eager=yes)  # type: ignore[arg-type]
    return AnchoredTracks(spec, made.anchored, range(len(texts)))


def regex(*sources: str) -> Tracks:
    made = ThreadAutomaton.from_expressions(sources)
    return AnchoredTracks(made.spec, made.anchored, range(len(sources)))


@pytest.mark.parametrize(
    ("question", "mine", "theirs", "text"),
    [
        ("caught", phrases("titan"), phrases("titan", match="substring"), None),
        ("caught", phrases("titan", match="prefix"), phrases("titan"), "titanx"),
        ("caught", phrases("project titan"), phrases("titan"), None),
        ("caught", phrases("titan", spec=SENSITIVE), phrases("titan"), None),
        ("caught", phrases("ab"), gapped("ab"), None),
        ("caught", gapped("a b"), phrases("a b"), "a⒝"),
        ("caught", regex("[ab]{2}c"), regex("aac"), "bbc"),
        ("caught", regex("[ab]{2}c"), regex("bbc"), "aac"),  # the first way to two letters is theirs
        ("caught", regex("[ab]{2}c"), regex("[ab]bc", "[ab]ac"), None),
        ("caught", regex("x.{30}"), regex("x.{31}"), "x" + "z" * 30),
        ("caught", regex("x.{31}"), regex("x.{30}"), None),
        ("caught", regex("(?i)k"), phrases("k", match="substring"), None),  # the Kelvin sign, too
        ("caught", regex("^a"), regex("a$"), "ax"),
        ("caught", regex("a"), regex("^a", "a$"), "xax"),
        ("done", regex(r"a(.|$)"), regex("a"), None),
        ("done", regex("a"), regex(r"a(.|$)"), "a"),
        ("waits", phrases("ab"), phrases("abc", match="prefix"), "ab"),
        ("covers", phrases("a", "ab", match="substring"), phrases("a", match="substring"), "ab"),
        ("links", regex("aa", "a"), regex("a"), "aa"),
        ("links", regex("aa", "bb"), regex("a{2,}", "bb"), None),
        ("cut", phrases("project titan"), phrases("titan"), "project titan"),
        ("cut", regex("xy", "y"), regex("y"), "xy"),
    ],
)
def test_a_shortest_text_or_none(question: Question, mine: Tracks, theirs: Tracks, text: str | None) -> None:
    assert Product([mine], [theirs]).find(question, Budget()) == text


def test_a_rule_of_several_automata_is_one() -> None:
    both = [phrases("ab"), regex("b[a-c]")]
    assert Product([phrases("ab"), regex("ba")], both).find("caught", Budget()) is None
    assert Product(both, [phrases("ab"), regex("ba")]).find("caught", Budget()) == "bc"


def test_three_questions_in_one_search_are_answered_as_one_by_one() -> None:
    pairs = [(phrases("ab"), phrases("ab", "abc")), (regex("a"), regex(r"a(.|$)")), (phrases("ab"), phrases("a b"))]
    for mine, theirs in pairs:
        product = Product([mine], [theirs])
        for question, text in product.find_all(Budget()).items():
            assert text == product.find(question, Budget())


def test_a_search_that_may_take_no_more_steps_says_so() -> None:
    with pytest.raises(TooFarError):
        Product([phrases("titan")], [phrases("titan", match="substring")]).find("caught", Budget(5))


@pytest.mark.parametrize(
    "tracks",
    [
        [phrases("Titan", "é", "㎏", "中文"), phrases("titan", "ab", spec=FoldSpec(marks=True))],
        [phrases("ab", spec=FoldSpec(confusables=True)), gapped("a b", "c-d")],
        [phrases("ab"), regex(r"(?i)[a-z]\d+\b", r"\p{Han}")],
        [regex(r"[^a]b", r"\w+x"), regex("[à-ÿ]")],
    ],
)
def test_every_character_is_one_of_the_letters(tracks: Sequence[Tracks]) -> None:
    """Whatever character comes, every automaton reads it as it reads some letter."""
    known = {letter.words for letter in letters(tracks)}
    foldings = [Folding(track.spec) for track in tracks]
    rng = random.Random(1)
    for cp in [*range(0x3000), *(rng.randrange(0x110000) for _ in range(20_000))]:
        if 0xD800 <= cp < 0xE000:
            continue
        words = tuple(
            tuple(map(track.column, folding.symbols(chr(cp)))) for track, folding in zip(tracks, foldings, strict=True)
        )
        assert words in known or not any(words), hex(cp)


def test_letters_are_what_they_say() -> None:
    tracks = [phrases("Titan", "㎏"), phrases("titan", spec=SENSITIVE)]
    for letter in letters(tracks):
        for track, word in zip(tracks, letter.words, strict=True):
            assert tuple(map(track.column, Folding(track.spec).symbols(letter.ch))) == word
