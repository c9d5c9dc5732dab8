"""Automata of expressions: what they match, how large they are, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from policyengine.automata import unicode_data
from policyengine.automata.anchored import Anchored
from policyengine.automata.regex_dfa import MOST_CELLS, Expressions
from policyengine.automata.regex_errors import EmptyMatchError, ExpressionError, NotRegularError, TooLargeError
from tests.expressions import api_keys, found


def spans(pattern: str, text: str) -> list[str]:
    return sorted({text[start:end] for _, start, end in found(Expressions.compile([pattern]), text)})


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("ab?c", "abc ac abbc", ["abc", "ac"]),
        ("a|bc", "abc", ["a", "bc"]),
        ("a{2,3}", "aaaa", ["aa", "aaa"]),
        ("[^a-c]", "abcd", ["d"]),
        (r"\d+", "1٣", ["1", "1٣", "٣"]),
        (r"(?a)\d+", "1٣", ["1"]),
        (r"\w\s", "é\u00a0", ["é\u00a0"]),
        ("a.c", "abc a\nc", ["abc"]),
        ("(?s)a.c", "abc a\nc", ["a\nc", "abc"]),
        ("(?i)k", "kK\u212a", ["K", "k", "\u212a"]),
        ("(?i:s)S", "ſS sS SS", ["SS", "sS", "ſS"]),
        ("(?ai)k", "kK\u212a", ["K", "k"]),
        ("(?x) a b # c", "ab", ["ab"]),
        (r"\x41\u0042\103\N{LATIN SMALL LETTER D}", "ABCd", ["ABCd"]),
        (r"\p{Han}+", "a你好", ["你", "你好", "好"]),
        (r"\p{Hani}\P{L}", "你 好a", ["你 "]),
        (r"[\p{Lu}\d]", "aB1", ["1", "B"]),
        (r"\p{Script=Cyrillic}", "aж", ["ж"]),
        ("(?P<x>a)(?:b)", "ab", ["ab"]),
        ("^a", "aa ba", ["a"]),
        ("a$", "ab a", ["a"]),
        (r"\Aa\Z", "a", ["a"]),
        (r"\bcat\b", "cat concat cats", ["cat"]),
        (r"cat\b", "concat cats", ["cat"]),
        (r"\Bcat", "concat cat", ["cat"]),
        (r"cat\B", "cats cat", ["cat"]),
        (r"a\b ", "a ", ["a "]),
        (r"\b는", "Titan는", ["는"]),  # Hangul after Latin is an edge
        (r"\bж", "aж", ["ж"]),
        (r"\bя", "ся", []),
    ],
)
def test_what_matches(pattern: str, text: str, matches: list[str]) -> None:
    assert spans(pattern, text) == matches


def test_the_start_of_the_output_is_only_its_first_place() -> None:
    automaton = Expressions.compile(["^ab", "b"])
    assert found(automaton, "abab") == {(0, 0, 2), (1, 1, 2), (1, 3, 4)}
    assert automaton.first != automaton.start


def test_the_end_counts_only_there() -> None:
    automaton = Expressions.compile(["ab$", r"ab\b", "ab"])
    assert found(automaton, "abab") == {(0, 2, 4), (1, 2, 4), (2, 0, 2), (2, 2, 4)}
    state = automaton.next(automaton.next(automaton.start, automaton.column(97), True), automaton.column(98), False)
    assert (automaton.now(state), automaton.before(state, True), automaton.before(state, False)) == ((2,), (1,), ())
    assert automaton.at_end(state) == (0, 1)
    assert automaton.live(state)


def test_a_finished_state_is_not_live() -> None:
    automaton = Expressions.compile(["ab"])
    a = automaton.next(automaton.start, automaton.column(97), False)
    b = automaton.next(a, automaton.column(98), False)
    assert (automaton.live(a), automaton.live(b)) == (True, False)
    assert automaton.next(b, automaton.column(98), False) == -1


@pytest.mark.parametrize(
    "pattern", ["", "a*", "a?", "(a|)", "^", "$", r"\b", r"\B", "^$", "a*$", "(?:)", "(a{0,3}){2}"]
)
def test_a_pattern_that_matches_nothing_much_is_refused(pattern: str) -> None:
    with pytest.raises(EmptyMatchError, match="matches the empty text"):
        Expressions.compile([pattern])


@pytest.mark.parametrize("pattern", ["a^b", "$a", r"a\b\Bc", r"[^\s\S]", r"[^\x00-\U0010ffff]a"])
def test_a_pattern_that_never_matches_is_refused(pattern: str) -> None:
    with pytest.raises(EmptyMatchError, match="matches no text"):
        Expressions.compile([pattern])


def test_an_error_says_which_pattern_it_is_about() -> None:
    for bad, kind in [
        ("(", ExpressionError),
        ("a*", EmptyMatchError),
        ("(?=a)", NotRegularError),
        ("$a", EmptyMatchError),
    ]:
        with pytest.raises(kind) as caught:
            Expressions.compile(["a", "b", bad, "c"])
        assert caught.value.pattern == 2
    for big in ["a{1,100000}", ".*x.{30}"]:
        with pytest.raises(TooLargeError) as large:
            Expressions.compile(["a", big, "c"])
        assert large.value.pattern == 1
        assert large.value.hint


@pytest.mark.parametrize(
    ("pattern", "states"),
    [
        ("(a|aa)+$", 2),
        ("(a?){60}a{60}", 121),
        (r"\p{L}{1,200}", 201),
        ("(a*)*b", 2),
        ("(x+x+)+y", 4),
        ("((a{0,9}){0,9}){0,9}b", None),
        ("(?i)(?:straße|strasse)+x", None),
        ("a{20000}", 20_001),
        (".*x.{30}", -1),
        ("(a|b)*a(a|b){40}", -1),
        ("a{1,100000}", -1),
        ("((a{1,100}){1,100}){1,100}", -1),
        ("(?:){1000000}" * 10, -1),
        ("(a{0,50}b{0,50}c{0,50}){0,50}d", -1),
        ("|".join(chr(0x4E00 + i) for i in range(5000)), 2),
        ("|".join(chr(0x4E00 + i) * 2 for i in range(5000)), -1),
        ("".join(rf"[\w\p{{L}}{chr(0x2190 + i)}]" for i in range(2000)), -1),
    ],
)
def test_an_automaton_or_an_error(pattern: str, states: int | None) -> None:
    if states == -1:
        with pytest.raises(TooLargeError):
            Expressions.compile([pattern])
        return
    automaton = Expressions.compile([pattern])
    assert states in (None, automaton.n_states)


def test_a_budget_of_states_holds() -> None:
    assert Expressions.compile(["a{10}"], max_states=11).n_states == 11
    with pytest.raises(TooLargeError, match="more than 10 states"):
        Expressions.compile(["a{10}"], max_states=10)


def test_equal_states_are_merged() -> None:
    assert Expressions.compile(["(ab|cb|db)e"]).n_states == Expressions.compile(["[acd]be"]).n_states == 4
    loop = Expressions.compile(["(aa)*b|(aaaa)*b"])
    assert loop.n_states == Expressions.compile(["(aa)*b"]).n_states


def test_a_state_with_no_way_at_an_edge_is_not_one_that_does_not_care() -> None:
    automaton = Expressions.compile([r"a\Bb", "cb"])
    assert found(automaton, "ab cb") == {(0, 0, 2), (1, 3, 5)}
    states = [automaton.next(automaton.start, automaton.column(ord(ch)), True) for ch in "ac"]
    b = automaton.column(ord("b"))
    assert [automaton.next(state, b, True) >= 0 for state in states] == [False, True]
    # The same where both lead to one end.
    assert found(Expressions.compile([r"(?:a\B|c)b"]), "ab cb") == {(0, 0, 2), (0, 3, 5)}


def test_patterns_of_keys_stay_small() -> None:
    patterns = api_keys(500)
    automaton = Expressions.compile(patterns)
    assert automaton.n_states < 40_000
    assert len(automaton.table) * automaton.n_columns <= MOST_CELLS
    assert sum(array.nbytes for array in automaton.to_arrays().values()) < 2 << 20
    text = "key AKIAIOSFODNN7EXAMPLE and ghp_" + "a1" * 18
    matches = {(pattern, text[start:end]) for pattern, start, end in found(automaton, text)}
    assert {(0, "AKIAIOSFODNN7EXAMPLE"), (1, "ghp_" + "a1" * 18)} <= matches


def test_columns_are_few_and_tell_symbols_apart() -> None:
    automaton = Expressions.compile([r"[a-z]\d"])
    assert automaton.n_columns == 3
    assert not automaton.needs_edges
    assert list(automaton.column_join) == [0, 0, 0]
    assert automaton.column(ord("a")) == automaton.column(ord("z")) != automaton.column(ord("A"))
    assert automaton.column(ord("7")) == automaton.column(ord("٣"))
    symbols = np.array([[97, 0x10FFFF], [48, 0]])
    assert automaton.columns_of(symbols).tolist() == [[automaton.column(s) for s in row] for row in symbols.tolist()]


def test_columns_have_one_join_class_where_edges_matter() -> None:
    automaton = Expressions.compile([r"\bcat\b", r"\p{L}+x"])
    assert automaton.needs_edges
    columns = automaton.columns_of(np.arange(unicode_data.N_CODE_POINTS))
    joins = np.array(automaton.column_join)
    assert (joins[columns] == unicode_data.join_classes()).all()


def test_arrays_make_the_same_automaton_and_damaged_ones_none() -> None:
    automaton = Expressions.compile([r"\bcat\b", "^a+b$", "[0-9]{3}"])
    arrays = automaton.to_arrays()
    again = Expressions.from_arrays({name: array.copy() for name, array in arrays.items()})
    text = "aab cat 1234"
    assert found(again, text) == found(automaton, text)
    assert (again.table == automaton.table).all()
    assert {
        name: array.tobytes()
        for name, array in Expressions.compile([r"\bcat\b", "^a+b$", "[0-9]{3}"]).to_arrays().items()
    } == {name: array.tobytes() for name, array in arrays.items()}
    for name in arrays:
        with pytest.raises(KeyError):
            Expressions.from_arrays({key: array for key, array in arrays.items() if key != name})
        for damaged in (
            arrays[name][:-1],
            np.full_like(arrays[name], 255 if arrays[name].dtype == np.uint8 else 10**6),
        ):
            if name == "masks" and damaged.shape == arrays[name].shape:
                continue  # any bits are some sets of columns
            with pytest.raises(ValueError, match="automaton"):
                Expressions.from_arrays({**arrays, name: damaged})


def test_it_is_an_anchored_automaton() -> None:
    automaton: Anchored = Expressions.compile(["a"])
    assert not automaton.has_exceptions
    assert not automaton.eager(0)
    assert not automaton.is_exception(0)
    assert not automaton.live_exception(0)
