"""Lints of what stands in a file: edges, characters that do not show, alphabets, comments, variables."""

from __future__ import annotations

import pytest

from tests.unit.lint.conftest import Found


@pytest.mark.parametrize(
    ("phrase", "words"),
    [
        ('" Sure"', "begins with white space, so that it is not found at the start"),
        ('"Sure "', "ends with white space, so that it is not found at the end"),
        ('"\u00a0Sure\u00a0"', "begins and ends"),
    ],
)
def test_white_space_at_an_edge(found: Found, phrase: str, words: str) -> None:
    (message,) = found("edge-whitespace", f"rules: {{r: {{ban: {{phrases: [{phrase}]}}}}}}\n")
    assert words in message


def test_white_space_inside_and_in_a_list_is_none_of_its_business(found: Found) -> None:
    rules = "rules: {r: {ban: {phrases: [a b], phrases_from: l.txt}}, b: {bias: {phrases: {in so: 1}}}}\n"
    assert found("edge-whitespace", rules, l__txt="  indented \n") == []


@pytest.mark.parametrize("ch", ["\u200b", "\u00ad", "\u202e", "\u2066", "\ufeff", "\U000e0041", "\u3164"])
def test_characters_that_do_not_show(found: Found, ch: str) -> None:
    message = f"U+{ord(ch):04X}"
    (phrase,) = found("invisible-character", f"rules: {{r: {{ban: {{phrases: [ti{ch}tan]}}}}}}\n")
    (comment,) = found("invisible-character", f"rules: {{r: {{ban: {{phrases: [titan]}}}}}}  # {ch}\n")
    (listed,) = found("invisible-character", "rules: {r: {ban: {phrases_from: l.txt}}}\n", l__txt=f"ti{ch}tan\n")
    assert message in phrase
    assert message in comment
    assert message in listed


@pytest.mark.parametrize(
    "text", ["👨\u200d👩\u200d👧", "❤\ufe0f now", "می\u200cخواهم", "क्\u200dष", '"ti\\u200btan"', "café"]
)
def test_joiners_that_belong_there_and_escapes_that_show(found: Found, text: str) -> None:
    assert found("invisible-character", f"rules: {{r: {{ban: {{phrases: [{text}]}}}}}}\n") == []


@pytest.mark.parametrize("text", ["t\u200ditan", "titan\ufe0f", " \u200dtitan"])
def test_joiners_behind_ascii_hide(found: Found, text: str) -> None:
    assert len(found("invisible-character", f"rules: {{r: {{ban: {{phrases: [{text}]}}}}}}\n")) == 1


@pytest.mark.parametrize(
    ("text", "letter", "other"),
    [
        ("p\u0430ypal", "\u0430", "a"),
        ("the g\u03bfds", "\u03bf", "o"),
        ("Ѕkype", "Ѕ", "S"),
        ("x \u0440aypal", "\u0440", "p"),
    ],
)
def test_a_letter_of_another_alphabet(found: Found, text: str, letter: str, other: str) -> None:
    (message,) = found("homoglyph-in-phrase", f"rules: {{r: {{ban: {{phrases: [{text}]}}}}}}\n")
    assert f"`{letter}` (U+{ord(letter):04X}) only looks like `{other}`" in message


@pytest.mark.parametrize(
    "ban",
    [
        "phrases: [сор]",  # Russian, every letter of which looks like a Latin one
        "phrases: [Project дом]",
        "phrases: [naïve café]",
        "phrases: [Titan는, 使用Titan]",
        "phrases: [p\u0430ypal], normalize: [confusables]",
    ],
)
def test_words_of_one_alphabet(found: Found, ban: str) -> None:
    assert found("homoglyph-in-phrase", f"rules: {{r: {{ban: {{{ban}}}}}}}\n") == []


def test_a_comment_that_swallows_text(found: Found) -> None:
    policy = "rules:\n  r:\n    ban:\n      phrases:\n        - room #4\n        - hall  #b\n"
    assert found("swallowed-comment", policy) == [
        "YAML reads `room` and takes `#4` for a comment",
        "YAML reads `hall` and takes `#b` for a comment",
    ]


@pytest.mark.parametrize(
    "line", ["room # 4", "room  # see #4", "'room' #4", '"room #4"', "room#4", "room #- x", "room #"]
)
def test_comments_that_are_meant(found: Found, line: str) -> None:
    assert found("swallowed-comment", f"rules:\n  r:\n    ban:\n      phrases:\n        - {line}\n") == []


def test_variables_that_are_not_declared(found: Found) -> None:
    policy = "rules: {r: {ban: {phrases: ['{{ product }} {{ product }}', '{{ produkt }}']}}}  # {{ comment }}\n"
    project = "version: 1\nvariables: {product: Titan}\n"
    expected = "no variable `{}` is declared: the text stays as it is written"
    assert found("undeclared-variable", policy) == [expected.format("product"), expected.format("produkt")]
    assert found("undeclared-variable", policy, policyengine__yaml=project) == [expected.format("produkt")]
