"""Rows in which only some ids may be chosen, and rows in which a token stands for others.

Whole rows are written, which costs less than an index for nearly every id: what may stay is read, the row is filled,
and what was read is written back. Nothing waits for the device.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch

from policyengine.engines.vllm.edits import PartCache, to_device
from policyengine.engines.vllm.memo import Ids

_NEVER = float("-inf")


class Steering:
    """What is to be done in one step; a row is named at most once for each of the two kinds."""

    def __init__(self, cache: PartCache, device: torch.device) -> None:
        self._cache, self._device = cache, device
        self._only: list[tuple[int, Ids]] = []
        self._standing: list[tuple[int, int, Ids]] = []

    def only(self, row: int, ids: Ids) -> None:
        """Forbid all but these ids in a row."""
        self._only.append((row, ids))

    def stand_in(self, row: int, token: int, sources: Ids) -> None:
        """Give a token the largest logit of its sources in a row, and forbid the sources, of which there is one."""
        self._standing.append((row, token, sources))

    def keep_only(self, logits: torch.Tensor) -> None:
        """Write what `only` asks for into `logits`, float32 [rows, width], before any mask."""
        if not self._only:
            return
        groups = [
            (rows[:, None], ids[None, :], logits[rows[:, None], ids[None, :]])
            for ids, rows, _ in self._by_ids((row, ids) for row, ids in self._only)
        ]
        logits.index_fill_(0, self._send([row for row, _ in self._only]), _NEVER)
        for rows, ids, kept in groups:
            logits.index_put_((rows, ids), kept)

    def let_stand(self, logits: torch.Tensor) -> None:
        """Write what `stand_in` asks for, after all masks: a masked source does not count, a masked token stays so.

        value = max(logits[row, sources]); logits[row, sources] = -inf; logits[row, token] = value, unless it was -inf
        """
        if not self._standing:
            return
        never = torch.full((), _NEVER, device=logits.device, dtype=logits.dtype)
        tokens = {row: token for row, token, _ in self._standing}
        for ids, rows, names in self._by_ids((row, ids) for row, _, ids in self._standing):
            mine = rows, self._send([tokens[row] for row in names])
            sources = rows[:, None], ids[None, :]
            own, value = logits[mine], logits[sources].amax(dim=1)
            logits.index_put_(sources, never)
            logits[mine] = torch.where(torch.isneginf(own), own, value)

    def _by_ids(self, entries: Iterable[tuple[int, Ids]]) -> list[tuple[torch.Tensor, torch.Tensor, list[int]]]:
        """Each array (int64 on the device), the rows that share it (the same), and those rows again."""
        found: dict[int, tuple[Ids, list[int]]] = {}
        for row, ids in entries:
            found.setdefault(id(ids), (ids, []))[1].append(row)
        return [(self._cache.fetch(ids), self._send(rows), rows) for ids, rows in found.values()]

    def _send(self, values: Sequence[int]) -> torch.Tensor:
        return to_device(np.array(values, dtype=np.int64), self._device)
