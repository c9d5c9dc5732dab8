"""What binding refuses: rules that this vocabulary shows to be contradictory. And what it must let pass."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policyengine.automata.vocabulary import Vocabulary
from policyengine.runtime.errors import BindError
from policyengine.runtime.program import BiasPlan, ForcePlan, MinTokensPlan, RuleBody, WhenPlan
from tests.oracle import Phrase
from tests.programs import program

VOCABULARY = Vocabulary(
    [b"", b"a", b"b", b"ab", b" a", b"c"], [0], encode=lambda text: ["_ab".index(ch) for ch in text]
)
ANYWHERE = "substring"


@pytest.mark.parametrize(
    ("bodies", "ban"),
    [
        pytest.param([ForcePlan(None, 1, "start")], Phrase("a", ANYWHERE), id="a token that is the phrase"),
        pytest.param([ForcePlan(None, 3, 7)], Phrase("b", ANYWHERE), id="a token that holds it, wherever it stands"),
        pytest.param([ForcePlan(None, 4, 7)], Phrase("a"), id="a word with a space before it, wherever it stands"),
        pytest.param(
            [ForcePlan(None, 1, 0), ForcePlan(None, 2, 1)], Phrase("ab", ANYWHERE), id="tokens that spell it together"
        ),
        pytest.param([ForcePlan(None, 1, "every")], Phrase("aaa", ANYWHERE), id="a token that spells it in the end"),
        pytest.param([ForcePlan("ab", None, "start")], Phrase("ab", ANYWHERE), id="a text that holds it"),
    ],
)
def test_forced_and_banned(bodies: list[RuleBody], ban: Phrase) -> None:
    """The error names both rules, and says which one to look at."""
    with pytest.raises(BindError, match=r"test/r\d forces .* phrase that test/banned bans") as caught:
        program(*bodies, bans=[ban]).bind(VOCABULARY)
    assert caught.value.rule.startswith("test/r")


@pytest.mark.parametrize(
    ("bodies", "ban"),
    [
        pytest.param([ForcePlan(None, 1, 7)], Phrase("a"), id="a word only if it stands alone there"),
        pytest.param([ForcePlan(None, 1, 0), ForcePlan(None, 2, 2)], Phrase("ab", ANYWHERE), id="a free token between"),
    ],
)
def test_forces_that_may_hold(bodies: list[RuleBody], ban: Phrase) -> None:
    """What the text before decides is left to the running output, where the ban wins."""
    session = program(*bodies, bans=[ban]).bind(VOCABULARY).token_session()
    for _ in range(bodies[-1].at if isinstance(bodies[-1], ForcePlan) and isinstance(bodies[-1].at, int) else 0):
        session.advance(5 if session.forced is None else session.forced)
    (left,) = set(range(6)) - set(session.masked().tolist())
    assert left == session.forced


def test_forced_end_and_minimum_length() -> None:
    """EOS forced where a minimum length still forbids it; later it may be forced."""
    with pytest.raises(BindError, match="test/r0 forces the end of an output that test/r1 lengthens"):
        program(ForcePlan(None, 0, 2), MinTokensPlan(3)).bind(VOCABULARY)
    program(ForcePlan(None, 0, 3), MinTokensPlan(3)).bind(VOCABULARY)


@pytest.mark.parametrize(
    ("when", "acts"),
    [
        (WhenPlan(), True),
        (WhenPlan(device=("cpu",)), True),
        (WhenPlan(device=("cuda", "xpu")), False),
        (WhenPlan(model=("other", "acme-*")), True),
        (WhenPlan(model=("ACME-*",)), False),
        (WhenPlan(model=("acme",)), False),
        (WhenPlan(vocabulary=(VOCABULARY.digest[:8], "0" * 8)), True),
        (WhenPlan(vocabulary=(VOCABULARY.digest,)), True),
        (WhenPlan(vocabulary=("f" * 64,)), False),
        (WhenPlan(("cpu",), ("acme-7b",), (VOCABULARY.digest[:12],)), True),
        (WhenPlan(("cpu",), ("other",), (VOCABULARY.digest[:12],)), False),
    ],
)
def test_a_rule_acts_only_where_all_it_asks_for_holds(when: WhenPlan, acts: bool) -> None:
    made = program(MinTokensPlan(3))
    made = replace(made, rules=(replace(made.rules[0], when=when),))
    bound = made.bind(VOCABULARY, device="cpu", model="acme-7b")
    assert bool(bound.rules) == acts
    assert (0 in bound.token_session().masked()) == acts


@pytest.mark.parametrize("when", [WhenPlan(device=("cpu",)), WhenPlan(model=("*",))])
def test_facts_that_are_not_known_switch_nothing_on(when: WhenPlan) -> None:
    made = program(MinTokensPlan(3))
    made = replace(made, rules=(replace(made.rules[0], when=when),))
    assert not made.bind(VOCABULARY).rules


def test_a_forced_text_that_the_tokenizer_cannot_encode_names_the_rule() -> None:
    """Whatever the tokenizer raises."""
    with pytest.raises(BindError, match=r"test/r0: the tokenizer cannot encode the forced text `xyz`") as caught:
        program(ForcePlan("xyz", None, "start")).bind(VOCABULARY)
    assert caught.value.rule == "test/r0"


@pytest.mark.parametrize("body", [ForcePlan(None, 2, "start"), BiasPlan(((2, 1.0),))], ids=["force", "bias"])
def test_a_padding_id_is_nothing_to_write(body: RuleBody) -> None:
    """A model that is pushed towards one would write what stands for nothing."""
    with pytest.raises(BindError, match="test/r0: token id 2 stands for nothing"):
        program(body).bind(Vocabulary([b"", b"a", None], [0]))
