"""`{{ name }}` in text values: replaced where the name is declared, literal where it is not.

Replacing happens after parsing and never inside a key that shapes the policy, so a value cannot change the structure;
what was put in is not looked at again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from policyengine.language import limits

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SURROGATE = re.compile("[\ud800-\udfff]")
USE = re.compile(r"\{\{[ \t]*([A-Za-z_][A-Za-z0-9_-]*)[ \t]*\}\}")


class TooLong(Exception):  # noqa: N818  the reader turns it into a diagnostic
    """Replacing would make a text, or all texts together, longer than the limits."""

    def __init__(self, limit: limits.Limit) -> None:
        super().__init__(limit)
        self.limit = limit


class Variables:
    """The declared variables of one load, and how much text they have made so far."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)
        self._made = 0

    def replace(self, text: str) -> str:
        """The text with declared variables replaced. Raises `TooLong`."""
        if "{{" not in text or not self._values:
            return text
        uses = [(found, self._values[found[1]]) for found in USE.finditer(text) if found[1] in self._values]
        if not uses:
            return text
        length = len(text) + sum(len(value) - len(found[0]) for found, value in uses)
        self._made += length
        if length > limits.TEXT_LENGTH.default:
            raise TooLong(limits.TEXT_LENGTH)
        if self._made > limits.EXPANDED.default:
            raise TooLong(limits.EXPANDED)
        parts: list[str] = []
        last = 0
        for found, value in uses:
            parts += text[last : found.start()], value
            last = found.end()
        return "".join((*parts, text[last:]))


def checked(variables: Mapping[str, str] | None) -> dict[str, str]:
    """Variables from a caller. Raises ValueError for a name that no text can use and for a value that is not text."""
    result: dict[Any, Any] = dict(variables or {})  # a caller may pass anything
    for name, value in result.items():
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name for a variable: letters, digits, _ and -, not starting with a digit")
        if not isinstance(value, str):
            raise ValueError(f"the variable {name!r} must be text, not {type(value).__name__}")
        half = _SURROGATE.search(value)
        if half:
            raise ValueError(f"the variable {name!r} is not valid text: {_surrogate(half[0])}")
        if len(value) > limits.TEXT_LENGTH.default:
            raise ValueError(f"the variable {name!r} has more than {limits.TEXT_LENGTH.default:,} code points")
    return result


def _surrogate(half: str) -> str:
    """What a lone surrogate stands for: Python reads a byte of a command line that is not UTF-8 as one."""
    if "\udc80" <= half <= "\udcff":
        return f"the byte 0x{ord(half) - 0xDC00:02x} is not UTF-8"
    return f"U+{ord(half):04X} is half of a surrogate pair"
