"""Where reasoning ends and the answer begins, in characters and in bytes, however the text is cut."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.runtime.channels import AFTER, INSIDE, START, Markers, Phase, Segment, Splitter

THINK = Markers("<think>", "</think>")


def split(text: str, markers: Markers[str] = THINK, *, inside: bool = False, every: int = 1000) -> list[Segment]:
    """All segments of a text fed in pieces of that size, with neighbours of one channel joined."""
    splitter = Splitter(markers, inside=inside)
    parts = [s for i in range(0, len(text), every) for s in splitter.feed(text[i : i + every])] + splitter.finish()
    joined: list[Segment] = []
    for part in parts:
        if joined and joined[-1].channel == part.channel is not None:
            part = Segment(part.channel, joined.pop().text + part.text)
        joined.append(part)
    return joined


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("yes", [("answer", "yes")], id="no reasoning"),
        pytest.param("<think>a</think>b", [(None, "<think>"), ("reasoning", "a"), (None, "</think>"), ("answer", "b")]),
        pytest.param("\n <think>a", [("answer", "\n "), (None, "<think>"), ("reasoning", "a")], id="white space first"),
        pytest.param("x<think>a</think>b", [("answer", "x<think>a</think>b")], id="a marker that is only mentioned"),
        pytest.param("a</think>b", [("answer", "a</think>b")], id="an end without a start"),
        pytest.param(
            "<think></think><think>b</think>",
            [(None, "<think>"), (None, "</think>"), ("answer", "<think>b</think>")],
            id="reasoning comes once",
        ),
        pytest.param("<thinker", [("answer", "<thinker")], id="the head of a marker that becomes text"),
        pytest.param("<think>a</thi", [(None, "<think>"), ("reasoning", "a</thi")], id="cut off inside a marker"),
        pytest.param("<<think>", [("answer", "<<think>")], id="text before the start"),
        pytest.param(
            "<think><</think>", [(None, "<think>"), ("reasoning", "<"), (None, "</think>")], id="a head before the end"
        ),
    ],
)
@pytest.mark.parametrize("every", [1, 2, 3, 1000])
def test_split(text: str, expected: list[tuple[str | None, str]], every: int) -> None:
    assert [tuple(segment) for segment in split(text, every=every)] == expected


def test_begun_in_the_prompt() -> None:
    """Templates that write the start marker themselves: the output begins inside."""
    assert split("a</think>b", inside=True) == [("reasoning", "a"), (None, "</think>"), ("answer", "b")]
    assert THINK.after("<|assistant|><think>\n") == THINK.after("<think>") == INSIDE
    assert THINK.after("<think>\n\n</think>\n\n") == THINK.after("</think>") == AFTER
    assert THINK.after("what is <think>?") == THINK.after("<think> so") == THINK.after("") == START


def test_text_that_begins_no_marker_is_not_held() -> None:
    splitter = Splitter(THINK)
    assert splitter.feed("<think>so") == [(None, "<think>"), ("reasoning", "so")]
    assert splitter.feed(" far<") == [("reasoning", " far")]
    assert splitter.held == "<"
    assert splitter.feed("b") == [("reasoning", "<b")]
    assert splitter.feed("</think>") == [(None, "</think>")]
    assert splitter.is_settled
    assert splitter.feed("<") == [("answer", "<")]


# -- against an oracle ---------------------------------------------------------------------------------------------

PIECES = st.lists(
    st.sampled_from(["<", ">", "a", "ab", "<ab>", "<a", "</ab>", "/", " ", "\n", "b>", "東"]), max_size=12
)
MARKERS = st.sampled_from([("<ab>", "</ab>"), ("aab", "aaab"), ("<a<ab", "a<a"), (" <ab>", "b>"), ("東<", "東a")])


def by_definition(text: str, start: str, end: str, inside: bool) -> list[tuple[str | None, str]]:
    """The whole text at once, in the words of the definition."""
    parts: list[tuple[str | None, str]] = []
    if not inside:
        found = re.match(r"([ \t\n\v\f\r]*?)" + re.escape(start), text)
        if not found:
            return [("answer", text)] if text else []
        parts = [("answer", found[1]), (None, start)]
        text = text[found.end() :]
    before, marker, after = text.partition(end)
    parts += [("reasoning", before), (None, marker), ("answer", after)]
    return [part for part in parts if part[1]]


@settings(max_examples=300)
@given(PIECES.map("".join), MARKERS, st.booleans(), st.integers(1, 7))
def test_any_chunks_give_what_the_definition_says(
    text: str, markers: tuple[str, str], inside: bool, every: int
) -> None:
    expected = by_definition(text, *markers, inside)
    assert [tuple(s) for s in split(text, Markers(*markers), inside=inside, every=every)] == expected


@settings(max_examples=300)
@given(PIECES.map("".join), MARKERS, st.booleans(), st.integers(1, 5))
def test_bytes_and_characters_agree(text: str, markers: tuple[str, str], inside: bool, every: int) -> None:
    """The channel of the end of every text, and whether a marker may be under way."""
    chars, raw = Markers(*markers), Markers(*(marker.encode() for marker in markers))
    place, rest = INSIDE if inside else START, text
    while rest:
        place, read = chars.read(place, rest)
        rest = "" if read is None else rest[read:]
    data, at = text.encode(), INSIDE if inside else START
    for i in range(0, len(data), every):
        piece = data[i : i + every]
        while piece:
            at, cut = raw.read(at, piece)
            piece = b"" if cut is None else piece[cut:]
    assert at.phase is place.phase
    marker = chars.next_marker(place.phase)
    head = "" if marker is None else marker[: place.matched]
    assert at.matched == len(head.encode())
    if at.matched:
        sizes = raw.heads(at)
        end = raw.next_marker(at.phase)
        assert end is not None
        assert sizes == [n for n in range(len(end) - 1, 0, -1) if data.endswith(end[:n])]


def test_places() -> None:
    """What is known of an output that has not begun, and of one whose answer has."""
    assert START.phase.channel == AFTER.phase.channel == "answer"
    assert INSIDE.phase.channel == "reasoning"
    assert THINK.read(START, "<th")[0] == (Phase.BLANK, 3)
    assert THINK.read(START, "\n<th")[0] == (Phase.OPEN, 3)
    with pytest.raises(ValueError, match="at least one character"):
        Markers("", "x")
