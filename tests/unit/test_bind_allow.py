"""What binding refuses of allows and of forces that meet them, each other, or a ban; and what it must let pass."""

from __future__ import annotations

from typing import Any

import pytest

from policyengine.automata.vocabulary import Vocabulary
from policyengine.runtime.errors import BindError
from policyengine.runtime.program import AllowPlan, ForcePlan, MinTokensPlan, Param
from tests.oracle import Phrase
from tests.session_programs import Rule, ban, ban_ids, choices, letters, make, policy

ABC = letters("abcdef ", b"ab")
A, B, C, D, E, F, SPACE, AB = range(1, 9)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        pytest.param([AllowPlan(token_ids=(A, 9))], "r0: token id 9 is outside", id="an id that is not there"),
        pytest.param([choices("ab", "xy")], "r0: this vocabulary cannot write the choice `xy`", id="unspellable"),
        pytest.param([AllowPlan(token_ids=(A,)), ban_ids(A)], "r0: none of its tokens is left", id="all ids banned"),
        pytest.param(
            [AllowPlan(token_ids=(A,)), AllowPlan(token_ids=(B,))], "r1: none of its tokens is left", id="two lists"
        ),
        pytest.param([choices("a"), choices("b")], "r1: none of its choices is left", id="two sets of choices"),
        pytest.param([choices("ab"), ban("b")], "r0: none of its choices is left", id="all choices banned"),
        pytest.param(
            [choices("ab"), ban(Phrase("ab"), action="block")], "r0: none of its choices", id="banned in the text"
        ),
        pytest.param([choices("ab"), AllowPlan(token_ids=(A,))], "r0: none of its choices", id="not in the ids"),
        pytest.param([choices("ab"), AllowPlan(scripts=("[^a]",))], "r0: none of its choices", id="not in the scripts"),
        pytest.param(
            [choices("ab", "abc"), MinTokensPlan(4)],
            "r0: no choice takes more than 3 tokens, and test/r1 asks for 4",
            id="too short for the minimum",
        ),
        pytest.param(
            [ForcePlan("ac", None, "start"), choices("ab")],
            "r0 forces `ac`, with which no choice of test/r1 begins",
            id="a start that is no choice",
        ),
        pytest.param(
            [ForcePlan(None, A, "every"), choices("ab")], "r0 forces token 1, with which no choice", id="every"
        ),
        pytest.param(
            [ForcePlan("c", None, "end"), choices("a", "b")],
            "r0 forces `c` behind the choices of test/r1",
            id="an end that makes it no choice",
        ),
        pytest.param(
            [ForcePlan("ab", None, 3), AllowPlan(token_ids=(A, AB))],
            "r0 forces `ab`, which test/r1 does not allow",
            id="a text of other ids",
        ),
        pytest.param(
            [ForcePlan("d ab c", None, None, "d"), ban(Phrase("ab"))],
            "r0 forces `d ab c`, which holds a phrase that test/r1 bans",
            id="after a phrase, what is banned",
        ),
        pytest.param(
            [ForcePlan("d ab", None, "end"), ban(Phrase("ab", word_end="exact"))],
            "r0 forces `d ab`, which holds a phrase that test/r1 bans",
            id="an end that may not be one",
        ),
        pytest.param(
            [ForcePlan(None, D, "end"), ban_ids(D)], "r0 forces token 4, which test/r1 bans", id="a banned id"
        ),
        pytest.param(
            [ForcePlan("c", None, "start"), AllowPlan(scripts=("[^ab]",))],
            "r0 forces `c`, which holds what test/r1 does not allow",
            id="a text in other scripts",
        ),
        pytest.param(
            [ForcePlan(None, D, "end"), ForcePlan("ab", None, "end")],
            "r1 and another rule force different tokens at the end",
            id="two ends",
        ),
        pytest.param(
            [ForcePlan("ab", None, "start"), ForcePlan(None, C, 1)],
            "r1 and another rule force different tokens at position 1",
            id="two positions",
        ),
    ],
)
def test_contradictions(rules: list[Any], message: str) -> None:
    with pytest.raises(BindError, match=f"test/{message}") as caught:
        make(*rules).bind(ABC)
    assert caught.value.rule == f"test/{message[:2]}"


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param([AllowPlan(token_ids=(A,)), ForcePlan(None, 0, 3)], id="EOS is always allowed"),
        pytest.param([choices("ab", "cd"), ban("a")], id="a choice is left"),
        pytest.param([choices("ab", "abc"), MinTokensPlan(3)], id="long enough in some tokens"),
        pytest.param([ForcePlan("ab", None, "start"), choices("abc")], id="a choice begins so"),
        pytest.param([ForcePlan("c", None, "end"), choices("ab", "abc")], id="a choice with it and without"),
        pytest.param([ForcePlan("ab", None, None, "d"), ban(Phrase("ab"))], id="a word only if nothing joins it"),
        pytest.param([ForcePlan("a", None, "end"), ForcePlan("ab", None, "end")], id="ends that agree"),
        pytest.param([ForcePlan(None, A, "every"), ForcePlan("cd", None, "end")], id="an end that never comes"),
        pytest.param([ForcePlan(None, Param("x"), "start"), choices("ab")], id="what a request decides"),
    ],
)
def test_what_may_hold(rules: list[Any]) -> None:
    make(*rules).bind(ABC)


def test_only_what_is_certain_to_meet() -> None:
    """Policies that a request may combine or not are the request's matter; each must hold beside what always acts."""
    plans = [policy("always", "always"), policy("one"), policy("two")]
    one, two = choices("ab", "cd", policy=1), choices("ef", policy=2)
    make(one, two, policies=plans).bind(ABC)
    with pytest.raises(BindError, match="one/r0: none of its choices is left"):
        make(one, two, ban("b", "d", policy=0), policies=plans).bind(ABC)


def test_channels_that_do_not_meet() -> None:
    """A ban of the reasoning says nothing about a choice, or a text, of the answer."""
    marks = ("<", ">")
    make(choices("ab", channel="answer"), ban("a", channel="reasoning"), reasoning=marks).bind(ABC)
    make(Rule(ForcePlan("ab", None, "start"), "answer"), ban("a", channel="reasoning"), reasoning=marks).bind(ABC)
    for channel in ("answer", "all"):
        with pytest.raises(BindError, match="none of its choices"):
            make(choices("ab", channel="answer"), ban("a", channel=channel), reasoning=marks).bind(ABC)
        with pytest.raises(BindError, match="which holds a phrase that test/r1 bans"):
            make(Rule(ForcePlan("ab", None, "start"), "answer"), ban("a", channel=channel), reasoning=marks).bind(ABC)


def test_a_choice_that_only_a_leading_space_spells() -> None:
    """Where a decoder drops it, a choice may be written with a space before it."""
    tokens = [b"", b" yes", b"no"]
    make(choices("yes", "no")).bind(Vocabulary(tokens, [0], drops_leading_space=True))
    with pytest.raises(BindError, match="cannot write the choice `yes`"):
        make(choices("yes", "no")).bind(Vocabulary(tokens, [0]))
