"""A step's changes where the logits are in the host's memory: row by row with numpy.

Numpy costs less here than indices for each id, and needs no threads: they would wait for a core where others use it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from policyengine.engines.vllm.edits import Edits
    from policyengine.engines.vllm.memo import Ids, Mask, Wide
    from policyengine.engines.vllm.steering import Standing

Floats = npt.NDArray[np.float32]

_NEVER = np.float32("-inf")
_NEVER_ARRAY = np.array(_NEVER)  # numpy writes it faster than a scalar


def apply(
    logits: Floats, edits: Edits, widen: Callable[[Mask], tuple[Wide, ...]], padding: npt.NDArray[np.int64]
) -> int:
    """Change `logits` ([rows, width], any strides) in place, as `Edits.apply` says. Returns how many rows got EOS.

    widen: fills `wide` of a mask that has none.
    """
    for row, some, values in edits.biased:
        logits[row][some] += values.astype(np.float32)
    steering = edits.steering
    checked = dict(edits.checked)
    if steering is not None:
        checked.update((row, eos) for row, _, eos in steering.kept if eos is not None)
    # EOS logits are read before the masks: one that a minimum length hides comes back as it was.
    ends = [_end(logits[row], eos) for row, (_, eos) in edits.forced.items()]
    check_ends = [_end(logits[row], eos) for row, eos in checked.items()]
    if steering is not None:
        for row, some, _ in steering.kept:
            _keep_only(logits[row], some)
    for row, mask in edits.masked:
        line = logits[row]
        for ids in mask.wide or widen(mask):
            line[ids] = _NEVER_ARRAY
    if steering is not None:
        for standing in steering.standing:
            _let_stand(logits[standing.row], standing)
    ended = 0
    for (row, (token, eos)), end in zip(edits.forced.items(), ends, strict=True):
        ended += _force(logits[row], token, eos, end)
    for (row, eos), end in zip(checked.items(), check_ends, strict=True):
        ended += _check(logits[row], padding, eos, end)
    return ended


def _end(line: Floats, eos: int) -> np.float32:
    end = line[eos]
    return end if np.isfinite(end) else np.float32(0)


def _keep_only(line: Floats, some: Ids) -> None:
    ids = some.astype(np.int64)
    kept = line[ids]
    line.fill(_NEVER)
    line[ids] = kept


def _let_stand(line: Floats, standing: Standing) -> None:
    own, values = line[standing.token], line[standing.sources]
    # NaN does not count; the sum makes one zero of both.
    value = np.fmax.reduce(values, initial=_NEVER) + np.float32(0)
    line[standing.sources] = _NEVER_ARRAY
    line[standing.token] = own if own == _NEVER else value


def _force(line: Floats, token: int, eos: int, end: np.float32) -> bool:
    kept = line[token]
    line.fill(_NEVER)
    if kept > _NEVER:
        line[token] = kept
        return False
    line[eos] = end
    return True


def _check(line: Floats, padding: npt.NDArray[np.int64], eos: int, end: np.float32) -> bool:
    if np.count_nonzero(line > _NEVER) > np.count_nonzero(line[padding] > _NEVER):
        return False
    line.fill(_NEVER)
    line[eos] = end
    return True
