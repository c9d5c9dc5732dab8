"""The token level explained: its masks are a session's, and the rules that it names are those that mask."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import policyengine as pe
from policyengine.automata.vocabulary import Vocabulary
from policyengine.review.explain import explain
from policyengine.review.explain_tokens import TokensExplained, spell
from tests.unit.review.explaining import bans, policies

EOS = 0
TOKENS: list[bytes | None] = [
    *(b"", b"a", b"b", b"1", b" ", b"-", b"ab", b" a", b"A", b"B1", "é".encode(), b"\xc3", b"\xa9", b"a\xc3"),
    *(None, b"", b"</s>", b" ab"),
]
BY_TEXT = {data: i for i, data in enumerate(TOKENS) if data}
VOCABULARY = Vocabulary(TOKENS, [EOS, 16], encode=lambda text: [BY_TEXT[ch.encode()] for ch in text])
IDS = st.lists(st.integers(0, len(TOKENS) - 1), max_size=8)
TOKEN_RULES = st.sampled_from(
    [
        {"ban": {"token_ids": [3, 6]}},
        {"min_tokens": 3},
        {"bias": {"phrases": {"ab": 2, "1": -1}, "token_ids": {2: 1.5}}},
    ]
)
STEERING = st.sampled_from(
    [
        {"force": {"text": "ab", "at": "start"}},
        {"force": {"token_id": 2, "at": 3}},
        {"force": {"text": "b", "after": "a1"}},
        {"force": {"text": "1", "at": "end"}},
        {"allow": {"choices": ["ab", "a 1", "b"]}},
        {"allow": {"token_ids": [1, 2, 3, 4]}},
    ]
)


def rule_sets(*kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    rules = st.lists(st.one_of(bans(st.sampled_from(["avoid", "redact"])), *kinds), min_size=1, max_size=4)
    return rules.map(lambda found: {f"r{i}": rule for i, rule in enumerate(found)})


def told(rules: dict[str, Any], ids: list[int], request: dict[str, Any] | None = None, **more: Any) -> TokensExplained:
    found = explain(policies(rules, **more), ids, request, vocabulary=VOCABULARY).tokens
    assert found is not None
    return found


@settings(max_examples=100, deadline=None)
@given(rule_sets(TOKEN_RULES, STEERING), IDS, st.booleans())
def test_its_masks_are_those_of_a_session(rules: dict[str, Any], ids: list[int], reasons: bool) -> None:
    project = {"reasoning": {"start": "A", "end": "B1"}} if reasons else None
    try:
        given_policies = policies(rules, project)
        session = pe.compile(given_policies).bind(VOCABULARY).token_session()
    except (pe.PolicyError, pe.BindError, pe.RequestError):
        return
    found = told(rules, ids, project=project)
    for step in found.steps:
        masked = session.masked()
        assert step.masked.tolist() == masked.tolist()
        assert step.forced == session.forced
        assert step.may_end == bool({EOS, 16} - set(masked.tolist()))
        if step.token is not None:
            assert step.is_masked == (step.token in masked)
            assert step.bias == session.biases().get(step.token, 0.0)
            assert sum(value for _, value in step.pushed) == pytest.approx(step.bias)
            session.advance(step.token)
    ends = [at for at, token in enumerate(ids) if token in (EOS, 16)]
    assert found.ended == bool(ends)
    assert len(found.steps) == (ends[0] if ends else len(ids)) + 1


@settings(max_examples=100, deadline=None)
@given(rule_sets(TOKEN_RULES), IDS)
def test_without_the_rules_that_it_names_the_token_is_free(rules: dict[str, Any], ids: list[int]) -> None:
    """Bans, minima and biases: what is masked is masked by rules that are named, and by no others."""
    try:
        found = told(rules, ids)
    except (pe.PolicyError, pe.BindError):
        return
    for at, step in enumerate(found.steps):
        if step.token is None or step.only_eos:
            continue
        named = {known.name.removeprefix("a/") for known in step.refused}
        assert not any(rules[name].get("mode") for name in named)
        assert bool(named) == step.is_masked
        for kept in (set(rules) - named, *({one} for one in named)):
            session = (
                pe.compile(policies({name: rules[name] for name in kept})).bind(VOCABULARY).token_session()
                if kept
                else None
            )
            if session is None:
                continue
            for token in ids[:at]:
                session.advance(token)
            masked = session.masked().tolist()
            if len(masked) < len(TOKENS) - 1:
                assert (step.token in masked) == (kept <= named and step.is_masked), (step, kept)


def test_a_masked_token_is_told_with_phrase_and_place() -> None:
    found = told({"r": {"ban": {"phrases": ["b1", "ab 1"]}}}, [1, 2, 4, 3])
    last = found.steps[3]
    assert (last.is_masked, [one.phrase for one in last.refused]) == (True, ["ab 1"])
    assert [(one.rule.name, one.count) for one in last.by] == [("a/r", 2)]  # and `B1`
    assert found.show(last.token or 0) == "1"
    assert not found.steps[4].may_end


def test_a_rule_in_shadow_would_have_masked() -> None:
    step = told({"r": {"ban": {"phrases": ["ab"], "match": "prefix"}, "mode": "shadow"}}, [1, 2]).steps[1]
    assert (step.is_masked, step.refused, step.by, len(step.masked)) == (False, (), (), 0)
    assert [(one.name, one.phrase) for one in step.watching] == [("a/r", "ab")]


def test_what_is_forced_and_by_whom() -> None:
    found = told({"r": {"force": {"text": "ab", "at": "start"}}}, [1, 1])
    first, second, _ = found.steps
    assert (first.forced, first.is_masked, [one.name for one in first.forced_by]) == (1, False, ["a/r"])
    assert (second.forced, second.is_masked, [one.name for one in second.refused]) == (2, True, ["a/r"])


def test_a_minimum_is_why_the_output_may_not_end() -> None:
    found = told({"r": {"min_tokens": 2}}, [1, EOS])
    assert [step.may_end for step in found.steps] == [False, False]
    assert [one.name for one in found.steps[1].refused] == ["a/r"]
    assert found.ended


def test_a_dead_end_waives_the_minimum() -> None:
    rules = {"r": {"min_tokens": 2}, "s": {"ban": {"token_ids": [i for i, t in enumerate(TOKENS) if t and i != 16]}}}
    step = told(rules | {"t": {"ban": {"token_ids": [15]}}}, [EOS]).steps[0]
    assert (step.only_eos, step.is_masked, [one.name for one in step.waived]) == (True, False, ["a/r"])


def test_biases_are_told_with_their_rules() -> None:
    rules = {"r": {"bias": {"token_ids": {1: 2}}}, "s": {"bias": {"token_ids": {1: -0.5, 2: 1}}}}
    step = told(rules, [1]).steps[0]
    assert (step.bias, [(one.name, value) for one, value in step.pushed], step.pushes) == (
        1.5,
        [("a/r", 2.0), ("a/s", -0.5)],
        2,
    )


def test_what_a_request_passes_acts() -> None:
    more = {
        "a": {"parameters": {"n": {"type": "integer", "default": 0}}, "rules": {"r": {"min_tokens": {"param": "n"}}}}
    }
    assert told({}, [1], {"n": 1}, **more).steps[0].may_end is False
    assert told({}, [1], None, **more).steps[0].may_end is True


def test_rules_for_other_devices_do_not_act() -> None:
    given_policies = policies({"r": {"ban": {"token_ids": [1]}, "when": {"device": ["cuda"]}}})
    for device, masked in ((None, False), ("cpu", False), ("cuda", True)):
        found = explain(given_policies, [1], vocabulary=VOCABULARY, device=device).tokens
        assert found is not None
        assert found.steps[0].is_masked == masked


def test_the_tokenizer_must_spell_the_text() -> None:
    assert spell(VOCABULARY, "a 1") == [1, 4, 3]
    with pytest.raises(ValueError, match="cannot encode the text"):
        spell(VOCABULARY, "xyz")
    with pytest.raises(ValueError, match="--tokens"):
        spell(Vocabulary([b"", b"a"], [0]), "a")
    with pytest.raises(ValueError, match="do not spell"):
        spell(Vocabulary([b"", b"a"], [0], encode=lambda text: [1]), "aa")
    with pytest.raises(ValueError, match="99 is outside"):
        told({"r": {"min_tokens": 1}}, [99])
