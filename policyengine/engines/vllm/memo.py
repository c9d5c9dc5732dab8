"""What sessions of one kind answer at one place, kept so that a step of a row seen before is one look-up.

Most rows of a batch, most of the time, stand where some row has stood before: their answers depend on the place alone,
not on how long the output is (`TokenSession.settled`). A `Spot` keeps those answers and, by token, the spots it leads
to. Whatever is not on the way of such links (a new token, a forced one, the last one under a limit) is asked of the
session itself, and that is where links come from.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from policyengine.automata.kept import Kept

if TYPE_CHECKING:
    from policyengine.runtime.token_session import StandIn, TokenSession

Ids = npt.NDArray[np.int32]
Wide = npt.NDArray[np.int64]
Bias = tuple[Ids, npt.NDArray[np.float64]]

_MOST_SPOTS = 1 << 14
_MOST_LINKS = 1 << 18  # some 100 bytes each


class Mask:
    """The ids that a row may not choose, in parts that may overlap. Shared between rows and steps; read-only.

    parts: int32 arrays. wide: the same ids as int64, which numpy indexes without a copy; filled where they are written
    on the host. kept: what holds the long ones of them, so that other masks with the same parts share them. placed:
    where they are on the device; `kernel_tables` fills it and alone reads it.
    """

    __slots__ = ("kept", "parts", "placed", "wide")

    def __init__(self, parts: tuple[Ids, ...]) -> None:
        self.parts = parts
        self.wide: tuple[Wide, ...] | None = None
        self.kept: tuple[WidePart, ...] = ()
        self.placed: Placed | None = None


class Placed(NamedTuple):
    """Where a mask is. segments: int32 [2 x parts], a place and a length each. epoch: as long as the tables have it."""

    epoch: int
    segments: Ids


class WidePart:
    """A part and the same ids as int64; while it lives, the part's identity cannot be taken by another array."""

    __slots__ = ("__weakref__", "ids", "part")

    def __init__(self, part: Ids) -> None:
        self.part = part
        self.ids: Wide = part.astype(np.int64)


class More(NamedTuple):
    """What few rows need beside a mask: `TokenSession.bias_arrays`, `only` (and whether it may be masked whole)
    and `stand_in`."""

    bias: Bias | None
    only: Ids | None
    may_be_none: bool
    stand_in: StandIn | None


class Spot:
    """One place of one kind of session. `after`: where a token that may be chosen here leads, as far as it is known."""

    __slots__ = ("after", "mask", "more", "place")

    def __init__(self, place: Hashable, mask: Mask | None, more: More | None) -> None:
        self.place, self.mask, self.more = place, mask, more
        self.after: dict[int, Spot] = {}

    def arrays(self) -> Iterator[npt.NDArray[np.generic]]:
        """The arrays that it keeps; those that are made of them later are twice as long."""
        if self.mask is not None:
            yield from self.mask.parts
        if self.more is not None:
            yield from () if self.more.bias is None else self.more.bias
            yield from () if self.more.only is None else (self.more.only,)


class Memo:
    """All spots of one program. Bounded: when full it starts anew, and rows find their spots again one by one."""

    def __init__(self, most_spots: int = _MOST_SPOTS, most_links: int = _MOST_LINKS) -> None:
        self._most_links, self._links = most_links, 0
        self._spots: Kept[tuple[Hashable, Hashable], Spot] = _Spots(most_spots)

    def find(self, session: TokenSession) -> Spot | None:
        """The spot where a settled session stands, if it is known."""
        return self._spots.get((session.kind, session.place))

    def keep(self, session: TokenSession, spot: Spot) -> None:
        """Know this spot, which holds the answers of a settled session."""
        before = len(self._spots)
        self._spots.keep((session.kind, session.place), spot, spot.arrays())
        if len(self._spots) <= before:
            self._links = 0  # all were forgotten

    def link(self, spot: Spot, token: int, after: Spot) -> None:
        """Remember where a token leads."""
        if self._links >= self._most_links:
            self._clear()
            return
        spot.after[token] = after
        self._links += 1

    def _clear(self) -> None:
        self._spots.clear()
        self._links = 0


class _Spots(Kept[tuple[Hashable, Hashable], Spot]):
    """The spots by what leads to them."""

    def clear(self) -> None:
        """Forget all, links too, so that a row on one of them does not keep all of them."""
        for spot in self.values():
            spot.after.clear()
        super().clear()
