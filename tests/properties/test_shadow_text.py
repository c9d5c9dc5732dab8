"""Rules in shadow at the text level: the client sees what it would see without them, and each match is told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.runtime import scanner_irregular
from policyengine.runtime.program import Program, Reasoning
from policyengine.runtime.text_session import Match, Verdict
from policyengine.runtime.text_watch import SHADOW_MAX_HOLD, counters
from tests.oracle import Phrase, find
from tests.properties.test_text_streams import cuts, nasty
from tests.shadows import in_shadow, side_by_side
from tests.text_programs import Rule, program


def verdicts(policies: Program, pieces: list[str]) -> list[Verdict]:
    """Of each piece, then of the end."""
    session = policies.text_session()
    return [*(session.feed(piece) for piece in pieces), session.finish()]


def told(found: list[Verdict]) -> list[Match]:
    return [match for verdict in found for match in verdict.shadowed]


def apart(rules: list[Any], **settings: Any) -> Program:
    """Each rule with automata of its own, so that any of them can be in shadow."""
    return side_by_side([program(rule, **settings) for rule in rules])


@settings(max_examples=300)
@given(nasty(), st.data())
def test_all_in_shadow_changes_nothing(example: tuple[list[Any], str], data: st.DataObject) -> None:
    """Each piece leaves at once as it came, nothing is held, and the matches are the same in any chunking."""
    rules, text = example
    policies = in_shadow(program(*rules))
    whole = told(verdicts(policies, [text]))
    chunks = data.draw(cuts(text))
    for pieces in (list(text), chunks, list(text), chunks):
        found = verdicts(policies, pieces)
        assert [verdict.text for verdict in found] == [*pieces, ""]
        assert not any(verdict.matches or verdict.reason for verdict in found)
        assert all(
            verdict.action == ("emit" if piece else "suppress") for verdict, piece in zip(found, pieces, strict=False)
        )
        assert told(found) == whole


@settings(max_examples=300)
@given(nasty())
def test_the_first_match_is_that_of_the_rule_alone(example: tuple[list[Any], str]) -> None:
    """Each rule's first match in shadow, beside all others, is what it would decide first as the only rule."""
    rules, text = example
    shadowed = told(verdicts(in_shadow(program(*rules)), list(text)))
    for rank, rule in enumerate(rules):
        first = [(m.start, m.end) for m in shadowed if m.rule == f"r{rank}"][:1]
        alone = [(m.start, m.end) for v in verdicts(program(rule), list(text)) for m in v.matches][:1]
        assert first == alone, rank


@settings(max_examples=300)
@given(nasty(), st.data())
def test_rules_that_act_do_so_as_if_the_others_were_not_there(
    example: tuple[list[Any], str], data: st.DataObject
) -> None:
    """Any split of the rules: verdicts are those without the ones in shadow, which read as far as the output went."""
    rules, text = example
    both = apart(rules)
    chosen = data.draw(st.frozensets(st.sampled_from(range(len(rules)))))
    acting = [rank for rank in range(len(rules)) if rank not in chosen]
    policies, pieces = in_shadow(both, chosen), data.draw(cuts(text))
    found = verdicts(policies, pieces)
    rest = side_by_side([program(rules[rank]) for rank in acting]) if acting else in_shadow(both)
    for mine, its in zip(found, verdicts(rest, pieces), strict=True):
        names = {f"r{i}": f"r{rank}" for i, rank in enumerate(acting)}
        assert (mine.action, mine.text) == (its.action, its.text)
        assert [(m.rule, m.start, m.end) for m in mine.matches] == [
            (names[m.rule], m.start, m.end) for m in its.matches
        ]
    everything = told(verdicts(in_shadow(both), list(text)))
    expected = [m for m in everything if m.rule in {f"r{rank}" for rank in chosen}]
    if any(verdict.action == "terminate" for verdict in found[:-1]):
        assert told(found) == expected[: len(told(found))]
        assert told(found) == told(verdicts(policies, list(text)))
    else:
        assert sorted(told(found), key=repr) == sorted(expected, key=repr)


@settings(max_examples=100)
@given(st.text("ab x", max_size=40), st.integers(1, 5))
def test_every_occurrence_is_told_in_chunks_seen_before(text: str, size: int) -> None:
    """The same stream again and again: what is remembered of it loses no match."""
    phrases = (Phrase("ab", "substring"), Phrase("a b", "word"))
    policies = in_shadow(program(Rule(phrases, "redact")))
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    for _ in range(3):
        found = told(verdicts(policies, pieces))
        assert {(m.start, m.end) for m in found} == {(m.start, m.end) for m in find(text, list(phrases))}


@settings(max_examples=100)
@given(st.lists(st.sampled_from(["a", "b", "<t", ">", "</t>", "<t>", "<", " "]), max_size=20).map("".join), st.data())
def test_channels_are_watched_each(text: str, data: st.DataObject) -> None:
    """A rule of the answer tells nothing of the reasoning, in places of the whole output; nothing changes."""
    marks = Reasoning("<t>", "</t>")
    rules = [
        Rule((Phrase("a", "substring"),), "terminate", channel="answer"),
        Rule((Phrase("b", "word"),), "block", channel="reasoning"),
    ]
    policies = in_shadow(program(*rules, reasoning=marks))
    pieces = data.draw(cuts(text))
    found = verdicts(policies, pieces)
    assert [verdict.text for verdict in found] == [*pieces, ""]
    assert told(found) == told(verdicts(policies, [text]))
    for match in told(found):
        assert text[match.start : match.end] == ("a" if match.rule == "r0" else "b")


@settings(max_examples=100)
@given(st.text("abx", max_size=30), st.data())
def test_expressions_that_no_automaton_reads(text: str, data: st.DataObject) -> None:
    """Told in any chunking as when they act; text that would be held for them passes at once."""
    rules = [Rule((), "redact", expressions=(source,), irregular=True) for source in (r"(a+)b\1", "a(?!b)")]
    policies = in_shadow(program(*rules))
    pieces = data.draw(cuts(text))
    found = verdicts(policies, pieces)
    assert [verdict.text for verdict in found] == [*pieces, ""]
    assert told(found) == told(verdicts(policies, [text]))
    for rank, rule in enumerate(rules):
        alone = [(m.start, m.end) for v in verdicts(program(rule), [text]) for m in v.matches]
        assert [(m.start, m.end) for m in told(found) if m.rule == f"r{rank}"][:1] == alone[:1]


@pytest.mark.parametrize("pieces", [1, 7, 60])
def test_an_expression_that_would_hold_too_much_is_given_up(pieces: int) -> None:
    """Acting, it would end the output; in shadow the output goes on, and the other rules are watched on."""
    rules = [Rule((), "redact", expressions=("(?s)a.*b(?=c)",), irregular=True), Rule((Phrase("x"),), "redact")]
    policies = in_shadow(program(*rules, max_hold=20))
    text = "a" + " -" * 20 + " x b"
    before = counters[SHADOW_MAX_HOLD]
    found = verdicts(policies, [text[i : i + pieces] for i in range(0, len(text), pieces)] + ["c"])
    assert "".join(verdict.text for verdict in found) == text + "c"
    assert [match.rule for match in told(found)] == ["r1"]
    assert counters[SHADOW_MAX_HOLD] == before + 1


def test_an_expression_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner_irregular, "SECONDS", 0)
    policies = in_shadow(program(Rule((), "redact", expressions=(r"(a+)+b(?=c)",), irregular=True)))
    found = verdicts(policies, ["a" * 400, "x"])
    assert [verdict.action for verdict in found] == ["emit", "emit", "suppress"]
