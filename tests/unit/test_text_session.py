"""Text sessions: verdicts, what is active, limits."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import policyengine as pe
from policyengine import Match, Program, TextSession
from policyengine.runtime import text_memo, text_verdicts
from policyengine.runtime.program import Request, WhenPlan
from tests.oracle import Phrase
from tests.streams import Result, run
from tests.text_programs import POLICY, Rule, ban, program


def with_policy(found: Program, **changes: object) -> Program:
    """The same program with its policy changed."""
    return dataclasses.replace(found, policies=(dataclasses.replace(POLICY, **changes),))


def with_components(found: Program, **changes: object) -> Program:
    """The same program with its components changed."""
    return dataclasses.replace(found, components=tuple(dataclasses.replace(c, **changes) for c in found.components))


def test_verdicts_say_what_leaves() -> None:
    session = program(ban("secret")).text_session()
    first = session.feed("a secret")
    assert (first.action, first.text, first.reason, first.matches) == ("emit", "a ", None, ())
    second = session.feed(".")
    assert (second.action, second.text, second.matches) == ("emit", "[redacted].", (Match("test", "r0", 2, 8),))
    assert session.feed("").action == "suppress"
    assert session.finish() == session.finish()
    assert session.feed("late").text == ""


def test_terminate_carries_the_clean_text_and_the_message() -> None:
    verdict = program(ban("secret", terminate="leak", message=" (cut)")).text_session().feed("a clean secret.")
    assert (verdict.action, verdict.text, verdict.reason) == ("terminate", "a clean  (cut)", "leak")
    assert verdict.matches == (Match("test", "r0", 8, 14),)


def test_a_reason_is_the_rule_if_none_is_given() -> None:
    assert run(program(Rule((Phrase("x"),), "terminate")), ["x"]).reason == "r0"
    assert run(program(Rule((Phrase("x"),), "block", "no")), ["x"]).reason == "r0"


def test_default_texts() -> None:
    assert run(program(Rule((Phrase("x"),), "redact")), ["x"]).text == "[redacted]"
    assert run(program(Rule((Phrase("x"),), "block")), ["a x"]).text == "Blocked by policy."


def test_block_holds_everything_to_the_end() -> None:
    policies = program(ban("bad", block="No."), max_hold=4)
    session = policies.text_session()
    assert [session.feed(chunk).action for chunk in ("a long ", "clean ", "answer")] == ["suppress"] * 3
    last = session.finish()
    assert (last.action, last.text) == ("emit", "a long clean answer")
    stopped = policies.text_session()
    stopped.feed("a long ")
    verdict = stopped.feed("bad answer")
    assert (verdict.action, verdict.text, verdict.reason) == ("terminate", "No.", "blocked")


def test_terminate_under_block_shows_what_came_before() -> None:
    policies = program(ban("bad", block="No."), ban("stop", terminate="s"))
    assert run(policies, ["a clean ", "stop bad"]) == Result("a clean ", "s", (Match("test", "r1", 8, 12),))


def test_a_message_that_spells_something_banned_is_left_out() -> None:
    """Alone or at its join with the text."""
    policies = program(ban("stop", terminate="s", message="pqr"), ban("xpq", match="substring"))
    assert run(policies, ["a stop"]).text == "a pqr"
    assert run(policies, ["x", " ", "stop"]).text == "x pqr"
    assert run(program(ban("#", terminate="s", message="pqr"), ban("xpq", match="substring")), ["x#"]).text == "x"
    assert run(program(ban("#", terminate="s", message="no secret"), ban("secret")), ["x#"]).text == "x"


def test_a_replacement_that_is_banned_itself_is_left_out() -> None:
    assert run(program(ban("red", "redacted", match="substring")), ["a red b"]).text == "a  b"


def test_the_end_of_what_is_shown_is_an_edge() -> None:
    """A word that only the cut makes a word is redacted too."""
    policies = program(ban("cat"), ban("dog", match="substring", terminate="d"))
    assert run(policies, ["a catdog"]).text == "a [redacted]"
    assert run(policies, list("a catdog")).text == "a [redacted]"


def test_too_much_held_ends_the_output() -> None:
    """Beyond `max_hold` code points, counted as they come; what was clean before leaves."""
    policies = program(ban("press kit"), max_hold=10)
    fits = "a press" + " " * 5
    assert run(policies, [fits + "x"]).text == fits + "x"
    for chunks in (["a press" + " " * 6], list("a press" + " " * 40), ["a pre", "ss   ", "   kit"]):
        assert run(policies, chunks) == Result("a ", "max_hold", ())


def test_held_counts_code_points() -> None:
    session = program(ban("bluebird")).text_session()
    assert [(session.feed(chunk).text, session.held) for chunk in ("a b", "lue", "t", "blue")] == [
        ("a ", 1),
        ("", 4),
        ("bluet", 0),
        ("blue", 0),
    ]


def test_long_texts_are_read_in_slices_all_the_same() -> None:
    text = "clean words and a secret, " * 400
    whole = run(program(ban("secret")), [text])
    assert whole.text == text.replace("secret", "[redacted]")
    assert [match.start for match in whole.matches] == [i for i in range(len(text)) if text.startswith("secret", i)]
    ended = run(program(ban("secret", terminate="s")), ["clean " * 200 + "secret " * 300])
    assert ended == Result("clean " * 200, "s", (Match("test", "r0", 1200, 1206),))


def test_many_sessions_in_the_same_situation_share_what_they_learn() -> None:
    """What one session learned about a chunk holds for another one at another place of its text."""
    policies = program(ban("secret"), ban("end", terminate="e"))
    for _ in range(3):
        assert run(policies, ["a ", "sec", "ret", " b"]).matches == (Match("test", "r0", 2, 8),)
        assert run(policies, ["long ", "text ", "a ", "sec", "ret", " b"]).matches == (Match("test", "r0", 12, 18),)
        assert run(policies, ["long ", "text ", "a ", "sec", "end"]).text == "long text a secend"


def test_what_is_learned_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_memo, "_KEPT_NODES", 20)
    monkeypatch.setattr(text_memo, "_KEPT_TEXTS", 20)
    monkeypatch.setattr(text_verdicts, "_KEPT", 20)
    policies = program(ban("secret"))
    session = policies.text_session()
    for i in range(500):
        assert session.feed(f"n{i} ").text == f"n{i} "
        assert max(session._plan.memo.size) <= 20
        assert len(text_verdicts.EMITTED) <= 20
    assert run(policies, ["a sec", "ret."]).text == "a [redacted]."


def test_a_failure_ends_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was fed is lost then, and a match with it: nothing more may leave."""
    session = program(ban("secret")).text_session()
    session.feed("a sec")
    monkeypatch.setattr(session._plan.scanners[0], "step", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        session.feed("ret")
    monkeypatch.undo()
    assert [session.feed("ret. and on").text, session.finish().text] == ["", ""]


def test_without_rules_all_text_passes() -> None:
    session = program().text_session()
    assert session.idle
    assert session.feed("any text").text == "any text"
    assert session.finish().text == ""


def test_nothing_leaves_under_rewrite_nothing() -> None:
    policies = program("nothing", ban("stop", terminate="s", message="message"))
    assert run(policies, ["a text"]) == Result("", None, ())
    verdict = policies.text_session().feed("a stop.")
    assert (verdict.action, verdict.text, verdict.reason) == ("terminate", "", "s")


def test_rewritten_text_is_searched_too() -> None:
    """A phrase that only the rewritten text spells must not be shown."""
    policies = program("upper", Rule((Phrase("ABC", case="sensitive"),), "redact"))
    assert run(policies, ["x ab", "c y"]).text == "X [redacted] Y"


@pytest.mark.parametrize(("target", "text"), [(None, "[redacted]"), ("trtllm", "[redacted]"), ("vllm", "secret")])
def test_only_the_policies_of_the_target(target: str | None, text: str) -> None:
    policies = with_components(with_policy(program(ban("secret")), targets=("trtllm",)), targets=("trtllm",))
    assert run(policies.text_session(target=target), ["secret"]).text == text


def test_a_rewrite_follows_the_target() -> None:
    policies = with_policy(program("upper"), targets=("trtllm",))
    assert run(policies.text_session(target="trtllm"), ["a"]).text == "A"
    assert run(policies.text_session(target="vllm"), ["a"]).text == "a"


def test_only_the_policies_of_the_request() -> None:
    policies = program(ban("secret"))
    assert run(TextSession(policies, Request(frozenset(), {})), ["secret"]).text == "secret"
    assert run(TextSession(policies, Request(frozenset({0}), {})), ["secret"]).text == "[redacted]"


def test_rules_of_a_device_and_biases_are_left_out() -> None:
    assert run(with_components(program(ban("secret")), when=WhenPlan(("cuda",))), ["secret"]).text == "secret"
    assert run(with_components(program(ban("secret")), use="bias"), ["secret"]).text == "secret"


def test_two_foldings_act_together() -> None:
    """Phrases that are folded differently lie in two automata; their redactions meet all the same."""
    rules = (
        Rule((Phrase("abc", "substring", case="sensitive"),), "redact", "1"),
        Rule((Phrase("CDE", "substring"),), "redact", "2"),
    )
    assert run(program(*rules), ["xabcdex"]).text == "x1x"
    assert run(program(*rules), list("xABcdex")).text == "xAB2x"


@pytest.mark.parametrize("rules", ["", "expression", "shadow", "rewrite", "block", "channels"])
@pytest.mark.parametrize("before", ["", "ab cd"])
@pytest.mark.parametrize("wrong", [b"bluebird", ["bluebird"], None, 5], ids=["bytes", "list", "none", "number"])
def test_what_is_no_text_is_refused_and_nothing_leaves(tmp_path: Path, rules: str, before: str, wrong: Any) -> None:
    """It could not be looked through, so it ends the output: whatever comes then is lost, and not shown."""
    more = {
        "expression": "  e: {ban: {regex: ['a+b.*c']}, action: redact}\n",
        "block": "  e: {ban: {phrases: [titan]}, action: block}\n",
        "rewrite": "  e: {rewrite: {to: upper}}\n",
        "shadow": "  e: {ban: {phrases: [titan]}, mode: shadow, action: redact}\n",
        "channels": "  e: {ban: {phrases: [titan]}, channel: answer, action: redact}\n",
    }.get(rules, "")
    (tmp_path / "p.yaml").write_text(
        f"version: 1\npolicy: p\nrules:\n  r: {{ban: {{phrases: [bluebird]}}, action: redact}}\n{more}"
    )
    if rules == "channels":
        (tmp_path / "policyengine.yaml").write_text("version: 1\nreasoning: {start: '<r>', end: '</r>'}\n")
    session = pe.compile(pe.load(tmp_path)).text_session()
    session.feed(before)
    with pytest.raises(TypeError):
        session.feed(wrong)
    assert session.feed("bluebird").text == ""
    assert session.finish().text == ""
