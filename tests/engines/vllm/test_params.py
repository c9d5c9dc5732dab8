"""What happens to a request in the API process: refusals, the reserved key, the minimum length."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from vllm import SamplingParams

from policyengine.engines.vllm.params import validate
from policyengine.runtime.errors import RequestError
from policyengine.runtime.program import AllowPlan, ForcePlan, MinTokensPlan, Param, ParameterPlan, Program, WhenPlan
from tests.engines.vllm.programs import avoid, policy, program
from tests.session_programs import Rule, make

PIN = program(
    [policy("pin", "always", [ParameterPlan("target_token", "token_id")])],
    [(0, ForcePlan(None, Param("target_token"), "every"))],
)
LONG = program(
    [
        policy("house", "always"),
        policy("long", parameters=[ParameterPlan("min_len", "integer", default=7)]),
        policy("elsewhere", "always", targets=("trtllm-llm",)),
    ],
    [(0, MinTokensPlan(3)), (1, MinTokensPlan(Param("min_len"))), (2, MinTokensPlan(50))],
)
BANS = program([policy("bans")], [(0, avoid(3))])


def checked(compiled: Program, **settings: Any) -> SamplingParams:
    params = SamplingParams(**settings)
    validate(compiled, params, "cpu")
    return params


class InputProcessor:
    """Stands where vLLM's class of that name does: it owns the configuration and calls the check."""

    def __init__(self, logprobs_mode: str, compiled: Program = BANS) -> None:
        self.model_config, self._program = SimpleNamespace(logprobs_mode=logprobs_mode), compiled

    def check(self, params: SamplingParams) -> None:
        (lambda: validate(self._program, params, "cpu"))()


@pytest.mark.parametrize("value", ["x", "128", [128], 1.5, True, -1])
def test_wrong_parameter_is_refused_by_name(value: object) -> None:
    """The message names the parameter; vLLM makes a 400 of any ValueError."""
    with pytest.raises(RequestError, match="target_token") as caught:
        checked(PIN, extra_args={"target_token": value})
    assert isinstance(caught.value, ValueError)


def test_other_keys_and_absent_arguments_pass() -> None:
    """Keys that are not ours are left alone."""
    assert checked(PIN).extra_args is None
    assert checked(PIN, extra_args={"kv_transfer": 1}).extra_args == {"kv_transfer": 1}


def test_reserved_key_of_a_client_is_deleted() -> None:
    """Only the server may assign; the client's dictionary itself is not changed."""
    mine = {"policyengine_assigned": ["house"], "target_token": 5}
    assert checked(PIN, extra_args=mine).extra_args == {"target_token": 5}
    assert "policyengine_assigned" in mine


@pytest.mark.parametrize(
    ("settings", "least"),
    [
        ({}, 3),
        ({"extra_args": {"policies": ["long"]}}, 7),
        ({"extra_args": {"policies": ["long"], "min_len": 12}}, 12),
        ({"extra_args": {"policies": ["long"], "min_len": 1}}, 3),
        ({"extra_args": {"policies": ["long"], "min_len": 400}}, 16),
        ({"min_tokens": 9}, 9),
        ({"max_tokens": 2}, 2),
        ({"max_tokens": None, "extra_args": {"policies": ["long"], "min_len": 400}}, 400),
    ],
)
def test_minimum_length_holds_back_stop_strings_too(settings: dict[str, Any], least: int) -> None:
    """`min_tokens` becomes the largest that applies here, but never more than `max_tokens` (16 by default)."""
    assert checked(LONG, **settings).min_tokens == least


@pytest.mark.parametrize("asked", [{"logprobs": 5}, {"logprobs": -1}, {"logprob_token_ids": [3]}])
def test_logprobs_that_would_show_banned_tokens_are_refused(asked: dict[str, Any]) -> None:
    """Raw logprobs are taken before the policies act; where the mode cannot be seen, it counts as raw."""
    banned = SamplingParams(extra_args={"policies": ["bans"]}, **asked)
    with pytest.raises(RequestError, match=r"--logprobs-mode processed_logprobs"):
        InputProcessor("raw_logprobs").check(banned)
    with pytest.raises(RequestError, match="logprobs"):
        validate(BANS, banned, "cpu")
    InputProcessor("processed_logprobs").check(banned)
    InputProcessor("raw_logprobs").check(SamplingParams(**asked))  # runs under no ban


def test_the_chosen_tokens_own_logprob_is_never_refused() -> None:
    """It shows nothing that was withheld."""
    InputProcessor("raw_logprobs").check(SamplingParams(extra_args={"policies": ["bans"]}, logprobs=0))


def test_forces_that_clash_are_refused() -> None:
    """Two policies that a request may combine, and that want different tokens at one position."""
    compiled = program(
        [policy("pin", "always", [ParameterPlan("target_token", "token_id")]), policy("prefix")],
        [(0, ForcePlan(None, Param("target_token"), "every")), (1, ForcePlan("rice", None, "start"))],
    )
    checked(compiled, extra_args={"target_token": 3})
    checked(compiled, extra_args={"policies": ["prefix"]})
    with pytest.raises(RequestError, match=r"pin/.* and prefix/.* force different tokens"):
        checked(compiled, extra_args={"policies": ["prefix"], "target_token": 3})


def test_a_text_to_be_forced_that_a_ban_never_lets_through() -> None:
    """A client hears of it at once, although this process knows no tokens: the text itself is read."""
    compiled = program(
        [policy("greet", "always", [ParameterPlan("greeting", "string")]), policy("no-rice")],
        [(0, ForcePlan(Param("greeting"), None, "start"))],
        bans=[(1, ["rice"])],
    )
    checked(compiled, extra_args={"greeting": "the rice"})
    checked(compiled, extra_args={"greeting": "the ri", "policies": ["no-rice"]})
    with pytest.raises(RequestError, match=r"parameter 'greeting': no-rice/r1 forbids what the text holds"):
        checked(compiled, extra_args={"greeting": "the Rice", "policies": ["no-rice"]})


def test_a_minimum_of_the_reasoning_is_none_of_the_output() -> None:
    """An output that does not reason may be as short as it likes; the answer's minimum is one of the output."""
    marks = ("<think>", "</think>")
    for channel, least in (("reasoning", 0), ("answer", 5), ("all", 5)):
        compiled = make(Rule(MinTokensPlan(5), channel), reasoning=marks)  # type: ignore[arg-type]
        assert checked(compiled).min_tokens == least


def test_scripts_that_are_not_allowed_are_withheld_like_bans() -> None:
    """Other allows choose among what the model may say, and its alternatives may be seen."""
    InputProcessor("raw_logprobs", make(AllowPlan(choices=("yes", "no")))).check(SamplingParams(logprobs=5))
    scripts = InputProcessor("raw_logprobs", make(AllowPlan(scripts=("[^a]",))))
    with pytest.raises(RequestError, match="logprobs"):
        scripts.check(SamplingParams(logprobs=5))


def where(compiled: Program, *conditions: WhenPlan) -> Program:
    """The program with a condition for each of its rules."""
    rules = tuple(replace(rule, when=when) for rule, when in zip(compiled.rules, conditions, strict=True))
    return replace(compiled, rules=rules)


class Serving(InputProcessor):
    """The same, for a model."""

    def __init__(self, name: str, compiled: Program) -> None:
        super().__init__("processed_logprobs", compiled)
        self.model_config.served_model_name = name


ACME, OTHER = WhenPlan(model=("acme-*",)), WhenPlan(model=("other",))


def test_a_minimum_for_another_model_is_not_asked_of_the_engine() -> None:
    """Where the model cannot be seen, the worker alone decides."""
    compiled = where(program([policy("long", "always")], [(0, MinTokensPlan(5))]), ACME)
    for name, least in (("acme-7b", 5), ("other", 0)):
        params = SamplingParams()
        Serving(name, compiled).check(params)
        assert params.min_tokens == least
    assert checked(compiled).min_tokens == 0
    digest = where(compiled, WhenPlan(vocabulary=("0" * 8,)))
    assert checked(digest).min_tokens == 0


def test_forces_clash_only_where_they_meet() -> None:
    bodies = [(0, ForcePlan(None, 1, "start")), (0, ForcePlan(None, 2, "start"))]
    compiled = program([policy("p", "always")], bodies)
    with pytest.raises(RequestError, match="force different tokens"):
        checked(compiled)
    Serving("acme-7b", where(compiled, ACME, OTHER)).check(SamplingParams())
    with pytest.raises(RequestError, match="force different tokens"):
        Serving("acme-7b", where(compiled, ACME, WhenPlan())).check(SamplingParams())
    first, second = compiled.rules
    checked(replace(compiled, rules=(replace(first, channel="answer"), replace(second, channel="reasoning"))))
