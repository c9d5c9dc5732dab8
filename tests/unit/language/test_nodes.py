"""The tree: places, what is refused, and that both parsers of PyYAML give the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.language import Diagnostic
from policyengine.language.nodes import Mapping, Node, Scalar, Sequence, compose
from policyengine.language.source import Report, Source

LOADERS = [yaml.SafeLoader] + ([yaml.CSafeLoader] if yaml.__with_libyaml__ else [])


def tree(text: str, loader: Any = None) -> tuple[Node | None, list[Diagnostic], Source]:
    """The tree of a text and what was reported."""
    source, report = Source("f.yaml", Path("f.yaml"), text), Report()
    return compose(source, report, loader), report.diagnostics, source


def flat(node: Node | None, source: Source) -> Any:
    """A tree as plain data with places."""
    if node is None:
        return None
    span = node.span(source)
    place = (span.line, span.column, span.end_line, span.end_column)
    if isinstance(node, Scalar):
        if not node.text and node.style is None:
            return "nothing"  # where a value that is not there stands, the parsers see differently
        return node.text, repr(node.value), place
    if isinstance(node, Sequence):
        return [flat(item, source) for item in node.items], place
    assert isinstance(node, Mapping)
    return [(flat(key, source), flat(value, source)) for key, value in node.entries.values()], place


def test_places_count_code_points_from_one() -> None:
    """Wide and combining characters are one column each, a tab too; a byte order mark is none."""
    text = "a: 使用 x\nb: [é, \"🙂\", 'q']\nc: '\t' # 7\nd: |\n  block\n  more\ne:\n- f: g\n"
    root, found, source = tree(text)
    assert found == []
    assert isinstance(root, Mapping)

    def place(node: Node | None) -> tuple[int, int, int, int]:
        assert node is not None
        span = node.span(source)
        return span.line, span.column, span.end_line, span.end_column

    assert place(root.value("a")) == (1, 4, 1, 8)
    listed = root.value("b")
    assert isinstance(listed, Sequence)
    assert [place(item) for item in listed.items] == [(2, 5, 2, 6), (2, 8, 2, 11), (2, 13, 2, 16)]
    assert place(root.value("c")) == (3, 4, 3, 7)
    assert place(root.value("d")) == (4, 4, 4, 5), "a block scalar's place is its first line"
    assert place(root.value("e")) == (8, 1, 8, 7), "so is a block list's"


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize(
    ("text", "names", "place"),
    [
        ("a: &x 1\n", ["yaml-feature"], (1, 4, 6)),
        ("a: *x\n", ["yaml-feature"], (1, 4, 6)),
        ("a: !!str 1\n", ["yaml-feature"], (1, 4, 9)),
        ("a: ! 1\n", ["yaml-feature"], (1, 4, 5)),
        ("a: &x [1]\n", ["yaml-feature"], (1, 4, 6)),
        ("a: !t {b: 1}\n", ["yaml-feature"], (1, 4, 6)),
        ("&k a: 1\n", ["yaml-feature"], (1, 1, 3)),
        ("a: 1\n---\nb: 1\n", ["several-documents"], (2, 1, 4)),
        ("%YAML 1.1\n---\na: 1\n", ["yaml-feature"], (1, 1, 10)),
        ("%TAG ! tag:x,2000:\n---\na: 1\n", ["yaml-feature"], (1, 1, 19)),
        ("a: 1\na: 2\n", ["duplicate-key"], (2, 1, 2)),
        ("a: {0x10: 1, 16: 2}\n", ["duplicate-key"], (1, 14, 16)),
        ("a: {[b]: 1}\n", ["wrong-type"], (1, 5, 8)),
        ("? {a: 1}\n: 2\n", ["wrong-type"], (1, 3, 9)),
        ("a: {{ x }}\n", ["wrong-type"], (1, 4, 11)),
        ("a: @x\n", ["yaml-syntax"], (1, 4, 5)),
        ("a: `x`\n", ["yaml-syntax"], (1, 4, 5)),
        ("a: b: c\n", ["yaml-syntax"], (1, 5, 6)),
        ("\ta: 1\n", ["yaml-syntax"], (1, 1, 2)),
        ('a: "open\n', ["yaml-syntax"], (1, 4, 5)),
        ("a: [open\n", ["yaml-syntax"], None),
        ('a: "\\ud800"\n', ["yaml-syntax"], None),
        ('a: "\\UFFFFFFFF"\n', ["yaml-syntax"], None),
        ("a: b\x00c\n", ["invalid-character"], (1, 5, 6)),
        ("a: b\u2028c\n", ["invalid-character"], (1, 5, 6)),
        ("a: b\u0085c\n", ["invalid-character"], (1, 5, 6)),
        ("a: b # \x07\n", ["invalid-character"], (1, 8, 9)),
        ("\ufeffa: b\n", ["invalid-character"], (1, 1, 2)),
        ("", ["empty-file"], (1, 1, 1)),
        ("# only a comment\n", ["empty-file"], (1, 1, 1)),
        ("---\n...\n", ["empty-file"], (1, 1, 1)),
        ("~\n", ["empty-file"], (1, 1, 1)),
        ("- a\n", ["wrong-type"], (1, 1, 4)),
        ("a\n", ["wrong-type"], (1, 1, 2)),
        ("a: " + "[" * 33 + "]" * 33, ["over-limit"], (1, 35, 36)),
        ("a: " + "x" * 65_537, ["over-limit"], (1, 4, 65_541)),
    ],
)
def test_refused(loader: Any, text: str, names: list[str], place: tuple[int, int, int] | None) -> None:
    """What the language does not have is refused where it stands."""
    _, found, _ = tree(text, loader)
    assert [one.name for one in found] == names
    if place:
        span = found[0].span
        assert (span.line, span.column, span.end_column) == place


def test_a_yaml_1_2_directive_is_what_we_read() -> None:
    """`%YAML 1.2` says what holds anyway."""
    root, found, _ = tree("%YAML 1.2\n---\na: no\n")
    assert found == []
    assert isinstance(root, Mapping)


@pytest.mark.parametrize("loader", LOADERS)
def test_depth_just_within_the_limit(loader: Any) -> None:
    """The limit itself is allowed."""
    root, found, _ = tree("a: " + "[" * 31 + "]" * 31 + "\n", loader)
    assert root is not None
    assert found == []


@pytest.mark.skipif(len(LOADERS) == 1, reason="this PyYAML has no libyaml to compare with")
@given(
    st.lists(
        st.sampled_from(
            [
                "a",
                "b: ",
                ": ",
                "- ",
                "\n",
                "  ",
                "[",
                "]",
                "{",
                "}",
                ", ",
                '"',
                "'",
                "# c",
                "|\n",
                ">-\n",
                "1",
                "é",
                "使",
                "? ",
            ]
        ),
        max_size=25,
    ).map("".join)
)
@settings(max_examples=300, deadline=None)
def test_both_parsers_agree(text: str) -> None:
    """Where both read a text they read the same, with the same places."""
    (pure, pure_found, source), (fast, fast_found, _) = (tree(text, loader) for loader in LOADERS)
    if not pure_found and not fast_found:
        assert flat(pure, source) == flat(fast, source)


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize(
    ("text", "escape"),
    [
        ('["x\\uD83D\\uDE00"]', "\\U0001F600"),
        ('{k: "\\ud83d\\ude00"}', "\\U0001F600"),
        ('["ok", "\\uDBFF\\uDFFF"]', "\\U0010FFFF"),
        ('["\\uD83D", "\\uD83D\\uDE00"]', None),
        ('["\\uDE00\\uD83D"]', None),
    ],
)
def test_an_escape_of_json_is_refused_with_what_to_write(loader: Any, text: str, escape: str | None) -> None:
    """As `json.dumps` writes an emoji; half a pair has no such advice."""
    _, (one,), _ = tree(f"a: {text}", loader)
    assert one.name == "yaml-syntax"
    assert one.help == (escape and f"YAML knows no surrogate pairs; write the character itself, or `{escape}`")
