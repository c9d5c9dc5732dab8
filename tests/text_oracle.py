"""A slow, obvious oracle for the text level: regular expressions over the whole text. It shares no code with sessions.

It knows plain phrases (no folding but that of case, no marks or invisible characters) and replacements that can join
nothing: whatever is redacted, the text around it spells nothing new.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import regex

from tests.oracle import Phrase
from tests.text_programs import Rule

REDACTED = "[redacted]"


class Occurrence(NamedTuple):
    """Where a phrase of a rule stands, and how much must be read to know it; the end counts as one more character."""

    start: int
    end: int
    known: int
    rule: int


_WORD = r"[^\W\u4e00-\u9fff]"  # Chinese does not separate words by spaces, so that its characters make no words


@cache
def expression(phrase: Phrase) -> Any:
    """The phrase as a regular expression. An edge is missing only between two characters of words."""
    body = r"\s+".join(map(regex.escape, phrase.text.split(" ")))
    left = f"(?<!{_WORD})" if phrase.match != "substring" and regex.match(_WORD, phrase.text[0]) else ""
    right = f"(?!{_WORD})" if waits(phrase) else ""
    return regex.compile(left + body + right, regex.IGNORECASE if phrase.case == "insensitive" else 0)


def waits(phrase: Phrase) -> bool:
    """Whether a match of the phrase is known only once the next character is."""
    return phrase.match == "word" and bool(regex.match(_WORD, phrase.text[-1]))


def occurrences(text: str, rules: Sequence[Rule]) -> list[Occurrence]:
    """All of them, overlapping ones too."""
    return [
        Occurrence(match.start(), match.end(), match.end() + waits(phrase), rule)
        for rule, ban in enumerate(rules)
        for phrase in ban.phrases
        for match in expression(phrase).finditer(text, overlapped=True)
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
    # Where the text is cut it ends, and what ends there may become a word.
    while starts := [o.start for o in occurrences(text[:cut], rules) if rules[o.rule].kind != "redact"]:
        cut = min(starts)
    before = [o for o in found if o.known <= known and o.start < cut and rules[o.rule].kind == "redact"]
    before += [o for o in occurrences(text[:cut], rules) if rules[o.rule].kind == "redact"]
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


def longest_live(text: str, rules: Sequence[Rule]) -> int:
    """How many characters at the end of the text a match may still need."""
    for start in range(len(text)):
        for ban in rules:
            for phrase in ban.phrases:
                match = expression(phrase).fullmatch(text, start, partial=True)
                if match and (match.partial or waits(phrase)):
                    return len(text) - start
    return 0
