"""Streams under expressions that no automaton can read."""

from __future__ import annotations

import time
from typing import Literal

import pytest

from policyengine import Match, Program, Verdict
from policyengine.runtime import scanner_irregular, text_session
from tests.streams import Result, run
from tests.text_programs import Rule, program


def irregular(
    *sources: str,
    kind: Literal["redact", "terminate", "block"] = "redact",
    text: str | None = "*",
    max_hold: int = 4096,
) -> Program:
    """A program of one rule."""
    return program(Rule((), kind, text, "found", False, sources, True), max_hold=max_hold)


KEY = r"(?<![A-Za-z0-9])sk-[a-z0-9]{8,}(?![A-Za-z0-9])"


@pytest.mark.parametrize(
    ("source", "text", "output"),
    [
        (r"foo(?!bar)", "foobar foobaz foo", "foobar *baz *"),
        (r"(?<!big )cat", "big cat, cat", "big cat, *"),
        (KEY, "my sk-abcdefgh12, ask-abcdefghij, sk-abcdefghX", "my *, ask-abcdefghij, sk-abcdefghX"),
        (r"(\w)\1{3,}", "aaab bbbbb c", "aaab * c"),
        (r"<b>.*?</b>", "x <b>y</b>z</b> <b>q", "x *z</b> <b>q"),
        (r"(?i)(['\"]).*?\1", "say 'hi' \"A\" 'x", "say * * 'x"),
        (r"(?m)^x(?=y).*$", "xy 1\nxz\nxy", "*\nxz\n*"),
        (r"x(?!y)$", "x x", "x *"),
        (r"x(?!y)\Z", "x\nx", "x\n*"),
        (r"\bcat\b(?!s)", "cat concat cat", "* concat *"),
        (r"^(\w)\1", "aabb aa", "*bb aa"),
        (r"(?x) a [$\]] (?!b)  # a $ [ and no b", "a$ a] a$b", "* * a$b"),
        (r"(?#a $)x(?!\$)", "x x$", "* x$"),
        (r"(?P<q>['\"])x(?P=q)", "'x' \"x'", "* \"x'"),
        (r"(?>a+)b\b", "aab aabb ab", "* aabb *"),
        (r"a++(?!b)", "aab aa", "aab *"),
        (r"(a)?b(?(1)c|d)", "abc bd bc", "* * bc"),
    ],
)
def test_every_split_gives_what_the_whole_holds(source: str, text: str, output: str) -> None:
    policies = irregular(source)
    whole = run(policies, [text])
    assert whole.text == output
    for cut in range(len(text)):
        assert run(policies, [text[:cut], text[cut:]]) == whole
    assert run(policies, list(text)) == whole


def test_what_may_match_is_held_and_no_more() -> None:
    session = irregular("foo(?!bar)").text_session()
    assert [session.feed(chunk).text for chunk in ("a f", "oo", "b", "a", "r", " foo", "!")] == [
        *("a ", "", "", "", "foobar", " ", "*!")
    ]
    session = irregular(KEY).text_session()
    assert [session.feed(chunk).text for chunk in ("an ask-", "abcdefgh ", "sk-abcd", "efgh", "1", ".")] == [
        *("an ask-", "abcdefgh ", "", "", "", "*.")
    ]


def test_what_stays_open_too_long_ends_the_output() -> None:
    text = "say 'hello to everybody"
    assert run(irregular(r"(['\"]).*?\1"), [text]).text == text
    assert run(irregular(r"(['\"]).*?\1", max_hold=8), list(text)) == Result("say ", "max_hold", ())


def test_terminate_and_block() -> None:
    ends = irregular(r"(\d)\1\1", kind="terminate", text=None)
    for chunks in (["a 1112 b"], list("a 1112 b"), ["a 111"]):
        assert run(ends, chunks) == Result("a ", "found", (Match("test", "r0", 2, 5),))
    assert run(irregular(r"(\d)\1\1", kind="block", text="No."), ["a 1", "11"]).text == "No."


def test_two_expressions_and_their_joins() -> None:
    policies = irregular(r"x(?!y)", r"(a)\1", text="")
    assert run(policies, ["axa xy"]) == run(policies, list("axa xy"))
    assert run(policies, ["axa xy"]).text == " xy"


def test_an_expression_that_takes_too_long_ends_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of what was being read is shown, and nothing follows."""
    monkeypatch.setattr(scanner_irregular, "SECONDS", 0.01)
    before = text_session.counters["regex_timeout"]
    session = irregular(r"(a|aa)+c(?!x)").text_session()
    assert session.feed("fine, ").text == "fine, "
    assert session.feed("b " + "a" * 40 + " b").reason == "regex_timeout"
    assert session.feed("more") == session.finish() == Verdict("suppress", "", None, ())
    assert text_session.counters["regex_timeout"] == before + 1


@pytest.mark.parametrize(
    ("expression", "kind", "text"),
    [(r"a(?!.*x)", "terminate", "ab " * 1000), (r"(\w+) .*\1", "redact", "lorem ipsum dolor " * 60)],
)
def test_searches_that_are_short_alone_have_a_limit_together(
    expression: str, kind: Literal["redact", "terminate"], text: str
) -> None:
    """A text that is held is searched anew with every character. Another output has time of its own."""
    policies = irregular(expression, kind=kind)
    session, begin = policies.text_session(), time.thread_time()
    verdicts = [session.feed(ch) for ch in text]
    assert [v.reason for v in verdicts if v.action == "terminate"] == ["regex_timeout"]
    assert time.thread_time() - begin < 20  # seconds; a runaway limit
    assert run(policies, ["so, "]).text == "so, "


def test_what_is_learned_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner_irregular, "_KEPT_STEPS", 20)
    policies = irregular(r"(\w)\1{2}")
    session = policies.text_session()
    text = "".join(session.feed(f"n{i} ").text for i in range(100, 300))
    assert len(session._plan.scanners[0]._steps) <= 20
    assert text == "".join(f"n{i} " if i not in (111, 222) else "n* " for i in range(100, 300))


def test_a_long_look_behind_leaves_nothing_behind() -> None:
    """Hardly any two situations are the same then, so none is remembered."""
    policies = irregular("(?<!.{20})x", r"(?<=a+)y")
    session = policies.text_session()
    text = "".join(session.feed(f"n{i} ").text for i in range(500))
    assert session.feed("ay x").text + session.finish().text == "a* x"
    assert text == "".join(f"n{i} " for i in range(500))
    assert session._plan.memo.size == (0, 0)
    assert run(policies, ["x ay", "y"]) == run(policies, list("x ayy"))


@pytest.mark.parametrize(
    ("rule", "text", "shown"),
    [
        (Rule((), "redact", "x", expressions=("(x)(?=y)",), irregular=True), "xxy", "y"),
        (Rule((), "redact", "x", expressions=(r"x\B",)), "xxy", "y"),
        (Rule((), "redact", "x", expressions=(r"(?<=y)(x)(?!\1)",), irregular=True), "yxz", "yz"),
    ],
)
def test_a_replacement_that_is_a_match_where_it_stands_is_left_out(rule: Rule, text: str, shown: str) -> None:
    """And what stood before it is held until that is known."""
    whole = run(program(rule), [text])
    assert whole.text == shown
    assert run(program(rule), list(text)) == whole
