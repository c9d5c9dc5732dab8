"""Columns: the classes of code points that a set of expressions does not tell apart.

What it costs: memory and a sort over the runs of the sets, not over all code points.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from policyengine.automata import unicode_data
from policyengine.automata.regex_errors import TooLargeError
from policyengine.automata.regex_sets import Runs
from policyengine.automata.unicode_data import N_CODE_POINTS

Ints = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

_AT_ONCE = 256  # sets told apart in one go
MOST_MEMBERS: Final = 1 << 24  # of the matrix of sets and columns
_CACHE_LIMIT = 1 << 16


class Columns:
    """Code point to column.

    starts: int32 [segments], ascending from 0, the first code point of each stretch of one column; `ids`: int32
    [segments], its column. Both read-only. A look-up of one code point is remembered (at most 65,536 of them).
    """

    def __init__(self, starts: Ints, ids: Ints) -> None:
        """Raises ValueError where the arrays do not fit each other."""
        fits = len(starts) == len(ids) > 0 and starts[0] == 0 and bool((np.diff(starts) > 0).all())
        if not fits or starts[-1] >= N_CODE_POINTS or ids.min() < 0:
            raise ValueError("the columns of an automaton do not fit each other")
        self.starts, self.ids = starts.astype(np.int32), ids.astype(np.int32)
        self.starts.flags.writeable = self.ids.flags.writeable = False
        self.n_columns = int(ids.max()) + 1
        self._starts, self._ids = self.starts.tolist(), self.ids.tolist()
        self._known: dict[int, int] = {}

    @classmethod
    def of(cls, sets: Sequence[Runs], *, joins: bool) -> Columns:
        """The columns that tell the sets apart, numbered by their first code points. `joins`: join classes, too.

        Raises TooLargeError for more sets and stretches than can be compared in little time and memory.
        """
        bounds = [first for runs in sets for first, _ in runs] + [last + 1 for runs in sets for _, last in runs]
        if joins:
            classes = unicode_data.join_classes()
            bounds += (np.flatnonzero(classes[1:] != classes[:-1]) + 1).tolist()
        starts = np.unique(np.array([0, *bounds], dtype=np.int64))
        starts = starts[starts < N_CODE_POINTS]
        if len(sets) * len(starts) > MOST_MEMBERS:
            hint = "split the expression into several"
            raise TooLargeError(f"{len(sets)} different characters and classes are too many", 0, hint)
        ids = unicode_data.join_classes()[starts].astype(np.int64) if joins else np.zeros(len(starts), dtype=np.int64)
        for at in range(0, len(sets), _AT_ONCE):
            inside = np.packbits(_members(sets[at : at + _AT_ONCE], starts), axis=0).T
            rows = np.concatenate((inside, ids.astype("<u4").view(np.uint8).reshape(-1, 4)), axis=1)
            ids = _numbered([row.tobytes() for row in rows])
        changes = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
        return cls(starts[changes].astype(np.int32), _numbered(ids[changes].tolist()).astype(np.int32))

    def members(self, sets: Sequence[Runs]) -> Bools:
        """bool [sets, columns]: which columns each set holds."""
        _, first = np.unique(self.ids, return_index=True)
        return _members(sets, self.starts[first])

    def joins(self) -> list[int]:
        """The join class of the first code point of each column."""
        _, first = np.unique(self.ids, return_index=True)
        classes: list[int] = unicode_data.join_classes()[self.starts[first]].tolist()
        return classes

    def column(self, symbol: int) -> int:
        """The column of one code point."""
        known = self._known.get(symbol)
        if known is None:
            known = self._ids[bisect_right(self._starts, symbol) - 1]
            if len(self._known) < _CACHE_LIMIT:
                self._known[symbol] = known
        return known

    def columns_of(self, symbols: npt.NDArray[np.integer]) -> Ints:
        """int32, the shape of `symbols`: the columns of many code points."""
        return self.ids[np.searchsorted(self.starts, symbols, side="right") - 1]


def _members(sets: Sequence[Runs], points: npt.NDArray[np.integer]) -> Bools:
    """bool [sets, points]: which of the code points each set holds."""
    result = np.zeros((len(sets), len(points)), dtype=bool)
    for row, runs in enumerate(sets):
        if len(runs) == 1:
            result[row] = (points >= runs[0][0]) & (points <= runs[0][1])
        elif runs:
            firsts, lasts = np.array(runs, dtype=np.int64).T
            place = np.searchsorted(firsts, points, side="right") - 1
            result[row] = (place >= 0) & (points <= lasts[place])
    return result


def _numbered(keys: Sequence[object]) -> npt.NDArray[np.int64]:
    """Equal keys get equal numbers, from 0 in order of appearance."""
    seen: dict[object, int] = {}
    return np.array([seen.setdefault(key, len(seen)) for key in keys], dtype=np.int64)
