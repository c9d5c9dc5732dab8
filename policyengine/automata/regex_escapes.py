"""Characters of an expression: escapes, classes, properties. `regex_syntax` reads what stands around them."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Final, NoReturn

from policyengine.automata import regex_sets
from policyengine.automata.regex_errors import ExpressionError, NotRegularError, TooLargeError
from policyengine.automata.regex_sets import Runs
from policyengine.automata.regex_tree import Assertion, Chars, Node, Place

_SIMPLE: Final = {"a": 0x07, "f": 0x0C, "n": 0x0A, "r": 0x0D, "t": 0x09, "v": 0x0B, "\\": 0x5C}
_HEX_LENGTH: Final = {"x": 2, "u": 4, "U": 8}
_PLACES: Final[dict[str, Place]] = {"A": "start", "Z": "end", "b": "edge", "B": "no_edge"}
DIGITS, _OCTAL, _HEX = frozenset("0123456789"), frozenset("01234567"), frozenset("0123456789abcdefABCDEF")
TWO_WAYS = "write the alternatives out, or use a text action (redact, terminate, block), which takes any expression"

MOST_RUNS: Final = 300_000  # of all classes of one expression


@dataclass(frozen=True, slots=True)
class Flags:
    """How what follows is read: (?i), (?s), (?x), (?a)."""

    ignore_case: bool = False
    dot_all: bool = False
    verbose: bool = False
    ascii: bool = False


class CharacterReader:
    """Reads a pattern's characters one by one; `at` is the index of the next.

    n_groups: one more than the groups opened so far, which is what makes a digit a back-reference.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern, self.at, self.n_groups = pattern, 0, 1
        self._runs_left = MOST_RUNS

    # -- reading -----------------------------------------------------------------------------------------------------

    def peek(self) -> str:
        """The next character, "" at the end."""
        return self.pattern[self.at : self.at + 1]

    def take(self, text: str) -> bool:
        """Whether `text` comes next; if so it is read."""
        found = self.pattern.startswith(text, self.at)
        self.at += len(text) * found
        return found

    def take_while(self, allowed: frozenset[str], most: int) -> str:
        """The next characters that are allowed."""
        start = self.at
        while self.at - start < most and self.peek() in allowed:
            self.at += 1
        return self.pattern[start : self.at]

    def take_until(self, end: str, what: str, start: int) -> str:
        """What stands before `end`, which is read too."""
        place = self.pattern.find(end, self.at)
        if place < 0:
            self.fail(f"{what} has no `{end}`", start)
        if place == self.at:
            self.fail(f"{what} is empty", start)
        found = self.pattern[self.at : place]
        self.at = place + 1
        return found

    def fail(self, message: str, position: int, hint: str = "") -> NoReturn:
        """Raise a syntax error."""
        raise ExpressionError(message, position, hint)

    def irregular(self, what: str, position: int, hint: str = TWO_WAYS) -> NoReturn:
        """Raise an error about what no automaton can do."""
        raise NotRegularError(f"{what} cannot be matched by an automaton", position, hint)

    def cased(self, runs: Runs, flags: Flags) -> Runs:
        """The set under the flag (?i)."""
        return regex_sets.any_case(runs, flags.ascii) if flags.ignore_case else runs

    # -- escapes and classes -----------------------------------------------------------------------------------------

    def escape(self, flags: Flags, start: int) -> Node:
        """What follows a backslash outside of a class."""
        ch = self.peek()
        if ch in _PLACES:
            self.at += 1
            return Assertion(_PLACES[ch])
        if ch in DIGITS:
            return Chars(self.cased(regex_sets.single(self.number(start)), flags))
        runs, _, letters = self.escaped(flags, start)
        return Chars(runs if letters else self.cased(runs, flags))

    def number(self, start: int) -> int:
        """A code point written in octal; or a back-reference, which is refused."""
        if self.take("0"):
            return int("0" + self.take_while(_OCTAL, 2), 8)
        digits = self.take_while(DIGITS, 2)
        if len(digits) == 2 and {*digits} <= _OCTAL and self.peek() in _OCTAL:
            return self.octal(digits + self.take_while(_OCTAL, 1), start)
        if int(digits) >= self.n_groups:
            self.fail(f"there is no group {digits}", start, "for a character, write `\\x` and two digits")
        return self.irregular(f"the back-reference `\\{digits}`", start)

    def octal(self, digits: str, start: int) -> int:
        """The code point of octal digits."""
        if int(digits, 8) > 0o377:
            self.fail(f"`\\{digits}` is above `\\377`", start, "write `\\x` and two, or `\\u` and four, digits")
        return int(digits, 8)

    def escaped(self, flags: Flags, start: int) -> tuple[Runs, int | None, bool]:
        """What an escape means in and outside of classes.

        Returns the set, its code point if it is a single character, and whether it is one of `\\d`, `\\s`, `\\w`,
        to which (?i) does nothing.
        """
        ch = self.peek()
        if not ch:
            self.fail("a backslash at the end", start, r"write `\\` for the character")
        self.at += 1
        if ch in "dDsSwW":
            return regex_sets.by_letter(ch, flags.ascii), None, True
        if ch in "pP":
            return self.property(ch == "P", flags, start), None, True
        cp = self.code_point(ch, start)
        return regex_sets.single(cp), cp, False

    def code_point(self, ch: str, start: int) -> int:
        """The character that an escape stands for."""
        if ch in _SIMPLE:
            return _SIMPLE[ch]
        if ch in _HEX_LENGTH:
            digits = self.take_while(_HEX, _HEX_LENGTH[ch])
            if len(digits) < _HEX_LENGTH[ch]:
                self.fail(f"`\\{ch}` needs {_HEX_LENGTH[ch]} hexadecimal digits", start)
            if int(digits, 16) > 0x10FFFF:
                self.fail(f"`\\{ch}{digits}` is no character", start)
            return int(digits, 16)
        if ch == "N":
            if not self.take("{"):
                self.fail("`\\N` needs a name in braces", start)
            name = self.take_until("}", "the name of a character", start)
            try:
                return ord(unicodedata.lookup(name))
            except (KeyError, TypeError):
                self.fail(f"no character is called `{name}`", start)
        if ch.isascii() and ch.isalnum():
            self.fail(f"`\\{ch}` has no meaning", start, f"write `{ch}` for the character")
        return ord(ch)

    def property(self, negated: bool, flags: Flags, start: int) -> Runs:
        """What follows `\\p`: a name in braces, or one letter."""
        if self.take("{"):
            name = self.take_until("}", "the name of a property", start)
        else:
            name = self.peek()
            self.at += 1
        if name.startswith("^"):
            name, negated = name[1:], not negated
        runs = regex_sets.by_property(name)
        if runs is None:
            hint = "categories (`L`, `Lu`, `Nd`) and scripts (`Han`, `Script=Latin`) are known"
            self.fail(f"no property is called `{name}`", start, hint)
        runs = self.cased(runs, flags)
        return regex_sets.complement(runs) if negated else runs

    def char_class(self, flags: Flags, start: int) -> Runs:
        """What follows a `[`."""
        negated = self.take("^")
        plain: list[Runs] = []  # (?i) does nothing to these
        chars: list[Runs] = []
        begin = self.at
        while True:
            if not self.peek():
                self.fail("`[` without `]`", start, r"write `\[` for the character")
            if self.peek() == "]" and self.at > begin:
                self.at += 1
                break
            here = self.at
            runs, cp, fixed = self.member(flags)
            if self.peek() == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                _, last, _ = self.member(flags)
                if cp is None or last is None:
                    self.fail("a range needs a character on both sides", here, "put the `-` first or last")
                if last < cp:
                    self.fail(f"the range `{self.pattern[here : self.at]}` is the wrong way round", here)
                runs = ((cp, last),)
            (plain if fixed else chars).append(runs)
        result = regex_sets.union([*plain, self.cased(regex_sets.union(chars), flags)])
        self._runs_left -= len(result)
        if self._runs_left < 0:
            raise TooLargeError("the classes of the expression are too many and too large", start, "say less in each")
        return regex_sets.complement(result) if negated else result

    def member(self, flags: Flags) -> tuple[Runs, int | None, bool]:
        """One member of a class, as `escaped` returns it."""
        start, ch = self.at, self.peek()
        self.at += 1
        if ch != "\\":
            return regex_sets.single(ord(ch)), ord(ch), False
        if self.take("b"):
            return regex_sets.single(0x08), 0x08, False
        digits = self.take_while(_OCTAL, 3)
        if digits:
            cp = self.octal(digits, start)
            return regex_sets.single(cp), cp, False
        return self.escaped(flags, start)
