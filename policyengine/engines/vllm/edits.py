"""One step's changes to the logits: gathered on the host, applied to the whole batch at once.

On a host, numpy writes them row by row (`kernel_host`). On a device they travel as a plan of flat arrays in one copy,
and one kernel applies all of them (`kernel_plan`, `kernel_tables`, `kernel_triton`); where Triton is absent,
`kernel_torch`, its definition, does. Nothing waits for the device: what depends on a logit (is the forced token still
possible? is anything left?) is decided there. Work is proportional to the ids that change; whole rows are read or
written only where few tokens may stay, or where the engine's own masks may have left nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import torch

from policyengine.engines.vllm import kernel_host, kernel_plan, kernel_torch
from policyengine.engines.vllm.kernel_tables import Tables
from policyengine.engines.vllm.memo import Ids, Mask, Wide, WidePart

if TYPE_CHECKING:
    from policyengine.engines.vllm.steering import Steering

_log = logging.getLogger("vllm.policyengine")
_INLINE = 128  # ids; a shorter part is cheaper to send along than to keep
_MOST_OTHERS = 32

Kernel = Callable[[torch.Tensor, kernel_plan.Plan, Tables, torch.Tensor], None]


class PartCache:
    """What one program's id lists are made into: on the host by identity, on a device in its tables."""

    def __init__(self, device: torch.device) -> None:
        """On CUDA this compiles the kernel, so that the first step does not."""
        self._device = device
        self._wide: WeakValueDictionary[int, WidePart] = WeakValueDictionary()
        self._others: dict[int, tuple[Ids, Ids]] = {}
        self._tables: Tables | None = None
        self.kernel: Kernel = kernel_torch.apply
        if device.type == "cuda":
            self.kernel = _compiled(self, device)

    @property
    def tables(self) -> Tables:
        """The device's; made when they are first used."""
        if self._tables is None:
            self._tables = Tables(self._device, short=_INLINE)
        return self._tables

    def others(self, ids: Ids, width: int) -> Ids:
        """All ids below `width` but these, int32, ascending; the same object for the same object while it is kept."""
        known = self._others.get(id(ids))
        if known is None:
            if len(self._others) >= _MOST_OTHERS:
                self._others.clear()
            known = self._others[id(ids)] = ids, np.setdiff1d(np.arange(width, dtype=np.int32), ids)
        return known[1]

    def widen(self, mask: Mask) -> tuple[Wide, ...]:
        """Fill `mask.wide`: long parts each, shared with other masks that have them now, and the short ones as one."""
        short = [part for part in mask.parts if len(part) < _INLINE]
        mask.kept = tuple(self._wide_part(part) for part in mask.parts if len(part) >= _INLINE)
        wide = [kept.ids for kept in mask.kept]
        if short:
            wide.append(np.concatenate(short).astype(np.int64))
        mask.wide = tuple(wide)
        return mask.wide

    def _wide_part(self, part: Ids) -> WidePart:
        known = self._wide.get(id(part))
        if known is None:
            known = self._wide[id(part)] = WidePart(part)
        return known


class Edits:
    """The changes of one step. Ids must be below the width of the logits; a row has one `eos` in all that names one.

    On a device, rows and ids out of range are ignored; on a host they raise IndexError.
    """

    def __init__(self, cache: PartCache) -> None:
        self._cache = cache
        self.masked: list[tuple[int, Mask]] = []  # `mask` appends to it, and so may who adds many rows
        self.biased: list[tuple[int, Ids, npt.NDArray[np.float64]]] = []
        self.forced: dict[int, tuple[int, int]] = {}
        self.checked: dict[int, int] = {}
        self.steering: Steering | None = None  # for the few rows that need it

    def mask(self, row: int, mask: Mask) -> None:
        """Forbid the ids of all parts in a row."""
        self.masked.append((row, mask))

    def bias(self, row: int, ids: Ids, values: npt.NDArray[np.float64]) -> None:
        """Add values, rounded to float32, to the logits of distinct ids in a row. The arrays must not change."""
        self.biased.append((row, ids, values))

    def force(self, row: int, token: int, eos: int) -> None:
        """Leave only `token` possible, or only `eos` where the token is impossible already. The last one counts."""
        self.forced[row] = token, eos

    def check(self, row: int, eos: int) -> None:
        """Leave only `eos` possible if nothing else is."""
        self.checked[row] = eos

    def apply(
        self, logits: torch.Tensor, padding: npt.NDArray[np.int64], total: torch.Tensor | None = None
    ) -> torch.Tensor | None:
        """Change `logits` (float [rows, width], any strides) in place.

        In this order: biases; what `only` leaves; masks; stand-ins; forces; checks, of `only` too. EOS comes back with
        the logit it had behind the biases, or 0 if that was not finite. NaN is nothing that is left.

        padding: distinct ids that stand for no token and do not count as something left. total: an int64 scalar on the
        device; the number of rows that were left with EOS although it was not what was asked for is added to it, and
        None returned. Without it that number is returned, int64, on the device; None if no row could be.
        """
        if logits.dtype != torch.float32:  # vLLM's are; another engine's rows may be of any type
            wide = logits.float()
            count = self.apply(wide, padding, total)
            logits.copy_(wide)
            return count
        if _on_host(logits):
            ended = kernel_host.apply(logits.numpy(), self, self._cache.widen, padding)
            if total is None:
                return torch.tensor(ended) if self._may_end() else None
            total += ended
            return None
        tables = self._cache.tables
        plan = kernel_plan.make(self, tables, padding)
        count = None
        if total is None and self._may_end():
            total = count = torch.zeros((), dtype=torch.int64, device=logits.device)
        if len(plan.records):
            tables.send()
            self._cache.kernel(logits, plan, tables, tables.unread if total is None else total)
            tables.sent()
        return count

    def _may_end(self) -> bool:
        return bool(self.forced or self.checked or (self.steering is not None and self.steering.may_end()))


def _on_host(logits: torch.Tensor) -> bool:
    return bool(logits.device.type == "cpu")


def _compiled(cache: PartCache, device: torch.device) -> Kernel:
    """The Triton kernel, compiled and run once; where that fails, its definition."""
    try:
        from policyengine.engines.vllm import kernel_triton

        cache.kernel = kernel_triton.apply
        edits = Edits(cache)
        edits.force(0, 0, 0)
        edits.apply(torch.zeros(1, 16, device=device), np.zeros(0, dtype=np.int64))
    except Exception as error:  # no Triton, no compiler for its launcher, a device it does not know
        _log.warning("policies are applied without a kernel of their own, which is slow: %s", error)
        return kernel_torch.apply
    return kernel_triton.apply
