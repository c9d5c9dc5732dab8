"""What a plain (unquoted) YAML scalar stands for: the core schema of YAML 1.2, and nothing more.

Integers, floats, booleans and null. Everything else is text: `no`, `on`, `12:30`, `1_000`, dates and `<<` too, which
YAML 1.1 readers turn into other values.
"""

from __future__ import annotations

import re

Value = str | int | float | bool | None

_CONSTANTS: dict[str, bool | float | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_NUMBER_STARTS = frozenset("0123456789+-.")
_DECIMAL = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
# Beyond this many digits an integer is out of every range there is, and Python takes long to read it or refuses to.
_DIGITS = 40
_HUGE: int = 10**40


def resolve(text: str) -> Value:
    """The value of a plain scalar. Integers of more than 40 digits come as ±10**40."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in _NUMBER_STARTS:
        return text
    if _DECIMAL.fullmatch(text):
        return _integer(text, 10)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _OCTAL.fullmatch(text):
        return _integer(text[2:], 8)
    if _HEX.fullmatch(text):
        return _integer(text[2:], 16)
    return text


def _integer(digits: str, base: int) -> int:
    significant = digits.lstrip("+-").lstrip("0")
    if len(significant) > _DIGITS:
        return -_HUGE if digits.startswith("-") else _HUGE
    value = int(significant or "0", base)
    return -value if digits.startswith("-") else value
