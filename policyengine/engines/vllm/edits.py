"""One step's changes to the logits, gathered on the host and applied to the whole batch in a few operations.

Nothing waits for the device: indices travel to it without a sync, and what depends on a logit (is the forced token
still possible? is anything left?) is decided there. Work is proportional to the ids that change; whole rows are read
or written only where a token is forced or where the engine's own masks may have left nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import torch

from policyengine.engines.vllm.memo import Ids, Mask, Wide, WidePart

if TYPE_CHECKING:
    from policyengine.engines.vllm.steering import Steering

_NEVER = float("-inf")
_NEVER_ARRAY = np.array(_NEVER, dtype=np.float32)  # numpy writes it faster than a float
_INLINE = 128  # ids; a shorter part is cheaper to send along than to keep on the device
_MOST_CACHED_IDS = 1 << 22  # 32 MiB as int64
_MOST_OTHERS = 32


def to_device(values: npt.NDArray[np.generic], device: torch.device) -> torch.Tensor:
    """A host array on the device, without waiting for it. The array must not change afterwards."""
    tensor = torch.from_numpy(values)
    if device.type == "cpu":
        return tensor
    if device.type == "cuda":
        tensor = tensor.pin_memory()  # pageable memory would make the copy wait
    return tensor.to(device, non_blocking=True)


class PartCache:
    """Id arrays as int64, by identity: on the device, where least recently used ones go first, and on the host.

    It keeps the array it was asked for too: while an entry lives, its identity cannot be taken by another array.
    """

    def __init__(self, device: torch.device, most_ids: int = _MOST_CACHED_IDS) -> None:
        self._device, self._most, self._ids = device, most_ids, 0
        self._entries: OrderedDict[int, tuple[Ids, torch.Tensor]] = OrderedDict()
        self._wide: WeakValueDictionary[int, WidePart] = WeakValueDictionary()
        self._others: dict[int, tuple[Ids, Ids]] = {}

    def get(self, part: Ids) -> torch.Tensor:
        """The part as an int64 tensor of the same length."""
        key = id(part)
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
            return entry[1]
        tensor = to_device(part.astype(np.int64), self._device)
        self._entries[key] = part, tensor
        self._ids += len(part)
        while self._ids > self._most and len(self._entries) > 1:
            _, (old, _) = self._entries.popitem(last=False)
            self._ids -= len(old)
        return tensor

    def fetch(self, part: Ids) -> torch.Tensor:
        """`get`, but a short part is sent anew and not kept."""
        return self.get(part) if len(part) >= _INLINE else to_device(part.astype(np.int64), self._device)

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
    """The changes of one step. Rows must be added in ascending order; ids must be below the width of the logits."""

    def __init__(self, cache: PartCache) -> None:
        self._cache = cache
        self.masked: list[tuple[int, Mask]] = []  # `mask` appends to it, and so may who adds many rows
        self._biased: list[tuple[int, Ids, npt.NDArray[np.float64]]] = []
        self._forced: list[tuple[int, int, int]] = []
        self._checked: list[tuple[int, int]] = []
        self.steering: Steering | None = None  # for the few rows that need it

    def mask(self, row: int, mask: Mask) -> None:
        """Forbid the ids of all parts in a row."""
        self.masked.append((row, mask))

    def bias(self, row: int, ids: Ids, values: npt.NDArray[np.float64]) -> None:
        """Add values to the logits of distinct ids in a row."""
        self._biased.append((row, ids, values))

    def force(self, row: int, token: int, eos: int) -> None:
        """Leave only `token` possible, or only `eos` where the token is impossible already."""
        self._forced.append((row, token, eos))

    def check(self, row: int, eos: int) -> None:
        """Leave only `eos` possible if nothing else is."""
        self._checked.append((row, eos))

    def apply(self, logits: torch.Tensor, padding: npt.NDArray[np.int64]) -> torch.Tensor | None:
        """Change `logits` (float32 [rows, width], any strides) in place: biases, masks, what steers, forces, checks.

        padding: ids that stand for no token and do not count as something left. Returns how many rows were left with
        EOS although it was not what was asked for, as an int64 tensor on the device; None if no row could be.
        """
        self._add_biases(logits)
        counts = []
        # EOS logits are read before the masks: one that a minimum length hides comes back as it was.
        forced = self._with_ends(logits, self._forced) if self._forced else None
        checked = self._with_ends(logits, self._checked) if self._checked else None
        if self.steering is not None:
            self.steering.keep_only(logits)
        self._write_masks(logits)
        if self.steering is not None:
            self.steering.let_stand(logits)
            nothing_left = self.steering.leave_ends(logits)
            counts += [] if nothing_left is None else [nothing_left]
        if forced is not None:
            counts.append(_write_forced(logits, *forced))
        if checked is not None:
            counts.append(_write_checks(logits, to_device(padding, logits.device), *checked))
        return torch.stack(counts).sum() if counts else None

    @staticmethod
    def _with_ends(logits: torch.Tensor, entries: Sequence[tuple[int, ...]]) -> tuple[torch.Tensor, ...]:
        """The columns of the entries, the last of them EOS ids, and then those ids' logits, raised to 0 from -inf."""
        columns = to_device(np.array(entries, dtype=np.int64).T.copy(), logits.device)
        end = logits[columns[0], columns[-1]]
        return *columns, torch.where(torch.isfinite(end), end, 0.0)

    def _add_biases(self, logits: torch.Tensor) -> None:
        if not self._biased:
            return
        rows = np.repeat([row for row, _, _ in self._biased], [len(ids) for _, ids, _ in self._biased])
        ids = np.concatenate([ids for _, ids, _ in self._biased]).astype(np.int64)
        values = np.concatenate([values for _, _, values in self._biased]).astype(np.float32)
        places = to_device(rows, logits.device), to_device(ids, logits.device)
        logits.index_put_(places, to_device(values, logits.device).to(logits.dtype), accumulate=True)

    def _write_masks(self, logits: torch.Tensor) -> None:
        if not self.masked:
            return
        if _on_host(logits):
            self._write_masks_on_host(logits)
        else:
            self._write_masks_on_device(logits)

    def _write_masks_on_host(self, logits: torch.Tensor) -> None:
        """Row by row with numpy, which costs less here than indices for each id, and no threads."""
        view = logits.numpy()
        for row, mask in self.masked:
            line = view[row]
            for ids in mask.wide or self._cache.widen(mask):
                line[ids] = _NEVER_ARRAY

    def _write_masks_on_device(self, logits: torch.Tensor) -> None:
        """One write a part that is kept there, for all its rows at once, and one for all short parts together."""
        kept: dict[int, tuple[Ids, list[int]]] = {}
        short: list[Ids] = []
        short_rows: list[int] = []
        for row, mask in self.masked:
            for part in mask.parts:
                if len(part) < _INLINE:
                    short.append(part)
                    short_rows.append(row)
                else:
                    kept.setdefault(id(part), (part, []))[1].append(row)
        never = torch.full((), _NEVER, device=logits.device, dtype=logits.dtype)
        for part, rows in kept.values():
            ids = self._cache.get(part)
            if rows[-1] - rows[0] + 1 == len(rows):
                logits[rows[0] : rows[-1] + 1].index_fill_(1, ids, _NEVER)
            else:
                logits.index_put_((to_device(np.array(rows), logits.device)[:, None], ids[None, :]), never)
        if short:
            places = np.repeat(short_rows, [len(part) for part in short]), np.concatenate(short).astype(np.int64)
            logits.index_put_(tuple(to_device(place, logits.device) for place in places), never)


def _on_host(logits: torch.Tensor) -> bool:
    return bool(logits.device.type == "cpu")


def _write_forced(
    logits: torch.Tensor, rows: torch.Tensor, tokens: torch.Tensor, ends: torch.Tensor, end_logits: torch.Tensor
) -> torch.Tensor:
    """Leave one token a row, or EOS where the token is impossible. Returns how many rows got EOS that way."""
    kept = logits[rows, tokens]
    gone = torch.isneginf(kept) | torch.isnan(kept)
    logits.index_fill_(0, rows, _NEVER)
    logits[rows, ends] = torch.where(gone, end_logits, _NEVER)
    # Last, and read again, so that it also holds where the token is EOS itself.
    logits[rows, tokens] = torch.where(gone, logits[rows, tokens], kept)
    return gone.sum()


def _write_checks(
    logits: torch.Tensor, padding: torch.Tensor, rows: torch.Tensor, ends: torch.Tensor, end_logits: torch.Tensor
) -> torch.Tensor:
    """Leave EOS where a row has nothing but padding left. Returns how many rows that were."""
    left = logits[rows].index_fill_(1, padding, _NEVER).amax(dim=1)
    gone = torch.isneginf(left)
    logits[rows, ends] = torch.where(gone, end_logits, logits[rows, ends])
    places = rows[:, None], padding[None, :]
    logits[places] = torch.where(gone[:, None], _NEVER, logits[places])
    return gone.sum()
