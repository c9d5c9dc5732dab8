"""Streams of outputs that reason before they answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policyengine import Match, Program
from policyengine.runtime.program import Reasoning
from tests.streams import Result, run, splits
from tests.text_programs import Rule, ban, program

THINK = Reasoning("<think>", "</think>")


def channelled(*rules: Rule | tuple[Rule, str]) -> Program:
    """A program of rules, each with the channel it acts in."""
    found = (replace(rule[0], channel=rule[1]) if isinstance(rule, tuple) else rule for rule in rules)
    return program(*found, reasoning=THINK)


def test_each_channel_has_its_rules() -> None:
    policies = channelled((ban("one"), "reasoning"), (ban("two"), "answer"), ban("all"))
    text = "<think>one two all</think>one two all"
    for chunks in splits(text, exhaustive=4):
        assert run(policies, chunks).text == "<think>[redacted] two [redacted]</think>one [redacted] [redacted]"
    assert run(policies, ["one two"]).text == "one [redacted]"  # no reasoning: all of it is the answer


def test_each_channel_is_a_text_of_its_own() -> None:
    """A phrase that a marker parts is none; a marker is an edge; places count from the output's first character."""
    policies = channelled(ban("secret", match="substring"), ban("cat"))
    text = "<think>a sec</think>ret concat<think>cat"
    assert run(policies, [text]).text == "<think>a sec</think>ret concat<think>[redacted]"
    cats = channelled(ban("cat"))
    whole = run(cats, ["<think>cat</think>cat"])
    assert whole.text == "<think>[redacted]</think>[redacted]"
    assert whole.matches == (Match("test", "r0", 7, 10), Match("test", "r0", 18, 21))
    assert run(cats, list("<think>cat</think>cat")) == whole
    assert run(channelled(Rule((), "redact", "*", expressions=("^a", "b$"))), ["<think>ab</think>ab"]).text == (
        "<think>**</think>**"
    )


def test_what_may_become_a_marker_is_held() -> None:
    session = channelled((ban("x"), "reasoning")).text_session()
    sent = [session.feed(chunk).text for chunk in (" <th", "ink>", "a <", "/", "b </thin", "k>x", " <think>x")]
    assert sent == [" ", "<think>", "a ", "", "</b ", "</think>x", " <think>x"]
    assert session.finish().text == ""
    short = channelled(ban("x")).text_session()
    assert (short.feed("<thi").text, short.held, short.finish().text) == ("", 4, "<thi")


def test_a_prompt_that_begins_the_reasoning() -> None:
    policies = channelled((ban("one"), "reasoning"), (ban("two"), "answer"))
    session = policies.text_session(reasoning=True)
    assert run(session, ["one two</thi", "nk>one two."]) == Result(
        "[redacted] two</think>one [redacted].", None, (Match("test", "r0", 0, 3), Match("test", "r1", 19, 22))
    )


def test_a_match_in_either_channel_ends_the_output() -> None:
    policies = channelled((ban("one", terminate="r"), "reasoning"), (ban("two", terminate="a"), "answer"))
    assert run(policies, ["<think>x one</think>y"]) == Result("<think>x ", "r", (Match("test", "r0", 9, 12),))
    assert run(policies, list("<think>x</think>y two z")) == Result(
        "<think>x</think>y ", "a", (Match("test", "r1", 18, 21),)
    )


@pytest.mark.parametrize("chunks", [["<think>a two</think>b"], list("<think>a two</think>b")])
def test_what_a_block_holds_leaves_at_the_end_of_its_channel(chunks: list[str]) -> None:
    def sent(policies: Program, text: list[str]) -> list[str]:
        session = policies.text_session()
        return ["".join(session.feed(chunk).text for chunk in text), session.finish().text]

    assert sent(channelled((ban("one", block="No."), "reasoning")), chunks) == ["<think>a two</think>b", ""]
    assert sent(channelled((ban("one", block="No."), "answer")), chunks) == ["<think>a two</think>", "b"]
    assert sent(channelled(ban("one", block="No.")), chunks) == ["", "<think>a two</think>b"]
    assert sent(channelled(ban("b", block="No.")), chunks) == ["", "No."]
    assert sent(channelled((ban("two", block="No."), "reasoning")), chunks) == ["No.", ""]
    assert sent(channelled((ban("b", block="No."), "answer")), chunks) == ["<think>a two</think>", "No."]


def test_a_rewrite_of_the_answer_leaves_reasoning_and_markers() -> None:
    assert run(program("upper", reasoning=THINK), ["<think>a</think>b"]).text == "<think>a</think>B"
    assert run(program("nothing", reasoning=THINK), ["<think>a</think>b"]).text == "<think>a</think>"


def test_idle_and_held() -> None:
    assert channelled().text_session().idle
    assert not channelled((ban("x"), "reasoning")).text_session().idle
