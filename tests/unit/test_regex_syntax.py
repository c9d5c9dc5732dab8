"""What the parser of expressions refuses, where, and why."""

from __future__ import annotations

import pytest

from policyengine.automata.regex_errors import ExpressionError, NotRegularError, TooLargeError
from policyengine.automata.regex_syntax import is_regular, parse


@pytest.mark.parametrize(
    ("pattern", "position", "message"),
    [
        (r"(a)\1", 3, "the back-reference `\\1`"),
        ("(?P<n>a)(?P=n)", 8, "a back-reference"),
        ("ab(?=c)", 2, "look-ahead `(?=`"),
        ("ab(?!c)", 2, "look-ahead `(?!`"),
        ("(?<=a)b", 0, "look-behind `(?<=`"),
        ("x(?<!a)b", 1, "look-behind `(?<!`"),
        ("a+?b", 2, "a lazy quantifier"),
        ("a{2,3}?", 6, "a lazy quantifier"),
        ("a++", 2, "a possessive quantifier"),
        ("a(?>b)", 1, "an atomic group"),
        ("(a)(?(1)b|c)", 3, "a conditional"),
        ("(?m)^a", 0, "the flag `m`"),
    ],
)
def test_what_is_not_regular(pattern: str, position: int, message: str) -> None:
    with pytest.raises(NotRegularError) as caught:
        parse(pattern)
    assert caught.value.position == position
    assert caught.value.message.startswith(message)
    assert caught.value.hint
    assert not is_regular(pattern)


@pytest.mark.parametrize(
    ("pattern", "position", "message"),
    [
        ("a)", 1, "`)` without `(`"),
        ("a(b", 1, "`(` without `)`"),
        ("a[b", 1, "`[` without `]`"),
        ("[]", 0, "`[` without `]`"),
        ("a\\", 1, "a backslash at the end"),
        ("*a", 0, "nothing to repeat before `*`"),
        ("a|+", 2, "nothing to repeat before `+`"),
        (r"\b*", 2, "nothing to repeat before `*`"),
        ("a**", 2, "two quantifiers in a row"),
        ("a{3,2}", 1, "the bounds of a repetition are the wrong way round: {3,2}"),
        ("[z-a]", 1, "the range `z-a` is the wrong way round"),
        (r"[a-\d]", 1, "a range needs a character on both sides"),
        (r"\1", 0, "there is no group 1"),
        (r"\x1", 0, r"`\x` needs 2 hexadecimal digits"),
        (r"\777", 0, r"`\777` is above `\377`"),
        (r"a\y", 1, r"`\y` has no meaning"),
        (r"[\q]", 1, r"`\q` has no meaning"),
        (r"\N{NO SUCH THING}", 0, "no character is called `NO SUCH THING`"),
        (r"\p{Klingon}", 0, "no property is called `Klingon`"),
        (r"\p{Script=Lu}", 0, "no property is called `Script=Lu`"),
        ("(?P<1>a)", 4, "a group cannot be called `1`"),
        ("(?P<n>a)(?P<n>b)", 12, "two groups are called `n`"),
        ("(?<n>a)", 0, "unknown extension `(?<`"),
        ("a(?i)b", 1, "flags for all of an expression stand at its start"),
        ("(?q)a", 2, "unknown flag `q`"),
        ("(?i-i:a)", 0, "a flag is turned on and off"),
        ("(?#a", 0, "a comment has no `)`"),
    ],
)
def test_what_is_no_pattern(pattern: str, position: int, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(pattern)
    error = caught.value
    assert type(error) is ExpressionError
    assert (error.position, error.message) == (position, message)
    assert str(error) == f"{message} (at character {position + 1})"


def test_a_named_group_of_another_dialect_gets_its_name_here() -> None:
    with pytest.raises(ExpressionError) as caught:
        parse("(?<n>a)")
    assert caught.value.hint == "write `(?P<name>` for a named group"


@pytest.mark.parametrize(
    "pattern", ["a{", "a{}", "a{b}", "a{1", "{1}", "a{1,b}", "]", "}", "a-b", "[]a]", "[^]a]", "[a-]"]
)
def test_what_looks_wrong_and_is_not(pattern: str) -> None:
    if pattern == "{1}":
        with pytest.raises(ExpressionError):
            parse(pattern)
    else:
        parse(pattern)


def test_patterns_beyond_the_limits_end_at_once() -> None:
    for pattern in ("a" * 100_001, "(" * 5000 + "a" + ")" * 5000, "a{99999999999999999999}"):
        with pytest.raises(TooLargeError):
            parse(pattern)
        assert is_regular(pattern)
