"""What the token level asks of an automaton on a vocabulary, whichever kind it is."""

from __future__ import annotations

from typing import Any, Protocol

from policyengine.automata.phrases import Ints

# (state, pending): what the automaton knows after the complete characters, and the bytes of one that is not complete
# yet. Hashable; two positions that are equal answer alike.
Position = tuple[Any, bytes]


class Matcher(Protocol):
    """`token_matcher.TokenMatcher` or `thread_matcher.ThreadMatcher`."""

    @property
    def START(self) -> Position:  # noqa: N802 - a constant of the classes
        """The position before the first token."""

    @property
    def automaton(self) -> Any:
        """What is matched: `follow(state, text)` reads text with it."""

    def advance(self, position: Any, token: int) -> tuple[Position, bool]:
        """The position after a token, and whether the token completed a match."""

    def at_end(self, position: Any) -> tuple[int, ...]:
        """The patterns that are complete if the output ends here."""

    def masks(self, position: Any, *, last: bool = False) -> tuple[Ints, ...]:
        """Ids, in parts: the tokens that complete any pattern from here; `last`: nothing can follow the token."""

    def completions(self, position: Any, *, last: bool = False) -> tuple[Ints, Ints]:
        """(ids, patterns): which token completes which pattern."""

    def completes(self, position: Any, token: int, *, last: bool = False) -> set[int]:
        """The patterns that one token completes."""

    def always_completes(self, token: int) -> set[int]:
        """The patterns that one token completes by itself, whatever stands before it."""

    def nbytes(self) -> int:
        """Bytes of the tables and of the cached answers."""


__all__ = ["Matcher", "Position"]
