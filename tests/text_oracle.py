"""A slow, obvious oracle for the text level: regular expressions over the whole text. It shares no code with sessions.

It knows plain phrases (no folding but that of case, no marks or invisible characters) with their gaps and exceptions,
expressions over `LETTERS`, and replacements that can join nothing: whatever is redacted, the text around it spells
nothing new.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import regex

from tests.oracle import Phrase
from tests.text_programs import Rule

REDACTED = "[redacted]"
LETTERS = ("x", "y", "z", " ", "!")
_TAILS = [*itertools.chain.from_iterable(itertools.product(LETTERS, repeat=n) for n in (1, 2))]


class Occurrence(NamedTuple):
    """Where a match of a rule stands, and how much must be read to know it; the end counts as one more character."""

    start: int
    end: int
    known: int
    rule: int


_WORD = r"[^\W\u4e00-\u9fff]"  # Chinese does not separate words by spaces, so that its characters make no words
_GAPS = {"literal": " ", "spaces": r"\s+", "punctuation": r"[\s\p{P}\p{S}]+", "letters": r"[\s\p{P}\p{S}]+"}


def _elements(phrase: Phrase) -> list[str]:
    """The phrase as parts of a regular expression. An edge is missing only between two characters of words."""
    parts = [_GAPS[phrase.gaps] if ch == " " else regex.escape(ch) for ch in phrase.text]
    if phrase.gaps == "letters":
        parts = [part for part in parts for part in (part, r"[\s\p{P}\p{S}]*")][:-1]
    if phrase.match != "substring" and regex.match(_WORD, phrase.text[0]):
        parts[0] = f"(?<!{_WORD}){parts[0]}"
    if waits(phrase):
        parts[-1] += f"(?!{_WORD})"
    return parts


def waits(phrase: Phrase) -> bool:
    """Whether a match of the phrase is known only once the next character is."""
    return phrase.match == "word" and bool(regex.match(_WORD, phrase.text[-1]))


@cache
def _pattern(source: Phrase | str) -> str:
    if isinstance(source, str):
        # An edge is missing only inside a word.
        return source.replace(r"\b", r"(?:(?<!\w)|(?!\w))").replace(r"\B", r"(?<=\w)(?=\w)")
    return ("(?i)" if source.case == "insensitive" else "") + "".join(_elements(source))


@cache
def _ending(source: Phrase | str, rest: int) -> Any:
    """The expression where so many characters follow it."""
    return regex.compile(rf"(?:{_pattern(source)})(?=[\s\S]{{{rest}}}\Z)")


def stands(text: str, source: Phrase | str, start: int, end: int) -> bool:
    """Whether a phrase or an expression matches exactly there, in this whole text."""
    return bool(_ending(source, len(text) - end).match(text, start))


@cache
def matches(text: str, source: Phrase | str) -> tuple[tuple[int, int, int], ...]:
    """(start, end, known) of all matches, overlapping ones too, that no exception contains."""
    found = []
    for start, end in itertools.combinations(range(len(text) + 1), 2):
        if not stands(text, source, start, end):
            continue
        if isinstance(source, Phrase):
            known = _decided(text, source, start, end)
        else:  # at once, if it matches whatever follows
            known = end + any(not stands(text[:end] + more, source, start, end) for more in ("", *LETTERS))
        if known is not None:
            found.append((start, end, known))
    return tuple(found)


def _decided(text: str, phrase: Phrase, start: int, end: int) -> int | None:
    """How much must be read to know that a match counts; None: it does not."""
    for read in range(end, len(text) + 2):
        counts = _counts(text, phrase, start, end, read)
        if counts is not None:
            return read if counts else None
    raise AssertionError


def _counts(text: str, phrase: Phrase, start: int, end: int, read: int) -> bool | None:
    """Whether a match counts, once so much was read; None: that is not known yet."""
    exceptions = [replace(phrase, text=exception, exceptions=()) for exception in phrase.exceptions]
    around = [known for e in exceptions for s, t, known in matches(text, e) if s <= start and end <= t]
    if any(known <= read for known in around):
        return False
    undecided = any(_begun(text[:read], e, s) for e in exceptions for s in range(start + 1))
    return True if read > len(text) or not (undecided or read < end + waits(phrase)) else None


@cache
def _heads(phrase: Phrase) -> Any:
    """What a text may end in that more text makes the phrase."""
    elements = _elements(phrase)
    heads = ["".join(elements[:count]) for count in range(1, len(elements) + waits(phrase))]
    return regex.compile("|".join(heads) or r"(?!)", regex.IGNORECASE if phrase.case == "insensitive" else 0)


def _begun(text: str, source: Phrase | str, start: int) -> bool:
    """Whether more text may decide on a match that starts there."""
    if start >= len(text):
        return False
    if isinstance(source, Phrase):
        ends = [end for end in range(start + 1, len(text) + 1) if stands(text, source, start, end)]
        waiting = any(_counts(text, source, start, end, len(text)) is None for end in ends)
        return waiting or bool(_heads(source).fullmatch(text, start))
    if any(s == start and known > len(text) for s, _, known in matches(text, source)):
        return True
    match = _ending(source, 0).match(text, start, partial=True)
    return (match and match.partial) or any(
        stands(text + "".join(tail), source, start, len(text) + more)
        for tail in _TAILS
        for more in range(1, len(tail) + 1)
    )


def occurrences(text: str, rules: Sequence[Rule]) -> list[Occurrence]:
    """All of them, overlapping ones too."""
    return [
        Occurrence(start, end, known, rule)
        for rule, ban in enumerate(rules)
        for source in (*ban.phrases, *ban.expressions)
        for start, end, known in matches(text, source)
    ]


def expected(text: str, rules: Sequence[Rule]) -> tuple[str, str | None]:
    """What the client gets of a whole output, and the reason why it ended."""
    found = occurrences(text, rules)
    final = [o for o in found if rules[o.rule].kind != "redact"]
    if not final:
        return redacted(text, found, rules), None
    known = min(o.known for o in final)
    final = [o for o in final if o.known == known]
    winner = rules[min(o.rule for o in final)]
    if winner.kind == "block":
        return winner.text or "", winner.reason
    cut = min(o.start for o in final)
    while True:
        before = [o for o in found if o.known <= known and o.start < cut and rules[o.rule].kind == "redact"]
        # Where the text is cut it ends, and what ends there may become a word; unless it is no longer shown.
        ends = [
            o for o in occurrences(text[:cut], rules) if not any(o.start < b.end and b.start < o.end for b in before)
        ]
        starts = [o.start for o in ends if rules[o.rule].kind != "redact"]
        if not starts:
            break
        cut = min(starts)
    before += ends
    return redacted(text[:cut], before, rules) + (winner.text or ""), winner.reason


def redacted(text: str, found: Sequence[Occurrence], rules: Sequence[Rule]) -> str:
    """The text with each group of overlapping occurrences replaced once."""
    out, at = [], 0
    for o in sorted(found, key=lambda o: (o.start, -o.end, o.rule)):
        if o.start >= at:
            replacement = rules[o.rule].text
            out += [text[at : o.start], REDACTED if replacement is None else replacement]
        at = max(at, o.end)
    return "".join(out) + text[at:]


def joins(text: str, rules: Sequence[Rule]) -> bool:
    """Whether what the client would see holds a match at any time as the text comes: the oracle has no answer then."""
    shown = expected(text, rules)[0]
    if occurrences(shown, rules):
        return True
    found = occurrences(text, rules)
    for read in range(len(text) + 1):
        known = [o for o in found if o.known <= read and rules[o.rule].kind == "redact"]
        shown = redacted(text[:read], known, rules)
        if any(o.known <= len(shown) for o in occurrences(shown, rules)):
            return True
    return False


def held(text: str, rules: Sequence[Rule]) -> int:
    """How many characters may be held after a text: what its live matches need, and those in what the client sees.

    What was live where a live match starts may come back once that match is replaced.
    """
    known = [o for o in occurrences(text, rules) if o.known <= len(text)]
    return max(len(part) - _lowest(part, tuple(rules)) for part in (text, redacted(text, known, rules)))


def live(text: str, rules: Sequence[Rule]) -> Iterator[int]:
    """The places where matches start that more text may decide on."""
    for start in range(len(text)):
        if any(_begun(text, source, start) for ban in rules for source in (*ban.phrases, *ban.expressions)):
            yield start


def longest_live(text: str, rules: Sequence[Rule]) -> int:
    """How many characters at the end of the text a match may still need."""
    return len(text) - next(live(text, rules), len(text))


@cache
def _lowest(text: str, rules: tuple[Rule, ...]) -> int:
    return min((min(start, _lowest(text[:start], rules)) for start in live(text, rules)), default=len(text))
