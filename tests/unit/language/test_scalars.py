"""Plain scalars are read as YAML 1.2 core reads them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from policyengine.language import PolicySet
from policyengine.language.scalars import resolve

TEXT = [
    *("no", "No", "NO", "yes", "on", "off", "y", "n", "12:30", "12:30:45", "1_000", "0b101", "2024-01-01", "<<", "="),
    *("2024-01-01T10:00:00Z", "+", "-", ".", "e3", "1e", "0x", "0xg", "0o8", "0o", "1.2.3", "nULL", "tRUE", "inf"),
    *(
        "nan",
        "--1",
        "+-1",
        "1 000",
        "１２",
        "٣",
        "1٣",
        "0o-1",
        "-0x1",
        "-.nan",
    ),  # digits of other scripts are no digits
]
VALUES = {
    "42": 42,
    "-42": -42,
    "+7": 7,
    "0": 0,
    "0123": 123,
    "0o17": 15,
    "0x1F": 31,
    "00": 0,
    "-0": 0,
    "1e3": 1000.0,
    "1.5": 1.5,
    ".5": 0.5,
    "5.": 5.0,
    "-1.5E-3": -0.0015,
    "+.5": 0.5,
    "1e999": math.inf,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "": None,
    ".inf": math.inf,
    "-.inf": -math.inf,
    "+.INF": math.inf,
}


@pytest.mark.parametrize("text", TEXT)
def test_text_stays_text(text: str) -> None:
    """What YAML 1.1 turns into other values, and what only looks like a number, is text."""
    assert resolve(text) == text


@pytest.mark.parametrize(("text", "value"), VALUES.items())
def test_values(text: str, value: Any) -> None:
    """The core schema's numbers, booleans and null."""
    assert resolve(text) == value
    assert type(resolve(text)) is type(value)


def test_nan() -> None:
    """NaN is a float."""
    assert math.isnan(float(str(resolve(".nan"))))


@pytest.mark.parametrize("sign", ["", "-", "+"])
def test_long_integers_are_cheap_and_huge(sign: str) -> None:
    """Python refuses to read more than 4,300 digits; such a number is out of every range anyway."""
    value = resolve(sign + "9" * 60_000)
    assert isinstance(value, int)
    assert abs(value) == 10**40
    assert (value < 0) == (sign == "-")
    assert resolve("0" * 60_000 + "7") == 7


@pytest.mark.parametrize("text", [t for t in TEXT if t not in ("-", "=")])
def test_as_a_phrase_it_is_the_text_written(text: str, read: Callable[..., PolicySet]) -> None:
    """Unquoted in a block list, each is banned as it was written."""
    policies = read(f"version: 1\npolicy: p\nrules:\n  a:\n    ban:\n      phrases:\n      - {text}\n")
    (rule,) = policies.policies[0].rules
    assert [phrase.text for phrase in rule.body.phrases] == [text]
