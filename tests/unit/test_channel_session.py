"""Reasoning and answer at the token level: which rules act where, and what leads from one to the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from policyengine.automata.vocabulary import Vocabulary
from policyengine.runtime.errors import RequestError
from policyengine.runtime.program import AllowPlan, BiasPlan, ForcePlan, MinTokensPlan, Program
from policyengine.runtime.token_session import TokenSession
from tests.oracle import Phrase
from tests.session_programs import Rule, ban, ban_ids, choices, make
from tests.shadows import in_shadow

MARKS = ("<think>", "</think>")
TOKENS: list[bytes | None] = [
    *(b"", b"a", b"b", b" ", b"ab", b"<think>", b"</think>", b"\n"),
    *(b"<", b"think", b">", b"</", b">\n", b"a<", b"/", b">b", b"c", b""),
]
EOS, A, B, SPACE, AB, OPEN, CLOSE, LINE, LT, THINK, GT, LT_SLASH, GT_LINE, A_LT, SLASH, GT_B, C, SILENT = range(18)
SPLIT_OPEN, SPLIT_CLOSE = [LT, THINK, GT], [LT_SLASH, THINK, GT]


def encode(text: str) -> list[int]:
    """A letter at a time."""
    return [{"a": A, "b": B, " ": SPACE, "c": C}[ch] for ch in text]


SHOWN = Vocabulary(TOKENS, [EOS], encode=encode)
HIDDEN = Vocabulary(
    [b"" if i in (OPEN, CLOSE) else token for i, token in enumerate(TOKENS)],
    [EOS],
    encode=encode,
    special={"<think>": OPEN, "</think>": CLOSE},
)
PIECES = Vocabulary([b"z" if i in (OPEN, CLOSE) else token for i, token in enumerate(TOKENS)], [EOS], encode=encode)

# Each with the tokens that spell the two markers in it.
SPELLINGS = [
    pytest.param(SHOWN, [OPEN], [CLOSE], id="visible"),
    pytest.param(HIDDEN, [OPEN], [CLOSE], id="special"),
    pytest.param(PIECES, SPLIT_OPEN, SPLIT_CLOSE, id="pieces"),
    pytest.param(SHOWN, SPLIT_OPEN, SPLIT_CLOSE, id="visible, in pieces"),
]


def start(program: Program, vocabulary: Vocabulary, history: Sequence[int] = (), **options: Any) -> TokenSession:
    """A session after these tokens, all of which were permitted."""
    session = program.bind(vocabulary).token_session(**options)
    for token in history:
        session.advance(token)
    assert session.masked_choices == 0
    return session


def make_reasoning(*rules: Any, **options: Any) -> Program:
    """A program that knows the markers."""
    return make(*rules, reasoning=MARKS, **options)


def masked(session: TokenSession) -> set[int]:
    """The ids that may not be chosen."""
    return set(session.masked().tolist())


def left(session: TokenSession) -> list[int]:
    """The ids that may be chosen."""
    return sorted(set(range(len(TOKENS))) - masked(session))


# -- bans ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("vocabulary", "opening", "closing"), SPELLINGS)
def test_a_ban_acts_in_its_channel(vocabulary: Vocabulary, opening: list[int], closing: list[int]) -> None:
    for channel, before, inside, behind in (
        ("answer", True, False, True),
        ("reasoning", False, True, False),
        ("all", True, True, True),
    ):
        program = make_reasoning(ban("ab", channel=channel))  # type: ignore[arg-type]
        assert (AB in masked(start(program, vocabulary))) == before
        assert (AB in masked(start(program, vocabulary, opening))) == inside
        assert (AB in masked(start(program, vocabulary, [*opening, A, *closing]))) == behind
        assert (B in masked(start(program, vocabulary, [*opening, A]))) == inside


@pytest.mark.parametrize(("vocabulary", "opening", "closing"), SPELLINGS)
def test_each_channel_is_a_text_of_its_own(vocabulary: Vocabulary, opening: list[int], closing: list[int]) -> None:
    """A match does not reach over the marker, and the answer begins at an edge."""
    program = make_reasoning(ban("ab"))
    assert B not in masked(start(program, vocabulary, [*opening, A, *closing]))
    program = make_reasoning(ban(Phrase("b")))
    assert B in masked(start(program, vocabulary, [*opening, A, *closing]))
    assert B not in masked(start(program, vocabulary, [*opening, A]))


def test_the_end_of_reasoning_is_an_end() -> None:
    """`exact`: a word that may not stand there keeps the marker away, and EOS, but not a letter."""
    program = make_reasoning(ban(Phrase("ab", word_end="exact"), channel="reasoning"))
    for vocabulary in (SHOWN, HIDDEN):
        session = start(program, vocabulary, [OPEN, A, B])
        assert {EOS, CLOSE, LT_SLASH} <= masked(session)
        assert {A, B, C} & masked(session) == set()
        assert CLOSE not in masked(start(program, vocabulary, [OPEN, A, B, B]))


def test_a_word_before_a_marker_that_begins_with_a_letter() -> None:
    """Only when the marker is whole is it known that the word before it was whole."""
    tokens = [b"", b"a", b"x", b"y", b"ax", b" "]
    program = make(ban(Phrase("a", word_end="exact")), reasoning=("[", "xy"))
    bound = program.bind(Vocabulary(tokens, [0]))
    for history, wrong in (([1, 2], True), ([4], True), ([5, 2], False), ([2, 2], False)):
        session = bound.token_session(reasoning=True)
        for token in history:
            session.advance(token)
        assert (3 in masked_of(session)) == wrong, history


def masked_of(session: TokenSession) -> set[int]:
    return set(session.masked().tolist())


def test_what_a_token_holds_around_a_marker() -> None:
    """`>b` ends the marker and begins the answer; `a<` ends the reasoning's text and begins the marker."""
    answer = make_reasoning(ban(Phrase("b", word_end="exact"), channel="answer"))
    assert GT_B not in masked(start(answer, PIECES, [*SPLIT_OPEN, LT_SLASH, THINK]))
    assert GT_B in masked(start(make_reasoning(ban("b", channel="answer")), PIECES, [*SPLIT_OPEN, LT_SLASH, THINK]))
    reasoning = make_reasoning(ban("b", channel="reasoning"))
    assert GT_B not in masked(start(reasoning, PIECES, [*SPLIT_OPEN, LT_SLASH, THINK])), "that b is of the answer"
    session = start(answer, PIECES, [*SPLIT_OPEN, LT_SLASH, THINK, GT_B])
    assert EOS in masked(session), "the answer is `b` now, a word"
    assert A not in masked(session)
    exact = make_reasoning(ban(Phrase("a", word_end="exact"), channel="reasoning"))
    assert A_LT in masked(start(exact, PIECES, SPLIT_OPEN))
    assert A_LT not in masked(start(exact, PIECES, [*SPLIT_OPEN, B]))


def test_a_marker_is_no_text_of_a_channel() -> None:
    """A ban of `think` keeps neither marker away where it is one token, and acts in the answer."""
    program = make_reasoning(ban(Phrase("think")))
    for vocabulary in (SHOWN, HIDDEN):
        assert OPEN not in masked(start(program, vocabulary))
        assert {THINK, CLOSE} & masked(start(program, vocabulary, [OPEN])) == {THINK}
        assert (CLOSE in masked(start(program, vocabulary, [OPEN, CLOSE]))) == (vocabulary is SHOWN), "text now"


def test_white_space_may_stand_before_reasoning() -> None:
    program = make_reasoning(ban("b", channel="answer"))
    assert B not in masked(start(program, SHOWN, [LINE, OPEN]))
    assert B in masked(start(program, SHOWN, [A, OPEN])), "a marker that is mentioned begins nothing"
    assert B in masked(start(program, SHOWN, [CLOSE])), "and ends nothing"
    assert B in masked(start(program, SHOWN, [OPEN, CLOSE, OPEN])), "reasoning comes once"


def test_reasoning_that_the_prompt_began() -> None:
    bound = make_reasoning(ban("b", channel="answer")).bind(SHOWN)
    assert bound.markers is not None
    after = bound.markers.after
    assert after([A, OPEN, LINE]) is after([OPEN]) is after([A, *SPLIT_OPEN]) is True
    assert after([OPEN, CLOSE, LINE]) is after([CLOSE]) is False
    assert after([OPEN, A]) is after([]) is after([CLOSE, A]) is None
    hidden = make_reasoning(ban("b")).bind(HIDDEN).markers
    assert hidden is not None
    assert [hidden.after(prompt) for prompt in ([A, OPEN, LINE], [CLOSE], [OPEN, A])] == [True, False, None]
    session = bound.token_session(reasoning=True)
    assert B not in masked(session)
    session.advance(CLOSE)
    assert B in masked(session)
    session = bound.token_session(reasoning=False)
    session.advance(OPEN)
    assert B in masked(session), "reasoning that the prompt ended does not begin again"


def test_token_ids_and_biases_by_channel() -> None:
    program = make_reasoning(
        ban_ids(C, channel="reasoning"), Rule(BiasPlan(((A, 1.0),)), "answer"), Rule(BiasPlan(((B, 2.0),)), "all")
    )
    session = start(program, SHOWN)
    assert (C in masked(session), session.biases()) == (False, {A: 1.0, B: 2.0})
    session = start(program, SHOWN, [OPEN])
    assert (C in masked(session), session.biases()) == (True, {B: 2.0})
    session = start(program, SHOWN, [OPEN, CLOSE])
    assert (C in masked(session), session.biases()) == (False, {A: 1.0, B: 2.0})


# -- choices and lengths -------------------------------------------------------------------------------------------


def test_a_rule_in_shadow_beside_a_bias_of_the_answer() -> None:
    """What an engine reads of the biases follows the channel, also where a rule in shadow is watched beside it."""
    rules = make_reasoning(Rule(BiasPlan(((A, 2.0),)), "answer"), ban_ids(B))
    session = start(in_shadow(rules, {1}), SHOWN, [OPEN])
    assert not session.has_bias
    assert session.biases() == {}
    session.advance(CLOSE)
    assert session.has_bias
    assert session.biases() == {A: 2.0}
    session.advance(B)
    assert session.masked_choices == 0


@pytest.mark.parametrize(("vocabulary", "opening", "closing"), SPELLINGS)
def test_choices_of_the_answer(vocabulary: Vocabulary, opening: list[int], closing: list[int]) -> None:
    """The answer may begin at once or behind reasoning, in which anything may be said, but the output not end."""
    program = make_reasoning(choices("ab", "b", channel="answer"))
    begin = [LT] if vocabulary is PIECES else [OPEN, LT]
    assert left(start(program, vocabulary)) == sorted([A, B, AB, *begin])
    for i in range(1, len(opening)):
        assert opening[i] in left(start(program, vocabulary, opening[:i]))
        assert A not in left(start(program, vocabulary, opening[:i]))
    assert masked(start(program, vocabulary, opening)) == {EOS}
    assert masked(start(program, vocabulary, [*opening, A, C])) == {EOS}
    behind = start(program, vocabulary, [*opening, A, *closing])
    assert left(behind) == [A, B, AB]
    behind.advance(A)
    assert left(behind) == [B]
    behind.advance(B)
    assert left(behind) == [EOS]


def test_a_marker_that_ends_the_output_begins_no_reasoning() -> None:
    """Else a client could name it, or a piece of it, as a stop id, and get an answer that is no choice."""
    program = make_reasoning(choices("ab", channel="answer"))
    for vocabulary in (SHOWN, HIDDEN):
        assert left(start(program, vocabulary)) == [A, AB, OPEN, LT]
        assert left(start(program, vocabulary, stop_token_ids=[OPEN])) == [A, AB]
        assert left(start(program, vocabulary, stop_token_ids=[THINK])) == [A, AB, OPEN]
    forced = make_reasoning(Rule(ForcePlan("b", None, "start"), "answer"))
    assert left(start(forced, SHOWN, stop_token_ids=[OPEN])) == [B]


def test_choices_of_the_reasoning() -> None:
    """Its end is where the end marker may come."""
    program = make_reasoning(choices("ab", channel="reasoning"))
    assert masked(start(program, SHOWN)) == set()
    assert left(start(program, SHOWN, [OPEN])) == [A, AB]
    assert left(start(program, SHOWN, [OPEN, AB])) == [EOS, CLOSE, LT, LT_SLASH]
    assert left(start(program, SHOWN, [OPEN, AB, LT_SLASH])) == [THINK]
    assert masked(start(program, SHOWN, [OPEN, AB, CLOSE])) == set()
    assert left(start(program, HIDDEN, [OPEN, AB])) == [EOS, CLOSE, LT, LT_SLASH]


def test_choices_of_the_whole_output() -> None:
    """Channel `all`: the markers would have to be part of a choice."""
    program = make_reasoning(choices("ab", "<think>a</think>b"))
    assert left(start(program, SHOWN)) == [A, AB, OPEN, LT]
    assert left(start(program, SHOWN, [OPEN, A, CLOSE])) == [B]
    assert left(start(program, HIDDEN)) == [A, AB, LT]


def test_token_ids_of_a_channel() -> None:
    program = make_reasoning(Rule(AllowPlan(token_ids=(A, B)), "reasoning"))
    assert left(start(program, SHOWN, [OPEN])) == [EOS, A, B, CLOSE, LT, LT_SLASH]
    assert left(start(program, SHOWN, [OPEN, LT])) == [SLASH], "what is no permitted token must become the marker"
    program = make_reasoning(Rule(AllowPlan(token_ids=(A, B)), "answer"))
    assert left(start(program, SHOWN)) == [EOS, A, B, OPEN, LT]
    assert masked(start(program, SHOWN, [OPEN])) == set()
    assert left(start(program, SHOWN, [OPEN, CLOSE])) == [EOS, A, B]


def test_minimum_length_of_a_channel() -> None:
    """Of the answer: tokens of the reasoning do not count, nor may the output end in it."""
    program = make_reasoning(Rule(MinTokensPlan(2), "answer"))
    for history in ([], [A], [OPEN], [OPEN, A, A, A], [OPEN, A, A, CLOSE], [OPEN, CLOSE, A]):
        assert masked(start(program, SHOWN, history)) == {EOS}, history
    for history in ([A, A], [OPEN, CLOSE, A, A]):
        assert masked(start(program, SHOWN, history)) == set(), history
    program = make_reasoning(Rule(MinTokensPlan(2), "reasoning"))
    assert masked(start(program, SHOWN, [OPEN, A])) == {EOS, CLOSE}
    assert masked(start(program, SHOWN, [OPEN, A, A])) == set()
    assert masked(start(program, SHOWN, [A])) == set()
    program = make_reasoning(Rule(MinTokensPlan(3), "all"))
    assert masked(start(program, SHOWN, [OPEN, CLOSE])) == {EOS}
    assert masked(start(program, SHOWN, [OPEN, A, CLOSE])) == set()


# -- forces --------------------------------------------------------------------------------------------------------


def test_the_start_of_the_answer() -> None:
    """At once, unless the model reasons first: the forced token stands for all that is not the beginning of that."""
    program = make_reasoning(Rule(ForcePlan("ab", None, "start"), "answer"))
    session = start(program, SHOWN)
    assert left(session) == [A, OPEN, LT]
    assert session.forced is None
    assert session.stand_in is not None
    assert session.stand_in.token == A
    assert set(session.stand_in.sources.tolist()) == set(range(len(TOKENS))) - {OPEN, LT}
    assert left(start(program, SHOWN, [A])) == [B]
    assert masked(start(program, SHOWN, [A, B])) == set()
    assert left(start(program, SHOWN, [LT])) == [THINK]
    assert masked(start(program, SHOWN, [OPEN, C])) == set()
    session = start(program, SHOWN, [OPEN, C, CLOSE])
    assert session.forced == A
    assert left(session) == [A]
    assert left(start(program, SHOWN, [OPEN, C, CLOSE, A])) == [B]
    assert left(start(program, SHOWN, [CLOSE], reasoning=True)) == [A]
    assert start(program, SHOWN, reasoning=False).forced == A


def test_positions_count_from_the_start_of_the_channel() -> None:
    program = make_reasoning(Rule(ForcePlan(None, C, 1), "answer"), Rule(ForcePlan(None, B, 2), "reasoning"))
    assert left(start(program, SHOWN, [A])) == [C]
    assert left(start(program, SHOWN, [OPEN, A, A])) == [B]
    assert left(start(program, SHOWN, [OPEN, A, A, B, CLOSE, A])) == [C]
    whole = make_reasoning(Rule(ForcePlan(None, B, 2), "all"))
    assert left(start(whole, SHOWN, [OPEN, A])) == [B]
    assert left(start(whole, SHOWN, [OPEN, CLOSE])) == [B]


def test_after_a_phrase_of_the_channel() -> None:
    """Once an output, in whichever channel it acts; the reasoning's own text counts for no phrase of the answer."""
    program = make_reasoning(Rule(ForcePlan("c", None, None, "ab"), "answer"))
    assert start(program, SHOWN, [OPEN, AB]).forced is None
    assert start(program, SHOWN, [OPEN, A, CLOSE, B]).forced is None
    assert start(program, SHOWN, [OPEN, AB, CLOSE, AB]).forced == C
    both = make_reasoning(Rule(ForcePlan("c", None, None, "ab"), "all"))
    assert start(both, SHOWN, [OPEN, AB]).forced == C
    assert start(both, SHOWN, [OPEN, AB, C, CLOSE, AB]).forced is None


def test_the_end_of_the_answer() -> None:
    """An output that would end in its reasoning is not one that ends in its answer."""
    program = make_reasoning(Rule(ForcePlan("ab", None, "end"), "answer"))
    assert start(program, SHOWN, [OPEN, A]).stand_in is None
    for history in ([], [C], [OPEN, A, CLOSE], [OPEN, A, CLOSE, C]):
        session = start(program, SHOWN, history)
        assert session.stand_in is not None, history
        assert session.stand_in.token == A
    assert start(program, SHOWN, [OPEN, CLOSE, A, B]).forced == EOS


# -- both markers in one token --------------------------------------------------------------------------------------


BOTH = Vocabulary(
    [b"", b"a", b"b", b"<think></think>", b"<think>ab</think>", b"<think></think>a", b"<think>b</think>b", b"<think>"],
    [EOS],
    encode=lambda text: [" ab".index(ch) for ch in text],
)
EMPTY, THINKS_AB, SAYS_A, THINKS_B_SAYS_B, OPENS = range(3, 8)


@pytest.mark.parametrize(
    ("rule", "banned_first", "banned_behind"),
    [
        pytest.param(ban("a", channel="answer"), {A, SAYS_A}, {A, SAYS_A}, id="the answer's ban"),
        pytest.param(ban("b", channel="reasoning"), {THINKS_AB, THINKS_B_SAYS_B}, set(), id="the reasoning's ban"),
        pytest.param(
            ban(Phrase("b", word_end="exact"), channel="reasoning"), {THINKS_B_SAYS_B}, set(), id="a word at its end"
        ),
        pytest.param(ban_ids(SAYS_A, channel="answer"), {SAYS_A}, {SAYS_A}, id="an id with text in the channel"),
        pytest.param(ban_ids(THINKS_AB, channel="reasoning"), {THINKS_AB}, set(), id="an id of the reasoning"),
        pytest.param(
            Rule(MinTokensPlan(1), "reasoning"),
            {EMPTY, THINKS_AB, SAYS_A, THINKS_B_SAYS_B},
            set(),
            id="a reasoning that is due",
        ),
        pytest.param(
            Rule(ForcePlan("b", None, "start"), "reasoning"),
            {EMPTY, THINKS_AB, SAYS_A, THINKS_B_SAYS_B},
            set(),
            id="a forced beginning of the reasoning",
        ),
    ],
)
def test_a_token_that_holds_both_markers(rule: Rule, banned_first: set[int], banned_behind: set[int]) -> None:
    """It is judged by its text in each channel, and what follows it is the answer."""
    program = make_reasoning(rule)
    assert masked(start(program, BOTH)) - {EOS} == banned_first
    session = program.bind(BOTH).token_session()
    session.advance(EMPTY)
    # Behind the answer's beginning a marker is text.
    behind = banned_behind | ({THINKS_AB} if A in banned_behind else set())
    assert masked(session) - {EOS} == behind
    assert session.masked_choices == (EMPTY in banned_first)


# -- requests and engines ------------------------------------------------------------------------------------------


def test_mistakes_are_found_before_the_output_begins() -> None:
    with pytest.raises(RequestError, match="max_tokens is 1"):
        start(make_reasoning(choices("ba", channel="answer")), SHOWN, max_tokens=1)


def test_places_can_be_taken_up_again() -> None:
    """What an engine keeps of one session another of its kind goes on from."""
    rules = (
        ban(Phrase("ab", word_end="exact"), channel="reasoning"),
        ban("ca", channel="answer"),
        Rule(ForcePlan("c", None, None, "ab"), "answer"),
        Rule(MinTokensPlan(2), "answer"),
        Rule(BiasPlan(((A, 1.0),)), "reasoning"),
    )
    for vocabulary in (SHOWN, HIDDEN, PIECES):
        bound = make_reasoning(*rules).bind(vocabulary)
        history = [LINE, *(SPLIT_OPEN if vocabulary is PIECES else [OPEN]), B, A_LT, B, *SPLIT_CLOSE, SPACE, AB, C, A]
        straight, hopping = bound.token_session(), bound.token_session()
        for token in history:
            straight.advance(token)
            hopping.advance(token)
            fresh = bound.token_session()
            fresh.move(hopping.place, hopping.length)
            hopping = fresh
            assert hopping.state == straight.state
            assert hopping.masked().tolist() == straight.masked().tolist()
            assert hopping.biases() == straight.biases()
            assert hopping.forced == straight.forced


def test_a_space_that_may_be_dropped_stands_at_the_start_of_the_output_only() -> None:
    """Behind reasoning that shows, the answer's space shows as well."""
    dropping = Vocabulary(TOKENS, [EOS], drops_leading_space=True)
    bound = make_reasoning(choices("ab", channel="answer")).bind(dropping)
    begins, behind = bound.token_session(reasoning=False), bound.token_session()
    for token in (OPEN, CLOSE):
        behind.advance(token)
    assert left(begins) == [A, SPACE, AB]
    assert left(behind) == [A, AB]
    assert begins.kind != behind.kind


def test_idle_without_rules() -> None:
    assert start(make_reasoning(), SHOWN).is_idle
    assert not start(make_reasoning(ban("a", channel="reasoning")), SHOWN).is_idle
