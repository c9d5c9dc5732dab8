"""Forces and allows of one output, position by position, over a vocabulary of single letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from policyengine.automata.vocabulary import Vocabulary
from policyengine.runtime.errors import BindError, RequestError
from policyengine.runtime.program import AllowPlan, BiasPlan, ForcePlan, MinTokensPlan, Param, ParameterPlan, Program
from policyengine.runtime.token_session import TokenSession
from tests.oracle import Phrase
from tests.programs import program
from tests.session_programs import Rule, ban, ban_ids, choices, letters, make, policy
from tests.vocabularies import toy

EOS = 0
#          1..9        10      11      12
ABC = letters("abcdefgh ", b"ab", b"cd", b"")
A, B, C, D, E, F, G, H, SPACE, AB, CD, SILENT = range(1, 13)


def start(program: Program, history: Sequence[int] = (), vocabulary: Vocabulary = ABC, **options: Any) -> TokenSession:
    """A session after these tokens."""
    session = program.bind(vocabulary).token_session(**options)
    for token in history:
        session.advance(token)
    return session


def left(session: TokenSession, allowed: Sequence[int] | None = None) -> list[int]:
    """The ids that may be chosen; `allowed`: those that the engine permits, beside which EOS is a way out."""
    free = set(range(session.program.vocabulary.size)) - set(session.masked(allowed).tolist())
    return sorted(free if allowed is None else free.intersection(allowed)) or sorted(free)


def forced_text(session: TokenSession, most: int = 20) -> list[int]:
    """What is written while a force leaves no choice; stops where there is one, or behind EOS."""
    written: list[int] = []
    while len(written) < most and session.forced is not None and EOS not in written:
        assert left(session) == [session.forced]
        written.append(session.forced)
        session.advance(session.forced)
    assert session.masked_choices == 0
    return written


# -- allow: choices ------------------------------------------------------------------------------------------------


def test_choices_in_any_segmentation() -> None:
    session = start(make(choices("abcd", "ab", "e")))
    assert left(session) == [A, E, AB]
    for token, after in ((A, [B]), (B, [EOS, C, CD]), (C, [D]), (D, [EOS])):
        session.advance(token)
        assert left(session) == after
    assert session.masked_choices == 0


def test_choices_are_left_by_nothing_but_a_dead_end() -> None:
    """After a token that was masked only EOS remains, and the choice is counted."""
    session = start(make(choices("ab")), [C])
    assert session.masked_choices == 1
    assert left(session) == [EOS]


def test_zero_wide_tokens_do_not_stretch_a_choice() -> None:
    assert SILENT not in left(start(make(choices("ab")), [A]))


def test_stop_ids_end_a_choice_as_eos_does() -> None:
    """One without text where the choice is whole; one with text only if it is whole with the text and without."""
    session = start(make(choices("a", "ab", "abc")), [A], stop_token_ids=[SILENT, B, C])
    assert left(session) == [EOS, B, SILENT], "`a` and `ab` are both whole"
    assert left(start(make(choices("ab")), stop_token_ids=[SILENT, A])) == [AB], "to end with nothing is no choice"
    assert left(start(make(choices("ab")), [AB], stop_token_ids=[SILENT, A])) == [EOS, SILENT]


def test_choices_with_a_ban_are_dropped_whole() -> None:
    assert left(start(make(choices("abcd", "abef", "g"), ban("ef")), [A, B])) == [C, CD]
    # `ab` is no word of `abcd`, but no token may leave the text ending in it (eager).
    program = make(choices("abcd", "abef"), ban(Phrase("ab")), ban("ef"))
    with pytest.raises(BindError, match="test/r0: none of its choices is left under the other rules"):
        start(program)
    bridged = Vocabulary([*ABC.tokens, b"bc"], [EOS])
    assert left(start(program, vocabulary=bridged)) == [A]
    assert left(start(program, [A], bridged)) == [SILENT + 1]


def test_choices_lose_to_text_bans_too() -> None:
    """The text level would not let it through."""
    assert left(start(make(choices("ab", "cd"), ban("ab", action="terminate")))) == [C, CD]
    assert left(start(make(choices("ab", "cd"), ban(Phrase("ab"), action="redact")))) == [C, CD]


def test_no_way_leads_into_a_dead_end() -> None:
    """Banned ids, banned words and unspellable pieces are kept off the way before the first token of it."""
    assert left(start(make(choices("abcd", "e"), ban_ids(C, CD)))) == [E]
    lacking = Vocabulary([b"", b"a", b"ab", b"c", b"b", b"cd"], [0])
    assert left(start(make(choices("abcd", "ac")), [2], lacking)) == [5], "`c` would have to be followed by `d`"


def test_choices_intersect() -> None:
    assert left(start(make(choices("a", "b"), choices("b", "c")))) == [B]
    session = start(make(choices("ab", "cd"), AllowPlan(token_ids=(A, B, CD))))
    assert left(session) == [A, CD]


def test_choices_and_a_bias() -> None:
    """A bias moves choices against each other and nothing else."""
    session = start(make(choices("a", "b"), BiasPlan(((A, 2.0), (C, 9.0)))))
    assert left(session) == [A, B]
    assert session.biases() == {A: 2.0, C: 9.0}


def test_choices_have_room_under_max_tokens() -> None:
    """The last token under the limit ends the output: what cannot be finished any more is not begun."""
    program = make(choices("abcdab", "e"))
    assert left(start(program, max_tokens=4)) == [A, E, AB]
    assert left(start(program, [A], max_tokens=4)) == [B]
    assert left(start(program, max_tokens=3)) == [E, AB]
    assert left(start(program, max_tokens=2)) == [E]
    assert left(start(program, [AB], max_tokens=3)) == [CD]
    assert left(start(program, [AB, CD], max_tokens=3)) == [AB]
    with pytest.raises(RequestError, match="max_tokens is 1, and the shortest choice takes 2 tokens"):
        start(make(choices("abcd")), max_tokens=1)


def test_minimum_length_gives_way_to_a_finished_choice() -> None:
    session = start(make(choices("abcd"), MinTokensPlan(3)), [AB, CD])
    assert left(session) == [EOS]
    assert left(start(make(choices("abcd", "abcdab"), MinTokensPlan(3)), [AB, CD])) == [A, AB]


def test_a_leading_space_that_may_be_dropped() -> None:
    tokens = [b"", b"yes", b" yes", b" ", b"no", b"e", b"y", b"s"]
    program = make(choices("yes"))
    assert left(start(program, vocabulary=Vocabulary(tokens, [0], drops_leading_space=True))) == [1, 2, 3, 6]
    assert left(start(program, [3], Vocabulary(tokens, [0], drops_leading_space=True))) == [1, 6]
    assert left(start(program, vocabulary=Vocabulary(tokens, [0]))) == [1, 6]


def test_ignore_eos_does_not_keep_a_choice_from_ending() -> None:
    session = start(make(choices("ab")), [AB], ignore_eos=True)
    assert left(session) == [EOS]
    session.advance(EOS)
    assert left(session) == [EOS]


def test_nothing_left_of_the_choices() -> None:
    """What only a request brings together is the client's to mend."""
    plans = [policy("one"), policy("two")]
    both = {"policies": ["one", "two"]}
    program = make(choices("ab", "cd"), ban("a", "c", policy=1), policies=plans)
    assert left(start(program, request={"policies": ["one"]})) == [A, C, AB, CD]
    with pytest.raises(RequestError, match="one/r0: no choice is left under the other rules"):
        start(program, request=both)
    program = make(choices("ab", "cd"), choices("ef", policy=1), policies=plans)
    with pytest.raises(RequestError, match="one/r0 and two/r1: no choice is in all of them"):
        start(program, request=both)
    program = make(AllowPlan(token_ids=(A,)), Rule(AllowPlan(token_ids=(B,)), policy=1), policies=plans)
    with pytest.raises(RequestError, match="one/r0 and two/r1 have no token in common"):
        start(program, request=both)
    with pytest.raises(RequestError, match="no choice is left"):
        start(make(choices("a")), stop_token_ids=[A])


# -- allow: token ids and scripts ----------------------------------------------------------------------------------


def test_token_ids() -> None:
    session = start(make(AllowPlan(token_ids=(A, CD))), stop_token_ids=[B, SILENT])
    assert left(session) == [EOS, A, CD, SILENT], "what ends the output without text stays possible"
    assert left(start(make(AllowPlan(token_ids=(A, CD)), MinTokensPlan(1)))) == [A, CD]
    assert left(start(make(AllowPlan(token_ids=(A,)), ban_ids(B), ban("aa")), [A])) == [EOS]
    assert left(start(make(AllowPlan(token_ids=(A, B)), AllowPlan(token_ids=(B, C))))) == [EOS, B]


def test_scripts_mask_like_bans() -> None:
    """An expression for what they leave out stands for them here."""
    session = start(make(AllowPlan(scripts=("[^ab]",))))
    assert left(session) == [EOS, A, B, AB, SILENT]
    assert left(start(make(AllowPlan(scripts=("[^ab]",)), choices("ab", "cd")))) == [A, AB]


# -- force: start, every, a position -------------------------------------------------------------------------------


def test_a_text_of_the_request() -> None:
    plans = [policy("p", "always", ParameterPlan("greeting", "string", max_length=20))]
    program = make(ForcePlan(Param("greeting"), None, "start"), ban("ef"), policies=plans)
    assert forced_text(start(program, request={"greeting": "a b"})) == [A, SPACE, B]
    assert start(program).forced is None, "without a value the rule is inactive"
    assert start(program, request={"greeting": ""}).forced is None
    with pytest.raises(RequestError, match="cannot be written in the tokens of this model"):
        start(program, request={"greeting": "aß"})
    with pytest.raises(RequestError, match=r"parameter 'greeting': p/r1 forbids what the text holds"):
        start(program, request={"greeting": "def"})


def test_a_text_of_the_request_is_only_ever_text() -> None:
    """A tokenizer may read `<end>` as EOS: what it would write is not what was asked for."""
    plans = [policy("p", "always", ParameterPlan("said", "string"))]
    program = make(ForcePlan(Param("said"), None, "start"), policies=plans)
    reads = {"<end>": [EOS], "a": [A], "b": [SPACE, B], "c": [SILENT, C, EOS], "d": []}
    vocabulary = Vocabulary(ABC.tokens, [EOS], encode=reads.__getitem__)
    assert start(program, request={"said": "a"}, vocabulary=vocabulary).forced == A
    assert start(program, request={"said": "b"}, vocabulary=vocabulary).forced == SPACE, "as it writes a word"
    for said in ("<end>", "d", "e"):
        with pytest.raises(RequestError, match="cannot be written"):
            start(program, request={"said": said}, vocabulary=vocabulary)


@pytest.mark.parametrize(
    ("phrase", "at", "text", "refused"),
    [
        (Phrase("ab"), "start", "ab", True),  # eager
        (Phrase("ab"), "start", "ab c", True),
        (Phrase("ab"), 7, "ab c", False),  # a letter may stand before it
        (Phrase("ab"), 7, "c ab c", True),
        (Phrase("ab"), 7, "c ab", True),
        (Phrase("ab", word_end="exact"), 7, "c ab", False),  # a letter may follow
        (Phrase("ab", word_end="exact"), "end", "c ab", True),  # nothing follows
        (Phrase("ab"), "end", "ab", False),
        (Phrase("ab", "substring"), "end", "ab", True),
    ],
)
def test_what_a_ban_never_lets_through_is_refused(phrase: Phrase, at: Any, text: str, refused: bool) -> None:
    """Only what is certain; what the text before decides is left to the running output."""
    plans = [policy("p", "always", ParameterPlan("said", "string"))]
    program = make(ForcePlan(Param("said"), None, at), ban(phrase), policies=plans)
    if refused:
        with pytest.raises(RequestError, match="forbids what the text holds"):
            start(program, request={"said": text})
    else:
        start(program, request={"said": text})


# -- force: after --------------------------------------------------------------------------------------------------


def test_after_a_phrase_once() -> None:
    program = make(ForcePlan("cd", None, None, "ab"))
    session = start(program, [E, SPACE, A])
    assert session.forced is None
    session.advance(B)
    assert forced_text(session) == [C, D]
    for token in (SPACE, A, B):
        session.advance(token)
    assert session.forced is None, "once"
    assert session.masked_choices == 0


def test_after_acts_from_the_next_token() -> None:
    """Whatever else the token held that completed the phrase; a token id may be forced as well."""
    vocabulary = Vocabulary([b"", b"a", b"xaby", b"z"], [0])
    session = start(make(ForcePlan(None, 3, None, "ab")), [2], vocabulary)
    assert session.forced is None, "`ab` must begin at an edge"
    session = start(make(ForcePlan(None, 3, None, "xab")), [2], vocabulary)
    assert forced_text(session) == [3]


def test_after_waits_for_a_text_that_has_begun() -> None:
    """The phrase is completed inside a text at the start: first that text, then the other, back to back."""
    program = make(ForcePlan("abc", None, "start"), ForcePlan("d", None, None, "ab"))
    assert forced_text(start(program)) == [A, B, C, D]


def test_texts_after_several_phrases_follow_each_other() -> None:
    both = make(ForcePlan("cc", None, None, "ab"), ForcePlan("d", None, None, "ab"))
    assert forced_text(start(both, [A, B])) == [C, C, D]
    agree = make(ForcePlan("c", None, None, "ab"), ForcePlan("cd", None, None, "ab"), ForcePlan("cd", None, None, "ab"))
    assert forced_text(start(agree, [A, B])) == [C, D], "two that agree say it once"
    chain = make(ForcePlan("c", None, None, "ab"), ForcePlan("d", None, None, "abc"))
    assert forced_text(start(chain, [A, B])) == [C, D]
    inside = make(ForcePlan("cabe", None, None, "ab"), ForcePlan("d", None, None, "cab"))
    assert forced_text(start(inside, [A, B])) == [C, A, B, E], "`cab` begins at no edge"


def test_positions_and_texts_after_a_phrase() -> None:
    """A position that comes first is not passed over; one that a text under way covers is."""
    program = make(ForcePlan("ff", None, None, "ab"), ForcePlan(None, H, 2))
    assert forced_text(start(program, [A, B])) == [H, F, F], "position 2 is forced: the text waits"
    program = make(ForcePlan("ff", None, None, "ab"), ForcePlan(None, H, 3))
    assert forced_text(start(program, [A, B])) == [F, F], "the text has begun: position 3 is its own"


# -- force: end ----------------------------------------------------------------------------------------------------


def test_the_end_is_written_before_the_end() -> None:
    session = start(make(ForcePlan("cd", None, "end")), [A])
    assert session.stand_in is not None
    assert (session.stand_in.token, session.stand_in.sources.tolist()) == (C, [EOS])
    assert left(session) == [t for t in range(13) if t != EOS]
    session.advance(C)
    assert session.stand_in is None
    assert forced_text(session) == [D, EOS]


def test_all_ends_stand_for_the_text() -> None:
    """EOS, a second EOS, the client's stop ids; under `ignore_eos` only the latter."""
    program = make(ForcePlan("cd", None, "end"))
    two = Vocabulary(ABC.tokens, [EOS, H], encode=ABC.encode)
    session = start(program, vocabulary=two, stop_token_ids=[B])
    assert session.stand_in is not None
    assert session.stand_in.sources.tolist() == [EOS, B, H]
    session = start(program, vocabulary=two, stop_token_ids=[B], ignore_eos=True)
    assert session.stand_in is not None
    assert session.stand_in.sources.tolist() == [B]
    session.advance(C)
    session.advance(D)
    assert session.forced == B
    assert start(program, ignore_eos=True).stand_in is None


def test_where_the_output_may_not_end_nothing_stands_for_the_end() -> None:
    """Below the minimum, and inside a word that may not end there: its first token is a token like any other."""
    session = start(make(ForcePlan("cd", None, "end"), MinTokensPlan(2)), [A])
    assert session.stand_in is None
    session.advance(C)
    assert session.forced is None
    assert session.stand_in is not None
    session = start(make(ForcePlan("cd", None, "end"), ban(Phrase("ab", word_end="exact"))), [A, B])
    assert session.stand_in is None
    assert EOS not in left(session)


def test_inside_a_choice_the_text_of_the_end_is_a_part_of_it() -> None:
    program = make(choices("aca", "acac"), ForcePlan("c", None, "end"))
    session = start(program, [A])
    assert session.stand_in is None
    session.advance(C)
    assert session.forced is None
    session.advance(A)
    assert left(session) == [C]
    session.advance(C)
    assert forced_text(session) == [EOS]


def test_a_text_at_the_end_that_is_banned_here() -> None:
    """The ban wins: the output goes on until the text can be written. Where nothing is left, EOS is the way out."""
    program = make(ForcePlan("cd", None, "end"), ban("bc"))
    session = start(program, [B])
    assert left(session) == [A, B, D, E, F, G, H, SPACE, AB, SILENT]
    assert left(session, [EOS, C]) == [EOS]


def test_a_grammar_decides_whether_the_text_can_stand_for_the_end() -> None:
    session = start(make(ForcePlan("cd", None, "end")), [A])
    assert left(session, [EOS, C]) == [C]
    assert left(session, [C, D]) == [D], "no end is possible, so none is stood for"
    assert left(session, [EOS]) == [EOS], "a dead end"


def test_two_texts_at_the_end() -> None:
    agree = make(ForcePlan("c", None, "end"), ForcePlan("cd", None, "end"))
    assert forced_text(start(agree, [C])) == [D, EOS]
    plans = [policy("one"), policy("two")]
    clash = make(
        Rule(ForcePlan("c", None, "end"), policy=0), Rule(ForcePlan("d", None, "end"), policy=1), policies=plans
    )
    with pytest.raises(RequestError, match="two/r1 and another rule force different tokens at the end"):
        start(clash, request={"policies": ["one", "two"]})


def test_end_meets_the_other_forces() -> None:
    """A forced token is not the end; a phrase is waited for; in the closing text no phrase counts."""
    program = make(ForcePlan("cab", None, "end"), ForcePlan("ff", None, None, "ab"), ForcePlan("gh", None, "start"))
    session = start(program)
    assert session.stand_in is None
    assert forced_text(session) == [G, H]
    assert session.stand_in is not None
    assert forced_text(start(program, [G, H, AB])) == [], "`ab` begins at no edge"
    session = start(program, [G, H, SPACE, AB])
    assert session.stand_in is None
    assert forced_text(session) == [F, F]
    session = start(program, [G, H, C])
    assert forced_text(session) == [A, B, EOS]


def test_every_leaves_no_end() -> None:
    program = make(ForcePlan(None, A, "every"), ForcePlan("cd", None, "end"))
    assert start(program).stand_in is None
    assert forced_text(start(program), most=5) == [A] * 5


# -- all of them ---------------------------------------------------------------------------------------------------


def test_a_ban_wins_over_a_force() -> None:
    """Nothing is left but EOS, which is no banned token."""
    program = make(ForcePlan("cd", None, None, "ab"), ban("bcd"))
    session = start(program, [A, B])
    session.advance(C)
    assert session.forced == D
    assert left(session) == [EOS]


def test_choices_of_a_forced_start() -> None:
    session = start(make(choices("abcd", "e"), ForcePlan("ab", None, "start")))
    assert forced_text(session) == [A, B]
    assert left(session) == [C, CD]


def test_over_the_toy_vocabulary() -> None:
    """Case 5 is an error when it is compiled; here the force is the request's, and the ban wins."""
    plans = [policy("p", "always", ParameterPlan("said", "string"))]
    program = make(ForcePlan(Param("said"), None, "start"), ban("rice"), policies=plans)
    with pytest.raises(RequestError, match="forbids what the text holds"):
        start(program, request={"said": "the rice"}, vocabulary=toy())
    assert forced_text(start(program, request={"said": "the"}, vocabulary=toy())) == [1]


def test_states_are_comparable() -> None:
    """Equal where the rest of the output behaves alike, whatever came before; unequal where it does not."""
    bound = make(ForcePlan("cd", None, None, "ab"), ForcePlan(None, H, 1)).bind(ABC)
    states = []
    for history in ([E, H, E], [E, H, H, E], [AB, H, C, D, E], [A, H, SPACE, AB, C, D, E], [AB, H, C]):
        session = bound.token_session()
        for token in history:
            session.advance(token)
        states.append(session.state)
    assert states[0] == states[1]
    assert states[2] == states[3]
    assert states[2] != states[0], "it has acted and will not act again"
    assert states[4] != states[2], "it is not finished"


def test_a_negative_limit_is_refused() -> None:
    """With a message about the limit, whatever the rules."""
    with pytest.raises(RequestError, match="max_tokens is -1; it must not be negative"):
        program().bind(toy()).token_session(max_tokens=-1)
