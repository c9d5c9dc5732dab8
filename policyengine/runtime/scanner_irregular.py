"""Scanning with expressions that no automaton can read, by the `regex` package.

What counts: the matches that `regex.finditer` finds in the whole output, one after the other, for each expression by
itself; empty ones are left out. `^`, `$` and `\\b` are those of `regex`. A look-behind sees at least `LOOK_BEHIND`
characters.

When: a match counts at the first character after which nothing that may follow can change it, nor any match that begins
before it. That is asked of the engine: searched for as a *part* (`partial=True`) of an expression that can never match,
it names the first place from which some way of matching runs into the end of what was read. Matches that begin before
that place are what they are; from there on text is held. So how text is cut into chunks changes nothing, and unlike
with an automaton a match with an open end (`(?<!x)a+`) is replaced when it is over, not when it has begun.

A search that takes longer than `SECONDS` raises `SearchTimeoutError`, which ends the output; so does one for which the
output has no time left (`search_time`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import regex

from policyengine.runtime.irregular import Irregular
from policyengine.runtime.program import Component, TextAction
from policyengine.runtime.scanners import Hit, Scanner, Step
from policyengine.runtime.search_time import counted

SECONDS = 0.1  # of one search
LOOK_BEHIND = 255  # characters before a match that an expression may ask about

_KEPT_STEPS = 1 << 14
_KEPT_TEXT = 64  # characters; situations with more are not remembered
_KEPT_CONTEXT = 8  # characters of them before what may match; with more there are too many

# Assertions that would take the end of what was read for the end of the output, and what must follow to tell.
_AT_END = {r"\b": r"(?=[\s\S])", r"\B": r"(?=[\s\S])", r"\Z": r"(?=[\s\S])", "$": r"(?=\n?+[\s\S])"}
_AROUND = {*_AT_END, "^", r"\A"}
_TOKEN = re.compile(
    r"""
    (?P<literal> \\. | \[\^?\]?(?:[^\]\\]|\\.)*\] | \(\?\#[^)]*\) | \(\?P=\w+\) | \(\?[a-zA-Z-]+\) )
  | (?P<atomic> \(\?(?:[=!>]|<[=!]) )
  | (?P<open> \((?:\?(?:P?<\w+>|\(\w+\)|[a-zA-Z-]*:))? )
  | (?P<close> \) )
  | (?P<times> (?:[*+?]|\{\d*,?\d*\})(?P<how>[?+]?) )
  | (?P<other> . )
    """,
    re.DOTALL | re.VERBOSE,
)
_COMMENT = re.compile(r"#[^\n]*\n?")


class Situation(NamedTuple):
    """The text that still matters: some of what was read, up to its end.

    starts: by expression, the first place in it from which a match may come.
    """

    text: str
    starts: tuple[int, ...]


class _Expression:
    """One expression. `context`: how many characters before a match it may look at."""

    def __init__(self, source: str) -> None:
        self.whole = regex.compile(source)
        verbose = bool(self.whole.flags & regex.VERBOSE)
        self._inside = regex.compile(_open_ended(source, verbose, greedy=False))
        self._never = regex.compile(f"(?:{_open_ended(source, verbose, greedy=True)})(?!)")
        self.context = _look_behind(source)
        self._bare = _bare(source, verbose)

    def may_hold(self, text: str) -> bool:
        """Whether a match may stand inside a text, whatever is asked of what stands around it."""
        if self._bare is None or self._bare.fullmatch(""):
            return bool(text)
        return bool(self._bare.search(text))

    def matches(self, text: str, start: int) -> Iterator[tuple[int, int]]:
        """The matches from a place on, if the output ends with the text."""
        with counted():
            found = [match.span() for match in self.whole.finditer(text, start, timeout=SECONDS)]
        return (span for span in found if span[1] > span[0])

    def read(self, text: str, start: int) -> tuple[int, list[tuple[int, int]]]:
        """Where a match may still begin, from a place on, and the matches before that that count."""
        found: list[tuple[int, int]] = []
        while True:
            with counted():
                part = self._never.search(text, start, partial=True, timeout=SECONDS)
                limit = part.start() if part else len(text)
                if limit == start:
                    return start, found
                match = self._inside.search(text, start, timeout=SECONDS)
            if match is None or match.start() >= limit:
                return limit, found
            if match.end() > match.start():
                found.append(match.span())
            start = max(match.end(), match.start() + 1)


def _tokens(source: str, verbose: bool) -> Iterator[re.Match[str]]:
    """The parts of an expression, without comments of the verbose form."""
    at = 0
    while at < len(source):
        comment = _COMMENT.match(source, at) if verbose else None
        token = comment or _TOKEN.match(source, at)
        assert token is not None  # one of its ways takes any character
        at = token.end()
        if not comment:
            yield token


def _open_ended(source: str, verbose: bool, *, greedy: bool) -> str:
    """The expression, such that it does not take the end of what was read for the end of the output.

    greedy: lazy repeats become greedy ones: the same run into the end, and of some lazy ones `regex` does not say so.
    In look-around and atomic groups, where the first way of matching is the only one, they stay.
    """
    parts, groups = [], [False]
    for token in _tokens(source, verbose):
        text = token[0]
        match token.lastgroup:
            case "atomic":
                groups.append(True)
            case "open":
                groups.append(groups[-1])
            case "close" if len(groups) > 1:
                groups.pop()
            case "times" | "how" if greedy and token["how"] == "?" and not groups[-1]:
                text = text[:-1]
        parts.append(_AT_END.get(text, "") + text)
    return "".join(parts)


def _bare(source: str, verbose: bool) -> Any:
    """The expression without look-around, edges and ends; None: it does not do without them."""
    parts: list[str] = []
    groups, hidden, left_out = [False], 0, False  # the groups around, which of them look around, and what came last
    for token in _tokens(source, verbose):
        kind, text = token.lastgroup, token[0]
        if kind == "close" and len(groups) > 1 and groups.pop():
            hidden -= 1
            left_out = True
            continue
        if kind in ("atomic", "open"):
            if hidden and kind == "open" and not text.endswith(":"):
                return None  # others may refer to it, or are counted behind it
            groups.append(kind == "atomic" and text != "(?>")
            hidden += groups[-1]
        if kind in ("times", "how") and left_out and not hidden:
            return None
        left_out = bool(hidden) or text in _AROUND
        if not left_out:
            parts.append(text)
    try:
        return regex.compile("".join(parts))
    except regex.error:
        return None


def _look_behind(source: str) -> int:
    """How many characters before a place an expression may ask about; at least one, so that no place is a start."""
    if not re.search(r"\(\?<[=!]", source):
        return 1
    parser: Any = getattr(re, "_parser", None)
    try:
        return min(max(1, *_widths(parser.parse(source))) + 1, LOOK_BEHIND + 1)
    except Exception:  # what only `regex` understands
        return LOOK_BEHIND + 1


def _widths(tree: Any) -> Iterator[int]:
    """How far each look-behind of an expression that `re` has parsed looks."""
    for operation, argument in tree:
        for part in argument if isinstance(argument, (tuple, list)) else ():
            for inner in part if isinstance(part, list) else (part,):
                if hasattr(inner, "getwidth"):
                    if str(operation) in ("ASSERT", "ASSERT_NOT") and argument[0] < 0:
                        yield int(inner.getwidth()[1])
                    yield from _widths(inner)
    yield 0


@cache
def _expression(source: str) -> _Expression:
    return _Expression(source)


class IrregularScanner(Scanner[Situation]):
    """Scans with `Irregular` expressions. A step costs some microseconds an expression, and more with text held."""

    searches = True

    def __init__(self, automaton: Irregular, component: Component, actions: tuple[TextAction | None, ...]) -> None:
        super().__init__(component, actions)
        self._expressions = [_expression(source) for source in automaton.sources]
        self._context = max(expression.context for expression in self._expressions)
        self.recurs = self._context <= _KEPT_CONTEXT
        self.start = Situation("", (0,) * len(self._expressions))
        self._steps: dict[tuple[Situation, str], Step] = {}
        self._last = self.start, "", Step(self.start, 0, ())

    def step(self, state: Situation, ch: str) -> Step:
        """Read one character. Raises SearchTimeoutError."""
        if len(state.text) > _KEPT_TEXT:
            # The original and the visible text mostly go the same way.
            last = self._last
            if last[1] != ch or last[0] != state:
                last = self._last = state, ch, self._step(state, ch)
            return last[2]
        known = self._steps.get((state, ch))
        if known is None:
            if len(self._steps) >= _KEPT_STEPS:
                self._steps.clear()
            known = self._steps[state, ch] = self._step(state, ch)
        return known

    def _step(self, state: Situation, ch: str) -> Step:
        text = state.text + ch
        starts, hits = [], []
        for rule, expression, start in zip(self.rules, self._expressions, state.starts, strict=True):
            after, found = expression.read(text, start)
            starts.append(after)
            hits += [Hit(end - len(text) + 1, end - begin, rule) for begin, end in found]
        gone = max(0, min(starts) - self._context)
        return Step(Situation(text[gone:], tuple(start - gone for start in starts)), 1, tuple(hits))

    def at_end(self, state: Situation) -> tuple[Hit, ...]:
        """What counts if the output ends here. Raises SearchTimeoutError."""
        return tuple(
            Hit(end - len(state.text), end - begin, rule)
            for rule, expression, start in zip(self.rules, self._expressions, state.starts, strict=True)
            for begin, end in expression.matches(state.text, start)
        )

    def longest(self, state: Situation) -> int:
        """The length, in symbols, of the longest match that may still come to count; 0: none."""
        return len(state.text) - min(state.starts)

    def live(self, state: Situation) -> Iterator[int]:
        """The lengths, in symbols, of all matches that may still come to count; the longest first."""
        return iter(range(self.longest(state), 0, -1))

    def may_hold(self, text: str) -> bool:
        """Whether a match may stand inside a text, whatever is asked of what stands around it."""
        return any(expression.may_hold(text) for expression in self._expressions)

    def worth_keeping(self, state: Situation) -> bool:
        return len(state.text) <= _KEPT_TEXT
