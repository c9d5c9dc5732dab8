"""Answers that are kept: a cache with a bound on how many there are and on the memory of their arrays.

Answers of the token level may be as long as the vocabulary, so a bound on their number alone would let them fill the
memory. When either bound is reached all are forgotten: which of them will be asked again, nobody knows, and what is
asked often is soon back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

K = TypeVar("K")
V = TypeVar("V")

MOST_ENTRIES: Final = 1 << 14  # a bound against walks that never repeat, not a tuning knob
MOST_BYTES: Final = 1 << 26


class Kept(dict[K, V]):
    """A dict that forgets all when it is full. Not thread-safe while it fills. Add with `keep`, never by item.

    most_entries, most_bytes: the bounds; an answer that is larger than all is kept alone.
    """

    __slots__ = ("_bytes", "_known", "most_bytes", "most_entries")

    def __init__(self, most_entries: int | None = None, most_bytes: int | None = None) -> None:
        """None: `MOST_ENTRIES`, `MOST_BYTES`."""
        super().__init__()
        self.most_entries = MOST_ENTRIES if most_entries is None else most_entries
        self.most_bytes = MOST_BYTES if most_bytes is None else most_bytes
        self._bytes = 0
        self._known: set[int] = set()  # arrays that are counted, by identity: entries that keep them share them

    def keep(self, key: K, value: V, arrays: Iterable[npt.NDArray[np.generic]] = (), *, nbytes: int = 0) -> V:
        """Keep an answer and return it.

        arrays: those that the value holds, so that they live as long as it does. nbytes: what it and its key hold
        beside them, where that may be much.
        """
        arrays = list(arrays)
        more = self._new(arrays) + nbytes
        if len(self) >= self.most_entries or self._bytes + more > self.most_bytes:
            self.clear()
            more = self._new(arrays) + nbytes
        self._bytes += more
        self._known.update(map(id, arrays))
        self[key] = value
        return value

    def _new(self, arrays: list[npt.NDArray[np.generic]]) -> int:
        return sum(array.nbytes for array in arrays if id(array) not in self._known)

    def clear(self) -> None:
        """Forget all."""
        super().clear()
        self._known.clear()
        self._bytes = 0


__all__ = ["MOST_BYTES", "MOST_ENTRIES", "Kept"]
