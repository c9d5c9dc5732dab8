"""Why not another rule: what is said to be missing is what is missing."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import policyengine as pe
from policyengine.review.explain import explain
from policyengine.review.explain_misses import Miss
from tests.streams import run
from tests.unit.review.explaining import TEXTS, policies, sets


def misses(rules: dict[str, Any], text: str, request: dict[str, Any] | None = None, **others: Any) -> list[Miss]:
    return list(explain(policies(rules, **others), text, request).misses)


def ban(*phrases: str, **options: Any) -> dict[str, Any]:
    return {"r": {"ban": {"phrases": list(phrases), **options}, "action": "redact"}}


@pytest.mark.parametrize(
    ("rules", "text", "place", "changes"),
    [
        (ban("red"), "reds", (0, 3), ["match: prefix"]),
        (ban("red"), "bored", (2, 5), ["match: substring"]),
        (ban("sun", match="prefix"), "tosun", (2, 5), ["match: substring"]),
        (ban("ACME", case="sensitive"), "acme", (0, 4), ["case: insensitive"]),
        (ban("a b", gaps="literal"), "a  b", (0, 4), ["gaps: spaces"]),
        (ban("a b"), "a-b", (0, 3), ["gaps: punctuation"]),
        (ban("red"), "r.e.d", (0, 5), ["gaps: letters"]),
        (ban("rede"), "redé", (0, 4), ["normalize: [nfkc, invisible, marks]"]),
        (ban("red", normalize=[]), "r\u200bed", (0, 4), ["normalize: [invisible]"]),
        (ban("red", normalize=["marks"]), "ｒed", (0, 3), ["normalize: [nfkc, marks]"]),
        (ban("red"), "rеd", (0, 3), ["normalize: [nfkc, invisible, confusables]"]),
        (ban("Red", case="sensitive"), "reds", (0, 3), ["case: insensitive", "match: prefix"]),
        (ban("a b", case="sensitive"), "xA-b", (1, 4), ["case: insensitive", "gaps: punctuation", "match: substring"]),
        ({"r": {"ban": {"regex": ["sun+"]}, "action": "redact"}}, "SUNN", (0, 4), ["(?i)"]),
    ],
)
def test_the_option_that_would_do(rules: dict[str, Any], text: str, place: tuple[int, int], changes: list[str]) -> None:
    (miss,) = misses(rules, text)
    assert (miss.why, (miss.start, miss.end)) == ("option", place)
    assert sorted(change.strip("`") for change in miss.changes) == sorted(changes)


def test_a_match_is_no_near_miss() -> None:
    assert misses(ban("red", "redd"), "red redd RED") == []


def test_far_is_not_near() -> None:
    """Letters with others between them are another word, and inside words not every gap is told of."""
    assert misses(ban("red"), "rxexd") == []
    assert misses(ban("in"), "hi name") == []


def test_an_exception_is_named_with_its_place() -> None:
    (miss,) = misses(ban("red", **{"except": ["red tape", "red rose"]}), "a red rose")
    assert (miss.why, miss.start, miss.end) == ("except", 2, 5)
    assert miss.by is not None
    assert miss.by.phrase == "red rose"


def test_what_comes_after_the_end() -> None:
    rules = {"r": {"ban": {"phrases": ["red"]}}, "s": {"ban": {"phrases": ["blue"]}, "action": "redact"}}
    (miss,) = misses(rules, "a red blue")
    assert (miss.rule.name, miss.why, miss.start) == ("a/s", "late", 6)
    assert miss.because == "`a/r` ended the output at character 6"


def test_of_two_that_match_at_once_the_first_decides() -> None:
    rules = {"r": {"ban": {"phrases": ["red"]}}, "s": {"ban": {"phrases": ["red"]}, "fallback": "block"}}
    found = explain(policies(rules), "red ")
    assert [one.rule.name for one in found.text.decisions] == ["a/r"]
    assert [(one.rule.name, one.why) for one in found.misses] == [("a/s", "late")]


def test_a_policy_that_was_not_asked_for() -> None:
    other = {"rules": ban("red"), "activation": "on_request"}
    (miss,) = misses(ban("blue"), "a red", b=other)
    assert (miss.rule.name, miss.why) == ("b/r", "inactive")
    assert miss.because == "policy `b` is on_request, and this request does not ask for it"
    assert misses(ban("blue"), "a red", {"policies": ["b"]}, b=other) == []


def test_a_rule_for_other_engines() -> None:
    rules = {"r": {"ban": {"phrases": ["red"]}, "when": {"device": ["cuda"]}}}
    (miss,) = misses(rules, "red")
    assert (miss.why, miss.because) == ("inactive", "the rule asks for an engine (`when`), which is not known here")


def changed(rule: dict[str, Any], changes: tuple[str, ...]) -> dict[str, Any]:
    """A rule with what an explanation says would make it match, written into it."""
    rule = {key: deepcopy(value) for key, value in rule.items() if key != "mode"}
    for change in changes:
        text = change.strip("`")
        if text == "(?i)":
            rule["ban"]["regex"] = [f"(?i){one}" for one in rule["ban"]["regex"]]
        elif text == "no `except":
            del rule["ban"]["except"]
        else:
            rule["ban"] |= yaml.safe_load(text)
    return rule


@settings(max_examples=200)
@given(sets(2, st.just("redact")), TEXTS)
def test_what_it_advises_does_match(rules: dict[str, Any], text: str) -> None:
    """The rule alone does not match at that place, and does once the options are what it says; none is needless."""
    try:
        found = explain(policies(rules), text)
    except pe.PolicyError:
        return
    for miss in found.misses:
        rule = rules[miss.rule.name.removeprefix("a/")]
        if miss.why == "except":
            assert miss.by is not None
            assert miss.by.phrase in rule["ban"]["except"]
            continue
        assert miss.why == "option"
        for left_out in (None, *range(len(miss.changes))):
            some = tuple(one for i, one in enumerate(miss.changes) if i != left_out)
            try:
                alone = run(pe.compile(policies({"r": changed(rule, some)})), [text]).matches
            except pe.PolicyError:
                continue  # the replacement would then hold a banned phrase itself
            covers = any(one.start <= miss.start and miss.end <= one.end for one in alone)
            if left_out is None:
                assert covers, (miss, some)
            elif covers:  # only by what was put in place of another match, which is an edge where there was none
                assert any(one.start < miss.start or one.end > miss.end for one in alone), (miss, some)


def test_many_phrases_are_searched_fast_enough_to_be_asked_about() -> None:
    words = [f"word{i} and{i * 7}" for i in range(20_000)]
    (miss,) = misses(ban(*words), "see word77-and539 there")
    assert (miss.rule.phrase, miss.changes) == ("word77 and539", ("`gaps: punctuation`",))
