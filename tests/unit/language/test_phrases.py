"""Which phrases are refused, judged as they are matched, and what a list file may hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from policyengine.language import Diagnostic, PolicySet

Said = Callable[..., list[tuple[str, str]]]
HEAD = "version: 1\npolicy: p\nrules:\n  a:\n    ban:\n"

MARK = "\u0301"
TAG = "\U000e0041"


@pytest.mark.parametrize(
    ("phrase", "options", "name"),
    [
        ("", "", "empty-phrase"),
        (" ", "", "empty-phrase"),
        ("\u3000\u00a0", "", "empty-phrase"),
        ("\u200b", "", "empty-phrase"),
        ("\u200b \u2060\ufe0f", "", "empty-phrase"),
        (TAG, "", "empty-phrase"),
        ("\u200b", "normalize: []", "empty-phrase"),  # invisible is refused even where it is not dropped
        ("\u00ad", "normalize: [], gaps: literal", "empty-phrase"),
        ("\u3164", "normalize: []", "empty-phrase"),
        (" \u2060\u00a0\ufe0f", "normalize: [marks]", "empty-phrase"),
        (TAG, "normalize: [nfkc]", "empty-phrase"),
        ("\u200b!", "normalize: []", None),
        (" ", "normalize: []", "empty-phrase"),
        (" ", "gaps: literal", "empty-phrase"),
        ("\u00a0", "gaps: literal, normalize: []", "empty-phrase"),
        (MARK, "", None),
        (MARK, "normalize: [marks]", "empty-phrase"),
        (MARK + "x", "normalize: [marks]", None),
        ("\u00a8", "", None),  # a space and a mark once decomposed
        ("\u00a8", "normalize: [nfkc, marks]", "empty-phrase"),
        ("!", "", None),
        (" x", "gaps: letters", "invalid-value"),
        ("x\u3000", "gaps: letters", "invalid-value"),
        ("\u200b x", "gaps: letters", "invalid-value"),
        ("\u200bx y\u200b", "gaps: letters", None),
        (" x ", "gaps: punctuation", None),
        ("-", "gaps: letters", None),
        ("\u00ad", "", "empty-phrase"),
        ("\u115f", "", "empty-phrase"),  # a Hangul filler: default ignorable
        ("a\u0000", "", "control-character"),
        ("a\tb", "", "control-character"),
        ("a\n", "", "control-character"),
        ("a\u0085b", "", "control-character"),
        ("a\u009fb", "gaps: literal", "control-character"),
        ("x" * 4096, "", None),
        ("x" * 4097, "", "over-limit"),
    ],
)
@pytest.mark.parametrize("kind", ["ban", "bias"])
def test_phrases_are_judged_as_they_are_matched(
    phrase: str, options: str, name: str | None, kind: str, request: pytest.FixtureRequest
) -> None:
    """Empty is what folds to nothing, white space or what does not show; the rest of the rule does not matter."""
    quoted = '"' + "".join(f"\\U{ord(ch):08x}" for ch in phrase) + '"'
    if len(phrase) > 1000:
        quoted = f'"{phrase}"'
    value = f"[ok, {quoted}]" if kind == "ban" else f"{{ok: 1, ? {quoted} : 2}}"
    text = f"version: 1\npolicy: p\nrules:\n  a:\n    {kind}: {{phrases: {value}, {options}}}\n"
    if name is None:
        (rule,) = request.getfixturevalue("read")(text).policies[0].rules
        assert len(rule.body.phrases) == 2
    else:
        assert request.getfixturevalue("said")(text) == [(name, quoted)]


def test_each_bad_phrase_has_its_own_line(said: Said) -> None:
    """Several at once, in a policy and in a list."""
    text = HEAD + '      phrases:\n      - ""\n      - good\n      - " "\n      phrases_from: l.txt\n'
    assert said({"p.yaml": text, "l.txt": "good\n\u200b\nx\x00y\n \u00ad \n"}) == [
        ("empty-phrase", "\u200b"),
        ("control-character", "x\x00y"),
        ("empty-phrase", "\u00ad"),
        ("empty-phrase", '""'),
        ("empty-phrase", '" "'),
    ]


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("42", 'quote the phrase: "42"'),
        ("0123", 'quote the phrase: "0123"'),
        ("1e3", 'quote the phrase: "1e3"'),
        ("true", 'quote the phrase: "true"'),
        ("~", 'quote the phrase: "~"'),
        ("null", 'quote the phrase: "null"'),
        (".nan", 'quote the phrase: ".nan"'),
        ("[INST]", 'quote the phrase: "[INST]"'),
        ("{user}", 'quote the phrase: "{user}"'),
        ("{a: 'b'}", "quote the phrase: \"{a: 'b'}\""),
        ("foo: bar", 'quote the phrase: "foo: bar"'),
        ('- "x"', 'quote the phrase: "- \\"x\\""'),
        ("#1 choice", '`#` starts a comment; quote the phrase: "#1 choice"'),
        ("", "write it in quotes, or remove the `-` if no phrase is meant"),
    ],
)
def test_what_yaml_does_not_read_as_text(written: str, hint: str, errors: Callable[..., list[Diagnostic]]) -> None:
    """Nothing is guessed: the help shows the phrase in quotes."""
    (one,) = errors(HEAD + f"      phrases:\n      - ok\n      - {written}\n")
    assert (one.name, one.help, one.span.line) == ("unquoted-phrase", hint, 8)


@pytest.mark.parametrize(
    "written", ["*foo", "&foo", "!important", "@x", "`x`", "%x", "{{ name }}", "[a", "'a", "a: b: c"]
)
def test_what_yaml_does_not_read_at_all(written: str, errors: Callable[..., list[Diagnostic]]) -> None:
    """Every one is an error at its line."""
    found = errors(HEAD + f"      phrases:\n      - ok\n      - {written}\n      - more\n")
    assert [one.span.line for one in found] == [8]


@pytest.mark.parametrize(
    ("content", "phrases"),
    [
        ("a\nb", ["a", "b"]),
        ("a\r\nb\r\n", ["a", "b"]),
        ("  a b \t\n\n \u3000\n#c\n  # d\n\\#e\n\\\\#f\n\\g\n", ["a b", "#e", "\\\\#f", "\\g"]),
        ("\ufeffa\n", ["a"]),
        ("a # not a comment\n", ["a # not a comment"]),
        ("42\ntrue\n~\n[INST]\nfoo: bar\n'q'\n{{ v }}\n", ["42", "true", "~", "[INST]", "foo: bar", "'q'", "{{ v }}"]),
        ("\u2028a\u2028\n", ["a"]),
    ],
)
def test_lists_are_one_a_line_and_literal(content: str, phrases: list[str], read: Callable[..., PolicySet]) -> None:
    """No YAML, no variables."""
    files = {"p.yaml": HEAD + "      phrases_from: 'l.txt'\n", "l.txt": content.encode()}
    (rule,) = read(files, variables={"v": "x"}).policies[0].rules
    assert [phrase.text for phrase in rule.body.phrases] == phrases


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, ("unreadable-file", "l.txt")),
        (b"", ("invalid-value", "l.txt")),
        (b"# only comments\n\n", ("invalid-value", "l.txt")),
        (b"ok\nb\xffd\n", ("invalid-encoding", "\ufffd")),
        (b"ok\na\rb\n", ("control-character", "a")),
        (b"a" * 5000, ("over-limit", "a" * 5000)),
    ],
)
def test_wrong_lists(content: bytes | None, expected: tuple[str, str], said: Said) -> None:
    """A list that cannot be read is wrong where it is named; what is wrong inside is wrong there."""
    files = {"p.yaml": HEAD + "      phrases_from: l.txt\n", **({} if content is None else {"l.txt": content})}
    assert said(files) == [expected]


@pytest.mark.parametrize("path", ["", ".", "sub", "/", "a\\0b"])
def test_paths_that_are_no_file(path: str, said: Said, folder: object) -> None:
    """A directory, the empty path, a NUL in double quotes."""
    assert [name for name, _ in said({"sub/p.yaml": HEAD + f'      phrases_from: "../{path}"\n'})] == [
        "unreadable-file"
    ]


def test_a_list_may_hold_what_two_rules_judge_differently(said: Said) -> None:
    """It is read once and judged under each rule's options."""
    text = HEAD + "      phrases_from: l.txt\n  b: {ban: {phrases_from: l.txt, normalize: [marks]}}\n"
    assert said({"p.yaml": text, "l.txt": f"{MARK}\nok\n"}) == [("empty-phrase", MARK)]
