"""vLLM's V1 runner: the requests of a running batch.

Slots come and go, move and are replaced; a request may return with earlier output. So nothing is kept by slot but a
`Row`, and a row holds vLLM's own live output list.
"""

from __future__ import annotations

import torch
from vllm.v1.sample.logits_processor import BatchUpdate, MoveDirectionality

from policyengine.engines.vllm.row import Row
from policyengine.engines.vllm.rows import Rows
from policyengine.runtime.token_program import TokenProgram


class Batch(Rows):
    """All requests of one engine that run under active rules."""

    def __init__(self, program: TokenProgram, device: torch.device, engine: object) -> None:
        """As `Rows`."""
        super().__init__(program, device, engine)
        self._rows: dict[int, Row] = {}
        self._ordered: list[tuple[int, Row]] = []

    def update(self, update: BatchUpdate | None) -> None:
        """Follow the batch: removed, then added (which may replace), then moved."""
        if update is None:
            return
        for index in update.removed:
            self._drop(index)
        markers = self.program.markers
        for index, params, prompt, output in update.added:
            self._drop(index)
            row = self._rows[index] = Row(params, output, self._eos)
            if markers is not None and prompt is not None:
                row.reasoning = markers.after(prompt)
        for a, b, direction in update.moved:
            mine, other = self._rows.pop(a, None), self._rows.pop(b, None)
            if mine is not None:
                self._rows[b] = mine
            if other is not None and direction == MoveDirectionality.SWAP:
                self._rows[a] = other
        self._ordered = sorted(self._rows.items(), key=lambda item: item[0])
        if not self._rows:
            self.counters.report()
        elif update.removed:
            self.counters.look()

    def _drop(self, index: int) -> None:
        row = self._rows.pop(index, None)
        if row is not None:
            self.leave(row)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Change the logits (float32 [rows, width]) in place. Raises UnknownTokenError rather than guess a token."""
        finished = self.step(logits, self._ordered)
        if finished:
            for index in finished:
                del self._rows[index]
            self._ordered = sorted(self._rows.items(), key=lambda item: item[0])
        return logits


__all__ = ["Batch"]
