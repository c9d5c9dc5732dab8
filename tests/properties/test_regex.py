"""Expressions against Python's `re`: the same matches at every place, the same syntax, and an end to every compile."""

from __future__ import annotations

import re
import warnings

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from policyengine.automata.regex_dfa import Expressions
from policyengine.automata.regex_errors import EmptyMatchError, ExpressionError, NotRegularError, TooLargeError
from policyengine.automata.regex_syntax import parse
from tests.expressions import found

# A pattern for us, and the same for `re`.
Pair = tuple[str, str]

# What our word edge is on ASCII, in words of `re`: not between two word characters.
EDGE, NO_EDGE = r"(?:(?<!\w)|(?!\w))", r"(?<=\w)(?=\w)"

_CHARS = st.sampled_from([*"abAB_1 -", "k", "s", r"\.", r"\n", r"\x61"]).map(lambda s: (s, s))
_UNICODE = st.sampled_from([*"éÉжЖß你", "ſ", "\u212a", "İ", "ı", "\u0345", "ι", "ᾳ"]).map(lambda s: (s, s))
_CLASSES = st.sampled_from(
    [
        *(r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", ".", "[ab]", "[^ab]", "[a-k]", "[^a-k_]", r"[\w-]", r"[^\W\d]"),
        *("[A-Z]", "[à-ÿ]", "[^à-ÿ]", r"[ſ-ʀ\s]", "[α-ω]", r"[^\Wk]"),
    ]
).map(lambda s: (s, s))
_PLACES = st.sampled_from([("^", r"\A"), ("$", r"\Z"), (r"\A", r"\A"), (r"\Z", r"\Z"), (r"\b", EDGE), (r"\B", NO_EDGE)])
_QUANTIFIERS = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "{,1}", "{0}"])


def _joined(pairs: list[Pair], between: str = "") -> Pair:
    return between.join(a for a, _ in pairs), between.join(b for _, b in pairs)


def _grouped(pair: Pair, head: str) -> Pair:
    return f"({head}{pair[0]})", f"({head}{pair[1]})"


def patterns(atoms: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    """Patterns of these atoms."""
    return st.recursive(
        atoms,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(_joined),
            st.lists(inner, min_size=2, max_size=3).map(lambda pairs: _grouped(_joined(pairs, "|"), "?:")),
            st.tuples(inner, _QUANTIFIERS).map(lambda t: (f"(?:{t[0][0]}){t[1]}", f"(?:{t[0][1]}){t[1]}")),
            st.tuples(inner, st.sampled_from(["", "?:", "?i:", "?s:", "?a:", "?-i:", "?ai:"])).map(
                lambda t: _grouped(*t)
            ),
        ),
        max_leaves=8,
    )


def expected(pattern: str, text: str) -> set[tuple[int, int, int]]:
    """The matches of one or more symbols that `re` finds, at every start and of every length."""
    result = set()
    for rest in range(len(text)):
        there = re.compile(rf"(?:{pattern})(?s:(?=.{{{rest}}}\Z))")
        result |= {(0, start, len(text) - rest) for start in range(len(text) - rest) if there.match(text, start)}
    return result


def check(ours: str, theirs: str, text: str) -> None:
    """Compare, unless we refuse: then `re` must agree that the pattern matches nothing, or the empty text."""
    try:
        automaton = Expressions.compile([ours])
    except EmptyMatchError as error:
        if "no text" in error.message:
            assert not expected(theirs, text)
        else:
            # At some place of some text. Those places are: between what joins and what does not, at either end.
            texts = ["", "a", "aa", " ", "a ", " a"]
            assert any(re.compile(theirs).match(t, at) for t in texts for at in range(len(t) + 1))
            assert any(m.end() == at for t in texts for at in range(len(t) + 1) for m in _empty(theirs, t, at))
        return
    assert found(automaton, text) == expected(theirs, text)


def _empty(pattern: str, text: str, at: int) -> list[re.Match[str]]:
    """The match of the empty text at a place, if any."""
    match = re.compile(rf"(?:{pattern})(?s:(?=.{{{len(text) - at}}}\Z))").match(text, at)
    return [match] if match else []


@settings(max_examples=400)
@given(patterns(st.one_of(_CHARS, _CLASSES, _PLACES)), st.text("abAB_1 -ks.\n", max_size=7))
@example(("(?:a|ab)(?:c|bcd)?", "(?:a|ab)(?:c|bcd)?"), "abcd")
@example((r"a\b", "a" + EDGE), "a a")
@example((r"(?:\b|a)\B(?:^|b)", f"(?:{EDGE}|a){NO_EDGE}(?:\\A|b)"), "ab b")
def test_matches_are_those_of_re(pair: Pair, text: str) -> None:
    check(*pair, text)


@settings(max_examples=300)
@given(patterns(st.one_of(_CHARS, _CLASSES, _UNICODE)), st.text("abkKsSſ\u212aiIİıéÉжЖßẞ你ι\u0345ᾳ٣ \n", max_size=6))
@example(("(?i:[^ſ])", "(?i:[^ſ])"), "sSſ")
@example(("(?i:İ)", "(?i:İ)"), "iIİı")
def test_matches_beyond_ascii_are_those_of_re(pair: Pair, text: str) -> None:
    check(*pair, text)


@settings(max_examples=150)
@given(st.lists(patterns(st.one_of(_CHARS, _CLASSES, _PLACES)), min_size=2, max_size=4), st.text("abAB_1 ", max_size=6))
def test_a_set_finds_what_each_of_it_finds(pairs: list[Pair], text: str) -> None:
    kept = []
    for ours, _ in pairs:
        try:
            kept.append((ours, found(Expressions.compile([ours]), text)))
        except EmptyMatchError:
            continue
    if kept:
        together = found(Expressions.compile([ours for ours, _ in kept]), text)
        assert together == {(i, start, end) for i, (_, alone) in enumerate(kept) for _, start, end in alone}


@settings(max_examples=1500)
@given(st.text("ab()[]{}?*+|^$\\.-,:=!<>Pisxmau#01789dwbBAZn'\n ", max_size=12))
@example("(?x) a {2}")
@example("(?i)a|(?s)b")
@example("(?#c)(?i)a")
@example("a(?#c)*")
@example("(?:^)*a")
@example("[a-\\")
def test_the_syntax_is_that_of_re(pattern: str) -> None:
    if re.search(r"\\P", pattern):
        return  # a property here, nothing there
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            re.compile(pattern)
            valid = True
        except (re.error, ValueError, OverflowError):
            valid = False
    if valid:
        try:
            parse(pattern)
        except (NotRegularError, TooLargeError):
            return
    else:
        with pytest.raises(ExpressionError):
            parse(pattern)


@settings(max_examples=500)
@given(
    st.one_of(
        st.text(max_size=30),
        st.text("ab.()[]{}?*+|^$\\pLwdbB0123456789,-", max_size=40),
        st.lists(
            st.sampled_from(
                ["(", ")", "a", ".", "*", "+", "{3}", "{9,99}", "{,999}", "|", "[ab]", r"\w", "?", r"\b", r"\p{L}"]
            )
        ).map("".join),
    )
)
def test_every_compile_comes_to_an_end(pattern: str) -> None:
    problem = None
    try:
        automaton = Expressions.compile([pattern])
    except ExpressionError as error:
        problem = error
    if problem is None:
        assert automaton.n_states <= 50_000
        found(automaton, "ab 12 é\n")
    else:
        assert 0 <= problem.position <= len(pattern)
        assert problem.message
