"""Regular expressions as they are read: what is refused, and where in the file the caret stands."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from policyengine.language import Diagnostic, PolicySet
from policyengine.language.expressions import _expanded
from policyengine.language.policyset import Ban

Said = Callable[..., list[tuple[str, str]]]
HEAD = "version: 1\npolicy: p\nrules:\n  a:\n    ban:\n      regex:\n"


@pytest.mark.parametrize(
    ("written", "underlined"),
    [
        ("'ab(c'", "("),
        ('"ab(c"', "("),
        ("ab(c", "("),
        ("'it''s (c'", "("),
        ("'a''''b (c'", "("),
        ("'漢字(c'", "("),
        ("'ab['", "["),
        (r'"a\\d(c"', r'"a\\d(c"'),  # an escape of YAML: where it stands is not worked out
        (">-\n        ab\n        (c", ">-"),
        ("'ab\n        (c'", "'ab"),
    ],
)
def test_the_caret_stands_at_the_character(written: str, underlined: str, said: Said) -> None:
    assert said(f"{HEAD}      - {written}\n") == [("invalid-regex", underlined)]


def test_the_caret_counts_code_points(errors: Callable[..., list[Diagnostic]]) -> None:
    (one,) = errors(f"{HEAD}      - '漢😀(c'\n")
    assert (one.span.line, one.span.column, one.span.end_column) == (7, 12, 13)


@pytest.mark.parametrize(
    "pattern",
    [r"(\w)\1", "a(?=b)", "(?<!a)b", "a+?", "(?<=ab|bc)d", r"(?P<x>a)(?P=x)"],
)
def test_what_is_not_regular_needs_a_text_action(
    pattern: str, said: Said, read: Callable[..., PolicySet], errors: Callable[..., list[Diagnostic]]
) -> None:
    text = f"{HEAD}      - '{pattern}'\n"
    assert [one.name for one in errors(text)] == ["irregular-regex"]
    for action in ("redact", "terminate", "block"):
        (policy,) = read(f"{text}    action: {action}\n").policies
        ban = policy.rules[0].body
        assert isinstance(ban, Ban)
        assert [one.regular for one in ban.expressions] == [False]


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        (r"(\w)\1(", "invalid-regex"),
        (r"(\w*)\1", "invalid-regex"),  # matches the empty text
        # What `regex` knows and Python's `re` does not, or reads otherwise.
        (r"(?=.)a\Kb", "invalid-regex"),
        (r"(?=.)(?R)?ab", "invalid-regex"),
        (r"(?<=a.*)b", "invalid-regex"),
        (r"(?:foo){e<=1}(?=x)", "invalid-regex"),
        (r"[[:alpha:]](?=x)", "invalid-regex"),
        ("(?=a)(?:(?:ab){9999}){9999}", "over-limit"),
        ("(?=a)(?:[a-z]{9999}){99}", "over-limit"),
        ("(?=" + "a" * 4096 + ")b", "over-limit"),
        ("(?=a)" + "(?:" * 1500 + "b" + ")" * 1500, "over-limit"),
    ],
)
def test_a_text_action_does_not_take_everything(pattern: str, name: str, said: Said) -> None:
    text = f"{HEAD}      - '{pattern}'\n    action: redact\n"
    assert [found for found, _ in said(text)] == [name]


@pytest.mark.parametrize(
    ("pattern", "size"),
    [
        ("abc", 3),
        ("a{3}bc", 5),
        ("a{2,7}", 7),
        ("a{,4}", 4),
        ("[a-z]{5}", 5),
        (r"[]a]{5}\{3}", 8),
        ("((a{10}){10}){10}", 1000),
        ("a{0}b{1}", 2),
        ("))((", 2),
        ("", 0),
    ],
)
def test_how_large_a_pattern_is_with_its_repeats_written_out(pattern: str, size: int) -> None:
    assert _expanded(pattern) == size


def test_many_expressions_in_one_rule(said: Said) -> None:
    text = HEAD + "".join(f"      - a{i}\n" for i in range(10_001))
    assert [name for name, _ in said(text)] == ["over-limit"]
