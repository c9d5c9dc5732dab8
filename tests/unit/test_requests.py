"""What a request may ask for: selection, parameters, and the one line a client gets for a mistake."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import policyengine as pe
from policyengine.requests import build_parser, request_schema
from policyengine.runtime.errors import RequestError
from policyengine.runtime.program import ParameterPlan, PolicyPlan

TOKEN = ParameterPlan("target_token", "token_id", description="the token to repeat")
MIN_LEN = ParameterPlan("min_len", "integer", default=0, ge=0.0, le=4096.0)
WEIGHT = ParameterPlan("weight", "number", ge=-2.5, le=2.5)
MOOD = ParameterPlan("mood", "string", choices=("calm", "bold"))
OPENING = ParameterPlan("opening", "string", max_length=4, default="Hi")


def policy(name: str, *parameters: ParameterPlan, activation: Any = "always") -> PolicyPlan:
    return PolicyPlan(name, f"{name}.yaml", "", "", activation, ("vllm",), parameters)


POLICIES = (
    policy("base", MIN_LEN, OPENING),
    policy("pinned", TOKEN, activation="on_request"),
    policy("tone", WEIGHT, MOOD, activation="on_request"),
    policy("tenant", activation="assigned"),
)
parse = build_parser(POLICIES)


def refusal(extra_args: Any, parser: Any = parse) -> str:
    with pytest.raises(RequestError) as caught:
        parser(extra_args)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("extra_args", [None, {}])
def test_without_arguments_the_always_policies_run_with_their_defaults(extra_args: Any) -> None:
    request = parse(extra_args)
    assert request.policies == {0}
    assert request.values == {"min_len": 0, "opening": "Hi"}


def test_selection_adds_policies_and_their_parameters() -> None:
    request = parse({"policies": ["pinned"], "target_token": 128, "min_len": 7})
    assert request.policies == {0, 1}
    assert request.values == {"min_len": 7, "opening": "Hi", "target_token": 128}


def test_a_parameter_without_default_and_value_is_absent() -> None:
    assert "target_token" not in parse({"policies": ["pinned"]}).values


def test_naming_an_always_policy_changes_nothing() -> None:
    assert parse({"policies": ["base", "base"]}) == parse(None)


def test_keys_that_are_not_ours_are_left_alone() -> None:
    assert parse({"kv_transfer_params": {"a": 1}, "seed": "x", 5: 6}) == parse(None)  # type: ignore[dict-item]


def test_what_a_client_writes_into_the_servers_key_counts_for_nothing() -> None:
    assert parse({"policyengine_assigned": ["tenant"]}) == parse(None)


@pytest.mark.parametrize(
    ("key", "meant"),
    [("policy", "policies"), ("Policies", "policies"), ("polices", "policies"), ("target-token", "target_token")],
)
def test_a_near_miss_of_our_keys_is_an_error(key: str, meant: str) -> None:
    assert refusal({key: 1}) == f"unknown key {key!r}: did you mean {meant!r}?"


@pytest.mark.parametrize(
    "key", ["policyengine_asigned", "policyengine-assigned", "PolicyEngine_Assigned", "policyengine_assign"]
)
def test_a_near_miss_of_the_servers_key_is_an_error(key: str) -> None:
    """Nothing a client writes there counts, so that there is nothing to correct it to."""
    assert refusal({key: ["tenant"]}) == f"unknown key {key!r}: 'policyengine_assigned' is the server's, remove it"


def test_a_near_miss_is_seen_however_a_parameter_is_spelt() -> None:
    """Capitals and hyphens of our own names do not hide it."""
    parser = build_parser((policy("a", ParameterPlan("X-Y", "integer")),))
    assert refusal({"x_y": 1}, parser) == "unknown key 'x_y': did you mean 'X-Y'?"
    assert parser({"X-Y": 1}).values == {"X-Y": 1}


@pytest.mark.parametrize("value", ["128", "x", True, None, 1.5, math.nan, math.inf, [128], {}, -1, 2**31])
def test_a_token_id_is_an_integer_and_nothing_else(value: Any) -> None:
    assert "parameter 'target_token'" in refusal({"policies": ["pinned"], "target_token": value})


def test_a_number_too_long_to_print_is_refused() -> None:
    assert "parameter 'target_token'" in refusal({"policies": ["pinned"], "target_token": 10**5000})


def test_an_integral_float_is_an_integer() -> None:
    value = parse({"policies": ["pinned"], "target_token": 128.0}).values["target_token"]
    assert value == 128
    assert type(value) is int


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"min_len": -1}, "parameter 'min_len': must be at least 0, got -1"),
        ({"min_len": 4097}, "parameter 'min_len': must be at most 4096, got 4097"),
        ({"min_len": "12"}, "parameter 'min_len': must be an integer, got '12'"),
        ({"opening": "Hello"}, "parameter 'opening': must have at most 4 characters, got 'Hello'"),
        ({"opening": 4}, "parameter 'opening': must be a string, got 4"),
        ({"policies": ["tone"], "weight": True}, "parameter 'weight': must be a number, got True"),
        ({"policies": ["tone"], "weight": math.nan}, "parameter 'weight': must be a finite number, got nan"),
        ({"policies": ["tone"], "mood": "sad"}, "parameter 'mood': must be 'calm' or 'bold', got 'sad'"),
        (
            {"policies": ["nope"]},
            "unknown policy 'nope': a request may select 'pinned', 'tone'",
        ),
        (
            {"policies": ["tenant"]},
            "policy 'tenant' is assigned by the server, not by a request: a request may select 'pinned', 'tone'",
        ),
        ({"policies": "pinned"}, "'policies' must be a list of policy names, not 'pinned'"),
        ({"policies": [1]}, "'policies' must be a list of policy names, not [1]"),
        (
            {"target_token": 3},
            "parameter 'target_token' belongs to 'pinned', which this request does not select: name it in 'policies'",
        ),
        ([], "extra_args must be a mapping, not []"),
    ],
)
def test_messages(arguments: Any, message: str) -> None:
    assert refusal(arguments) == message


def test_a_number_may_be_written_without_a_point() -> None:
    assert parse({"policies": ["tone"], "weight": 2}).values["weight"] == 2.0


def test_a_long_value_is_shortened() -> None:
    assert len(refusal({"min_len": "9" * 10_000})) < 200


def test_one_value_serves_every_policy_that_declares_the_parameter() -> None:
    both = build_parser((policy("a", MIN_LEN), policy("b", ParameterPlan("min_len", "integer", default=0, le=10.0))))
    assert both({"min_len": 10}).values == {"min_len": 10}
    assert "must be at most 10" in refusal({"min_len": 11}, both)


def test_defaults_that_differ_must_be_settled_by_the_request() -> None:
    other = policy("b", ParameterPlan("min_len", "integer", default=5), activation="on_request")
    both = build_parser((policy("a", MIN_LEN), other))
    assert both(None).values == {"min_len": 0}
    assert "different defaults" in refusal({"policies": ["b"]}, both)
    assert both({"policies": ["b"], "min_len": 3}).values == {"min_len": 3}


def test_parameter_names_cannot_clash_with_the_models_own_names() -> None:
    names = ["copy", "json", "model_config", "_private", "schema", "p0", "class"]
    parser = build_parser((policy("a", *(ParameterPlan(name, "integer") for name in names)),))
    assert parser(dict.fromkeys(names, 1)).values == dict.fromkeys(names, 1)


def test_the_schema_describes_what_the_parser_takes() -> None:
    properties = request_schema(POLICIES)["properties"]
    assert properties["policies"]["items"]["enum"] == ["pinned", "tone"]
    assert properties["target_token"] == {
        "description": "the token to repeat",
        "maximum": 2**31 - 1,
        "minimum": 0,
        "type": "integer",
    }
    assert properties["min_len"] == {"default": 0, "maximum": 4096, "minimum": 0, "type": "integer"}
    assert properties["mood"] == {"enum": ["calm", "bold"], "type": "string"}


def test_the_schema_lists_both_forms_of_a_shared_parameter() -> None:
    schema = request_schema((policy("a", MIN_LEN), policy("b", ParameterPlan("min_len", "integer"))))
    assert len(schema["properties"]["min_len"]["anyOf"]) == 2
    assert "policies" not in schema["properties"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner), max_leaves=4
)


@given(
    st.dictionaries(
        st.sampled_from(["policies", "target_token", "min_len", "weight", "mood", "opening", "polices", "other"]),
        json_values | st.lists(st.sampled_from(["base", "pinned", "tone", "tenant"])),
    )
)
def test_whatever_a_client_sends_is_checked_or_refused_in_one_line(extra_args: dict[str, Any]) -> None:
    try:
        request = parse(extra_args)
    except RequestError:
        message = refusal(extra_args)
        assert 0 < len(message) < 400
    else:
        assert 0 in request.policies
        assert 3 not in request.policies
        assert 0 <= request.values["min_len"] <= 4096  # type: ignore[operator]


def test_a_text_without_a_limit_has_the_one_of_the_language(tmp_path: Path) -> None:
    """A client may not send what a policy may not hold: reading it would stop the engine for everybody."""
    (tmp_path / "p.yaml").write_text(
        "version: 1\npolicy: p\nactivation: on_request\nparameters: {opening: {type: string}}\n"
        "rules: {r: {force: {text: {param: opening}, at: start}}}\n"
    )
    program = pe.compile(pe.load(tmp_path))
    with pytest.raises(pe.RequestError, match="at most 65536 characters"):
        program.text_session({"policies": ["p"], "opening": "x" * 65_537})
    program.text_session({"policies": ["p"], "opening": "x" * 65_536})
