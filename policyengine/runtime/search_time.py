"""How long expressions that are no automata may be searched for in one output.

Each search has a limit of its own, but a text that is held is searched again with every character, so the sum needs one
too: a second, and a little more with every character. It is counted in CPU time, which a busy machine does not use up.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SECONDS: Final = 1.0  # of an output, to begin with
SECONDS_A_CHARACTER: Final = 0.0002  # and with each character of it


class SearchTimeoutError(Exception):
    """A search took too long, so that nobody knows what the text holds; the output must end."""


class _Clock(threading.local):
    left = math.inf


_clock = _Clock()


class SearchTime:
    """What is left of one output's time. Not safe to share between threads."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = SECONDS

    @contextmanager
    def spend(self, characters: int) -> Iterator[None]:
        """Searches inside are counted; `characters`: how many are read there for the first time."""
        _clock.left = self._left + characters * SECONDS_A_CHARACTER
        try:
            yield
        finally:
            self._left, _clock.left = _clock.left, math.inf


@contextmanager
def counted() -> Iterator[None]:
    """Count one search. Raises SearchTimeoutError where no time is left, and for a TimeoutError inside."""
    if _clock.left <= 0:
        raise SearchTimeoutError
    begin = time.thread_time()
    try:
        yield
    except TimeoutError as error:
        raise SearchTimeoutError from error
    finally:
        _clock.left -= time.thread_time() - begin
