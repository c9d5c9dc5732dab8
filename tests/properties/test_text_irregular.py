"""Expressions that are not regular: streaming is what the `regex` package finds in the whole output."""

from __future__ import annotations

from dataclasses import replace

import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.runtime.scanner_irregular import IrregularScanner
from tests.properties.test_text_threads import NASTY, TEXTS, cuts
from tests.streams import run, splits
from tests.text_programs import Rule, program

_ATOMS = ["x", "y", "[xy]", ".", "(?:xy)", "(?:x|zy)", "[^x]", " ", "!", r"\w"]
_TIMES = ["", "", "", "+", "*", "?", "+?", "*?", "??", "{2}", "{1,2}", "{2,}?", "++"]
_AROUND = [
    "(?=y)",
    "(?!y)",
    "(?!xy)",
    "(?!.*z)",
    "(?=[^z]*!)",
    "(?<=x)",
    "(?<!x)",
    "(?<!xy)",
    r"\b",
    r"\B",
    "$",
    r"\Z",
    "^",
]
_PARTS = st.one_of(
    st.builds(str.__add__, st.sampled_from(_ATOMS), st.sampled_from(_TIMES)),
    st.sampled_from([*_AROUND, r"\1"]),
)


@st.composite
def irregular(draw: st.DrawFn) -> str:
    """A small expression with look-around, a back-reference or a lazy or possessive part."""
    first = draw(st.sampled_from(["(x)", "([xy])", "(.)", "(y|xz)", "(x+)", "(?>(x|xy))", "([^ ]+?)"]))
    before, after = draw(st.lists(st.sampled_from(_AROUND), max_size=1)), draw(st.lists(_PARTS, max_size=4))
    flags = draw(st.sampled_from(["", "", "(?i)", "(?m)", "(?s)"]))
    return flags + "".join([*before, first, *after])


@st.composite
def rules(draw: st.DrawFn) -> list[Rule]:
    """Rules of such expressions, with all text actions, beside rules of other kinds."""
    mine = []
    for _ in range(draw(st.integers(1, 2))):
        sources = tuple(draw(st.lists(irregular(), min_size=1, max_size=2)))
        kind = draw(st.sampled_from(["redact", "redact", "terminate", "block"]))
        mine.append(Rule((), kind, draw(st.sampled_from([None, "", "x", "#"])), "why", False, sources, True))  # type: ignore[arg-type]
    return draw(st.permutations(mine + draw(NASTY)[:1]))


_TEXTS = st.text(st.sampled_from("xyz !\nX"), max_size=13)


@settings(max_examples=600)
@given(st.lists(irregular(), min_size=1, max_size=2), _TEXTS)
def test_what_counts_is_what_regex_finds(sources: list[str], text: str) -> None:
    """Read by characters, each match is told once, and what it begins with was held from when it was read."""
    (component,) = program(Rule((), "redact", expressions=tuple(sources), irregular=True)).components
    scanner = IrregularScanner(component.automaton, replace(component, rules=tuple(range(len(sources)))), (None,) * 2)
    state, counted, held_from = scanner.start, [], [0]
    for place, ch in enumerate(text):
        state, _, hits = scanner.step(state, ch)
        counted += [(hit.rule, place + hit.end - hit.length, place + hit.end) for hit in hits]
        assert all(place + hit.end - hit.length >= held_from[-1] for hit in hits)
        held_from.append(place + 1 - scanner.longest(state))
    counted += [(hit.rule, len(text) + hit.end - hit.length, len(text) + hit.end) for hit in scanner.at_end(state)]
    expected = [
        (rule, *match.span())
        for rule, source in enumerate(sources)
        for match in regex.finditer(source, text)
        if match.group()
    ]
    assert sorted(counted) == expected
    assert held_from == sorted(held_from)


@settings(max_examples=300)
@given(rules(), _TEXTS, st.data(), st.sampled_from([4, 4096]))
def test_any_chunking_gives_the_same(found: list[Rule], text: str, data: st.DataObject, max_hold: int) -> None:
    """Text, reason and matches; what is shown holds nothing that is found."""
    policies = program(*found, max_hold=max_hold)
    whole = run(policies, [text])
    chunks = data.draw(cuts(text))
    for pieces in (list(text), chunks, list(text), chunks):
        assert run(policies, pieces) == whole
    sources = [source for rule in found if rule.irregular for source in rule.expressions]
    if whole.reason != "max_hold":
        assert not [match for source in sources for match in regex.finditer(source, whole.text) if match.group()]


@settings(max_examples=8)
@given(rules(), TEXTS)
def test_every_split(found: list[Rule], text: str) -> None:
    """All ways of cutting a text of up to 13 characters."""
    policies = program(*found)
    whole = run(policies, [text])
    for chunks in splits(text):
        assert run(policies, chunks) == whole
