"""What is remembered of characters and chunks tells what a window tells that reads every character."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.runtime import text_memo, text_session
from policyengine.runtime.program import Program
from tests.properties import texts
from tests.properties.test_text_streams import cuts, nasty
from tests.properties.test_text_threads import NASTY, TEXTS
from tests.shadows import in_shadow
from tests.text_programs import Rule, program

FAR = pytest.mark.parametrize("far", [6, 512])


def told(policies: Program, chunks: list[str], *, remember: bool) -> list[tuple[Any, int]]:
    """After each chunk and the end: the verdict, and how much is held."""
    if not remember:
        policies = replace(policies)  # a program of its own has a plan of its own
        plan = policies.text_session()._plan
        for memo in (plan.memo, *(one.memo for one in plan.watched)):
            memo.remembers = False
    session = policies.text_session()
    return [*((session.feed(chunk), session.held) for chunk in chunks), (session.finish(), session.held)]


def assert_alike(policies: Program, text: str, data: st.DataObject) -> None:
    """In any chunks, what was learned from others in other chunks before included."""
    for chunks in (data.draw(cuts(text)), list(text), data.draw(cuts(text))):
        expected = told(policies, chunks, remember=False)
        assert told(policies, chunks, remember=True) == expected
        assert told(policies, chunks, remember=True) == expected


@FAR
@settings(max_examples=150)
@given(nasty(), st.data(), st.sampled_from([3, 4096]))
def test_phrases(far: int, example: tuple[list[Any], str], data: st.DataObject, max_hold: int) -> None:
    """Phrases in each other's way, replacements that bring dead matches back, rewrites, all actions."""
    rules, text = example
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_session, "_FAR", far)
        assert_alike(program(*rules, max_hold=max_hold), text, data)


@FAR
@settings(max_examples=150)
@given(NASTY, st.lists(TEXTS, max_size=3), st.data())
def test_gaps_exceptions_and_expressions(far: int, rules: list[Rule], parts: list[str], data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_session, "_FAR", far)
        assert_alike(program(*rules), "".join(parts), data)


@settings(max_examples=150)
@given(st.data(), st.sampled_from(["redact", "terminate"]))
def test_any_script(data: st.DataObject, kind: Any) -> None:
    """Phrases with all options over ten scripts, in disguise: characters that fold to none, to several, to a space."""
    phrases = data.draw(st.lists(texts.phrases(), min_size=1, max_size=4))
    assert_alike(program(Rule(tuple(phrases), kind, "*")), data.draw(texts.texts_with(phrases)), data)


@settings(max_examples=100)
@given(st.one_of(NASTY, nasty().map(lambda example: example[0])), TEXTS, st.data())
def test_in_shadow(rules: list[Any], text: str, data: st.DataObject) -> None:
    assert_alike(in_shadow(program(*rules)), text, data)


@settings(max_examples=60)
@given(nasty(), st.data())
def test_what_was_forgotten_is_learned_again(example: tuple[list[Any], str], data: st.DataObject) -> None:
    """Also by sessions that stand at a node that was forgotten."""
    rules, text = example
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_memo, "_KEPT_NODES", 2)
        patch.setattr(text_memo, "_KEPT_TEXTS", 3)
        assert_alike(program(*rules), text * 2, data)


def test_a_stream_in_which_something_is_always_held() -> None:
    """Text left all the time, far more than is looked back at, when a match completes at last."""
    policies = program(Rule((), "redact", "*", expressions=("[a-z ]{4}!",)))
    chunks = ["abcd efg "] * 400 + ["hi!", "so "]
    expected = told(policies, chunks, remember=False)
    assert told(policies, chunks, remember=True) == expected
    assert [verdict.text for verdict, _ in expected[399:401]] == ["efg abcd ", "ef*"]
