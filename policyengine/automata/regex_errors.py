"""What can be wrong with a regular expression. Every error says where in the pattern, what, and what to do instead."""

from __future__ import annotations


class ExpressionError(ValueError):
    """A pattern that means nothing, or nothing that can be looked for.

    Attributes:
        message: what is wrong; lower case, without a position and a final period.
        position: the index in the pattern of the character that it is about.
        hint: what to write instead; may be empty.
        pattern: which of several patterns it is about, where several were compiled.
    """

    def __init__(self, message: str, position: int, hint: str = "") -> None:
        super().__init__(message, position, hint)
        self.message, self.position, self.hint = message, position, hint
        self.pattern = 0

    def __str__(self) -> str:
        return f"{self.message} (at character {self.position + 1})"


class NotRegularError(ExpressionError):
    """A pattern that may be right, but that no automaton can match."""


class EmptyMatchError(ExpressionError):
    """A pattern that matches the empty text, which stands everywhere, or no text at all."""


class TooLargeError(ExpressionError):
    """A pattern, or a set of patterns, whose automaton would be larger than the budget."""
