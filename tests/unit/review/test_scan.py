"""Scanning a text: the same however it is cut, with true places, in bounded memory."""

from __future__ import annotations

import io
import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.review.inputs import Decoder, pieces
from policyengine.review.places import Place, Trail
from policyengine.review.scan import Finding, Scanner
from tests.shadows import in_shadow
from tests.streams import cut, run
from tests.text_programs import ban, program


@settings(max_examples=300)
@given(st.lists(st.text("ab\n\r🙂", max_size=7), max_size=30), st.integers(3, 40), st.data())
def test_places_are_those_of_the_whole_text(parts: list[str], kept: int, data: st.DataObject) -> None:
    trail, text = Trail(kept), ""
    for part in parts:
        trail.add(part)
        text += part
        for offset in data.draw(st.lists(st.integers(max(0, len(text) - kept), len(text)), max_size=3)):
            before = text[:offset]
            expected = Place(before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)
            assert trail.place(offset) == expected
            assert trail.excerpt(offset, offset + 3) == text[offset : offset + 3]


@settings(max_examples=300)
@given(
    st.lists(
        st.sampled_from([b"a", b"\xff", b"\xc3", b"\xa9", b"\xe2\x82", b"\xac", b"\xf0\x9f", b"\xed\xa0", "é".encode()])
    )
)
def test_bytes_in_pieces_decode_as_the_whole(parts: list[bytes]) -> None:
    decoder = Decoder()
    text = "".join(decoder.decode(part) for part in parts) + decoder.decode(b"", last=True)
    whole = b"".join(parts)
    assert text == whole.decode("utf-8", "replace")
    assert decoder.invalid == text.count("\ufffd")
    if decoder.invalid:
        assert decoder.first is not None
        before = whole[: decoder.first]
        assert before.decode("utf-8") == text.partition("\ufffd")[0]


@settings(max_examples=100)
@given(st.text("abc \n", max_size=30), st.sets(st.integers(1, 29)))
def test_a_scan_is_what_a_session_does(text: str, places: set[int]) -> None:
    policies = program(ban("abc", match="substring"), ban("ca", terminate="s", match="substring"))
    chunks = cut(text, sorted(place for place in places if place < len(text)))
    shown: list[str] = []
    found: list[Finding] = []
    outcome = Scanner(policies).scan(chunks, show=shown.append, find=found.append)
    expected = run(policies, [text])
    assert ("".join(shown), outcome.reason) == (expected.text, expected.reason)
    assert [(one.rule, one.start, one.end) for one in found] == [
        (f"{match.policy}/{match.rule}", match.start, match.end) for match in expected.matches
    ]
    assert [one.text for one in found] == [text[match.start : match.end] for match in expected.matches]
    assert outcome.shown == len(expected.text)
    assert outcome.action == ("terminate" if expected.reason else "redact" if expected.matches else "pass")


def test_memory_does_not_grow_with_the_text() -> None:
    """3 MB with a match now and then, through less than 2."""
    page = b"Some words, one after the other, of which none is banned.\n" * 1_000 + b"A secret.\n"

    class Pages(io.RawIOBase):
        left = 50

        def read(self, size: int = -1) -> bytes:
            self.left -= 1
            return page if self.left >= 0 else b""

    scanner = Scanner(program(ban("secret")))
    scanner.scan(["a secret"])
    tracemalloc.start()
    try:
        outcome = scanner.scan(pieces(Pages(), Decoder()))  # type: ignore[arg-type]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (outcome.read, outcome.matches) == (50 * len(page), 50)
    assert peak < 2 << 20


def test_rules_in_shadow_are_told_and_decide_nothing() -> None:
    policies = in_shadow(program(ban("abc", match="substring"), ban("x", terminate="s")))
    shown: list[str] = []
    found: list[Finding] = []
    outcome = Scanner(policies).scan(["a", "bc x", " abc"], show=shown.append, find=found.append)
    assert "".join(shown) == "abc x abc"
    assert (outcome.action, outcome.matches, outcome.shadowed, outcome.is_finding) == ("pass", 0, 3, False)
    assert [(one.rule, one.action, one.text, one.shadow) for one in found] == [
        ("test/r0", "redact", "abc", True),
        ("test/r1", "terminate", "x", True),
        ("test/r0", "redact", "abc", True),
    ]
