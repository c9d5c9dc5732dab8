"""`diff` against brute force: rules of random pairs of small policies, and every text of a few characters.

What is compared with are text sessions, which know nothing of the search. "Same" must mean that no text tells the sides
apart, a direction that is not named must not show in any text, and every text that is named must show it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import policyengine as pe
from policyengine.review.diff import Side, compare
from policyengine.review.diff_model import Difference

# Letters, one of them in both cases; a mark that a step drops; one that never shows; two kinds of white space; a hyphen
# and an underscore (a gap that is part of words); a look-alike; a letter that does not separate words by spaces.
POOL = "abA\u0301\u200d \t-_а中"
LONGEST = 4

phrase = st.text("ab A-", min_size=1, max_size=4).map(str.strip).filter(bool)
expression = st.sampled_from(
    [
        "a",
        "ab?",
        "a+",
        "a+b",
        r"\ba",
        r"a\b",
        r"a\Bb",
        "^a",
        "a$",
        "(?i)a",
        "[ab]{2}",
        "a[^a]",
        "b(a|$)",
        "ab|b",
        r"a\s",
    ]
)
actions = st.sampled_from(["avoid", "redact", "terminate", "block", {"redact": ""}])


@st.composite
def bans(draw: st.DrawFn) -> dict[str, Any]:
    """The value of `ban`."""
    if draw(st.integers(0, 3)) == 0:
        return {"regex": draw(st.lists(expression, min_size=1, max_size=2, unique=True))}
    ban: dict[str, Any] = {"phrases": draw(st.lists(phrase, min_size=1, max_size=3, unique=True))}
    for key, values in (
        ("match", ["word", "prefix", "substring"]),
        ("case", ["insensitive", "sensitive"]),
        ("gaps", ["spaces", "punctuation", "letters", "literal"]),
        ("word_end", ["eager", "exact"]),
    ):
        if draw(st.booleans()):
            ban[key] = draw(st.sampled_from(values))
    if draw(st.integers(0, 2)) == 0:
        ban["normalize"] = draw(
            st.lists(st.sampled_from(["nfkc", "invisible", "marks", "confusables"]), unique=True, max_size=4)
        )
    if draw(st.integers(0, 3)) == 0:
        ban["except"] = draw(st.lists(phrase, min_size=1, max_size=2, unique=True))
    return ban


@st.composite
def pairs(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two rules that often have most in common."""
    base, head = draw(bans()), draw(bans())
    if "phrases" in base and "phrases" in head and draw(st.booleans()):
        head = {**base, **{key: head[key] for key in head if draw(st.integers(0, 2)) == 0}}
    action = draw(actions)
    rules = [{"ban": ban, "action": action} for ban in (base, head)]
    if action == "avoid":
        fallback = draw(st.sampled_from(["terminate", "redact", "block"]))
        for rule in rules:
            rule["fallback"] = fallback
    return rules[0], rules[1]


class Seen(NamedTuple):
    """What a session does with a text."""

    text: str
    reason: str | None
    caught: bool
    covered: frozenset[int]


def seen(program: pe.Program, text: str) -> Seen:
    session = program.text_session()
    verdicts = [session.feed(text), session.finish()]
    matches = [match for verdict in verdicts for match in verdict.matches]
    reason = next((verdict.reason for verdict in verdicts if verdict.action == "terminate"), None)
    covered = frozenset(at for match in matches for at in range(match.start, match.end))
    return Seen("".join(verdict.text for verdict in verdicts), reason, bool(matches), covered)


def program(folder: Path, rule: dict[str, Any]) -> pe.Program:
    policy = {"version": 1, "policy": "p", "rules": {"r": rule}}
    (folder / "p.yaml").write_text(json.dumps(policy, ensure_ascii=False), encoding="utf-8")
    return pe.compile(pe.load(folder / "p.yaml"))


def texts(alphabet: str) -> Iterator[str]:
    for length in range(1, LONGEST + 1):
        yield from map("".join, itertools.product(alphabet, repeat=length))


def difference(base: pe.Program, head: pe.Program) -> Difference:
    [found] = [one for one in compare(Side("base", base), Side("head", head)).differences if one.what == "rule"]
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("policies")


@settings(max_examples=60)
@given(pairs(), st.sets(st.sampled_from(POOL), min_size=3, max_size=4))
def test_no_text_says_otherwise(folder: Path, rules: tuple[dict[str, Any], dict[str, Any]], chars: set[str]) -> None:
    try:
        base, head = (program(folder, rule) for rule in rules)
    except pe.PolicyError:
        return
    found = difference(base, head)
    event(found.change)
    unsure = found.unproven
    shown = {(detail.kind, detail.direction): detail.example for detail in found.details if detail.example is not None}
    for (kind, direction), example in shown.items():
        a, b = seen(base, example.text), seen(head, example.text)
        if kind == "catches":
            assert (a.caught, b.caught) == ((True, False) if direction == "weaker" else (False, True))
        elif kind in ("covers", "joins"):
            assert a.text != b.text
    redacts = "redact" in (rules[0]["action"], rules[0].get("fallback")) or isinstance(rules[0]["action"], dict)
    for text in texts("".join(sorted(chars))):
        a, b = seen(base, text), seen(head, text)
        if found.change == "same":
            assert a == b, text
        for direction, more, less in (("weaker", a, b), ("stronger", b, a)):
            if direction in unsure:
                continue
            named = shown.get(("catches", direction))
            if more.caught and not less.caught:
                assert named is not None, (text, direction)
                assert not named.shortest or len(named.text) <= len(text)
            if redacts and not more.covered <= less.covered:
                assert named is not None or ("covers", direction) in shown, (text, direction)


TOKENS = [*(ch.encode() for ch in "abA \t-_"), b"ab", b"a ", b" a", b"ba", b"b a", "\u200d".encode(), "中".encode()]


def masks(tokens: Any, path: tuple[int, ...]) -> set[int] | None:
    """What is masked after these tokens; None where one of them was."""
    session = tokens.token_session()
    for token in path:
        if token in session.masked().tolist():
            return None
        session.advance(token)
    return set(session.masked().tolist())


@settings(max_examples=40)
@given(pairs())
def test_no_token_says_otherwise(folder: Path, rules: tuple[dict[str, Any], dict[str, Any]]) -> None:
    for rule in rules:
        rule["action"] = "avoid"
    try:
        base, head = (program(folder, rule) for rule in rules)
    except pe.PolicyError:
        return
    found = difference(base, head)
    event(found.change)
    vocabulary = pe.Vocabulary.from_bytes([*TOKENS, b""], eos_token_ids=[len(TOKENS)])
    try:
        sides = [side.bind(vocabulary) for side in (base, head)]
    except pe.BindError:
        return
    named = {detail.direction for detail in found.details} | set(found.unproven)
    for length in range(3):
        for path in itertools.product(range(len(TOKENS)), repeat=length):
            a, b = (masks(side, path) for side in sides)
            if a is None or b is None:
                continue
            if found.change == "same":
                assert a == b, path
            if not named & {"weaker", "changed"}:
                assert a <= b, path
            if not named & {"stronger", "changed"}:
                assert a >= b, path


def test_a_wait_that_is_named_shows_in_the_masks(folder: Path) -> None:
    base, head = (program(folder, {"ban": {"phrases": ["ab"], "word_end": end}}) for end in ("eager", "exact"))
    [detail] = difference(base, head).details
    assert (detail.kind, detail.direction) == ("word_end", "weaker")
    assert detail.example is not None
    assert detail.example.text == "ab"
    vocabulary = pe.Vocabulary.from_bytes([*TOKENS, b""], eos_token_ids=[len(TOKENS)])
    ids = {side: masks(side.bind(vocabulary), (0,)) for side in (base, head)}
    assert ids[base] is not None
    assert ids[head] is not None
    assert TOKENS.index(b"b") in ids[base] - ids[head]
