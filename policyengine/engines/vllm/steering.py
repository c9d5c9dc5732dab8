"""Rows in which only some ids may be chosen, and rows in which a token stands for others."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from policyengine.engines.vllm.memo import Ids


class Only(NamedTuple):
    """The ids that a row keeps. eos: see `Steering.only`."""

    row: int
    ids: Ids
    eos: int | None


class Standing(NamedTuple):
    """A token and those that it stands for in a row."""

    row: int
    token: int
    sources: Ids


class Steering:
    """What is to be done in one step; a row is named at most once for each of the two kinds."""

    def __init__(self) -> None:
        self.kept: list[Only] = []
        self.standing: list[Standing] = []

    def only(self, row: int, ids: Ids, eos: int | None) -> None:
        """Forbid all but these ids in a row. eos: what is left where none of them is; None: one is sure to be."""
        self.kept.append(Only(row, ids, eos))

    def stand_in(self, row: int, token: int, sources: Ids) -> None:
        """Give a token the largest logit of its sources in a row, and forbid the sources, of which there is one.

        A masked source does not count, and a masked token stays masked:
        value = max(logits[row, sources]); logits[row, sources] = -inf; logits[row, token] = value, unless it was -inf
        """
        self.standing.append(Standing(row, token, sources))

    def may_end(self) -> bool:
        """Whether a row may be left with EOS."""
        return any(entry.eos is not None for entry in self.kept)
