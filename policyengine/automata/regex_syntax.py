"""The syntax of regular expressions: Python's `re`, of it what is regular, and `\\p{...}`.

Why a parser of its own and not Python's `re._parser`: that one is private and changes with every Python, so that a
policy would compile under one and not under another; its tree has no positions, which every error here carries; it
reads no `\\p{...}`; and what it accepts must be looked through for what is not regular anyway. The price is this file
and `regex_escapes`, and a property test that holds the two together: what `re` refuses is refused here, and the other
way round.

Differences in meaning, by the design of the language: `\\b` and `\\B` are a word edge and its absence as phrases have
them (by script, not by `\\w`), `^` and `\\A` the start of the output, `$` and `\\Z` its very end (`re` lets `$` stand
before a last newline, too). Named and numbered groups only group.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from policyengine.automata import regex_sets
from policyengine.automata.regex_errors import NotRegularError, TooLargeError
from policyengine.automata.regex_escapes import DIGITS, TWO_WAYS, CharacterReader, Flags
from policyengine.automata.regex_tree import UNBOUNDED, Assertion, Chars, Choice, Node, Repeat, Sequence

MAX_LENGTH: Final = 100_000  # code points of one pattern
MAX_DEPTH: Final = 100  # of groups in groups


def parse(pattern: str) -> Node:
    """The tree of a pattern.

    Raises ExpressionError for what `re` would refuse too, NotRegularError for what is not regular, TooLargeError for
    patterns that are too long or too deep.
    """
    if len(pattern) > MAX_LENGTH:
        raise TooLargeError(f"the expression has {len(pattern)} characters, more than {MAX_LENGTH}", MAX_LENGTH)
    try:
        return _Parser(pattern, Flags()).expression()
    except _VerboseError as verbose:
        return _Parser(pattern, verbose.flags).expression()


def is_regular(pattern: str) -> bool:
    """Whether a pattern is regular, however large its automaton. Raises ExpressionError where it is no pattern."""
    try:
        parse(pattern)
    except NotRegularError:
        return False
    except TooLargeError:
        return True
    return True


class _VerboseError(Exception):
    """The pattern turns out to begin with a global (?x): it must be read again from the start."""

    def __init__(self, flags: Flags) -> None:
        super().__init__()
        self.flags = flags


_FIELDS: Final = {"i": "ignore_case", "s": "dot_all", "x": "verbose", "a": "ascii", "u": "ascii"}


class _Parser(CharacterReader):
    """One pass over a pattern."""

    def __init__(self, pattern: str, flags: Flags) -> None:
        super().__init__(pattern)
        self.flags = flags
        self.names: set[str] = set()
        self.typed: set[str] = set()  # which of the global flags a and u were seen

    # -- structure ---------------------------------------------------------------------------------------------------

    def expression(self) -> Node:
        """The whole pattern."""
        node = self.choice(self.flags, 0)
        if self.at < len(self.pattern):
            self.fail("`)` without `(`", self.at, r"write `\)` for the character")
        return node

    def choice(self, flags: Flags, depth: int) -> Node:
        """Alternatives, up to a `)` or the end."""
        if depth > MAX_DEPTH:
            raise TooLargeError(f"groups stand in one another more than {MAX_DEPTH} deep", self.at)
        parts = [self.sequence(flags, depth, first=depth == 0)]
        while self.take("|"):
            parts.append(self.sequence(self.flags if depth == 0 else flags, depth, first=False))
        if all(isinstance(part, Chars) for part in parts):
            return Chars(regex_sets.union(part.runs for part in parts if isinstance(part, Chars)))
        return Choice(tuple(parts))

    def sequence(self, flags: Flags, depth: int, *, first: bool) -> Node:
        """Parts in a row. `first`: whether global flags may stand at its head."""
        parts: list[Node] = []
        while (ch := self.peek()) and ch not in "|)":
            start = self.at
            self.at += 1
            if flags.verbose and ch in " \t\n\r\v\f":
                continue
            if flags.verbose and ch == "#":
                end = self.pattern.find("\n", self.at)
                self.at = len(self.pattern) if end < 0 else end + 1
                continue
            bounds = self.quantifier(ch)
            if bounds:
                self.repeat(parts, *bounds, start)
            elif ch == "(":
                node = self.group(flags, depth, start, first=first and not parts)
                if node is not None:
                    parts.append(node)
                elif first:
                    flags = self.flags
            else:
                parts.append(self.atom(ch, flags, start))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def atom(self, ch: str, flags: Flags, start: int) -> Node:
        """What stands for one character or one place."""
        if ch == "\\":
            return self.escape(flags, start)
        if ch == "[":
            return Chars(self.char_class(flags, start))
        if ch == ".":
            return Chars(regex_sets.ANY if flags.dot_all else regex_sets.NO_LINE_END)
        if ch in "^$":
            return Assertion("start" if ch == "^" else "end")
        return Chars(self.cased(regex_sets.single(ord(ch)), flags))

    # -- quantifiers -------------------------------------------------------------------------------------------------

    def quantifier(self, ch: str) -> tuple[int, int] | None:
        """The bounds of a quantifier that begins with `ch`; None: it is none (`{` may be a character)."""
        if ch in "*+?":
            return {"*": (0, UNBOUNDED), "+": (1, UNBOUNDED), "?": (0, 1)}[ch]
        if ch != "{" or self.peek() == "}":
            return None
        start = self.at
        low = high = self.take_while(DIGITS, len(self.pattern))
        if self.take(","):
            high = self.take_while(DIGITS, len(self.pattern))
        if not self.take("}"):
            self.at = start
            return None
        if max(len(low.lstrip("0")), len(high.lstrip("0"))) > 9:
            raise TooLargeError("a repetition of more than 999999999 times", start - 1)
        least, most = int(low or 0), int(high) if high else UNBOUNDED
        if most != UNBOUNDED and most < least:
            self.fail(f"the bounds of a repetition are the wrong way round: {{{low},{high}}}", start - 1)
        return least, most

    def repeat(self, parts: list[Node], least: int, most: int, start: int) -> None:
        """Apply a quantifier to what was read last."""
        if not parts or isinstance(parts[-1], Assertion):
            self.fail(
                f"nothing to repeat before `{self.pattern[start]}`", start, "write a backslash before a character"
            )
        if isinstance(parts[-1], Repeat):
            self.fail("two quantifiers in a row", start, "put a group around the first: `(?:a+)*`")
        after = self.at
        if self.take("?"):
            self.irregular("a lazy quantifier", after, "leave the `?` out: every match is found, short and long")
        if self.take("+"):
            self.irregular("a possessive quantifier", after, "leave the second `+` out: nothing is ever tried twice")
        parts[-1] = Repeat(parts[-1], least, most, start)

    # -- groups ------------------------------------------------------------------------------------------------------

    def group(self, flags: Flags, depth: int, start: int, *, first: bool) -> Node | None:
        """What follows a `(`; None for a comment and for global flags."""
        inner = flags
        if not self.take("?"):
            self.n_groups += 1
        elif self.take("#"):
            place = self.pattern.find(")", self.at)
            if place < 0:
                self.fail("a comment has no `)`", start)
            self.at = place + 1
            return None
        elif self.take("P"):
            self.named(start)
        elif not self.take(":"):
            scoped = self.extension(flags, start, first=first)
            if scoped is None:
                return None
            inner = scoped
        node = self.choice(inner, depth + 1)
        if not self.take(")"):
            self.fail("`(` without `)`", start, r"write `\(` for the character")
        return Sequence((node,))  # so that a quantifier may follow whatever it is

    def named(self, start: int) -> None:
        """What follows `(?P`."""
        if self.take("<"):
            name = self.take_until(">", "the name of a group", start)
            if not name.isidentifier():
                self.fail(f"a group cannot be called `{name}`", start + 4, "letters, digits and underscores")
            if name in self.names:
                self.fail(f"two groups are called `{name}`", start + 4)
            self.names.add(name)
            self.n_groups += 1
        elif self.take("="):
            name = self.take_until(")", "the name of a group", start)
            if name not in self.names:
                self.fail(f"no group is called `{name}`", start + 4)
            self.irregular("a back-reference", start)
        else:
            self.fail(f"unknown extension `(?P{self.peek()}`", start)

    def extension(self, flags: Flags, start: int, *, first: bool) -> Flags | None:
        """What follows `(?` and is neither a name nor a comment: the flags of a group, or None for global ones."""
        for text in ("<=", "<!", "=", "!"):
            if self.take(text):
                name = "look-behind" if text[0] == "<" else "look-ahead"
                self.irregular(f"{name} `(?{text}`", start, r"`\b`, `^` and `$` can be used; " + TWO_WAYS)
        if self.take("("):
            self.irregular("a conditional `(?(`", start)
        if self.take(">"):
            self.irregular("an atomic group `(?>`", start, "write `(?:` instead: nothing is ever tried twice")
        return self.inline_flags(flags, start, first=first)

    def inline_flags(self, flags: Flags, start: int, *, first: bool) -> Flags | None:
        """`(?i)` and the like, which hold everywhere, and `(?i-s:`, which hold in the group."""
        on = self.flag_letters(start, "-:)")
        off: list[str] = []
        if self.take("-"):
            off = self.flag_letters(start, ":")
            if not off:
                self.fail("a flag is missing after `-`", self.at)
            if {"a", "u"} & {*off}:
                self.fail("the flags `a` and `u` cannot be turned off", start)
        elif not on:
            hint = "write `(?P<name>` for a named group" if self.peek() == "<" else ""
            self.fail(f"unknown extension `(?{self.peek()}`", start, hint)
        if "a" in on and "u" in on:
            self.fail("the flags `a` and `u` exclude each other", start)
        if {*on} & {*off}:
            self.fail("a flag is turned on and off", start)
        if "m" in on:
            self.irregular(
                "the flag `m`", start, "`^` and `$` are the start and end of the output; write `\\n` for lines"
            )
        scoped = self.take(":")
        if not scoped:
            if off or not self.take(")"):
                self.fail("`:` or `)` is missing after flags", self.at)
            if not first:
                self.fail("flags for all of an expression stand at its start", start, "or in a group: `(?i:...)`")
            self.typed |= {"a", "u"} & {*on}
            if len(self.typed) == 2:
                self.fail("the flags `a` and `u` exclude each other", start)
        changes = {_FIELDS[letter]: letter != "u" for letter in on}
        changes |= {_FIELDS[letter]: False for letter in off if letter in _FIELDS}
        changed = replace(flags if scoped else self.flags, **changes)
        if scoped:
            return changed
        if changed.verbose and not self.flags.verbose:
            raise _VerboseError(Flags(verbose=True))
        self.flags = changed
        return None

    def flag_letters(self, start: int, stop: str) -> list[str]:
        """Flags, up to one of the characters of `stop`."""
        found: list[str] = []
        while (ch := self.peek()) and ch not in stop:
            if ch == "L":
                self.fail("the flag `L` is for bytes", self.at)
            if ch == "<" and not found:
                break
            if ch not in _FIELDS and ch != "m":
                self.fail(f"unknown flag `{ch}`", self.at, "flags are a, i, s, u and x")
            found.append(ch)
            self.at += 1
        if not self.peek():
            self.fail("`(` without `)`", start)
        return found
