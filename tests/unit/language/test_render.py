"""Carets stand under what they mean, and what is shown is fit for a terminal."""

from __future__ import annotations

from policyengine.language.diagnostics import Label, PolicyError, diagnostic, quoted
from policyengine.language.policyset import Span
from policyengine.language.render import Lines, render


def at(line: int, start: int, end: int, file: str = "a.yaml", end_line: int | None = None) -> Span:
    return Span(file, line, start, end_line or line, end)


def test_the_whole_form() -> None:
    """Message, place, gutter, source, caret with label, second place, help."""
    found = diagnostic(
        "forced-contains-banned",
        "`opening` forces text that `names` bans",
        at(9, 18, 25),
        label="forced here",
        hint="force another text",
        labels=[Label(at(7, 5, 8), "banned here"), Label(at(11, 3, 4, "b.yaml"), "and here")],
    )
    sources = {"a.yaml": "\n" * 6 + "    ban\n\n    force: {text: bluebird}\n", "b.yaml": "\n" * 10 + "  x: 1\n"}
    assert render([found], sources) == "\n".join(
        [
            "error[PE103 forced-contains-banned]: `opening` forces text that `names` bans",
            "   --> a.yaml:9:18",
            "   |",
            " 7 |     ban",
            "   |     --- banned here",
            " 9 |     force: {text: bluebird}",
            "   |                  ^^^^^^^ forced here",
            "   |",
            "   ::: b.yaml:11:3",
            "   |",
            "11 |   x: 1",
            "   |   - and here",
            "   |",
            "   = help: force another text",
        ]
    )


def caret(line: str, start: int, end: int) -> tuple[str, str]:
    """The shown line and its underline, without the gutter."""
    text = render([diagnostic("yaml-syntax", "x", at(1, start, end))], {"a.yaml": line + "\n"}).split("\n")
    return text[3][4:], text[4][4:]


def test_wide_characters_take_two_cells_and_marks_none() -> None:
    """Columns are code points, cells are what a terminal shows."""
    assert caret("使用 x", 4, 5) == ("使用 x", "     ^")
    assert caret("使用 x", 1, 3) == ("使用 x", "^^^^")
    assert caret("e\u0301a", 3, 4) == ("e\u0301a", " ^")


def test_tabs_are_shown_as_spaces() -> None:
    """To the next multiple of four, as the underline."""
    assert caret("a\tb", 3, 4) == ("a   b", "    ^")


def test_a_place_without_width_gets_a_caret() -> None:
    """At the end of a line and past it too."""
    assert caret("ab", 3, 3) == ("ab", "  ^")
    assert caret("ab", 9, 12) == ("ab", "  ^")


def test_a_place_over_several_lines_is_underlined_to_the_end_of_its_first() -> None:
    """The rest is not shown."""
    found = diagnostic("yaml-syntax", "x", at(1, 2, 4, end_line=3))
    assert render([found], {"a.yaml": "abcd\nefgh\nijkl\n"}).split("\n")[3:5] == ["1 | abcd", "  |  ^^^"]


def test_long_lines_are_clipped_around_the_place() -> None:
    """A list of ten thousand phrases on one line must not fill the screen."""
    line = "x" * 5000 + "TARGET" + "y" * 5000
    shown, under = caret(line, 5001, 5007)
    assert len(shown) <= 122
    assert shown[under.index("^") : under.rindex("^") + 1] == "TARGET"
    assert shown[0] == shown[-1] == "…"
    shown, under = caret(line, 5001, 10_007)
    assert len(under) <= 122


def test_nothing_plays_tricks_with_a_terminal() -> None:
    """Escape sequences, bidirectional overrides and invisible characters are replaced, in lines and in messages."""
    assert caret("a\x1b[31mb\u202ec\u200bd", 1, 2)[0] == "a\ufffd[31mb\ufffdc\ufffdd"
    assert quoted("a\x1b[31m\u202e\u200b\n\b\ud800\U000e0001") == "`a\\x1b[31m\\u202e\\u200b\\n\\b\\ud800\\U000e0001`"
    assert len(quoted("x" * 1000)) < 70


def test_lines_break_as_yaml_breaks_them() -> None:
    """LF, CRLF and CR; positions are code points."""
    lines = Lines("a\r\nb\rc\n\nd")
    assert [lines[i] for i in range(7)] == ["", "a", "b", "c", "", "d", ""]
    assert lines.position(0) == (1, 1)
    assert lines.position(3) == (2, 1)
    assert lines.position(8) == (5, 1)


def test_an_error_without_its_source_still_says_where() -> None:
    """A file that could not be read has no line to show."""
    found = diagnostic("unreadable-file", "gone", at(1, 1, 1))
    assert str(PolicyError([found])) == "error[PE016 unreadable-file]: gone\n  --> a.yaml:1:1"


def test_order_is_by_place_and_many_are_counted() -> None:
    """Diagnostics come sorted; beyond the first of a file they are counted, and all are in `.diagnostics`."""
    many = [diagnostic("yaml-syntax", "x", at(line, 1, 2)) for line in range(200, 0, -1)]
    error = PolicyError([*many, *many])
    assert [one.span.line for one in error.diagnostics] == list(range(1, 201))
    text = str(error)
    assert text.count("--> a.yaml") == 50
    assert text.endswith("a.yaml: 150 more not shown")
