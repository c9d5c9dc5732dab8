"""vLLM's V2 runner: requests by slot, tokens on the device.

A slot is recycled without a word, rows change their order every step, and the tokens that were chosen live on the
device. They are copied to the host before the forward pass is queued and read after it was: the host waits for the
step before, the device does not wait for the host (decision 0009).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from policyengine.engines.vllm.row import Row, UnknownTokenError
from policyengine.engines.vllm.rows import Rows

if TYPE_CHECKING:
    from vllm.v1.worker.gpu.sample.logits_processor.interface import LogitsContext, LogitsProcRequestState

    from policyengine.runtime.token_program import TokenProgram


class ChosenTokens:
    """What the device says was chosen, on the host.

    Each step copies the lengths of all slots and their last `window` tokens, a few bytes a slot, into pinned memory.
    `states` is vLLM's and only read.
    """

    def __init__(self, states: LogitsProcRequestState, window: int) -> None:
        """window: the most tokens that a step may add to a request."""
        self.window, self._states = window, states
        device, slots = states.device, states.max_num_reqs
        self._pinned = device.type == "cuda"
        self._before = torch.arange(1, window + 1, device=device)
        self._places = torch.zeros((slots, window), dtype=torch.int64, device=device)
        self._last = torch.zeros((slots, window), dtype=torch.int32, device=device)
        self._lengths = self._on_host((slots,), torch.int32)
        self._tokens = self._on_host((slots, window), torch.int32)
        self._count = self._on_host((), torch.int64)
        self._histories: dict[int, torch.Tensor] = {}
        self._copied = torch.cuda.Event() if self._pinned else None

    def _on_host(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype, pin_memory=self._pinned)

    def copy(self, fresh: dict[int, range], count: torch.Tensor) -> None:
        """Queue the copy of what is known now. fresh: by slot, the places of earlier tokens to copy too; is emptied.

        count: an int64 scalar of the device, to come along.
        """
        states = self._states
        lengths, tokens = states.total_len.gpu, states.all_token_ids.gpu
        torch.sub(lengths[:, None], self._before, out=self._places).clamp_(min=0)
        torch.gather(tokens, 1, self._places, out=self._last)
        self._lengths.copy_(lengths, non_blocking=True)
        self._tokens.copy_(self._last, non_blocking=True)
        self._count.copy_(count, non_blocking=True)
        for slot, places in fresh.items():
            history = self._on_host((len(places),), torch.int32)
            history.copy_(tokens[slot, places.start : places.stop], non_blocking=True)
            self._histories[slot] = history
        fresh.clear()
        if self._copied is not None:
            self._copied.record()

    def wait(self) -> int:
        """Until the last copy is there: the count. What was queued behind it goes on meanwhile."""
        if self._copied is not None:
            self._copied.synchronize()
        return int(self._count)

    def history(self, slot: int) -> list[int] | None:
        """The earlier tokens that were asked for, once."""
        found = self._histories.pop(slot, None)
        return None if found is None else found.tolist()

    def total(self, slot: int) -> int:
        """How many tokens the slot has, its prompt included."""
        return int(self._lengths[slot])

    def last(self, slot: int, count: int) -> list[int]:
        """The last `count` tokens of a slot, at most `window`, in order."""
        found: list[int] = self._tokens[slot, :count].tolist()
        return found[::-1]

    def everything(self, slot: int, places: range) -> list[int]:
        """Tokens of a slot, from the device. Waits for it."""
        found: list[int] = self._states.all_token_ids.gpu[slot, places.start : places.stop].tolist()
        return found


class Batch(Rows):
    """All requests of one engine that run under active rules, by slot."""

    def __init__(
        self, program: TokenProgram, states: LogitsProcRequestState, engine: object, *, draft_tokens: int = 0
    ) -> None:
        """states: vLLM's, only read. draft_tokens: the most that a step may add to a request beside its own one."""
        super().__init__(program, states.device, engine)
        self._states = states
        self._drafting = draft_tokens > 0
        self._chosen = ChosenTokens(states, 1 + draft_tokens)
        self._slots: dict[int, Row] = {}
        self._fresh: dict[int, range] = {}

    # -- requests that come ----------------------------------------------------------------------------------------

    def add(self, slot: int, params: Any) -> bool:
        """A request takes a slot, whoever had it before. Returns whether rules act on it."""
        before = self._slots.pop(slot, None)
        if before is not None:
            self.leave(before)
        self._fresh.pop(slot, None)
        self._chosen.history(slot)
        row = Row(params, [], self._eos)
        if not self.acts(row):
            return False
        self._slots[slot] = row
        first, filled = self._first(slot), int(self._states.prefill_len.np[slot])
        if filled > first:
            self._fresh[slot] = range(first, filled)
        return True

    def _first(self, slot: int) -> int:
        """Where what must be read of a slot begins: the output, or the prompt where it may have begun the reasoning."""
        return 0 if self.program.markers is not None else int(self._states.prompt_len.np[slot])

    def flush(self) -> None:
        """Before the forward pass: ask for the tokens chosen so far."""
        if self._slots:
            self._chosen.copy(self._fresh, self.counters.dead_ends)

    # -- one step --------------------------------------------------------------------------------------------------

    def apply(self, logits: torch.Tensor, ctx: LogitsContext) -> torch.Tensor:
        """Change the logits (float32 [rows, width]) in place. Raises UnknownTokenError rather than guess a token."""
        slots = ctx.idx_mapping_np.tolist()
        if not any(slot in self._slots for slot in slots):
            self.step(logits, ())
            return logits
        if self._fresh:
            self.flush()  # it was not called since they came
        self.counters.report_known(self._chosen.wait())
        if logits.shape[0] == len(slots):
            lengths = ctx.seq_lens_upper_bound_np.tolist()
            ordered = [
                (index, row)
                for index, (slot, length) in enumerate(zip(slots, lengths, strict=False))
                if (row := self._slots.get(slot)) is not None
                and self._catch_up(slot, row, length, None if self._drafting else ctx.input_ids[index])
            ]
            finished = self.step(logits, ordered)
            names = slots
        else:
            ordered, drafts, names = self._with_drafts(ctx)
            finished = self.step(logits, ordered, drafts)
        for index in finished:
            del self._slots[names[index]]
        return logits

    def _catch_up(self, slot: int, row: Row, length: int, fed: torch.Tensor | int | None) -> bool:
        """Read what was chosen since. False: the prompt is not read whole yet, and what is chosen is thrown away.

        length: how many tokens the choice comes after. fed: the last of them; None: `length` is only an upper bound.
        """
        states, output = self._states, row.output
        prompt, filled = int(states.prompt_len.np[slot]), int(states.prefill_len.np[slot])
        if length < filled:
            return False
        history = self._chosen.history(slot)
        if history is not None:
            markers, first = self.program.markers, self._first(slot)
            if markers is not None:
                row.reasoning = markers.after(history[:prompt])
            output.extend(history[prompt - first :])
            row.counted = len(output)
        total = self._chosen.total(slot)
        if total < length and fed is not None:
            self._read_now(slot, row, length, fed)
            return True
        new = total - prompt - len(output)
        if 0 <= new <= self._chosen.window:
            output.extend(self._chosen.last(slot, new))
        else:
            output[:] = self._chosen.everything(slot, range(prompt, total))
        return True

    def _read_now(self, slot: int, row: Row, length: int, fed: torch.Tensor | int) -> None:
        """Read what was chosen from the device itself, and wait for it: it was not there ahead of the forward pass."""
        prompt, total = int(self._states.prompt_len.np[slot]), int(self._states.total_len.gpu[slot])
        if total < length - 1:
            raise UnknownTokenError(f"vLLM chooses after {length} tokens and tells {total} of them")
        row.output[:] = self._chosen.everything(slot, range(prompt, min(total, length)))
        if total == length - 1:
            row.output.append(int(fed))

    def _with_drafts(self, ctx: LogitsContext) -> tuple[list[tuple[int, Row]], dict[int, list[int]], list[int]]:
        """Rows where requests have several, for drafts: they are known to the device alone, which is waited for."""
        names: list[int] = ctx.expanded_idx_mapping.tolist()
        places: list[int] = ctx.expanded_local_pos.tolist()
        fed: list[int] = ctx.input_ids.tolist()
        pos: list[int] = ctx.pos.tolist()
        ordered: list[tuple[int, Row]] = []
        drafts: dict[int, list[int]] = {}
        own, takes_part = 0, False
        for index, (slot, place, token) in enumerate(zip(names, places, fed, strict=True)):
            row = self._slots.get(slot)
            if place == 0:
                own, takes_part = index, row is not None and self._catch_up(slot, row, pos[index] + 1, token)
                if row is not None and takes_part:
                    ordered.append((index, row))
            elif takes_part:
                drafts.setdefault(own, []).append(token)
        return ordered, drafts, names


__all__ = ["Batch", "ChosenTokens"]
