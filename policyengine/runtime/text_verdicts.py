"""What a text session answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

_KEPT, _SHORT = 1 << 16, 64  # how many verdicts are kept, and of how long texts


@dataclass(frozen=True, slots=True)
class Match:
    """A match that decided something; `start` and `end` in code points of the original text.

    One that goes on after it has counted (as of `a+`) is told once, when it is over. One that only a redaction brought
    about (a join in what the client would see) covers all that it joins.
    """

    policy: str
    rule: str
    start: int
    end: int


class Verdict(NamedTuple):
    """What to do now: `text` leaves with it, and after a terminate nothing more. `matches`: decided in this call.

    shadowed: what rules in shadow matched in the original text, which changed nothing. Each is told on its own: what
    other rules make of the text plays no part, but that nothing is read behind the match that ended an output.
    """

    action: Literal["emit", "suppress", "terminate"]
    text: str
    reason: str | None
    matches: tuple[Match, ...]
    shadowed: tuple[Match, ...] = ()


SILENCE: Final = Verdict("suppress", "", None, ())


class _Emitted(dict[str, Verdict]):
    def __missing__(self, text: str) -> Verdict:
        verdict = Verdict("emit", text, None, ()) if text else SILENCE
        if len(text) <= _SHORT:
            if len(self) >= _KEPT:
                self.clear()
            self[text] = verdict
        return verdict


EMITTED: Final = _Emitted()  # by text, the verdict that lets it leave: quicker to find than to make


def verdict_of(text: str, matches: tuple[Match, ...], shadowed: tuple[Match, ...] = ()) -> Verdict:
    """The verdict that lets text leave, if there is any."""
    if not text:
        return Verdict("suppress", "", None, matches, shadowed) if matches or shadowed else SILENCE
    return Verdict("emit", text, None, matches, shadowed)


def joined(parts: Sequence[Verdict]) -> Verdict:
    """Verdicts that follow each other as one; only the last may be a terminate."""
    text, matches = "".join(part.text for part in parts), tuple(match for part in parts for match in part.matches)
    shadowed = tuple(match for part in parts for match in part.shadowed)
    if parts and parts[-1].action == "terminate":
        return Verdict("terminate", text, parts[-1].reason, matches, shadowed)
    return verdict_of(text, matches, shadowed)
