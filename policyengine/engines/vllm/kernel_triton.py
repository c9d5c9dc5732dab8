"""A step's plan as one Triton kernel: one launch for all rules of all rows. `kernel_torch` says what it means.

One program has a whole row: what is done to it has an order, which a barrier keeps within a program; several programs
a row would need a launch for each step of that order. Importing this imports Triton.
"""

from __future__ import annotations

from typing import Final

import torch
import triton
import triton.language as tl

from policyengine.engines.vllm import kernel_plan as fields
from policyengine.engines.vllm.kernel_plan import Plan
from policyengine.engines.vllm.kernel_tables import Tables

BLOCK: Final = 2048  # ids or columns that a program handles at once
WARPS: Final = 8
# All sizes and places are arguments like any other: no step compiles anything anew.
_PLAIN: Final = (
    "row_stride",
    "rows",
    "width",
    "records_at",
    "segments_at",
    "padding_at",
    "padding_count",
)

_ROW = tl.constexpr(fields.ROW)
_FLAGS = tl.constexpr(fields.FLAGS)
_END = tl.constexpr(fields.END)
_MASKS = tl.constexpr(fields.MASKS)
_MASK_COUNT = tl.constexpr(fields.MASK_COUNT)
_BIASES = tl.constexpr(fields.BIASES)
_BIAS_COUNT = tl.constexpr(fields.BIAS_COUNT)
_ONLY = tl.constexpr(fields.ONLY)
_ONLY_COUNT = tl.constexpr(fields.ONLY_COUNT)
_SCRATCH = tl.constexpr(fields.SCRATCH)
_STAND_IN = tl.constexpr(fields.STAND_IN)
_SOURCES = tl.constexpr(fields.SOURCES)
_SOURCE_COUNT = tl.constexpr(fields.SOURCE_COUNT)
_FORCED = tl.constexpr(fields.FORCED)
_FIELDS = tl.constexpr(fields.FIELDS)
_KEEPS_ONLY = tl.constexpr(fields.KEEPS_ONLY)
_STANDS_IN = tl.constexpr(fields.STANDS_IN)
_FORCES = tl.constexpr(fields.FORCES)
_CHECKS = tl.constexpr(fields.CHECKS)
_NEVER = tl.constexpr(float("-inf"))


def apply(logits: torch.Tensor, plan: Plan, tables: Tables, total: torch.Tensor) -> None:
    """As `kernel_torch.apply`. Queues one kernel and waits for nothing."""
    edit_rows[(len(plan.records),)](
        logits,
        logits.stride(0),
        logits.stride(1),
        *logits.shape,
        tables.arena,
        tables.step,
        plan.records_at,
        plan.segments_at,
        *plan.padding,
        tables.scratch,
        total,
        block=BLOCK,
        num_warps=WARPS,
    )


@triton.jit
def _list(arena: tl.tensor, step: tl.tensor, place: tl.tensor) -> tl.tensor:
    """Where a list lies (`kernel_tables`)."""
    return tl.where(place < 0, step - 1 - place, arena + place)


@triton.jit
def _ids(words: tl.tensor, first: tl.tensor, count: tl.tensor, width: tl.tensor, block: tl.constexpr) -> tl.tensor:
    """A block of a list, and which of it are ids of the row."""
    places = first + tl.arange(0, block)
    ids = tl.load(words + places, mask=places < count, other=-1)
    return ids, (ids >= 0) & (ids < width)


@triton.jit
def _read(line: tl.tensor, stride: tl.tensor, token: tl.tensor, width: tl.tensor) -> tl.tensor:
    """A logit, -inf where the token is out of range."""
    return tl.load(line + token.to(tl.int64) * stride, mask=(token >= 0) & (token < width), other=_NEVER)


@triton.jit
def _write(line: tl.tensor, stride: tl.tensor, token: tl.tensor, width: tl.tensor, value: tl.tensor) -> None:
    tl.store(line + token.to(tl.int64) * stride, value, mask=(token >= 0) & (token < width))


@triton.jit
def _fill(line: tl.tensor, stride: tl.tensor, width: tl.tensor, block: tl.constexpr) -> None:
    """Write -inf to the whole row."""
    for first in range(0, width, block):
        columns = first + tl.arange(0, block)
        tl.store(line + columns.to(tl.int64) * stride, _NEVER, mask=columns < width)


@triton.jit
def _mask(
    line: tl.tensor, stride: tl.tensor, width: tl.tensor, words: tl.tensor, count: tl.tensor, block: tl.constexpr
) -> None:
    """Write -inf to the ids of a list."""
    for first in range(0, count, block):
        ids, real = _ids(words, first, count, width, block)
        tl.store(line + ids.to(tl.int64) * stride, _NEVER, mask=real)


@triton.jit
def _count_left(
    line: tl.tensor, stride: tl.tensor, width: tl.tensor, words: tl.tensor, count: tl.tensor, block: tl.constexpr
) -> tl.tensor:
    """How many columns but those of a list of distinct ids have a logit above -inf; NaN is not."""
    left = tl.zeros((block,), tl.int32)
    for first in range(0, width, block):
        columns = first + tl.arange(0, block)
        here = tl.load(line + columns.to(tl.int64) * stride, mask=columns < width, other=_NEVER)
        left += (here > _NEVER).to(tl.int32)
    for first in range(0, count, block):
        ids, real = _ids(words, first, count, width, block)
        here = tl.load(line + ids.to(tl.int64) * stride, mask=real, other=_NEVER)
        left -= (here > _NEVER).to(tl.int32)
    return tl.sum(left, axis=0)


@triton.jit(do_not_specialize=_PLAIN)
def edit_rows(
    logits: tl.tensor,
    row_stride: tl.tensor,
    stride: tl.tensor,
    rows: tl.tensor,
    width: tl.tensor,
    arena: tl.tensor,
    step: tl.tensor,
    records_at: tl.tensor,
    segments_at: tl.tensor,
    padding_at: tl.tensor,
    padding_count: tl.tensor,
    scratch: tl.tensor,
    total: tl.tensor,
    block: tl.constexpr,
) -> None:
    """One record a program. logits: float32; arena, step: int32; scratch: float32; total: int64, added to."""
    record = step + records_at + tl.program_id(0) * _FIELDS
    row = tl.load(record + _ROW)
    if (row >= 0) & (row < rows):
        line = logits + row.to(tl.int64) * row_stride
        flags = tl.load(record + _FLAGS)
        end = tl.load(record + _END)

        # A barrier stands wherever other threads of the program may have written, or may yet read, the same logits.
        biases = step + segments_at + 2 * tl.load(record + _BIASES)
        for _ in range(tl.load(record + _BIAS_COUNT)):
            count = tl.load(biases + 1)
            words = _list(arena, step, tl.load(biases))
            for first in range(0, count, block):
                ids, real = _ids(words, first, count, width, block)
                places = first + tl.arange(0, block)
                bits = tl.load(words + count + places, mask=places < count, other=0)
                spots = line + ids.to(tl.int64) * stride
                tl.store(spots, tl.load(spots, mask=real, other=0.0) + bits.to(tl.float32, bitcast=True), mask=real)
            biases += 2
            tl.debug_barrier()

        end_logit = tl.zeros((), tl.float32)
        if (flags & (_FORCES | _CHECKS)) != 0:
            end_logit = _read(line, stride, end, width)
            # Neither NaN nor infinite.
            end_logit = tl.where(tl.abs(end_logit) < float("inf"), end_logit, 0.0)
            tl.debug_barrier()

        if (flags & _KEEPS_ONLY) != 0:
            count = tl.load(record + _ONLY_COUNT)
            words = _list(arena, step, tl.load(record + _ONLY))
            kept = scratch + tl.load(record + _SCRATCH).to(tl.int64)
            for first in range(0, count, block):
                ids, real = _ids(words, first, count, width, block)
                here = tl.load(line + ids.to(tl.int64) * stride, mask=real, other=_NEVER)
                tl.store(kept + first + tl.arange(0, block), here, mask=real)
            tl.debug_barrier()
            _fill(line, stride, width, block)
            tl.debug_barrier()
            for first in range(0, count, block):
                ids, real = _ids(words, first, count, width, block)
                here = tl.load(kept + first + tl.arange(0, block), mask=real, other=_NEVER)
                tl.store(line + ids.to(tl.int64) * stride, here, mask=real)
            tl.debug_barrier()

        masks = step + segments_at + 2 * tl.load(record + _MASKS)
        for _ in range(tl.load(record + _MASK_COUNT)):
            _mask(line, stride, width, _list(arena, step, tl.load(masks)), tl.load(masks + 1), block)
            masks += 2

        if flags != 0:
            tl.debug_barrier()

        if (flags & _STANDS_IN) != 0:
            token = tl.load(record + _STAND_IN)
            count = tl.load(record + _SOURCE_COUNT)
            words = _list(arena, step, tl.load(record + _SOURCES))
            own = _read(line, stride, token, width)
            best = tl.full((block,), _NEVER, tl.float32)
            for first in range(0, count, block):
                ids, real = _ids(words, first, count, width, block)
                here = tl.load(line + ids.to(tl.int64) * stride, mask=real, other=_NEVER)
                best = tl.where(here > best, here, best)
            value = tl.max(best, axis=0) + 0.0
            tl.debug_barrier()
            _mask(line, stride, width, words, count, block)
            tl.debug_barrier()
            _write(line, stride, token, width, tl.where(own == _NEVER, own, value))
            tl.debug_barrier()

        if (flags & _FORCES) != 0:
            token = tl.load(record + _FORCED)
            logit = _read(line, stride, token, width)
            tl.debug_barrier()
            _fill(line, stride, width, block)
            tl.debug_barrier()
            if logit > _NEVER:
                _write(line, stride, token, width, logit)
            else:
                _write(line, stride, end, width, end_logit)
                tl.atomic_add(total, 1)
            tl.debug_barrier()

        if ((flags & _CHECKS) != 0) & (end >= 0) & (end < width):
            words = _list(arena, step, padding_at)
            if _count_left(line, stride, width, words, padding_count, block) == 0:
                _fill(line, stride, width, block)
                tl.debug_barrier()
                _write(line, stride, end, width, end_logit)
                tl.atomic_add(total, 1)
