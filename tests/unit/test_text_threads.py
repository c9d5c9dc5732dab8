"""Streams under gaps, exceptions and expressions."""

from __future__ import annotations

import pytest

from policyengine import Match, Program
from policyengine.automata import threads
from policyengine.runtime import scanner_threads
from tests.oracle import Phrase
from tests.streams import Result, run
from tests.text_programs import Rule, ban, program


def expression(
    *sources: str, redact: str | None = None, terminate: str | None = None, block: str | None = None
) -> Rule:
    """A ban of expressions whose action is the argument given."""
    if terminate is not None:
        return Rule((), "terminate", None, terminate, expressions=sources)
    if block is not None:
        return Rule((), "block", block, "blocked", expressions=sources)
    return Rule((), "redact", redact, expressions=sources)


def titan(kind: str = "redact", text: str | None = None) -> Rule:
    """A name that may stand in a longer one."""
    return Rule((Phrase("Titan", exceptions=("Titan press kit", "the Titan")),), kind, text, "leak")  # type: ignore[arg-type]


def texts(policies: Program, *chunks: str) -> list[str]:
    """What leaves with each chunk, and at the end."""
    session = policies.text_session()
    return [*(session.feed(chunk).text for chunk in chunks), session.finish().text]


# -- expressions without an end ------------------------------------------------------------------------------------


def test_a_replacement_leaves_at_once_and_what_goes_on_is_swallowed() -> None:
    policies = program(expression("a+", redact="*"))
    assert texts(policies, "xa", "a", "aa", "b") == ["x*", "", "", "b", ""]
    key = program(expression("sk-[a-z0-9]{8,}"))
    assert texts(key, "my sk-", "abcdefg", "h", "ij", " k") == ["my ", "", "[redacted]", "", " k", ""]
    assert texts(key, "my sk-", "abcdefg") == ["my ", "", "sk-abcdefg"]


def test_what_may_go_on_is_held() -> None:
    policies = program(expression("ab(cd)*", redact="*"))
    assert texts(policies, "ab", "c", "d", "c", "x") == ["*", "", "", "", "cx", ""]
    assert texts(policies, "ab", "c") == ["*", "", "c"]


def test_a_match_that_goes_on_is_told_once() -> None:
    policies = program(expression("a+", redact="*"), expression("bb"))
    session = policies.text_session()
    assert session.feed("x aaa").matches == ()
    assert session.feed("a").matches == ()
    assert session.feed(" bb").matches == (Match("test", "r0", 2, 6), Match("test", "r1", 7, 9))
    assert run(policies, ["aaa"]).matches == (Match("test", "r0", 0, 3),)
    assert run(policies, list("a bb aa")).matches == run(policies, ["a bb aa"]).matches


def test_replaced_tells_what_did_not_leave_as_it_was() -> None:
    session = program(expression("a+")).text_session()
    replaced = []
    for chunk in ("xy", "a", "aa", "a!", "!"):
        session.feed(chunk)
        replaced.append(session.replaced)
    assert replaced == [0, 3, 5, 6, 6]


def test_a_replacement_waits_for_a_match_that_would_show_something_else() -> None:
    """Of two matches with one start the longest leads."""
    policies = program(expression("a+", redact="1"), expression("a+b", redact="2"))
    assert texts(policies, "a", "a", "b", "a", "c") == ["", "", "2", "", "1c", ""]
    ended = program(expression("a+", redact="1"), expression("aab", terminate="t"))
    assert texts(ended, "a", "c") == ["", "1c", ""]
    assert run(ended, ["a", "a", "b"]) == Result("", "t", (Match("test", "r0", 0, 2), Match("test", "r1", 0, 3)))
    assert texts(ended, "aaa", "a") == ["1", "", ""]  # no longer than that
    other = program(expression("a+", redact="1"), expression("zzz", terminate="t"), expression("b+", redact="2"))
    assert texts(other, "a", "a", "b") == ["1", "", "2", ""]


def test_a_long_match_is_swallowed_whatever_may_be_held() -> None:
    policies = program(expression("a+b?", redact="*"), max_hold=8)
    assert run(policies, ["x" + "a" * 50_000 + "y"]) == Result("x*y", None, (Match("test", "r0", 1, 50_001),))
    session = policies.text_session()
    assert "".join(session.feed("a").text for _ in range(5_000)) == "*"
    assert session.held == 0
    unfinished = program(expression("[a-z]+@"), max_hold=8)
    assert run(unfinished, list("a b" + "c" * 50)) == Result("a ", "max_hold", ())
    assert run(unfinished, ["a bcdefghi j@ k"]).text == "a bcdefghi [redacted] k"


def test_edges_and_ends_of_an_expression() -> None:
    assert run(program(expression(r"\bcat\b")), ["cat concat cat"]).text == "[redacted] concat [redacted]"
    assert run(program(expression(r"^a")), ["aa"]).text == "[redacted]a"
    assert run(program(expression(r"a$")), ["aa"]).text == "a[redacted]"


def test_terminate_and_block_by_expression() -> None:
    assert run(program(expression("AKIA[0-9A-Z]{4}", terminate="leaked-key")), list("key AKIA12345")) == Result(
        "key ", "leaked-key", (Match("test", "r0", 4, 12),)
    )
    assert run(program(expression("[0-9]{3}", block="No.")), ["a 123"]).text == "No."


# -- exceptions ----------------------------------------------------------------------------------------------------


def test_a_match_waits_until_no_exception_can_hold_it() -> None:
    policies = program(titan())
    assert texts(policies, "a Titan", " pre", "sent") == ["a ", "", "[redacted] present", ""]
    assert texts(policies, "a Titan", " press", " kit", ".") == ["a ", "", "", "Titan press kit.", ""]
    assert texts(policies, "a Titan press") == ["a ", "[redacted] press"]
    assert texts(policies, "the", " Titan.") == ["the", " Titan.", ""]
    assert run(policies, ["Titan press kit Titan"]).matches == (Match("test", "r0", 16, 21),)


def test_what_does_not_count_cannot_end_the_output() -> None:
    policies = program(titan("terminate"))
    assert run(policies, ["a Titan press kit"]) == Result("a Titan press kit", None, ())
    for chunks in (["a Titan press release"], list("a Titan press release"), ["a Titan press"]):
        assert run(policies, chunks) == Result("a ", "leak", (Match("test", "r0", 2, 7),))
    session = policies.text_session()
    assert [session.feed(c).action for c in ("a Titan", " press ", "r", "x")] == [
        "emit",
        "suppress",
        "terminate",
        "suppress",
    ]


def test_the_first_decision_ends_the_output() -> None:
    """A later match that is known earlier decides; what waited then is decided by the end."""
    policies = program(titan("terminate"), ban("stop", match="substring", terminate="s"))
    assert run(policies, ["a Titan press stop"]).reason == "leak"  # the space and `s` ended the exception before
    close = program(
        Rule((Phrase("x", "substring", exceptions=("xabc",)),), "redact"), ban("b", match="substring", terminate="s")
    )
    assert run(close, ["x", "a", "b"]) == Result(
        "[redacted]a", "s", (Match("test", "r1", 2, 3), Match("test", "r0", 0, 1))
    )


def test_a_redaction_that_breaks_an_exception_brings_its_match_back() -> None:
    """What is shown must hold no match, and is not what the exception allows."""
    policies = program(titan(), expression("kit[0-9]+", redact="*"))
    assert run(policies, ["Titan press kit"]).text == "Titan press kit"
    for chunks in (["Titan press kit7"], list("Titan press kit7")):
        assert run(policies, chunks).text == "[redacted] press *"


def test_matches_that_wait_for_one_exception_are_all_told() -> None:
    policies = program(Rule((Phrase("!", "substring", gaps="punctuation", exceptions=("x ! y",)),), "redact", "*"))
    assert run(policies, ["x !!! z"]).text == "x *** z"
    assert run(policies, list("x !!! z")).matches == tuple(Match("test", "r0", i, i + 1) for i in (2, 3, 4))
    assert run(policies, list("x !!! y!")).text == "x !!! y*"


@pytest.mark.parametrize("gaps", ["punctuation", "letters"])
def test_gaps(gaps: str) -> None:
    policies = program(Rule((Phrase("big cat", gaps=gaps),), "redact"))  # type: ignore[arg-type]
    assert run(policies, ["a big -- cat, bigcat"]).text == "a [redacted], bigcat"
    spread = run(policies, list("a b.i.g c-a-t!")).text
    assert spread == ("a [redacted]!" if gaps == "letters" else "a b.i.g c-a-t!")


# -- caches --------------------------------------------------------------------------------------------------------


def test_what_is_learned_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner_threads, "_KEPT_STEPS", 20)
    monkeypatch.setattr(threads, "_MOST_READINGS", 40)
    policies = program(expression("[a-z]+@", "q.{1,30}b"), titan())
    session = policies.text_session()
    for i in range(300):
        session.feed(f"{chr(97 + i % 26)}qaqaq{i} Titan press ")
    for scanner in session._plan.scanners:
        assert len(scanner._steps) <= 20
        assert scanner.automaton._n_readings <= 80
    assert run(policies, ["mail me@", " qaab"]).text == "mail [redacted] [redacted]"
