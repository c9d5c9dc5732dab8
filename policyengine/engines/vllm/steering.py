"""Rows in which only some ids may be chosen, and rows in which a token stands for others.

Where few ids may stay, their logits are read, the row is filled, and they are written back, which costs less than an
index for nearly every id. Nothing waits for the device.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from policyengine.engines.vllm import edits
from policyengine.engines.vllm.memo import Ids

_NEVER = float("-inf")


class _Only(NamedTuple):
    row: int
    ids: Ids
    eos: int | None


class Steering:
    """What is to be done in one step; a row is named at most once for each of the two kinds."""

    def __init__(self, cache: edits.PartCache, device: torch.device) -> None:
        self._cache, self._device = cache, device
        self._only: list[_Only] = []
        self._standing: list[tuple[int, int, Ids]] = []
        self._checked: list[tuple[int, Ids, int]] = []  # those of `only` that may leave nothing
        self._ends: torch.Tensor | None = None  # their EOS logits, as they were

    def only(self, row: int, ids: Ids, eos: int | None) -> None:
        """Forbid all but these ids in a row. eos: what is left where none of them is; None: one is sure to be."""
        self._only.append(_Only(row, ids, eos))

    def stand_in(self, row: int, token: int, sources: Ids) -> None:
        """Give a token the largest logit of its sources in a row, and forbid the sources, of which there is one."""
        self._standing.append((row, token, sources))

    # -- before the masks ------------------------------------------------------------------------------------------

    def keep_only(self, logits: torch.Tensor) -> None:
        """Write what `only` asks for into `logits`, float32 [rows, width]."""
        if not self._only:
            return
        self._checked = [(row, ids, eos) for row, ids, eos in self._only if eos is not None]
        if self._checked:
            ends = logits[
                self._send([row for row, _, _ in self._checked]), self._send([e for _, _, e in self._checked])
            ]
            self._ends = torch.where(torch.isfinite(ends), ends, 0.0)
        if edits._on_host(logits):
            view = logits.numpy()
            for row, given, _ in self._only:
                line, ids = view[row], self._cache.fetch(given).numpy()
                kept = line[ids]
                line.fill(_NEVER)
                line[ids] = kept
            return
        groups = [
            (rows[:, None], ids[None, :], logits[rows[:, None], ids[None, :]])
            for ids, rows, _ in self._by_ids((entry.row, entry.ids) for entry in self._only)
        ]
        logits.index_fill_(0, self._send([entry.row for entry in self._only]), _NEVER)
        for rows, ids, kept in groups:
            logits.index_put_((rows, ids), kept)

    # -- behind the masks ------------------------------------------------------------------------------------------

    def let_stand(self, logits: torch.Tensor) -> None:
        """Write what `stand_in` asks for: a masked source does not count, and a masked token stays masked.

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

    def leave_ends(self, logits: torch.Tensor) -> torch.Tensor | None:
        """Leave EOS where nothing is left of `only`; how many rows that were, int64 scalar; None: no row could be."""
        if self._ends is None:
            return None
        if edits._on_host(logits):
            view = logits.numpy()
            best = [view[row][self._cache.fetch(ids).numpy()].max(initial=_NEVER) for row, ids, _ in self._checked]
            left = torch.from_numpy(np.array(best, dtype=np.float32))
        else:
            left = torch.full_like(self._ends, _NEVER)
            place = {row: i for i, (row, _, _) in enumerate(self._checked)}
            for ids, rows, names in self._by_ids((row, ids) for row, ids, _ in self._checked):
                if len(ids):
                    left[self._send([place[row] for row in names])] = logits[rows[:, None], ids[None, :]].amax(dim=1)
        gone = torch.isneginf(left)
        at = self._send([row for row, _, _ in self._checked]), self._send([eos for _, _, eos in self._checked])
        logits[at] = torch.where(gone, self._ends, logits[at])
        return gone.sum()

    def _by_ids(self, entries: Iterable[tuple[int, Ids]]) -> list[tuple[torch.Tensor, torch.Tensor, list[int]]]:
        """Each array (int64 on the device), the rows that share it (the same), and those rows again."""
        found: dict[int, tuple[Ids, list[int]]] = {}
        for row, ids in entries:
            found.setdefault(id(ids), (ids, []))[1].append(row)
        return [(self._cache.fetch(ids), self._send(rows), rows) for ids, rows in found.values()]

    def _send(self, values: Sequence[int]) -> torch.Tensor:
        return edits.to_device(np.array(values, dtype=np.int64), self._device)
