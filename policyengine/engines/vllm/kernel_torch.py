"""What a step's plan means, in plain PyTorch, row by row: the definition that `kernel_triton` must equal bit for bit.

It also runs on a device without Triton, slowly, and without waiting for the device: it looks at nothing but the plan's
host arrays, and what depends on a logit is a `where`.
"""

from __future__ import annotations

import torch

from policyengine.engines.vllm import kernel_plan as fields
from policyengine.engines.vllm.kernel_plan import Plan
from policyengine.engines.vllm.kernel_tables import Tables

_NEVER = float("-inf")


def apply(logits: torch.Tensor, plan: Plan, tables: Tables, total: torch.Tensor) -> None:
    """Change `logits` (float32 [rows, width], any strides) in place. Rows and ids out of range are ignored.

    total: int64 scalar, to which the number of rows is added that got EOS although it was not asked for.
    """
    segments = plan.segments.tolist()
    for record in plan.records.tolist():
        if 0 <= record[fields.ROW] < logits.shape[0]:
            _Row(logits[record[fields.ROW]], tables).apply(record, segments, plan.padding, total)


class _Row:
    """One row, float32 [width], and what is done to it."""

    def __init__(self, line: torch.Tensor, tables: Tables) -> None:
        self._line, self._tables, self._width = line, tables, len(line)

    def apply(
        self, record: list[int], segments: list[list[int]], padding: tuple[int, int], total: torch.Tensor
    ) -> None:
        line = self._line
        flags, end, forced, stand_in = (record[i] for i in (fields.FLAGS, fields.END, fields.FORCED, fields.STAND_IN))
        for place, count in _some(segments, record[fields.BIASES], record[fields.BIAS_COUNT]):
            line.copy_(torch.where(self._are(place, count), line + self._weights(place, count), line))
        end_logit = self._read(end)
        end_logit = torch.where(torch.isfinite(end_logit), end_logit, 0.0)
        if flags & fields.KEEPS_ONLY:
            line.masked_fill_(~self._are(record[fields.ONLY], record[fields.ONLY_COUNT]), _NEVER)
        for place, count in _some(segments, record[fields.MASKS], record[fields.MASK_COUNT]):
            line.masked_fill_(self._are(place, count), _NEVER)
        if flags & fields.STANDS_IN:
            sources = self._are(record[fields.SOURCES], record[fields.SOURCE_COUNT])
            own = self._read(stand_in)
            # NaN does not count; the sum makes one zero of both.
            best = torch.where(sources & (line > _NEVER), line, _NEVER).amax() + 0.0
            line.masked_fill_(sources, _NEVER)
            self._write(stand_in, torch.where(own == _NEVER, own, best))
        if flags & fields.FORCES:
            kept = self._read(forced)
            is_left = kept > _NEVER
            line.fill_(_NEVER)
            self._write(forced, torch.where(is_left, kept, _NEVER))
            self._write(end, torch.where(is_left, self._read(end), end_logit))
            total += ~is_left
        if flags & fields.CHECKS and 0 <= end < self._width:
            is_left = ((line > _NEVER) & ~self._are(*padding)).any()
            line.masked_fill_(~is_left, _NEVER)
            self._write(end, torch.where(is_left, self._read(end), end_logit))
            total += ~is_left

    def _read(self, token: int) -> torch.Tensor:
        """A logit, float32 scalar; -inf where the token is out of range."""
        if 0 <= token < self._width:
            return self._line[token].clone()
        return torch.full((), _NEVER, device=self._line.device)

    def _write(self, token: int, value: torch.Tensor) -> None:
        if 0 <= token < self._width:
            self._line[token] = value

    def _words(self, place: int, count: int) -> torch.Tensor:
        """So many words from a place on, int32."""
        tables = self._tables
        return tables.arena[place : place + count] if place >= 0 else tables.step[-1 - place :][:count]

    def _columns(self, place: int, count: int) -> torch.Tensor:
        """The ids of a list, int64; `width`, a column of its own, for those out of range."""
        ids = self._words(place, count).long()
        return torch.where((ids >= 0) & (ids < self._width), ids, self._width)

    def _are(self, place: int, count: int) -> torch.Tensor:
        """Which columns a list names, bool [width]."""
        found = torch.zeros(self._width + 1, dtype=torch.bool, device=self._line.device)
        return found.index_fill_(0, self._columns(place, count), True)[:-1]

    def _weights(self, place: int, count: int) -> torch.Tensor:
        """What a list of ids and values adds to each column, float32 [width]."""
        words = self._words(place, 2 * count)
        found = torch.zeros(self._width + 1, device=self._line.device)
        return found.scatter_(0, self._columns(place, count), words[count:].view(torch.float32))[:-1]


def _some(segments: list[list[int]], first: int, count: int) -> list[list[int]]:
    return segments[first : first + count]
