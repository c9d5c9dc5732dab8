"""The text level explained: it says what a session does, and names the phrases that did it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import policyengine as pe
from policyengine.review.explain import Explanation, explain
from policyengine.review.explain_rules import Rules
from policyengine.review.explain_text import TextExplained
from tests.streams import run
from tests.unit.review.explaining import TEXTS, policies, sets


def told(rules: dict[str, Any], text: str, request: dict[str, Any] | None = None, **others: Any) -> TextExplained:
    return explain(policies(rules, **others), text, request).text


@settings(max_examples=200)
@given(sets(), TEXTS)
def test_what_it_says_is_what_a_session_does(rules: dict[str, Any], text: str) -> None:
    """Decisions, text and reason are those of the text as one chunk; what is held, after every character."""
    try:
        given_policies = policies(rules)
        program = pe.compile(given_policies)
    except pe.PolicyError:
        return
    found = explain(given_policies, text).text
    whole = run(program, [text])
    assert tuple(one.match for one in found.decisions) == whole.matches
    assert (found.output, found.reason) == (whole.text, whole.reason)
    session = program.text_session()
    for step in found.steps:
        verdict = session.feed(step.char) if step.char else session.finish()
        assert verdict.text == step.sent
        assert tuple(one.match for one in step.decisions) == verdict.matches
        assert tuple(one.match for one in step.shadowed) == verdict.shadowed
        assert step.held == (0 if verdict.action == "terminate" else session.held)


@settings(max_examples=200)
@given(sets(), TEXTS)
def test_nothing_is_left_to_explain(rules: dict[str, Any], text: str) -> None:
    """Every match of an active rule decides, but for those that come too late; and every one is seen to begin."""
    try:
        found = explain(policies(rules), text)
    except pe.PolicyError:
        return
    late = [miss for miss in found.misses if miss.why == "late"]
    assert not late or found.text.ended
    matched = {one.start for one in found.text.partials if one.outcome == "matched"}
    for one in found.text.decisions:
        if one.rule.phrase is not None:
            assert one.match.start in matched
        else:  # only what was replaced can have brought it together
            assert any(other.action == "redact" and other is not one for other in found.text.decisions)


def partials(found: TextExplained) -> list[tuple[str | None, int, int, str]]:
    return [(one.rules[0].phrase if one.rules else None, one.start, one.end, one.outcome) for one in found.partials]


def test_why_a_partial_match_is_over() -> None:
    rules = {"r": {"ban": {"phrases": ["bluebird"], "except": ["bluebird song"]}, "action": "redact"}}
    found = told(rules, "bluebird song, bluebirds, blue bird, bluebird.")
    assert partials(found) == [
        ("bluebird", 0, 14, "except"),
        ("bluebird", 15, 24, "edge"),
        ("bluebird", 26, 31, "text"),
        ("bluebird", 31, 33, "text"),
        ("bluebird", 37, 46, "matched"),
    ]


def test_the_end_of_the_output_is_an_edge_and_the_end_of_hope() -> None:
    found = told({"r": {"ban": {"phrases": ["red", "reddish brown"]}, "action": "redact"}}, "red reddish")
    assert partials(found)[-1] == ("reddish brown", 4, 11, "end")
    assert found.decisions[0].at == 4


def test_a_decision_names_the_phrase_and_its_place() -> None:
    found = told({"r": {"ban": {"phrases": ["red", "green"]}, "action": "redact"}}, "A GREEN hill")
    (one,) = found.decisions
    assert (one.rule.name, one.rule.phrase, one.action, one.at) == ("a/r", "green", "redact", 8)
    assert found.output == "A [redacted] hill"


def test_a_match_that_a_redaction_brought_about_has_no_phrase_in_the_text() -> None:
    rules = {
        "cut": {"ban": {"phrases": ["xx"], "match": "substring"}, "action": {"redact": ""}},
        "join": {"ban": {"phrases": ["ab"], "match": "substring"}, "action": "redact"},
    }
    found = told(rules, "axxb")
    assert [(one.rule.name, one.rule.phrase) for one in found.decisions] == [("a/cut", "xx"), ("a/join", None)]


def test_an_output_that_ends_is_not_read_on() -> None:
    found = told({"r": {"ban": {"phrases": ["stop"]}, "fallback": "terminate"}}, "stop it stop")
    assert (found.verdict, found.reason, found.read, found.ended) == ("terminate", "r", 5, True)
    assert len(found.steps) == 5


@pytest.mark.parametrize(
    ("rules", "text", "verdict"),
    [
        ({"r": {"ban": {"phrases": ["x"]}, "action": {"block": "No."}}}, "an x", "block"),
        ({"r": {"rewrite": {"to": "upper"}}}, "an x", "rewrite"),
        ({"r": {"ban": {"phrases": ["y"]}}}, "an x", "pass"),
    ],
)
def test_verdicts(rules: dict[str, Any], text: str, verdict: str) -> None:
    assert told(rules, text).verdict == verdict


def test_too_much_held() -> None:
    rules = {"r": {"ban": {"phrases": ["abcdefgh"], "match": "substring"}, "action": "redact"}}
    found = told(rules, "abcdefg", project={"max_hold": 4})
    assert (found.verdict, found.reason, found.decisions) == ("terminate", "max_hold", ())


def test_rules_in_shadow_are_told_of_and_decide_nothing() -> None:
    rules = {"r": {"ban": {"phrases": ["red"]}, "action": "redact", "mode": "shadow"}}
    found = told(rules, "a red sun")
    assert (found.verdict, found.output, found.decisions) == ("pass", "a red sun", ())
    assert [(one.rule.phrase, one.action, one.match.start) for one in found.shadowed] == [("red", "redact", 2)]
    assert explain(policies(rules), "a red sun").misses == ()


CHANNELS: dict[str, Any] = {"reasoning": {"start": "<t>", "end": "</t>"}}


def test_each_channel_is_a_text_of_its_own() -> None:
    rules = {"r": {"ban": {"phrases": ["red"]}, "action": "redact", "channel": "answer"}}
    found = explain(policies(rules, CHANNELS), "<t>a red</t>red")
    assert [(one.match.start, one.match.end) for one in found.text.decisions] == [(12, 15)]
    assert [(miss.start, miss.why, miss.because) for miss in found.misses] == [
        (5, "inactive", "`channel: answer`: this is the reasoning")
    ]


def test_expressions_that_are_not_regular_are_decided_too() -> None:
    found = told({"r": {"ban": {"regex": ["(?<=a)b"]}, "action": "redact"}}, "ab b")
    assert [(one.rule.phrase, one.match.start) for one in found.decisions] == [("(?<=a)b", 1)]


def test_policies_that_do_not_compile_are_no_explanation() -> None:
    rules = {"f": {"force": {"text": "red", "at": "start"}}, "b": {"ban": {"phrases": ["red"]}}}
    with pytest.raises(pe.PolicyError, match="forced-contains-banned"):
        Rules(policies(rules))


def test_the_request_decides_which_policies_run() -> None:
    other = {"rules": {"r": {"ban": {"phrases": ["red"]}, "action": "redact"}}, "activation": "on_request"}
    given_policies = policies({"r": {"ban": {"phrases": ["blue"]}, "action": "redact"}}, b=other)
    plain: Explanation = explain(given_policies, "red")
    asked = explain(given_policies, "red", {"policies": ["b"]})
    assert (plain.active, plain.unasked, plain.text.output) == (("a",), (("b", "on_request"),), "red")
    assert (asked.active, asked.unasked, asked.text.output) == (("a", "b"), (), "[redacted]")
    with pytest.raises(pe.RequestError, match="unknown policy 'c'"):
        explain(given_policies, "red", {"policies": ["c"]})


@settings(max_examples=50)
@given(
    st.lists(st.sampled_from(["sun", "su", "sunny", "sun s", "s"]), min_size=1, unique=True),
    st.text("sun ", max_size=9),
)
def test_what_a_partial_match_may_become_begins_with_it(phrases: list[str], text: str) -> None:
    rules = {"r": {"ban": {"phrases": phrases, "match": "substring"}, "action": "redact"}}
    for one in told(rules, text).partials:
        for rule in one.rules:
            assert rule.phrase is not None
            assert rule.phrase in phrases
