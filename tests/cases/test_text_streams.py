"""Cases 9 to 18: streams of text."""

from __future__ import annotations

import pytest

from policyengine import Match
from tests.cases.text_streams import CASES, EMAIL, Case
from tests.streams import run, splits
from tests.text_programs import ban, program


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_split_gives_the_result_of_the_whole(case: Case) -> None:
    """Text, reason and matches do not depend on where the text is cut."""
    policies = case.program
    for chunks in splits(case.text):
        result = run(policies, chunks)
        assert (result.text, result.reason) == (case.output, case.reason), chunks
        if case.matches is not None:
            assert result.matches == tuple(Match("test", *match) for match in case.matches), chunks


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_nothing_that_left_has_to_change(case: Case) -> None:
    """At every moment, what a client has is the beginning of what the whole text gives it."""
    policies = case.program
    session, seen = policies.text_session(), ""
    for ch in case.text:
        seen += session.feed(ch).text
        assert case.output.startswith(seen)


def test_the_head_of_a_match_is_never_sent() -> None:
    """Case 9: what might be the address waits until it is not."""
    session = program(ban(EMAIL)).text_session()
    assert session.feed("to user@exa").text == "to "
    assert session.feed("mple.com").text == ""
    assert session.feed(".").text == "[redacted]."


def test_held_text_leaves_as_soon_as_it_may() -> None:
    """Case 10: "DEFGHIX" leaves when X arrives, not later."""
    session = program(ban("DEFGHIJ", terminate="found")).text_session()
    assert [session.feed(chunk).text for chunk in ("DEF", "G", "HI", "X")] == ["", "", "", "DEFGHIX"]
    assert session.finish().text == ""


def test_text_that_begins_no_phrase_passes_at_once() -> None:
    """Case 11: the length of the phrases does not delay other text."""
    session = program(ban("q" * 40, "z" * 400, match="substring")).text_session()
    for chunk in ("Text ", "that ", "begins ", "nothing", ", ", "letter", "s"):
        verdict = session.feed(chunk)
        assert (verdict.action, verdict.text) == ("emit", chunk)
        assert session.held == 0


def test_clean_chunks_all_arrive() -> None:
    """Case 12: twenty one-word chunks."""
    session = program(ban("word7x")).text_session()
    chunks = [f"word{i} " for i in range(20)]
    assert [session.feed(chunk).text for chunk in chunks] == chunks


def test_two_outputs_share_nothing() -> None:
    """Case 13: "sec" in one and "ret" in the other are no match; both in the same one are."""
    policies = program(ban("secret"))
    one, other = policies.text_session(), policies.text_session()
    texts = [one.feed("sec").text, other.feed("ret").text, one.feed("ret").text, one.finish().text, other.finish().text]
    assert texts == ["", "ret", "", "[redacted]", ""]


def test_after_the_end_there_is_silence() -> None:
    """Case 14: one terminate, then nothing."""
    session = program(ban("secret", terminate="s")).text_session()
    verdicts = [session.feed(chunk) for chunk in ("a sec", "ret ", "more ", "secret ", "")]
    assert [verdict.action for verdict in verdicts] == ["emit", "terminate", "suppress", "suppress", "suppress"]
    assert [verdict.text for verdict in verdicts] == ["a ", "", "", "", ""]
    assert session.finish().action == "suppress"
