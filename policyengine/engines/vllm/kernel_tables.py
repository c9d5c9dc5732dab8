"""A program's id lists on the device, and the way a step's plan takes to it.

Two int32 areas hold all lists. The *arena* keeps what comes again: each list is sent once and then named by its place.
The *step area* is written anew in each step: the plan itself, and lists that are short or were not seen before. A place
p >= 0 is arena[p], a place p < 0 is step[-1 - p].

A step is one copy out of pinned memory. New lists of the arena are part of it and are copied on from there on the
device. The host writes into buffers that take turns, so it never waits for a copy; all memory is reused, and grows by
doubling. When the arena has reached its bound and is full, it starts anew: what is still asked for is soon back.
"""

from __future__ import annotations

import itertools
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from policyengine.engines.vllm.memo import Ids, Mask, Placed

MOST_WORDS: Final = 1 << 23  # of the arena: 32 MiB
_FIRST_WORDS: Final = 1 << 18
_FIRST_STEP_WORDS: Final = 1 << 14

# Counts up through all tables, so that what one of them has placed is never taken for another's.
_epochs = itertools.count(1)


class _Buffer:
    """Words on the host, on their way to the device until `sent` has passed."""

    __slots__ = ("sent", "tensor", "words")

    def __init__(self, words: int, pinned: bool) -> None:
        self.tensor = torch.empty(words, dtype=torch.int32, pin_memory=pinned)  # pageable memory would make a copy wait
        self.words: Ids = self.tensor.numpy()
        self.sent = torch.cuda.Event() if pinned else None

    def is_free(self) -> bool:
        return self.sent is None or bool(self.sent.query())


class Tables:
    """The lists of one program on one device. Each step: `begin`, places and `put`, `send`, a kernel, `sent`.

    arena, step: int32 on the device; kernels read them. scratch: float32 there; kernels may write it. unread: an int64
    scalar there for counts that nobody asked for.
    """

    def __init__(self, device: torch.device, *, short: int, most_words: int = MOST_WORDS) -> None:
        """short: a list of fewer ids is sent each time. most_words: the bound of the arena."""
        self._device, self._short, self._most = device, short, most_words
        self._is_cuda = device.type == "cuda"
        self.arena = self._words(min(_FIRST_WORDS, most_words))
        self.step = self._words(_FIRST_STEP_WORDS)
        self.scratch = torch.empty(0, dtype=torch.float32, device=device)
        self.unread = torch.zeros((), dtype=torch.int64, device=device)
        self._top = 0  # of what is used of the arena
        self._lacked = 0  # words that found no room since the step began
        self._kept: dict[tuple[int, int], tuple[object, int]] = {}  # with the arrays, whose identity is the key
        self._padding: tuple[npt.NDArray[np.int64], Ids] | None = None
        self._buffers: list[_Buffer] = []
        self._stream: torch.cuda.Stream | None = None
        self.epoch = next(_epochs)  # of the arena: what was placed in another one is not there any more
        # Of one step:
        self.step_epoch = next(_epochs)
        self._used = 0  # of the step area
        self._fresh: list[npt.NDArray[np.int32]] = []  # what goes on to the arena, to `_fresh_at` and behind
        self._fresh_at = 0
        self._inline: dict[tuple[int, int], tuple[object, int]] = {}

    def _words(self, count: int) -> torch.Tensor:
        return torch.empty(count, dtype=torch.int32, device=self._device)

    # -- one step --------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start a step; what is in the step area is gone with the next one."""
        if self._is_cuda:
            self._follow_stream()
        if self._lacked:
            self._make_room()
        free = next((i for i, buffer in enumerate(self._buffers) if buffer.is_free()), None)
        if free is None:
            self._buffers.append(_Buffer(self.step.numel(), self._is_cuda))
        else:
            self._buffers.append(self._buffers.pop(free))  # the last one is the one in use
        self.step_epoch = next(_epochs)
        self._used, self._fresh_at = 0, self._top
        self._fresh.clear()
        self._inline.clear()

    def put(self, words: npt.NDArray[np.int32], align: int = 1) -> int:
        """Write int32 words to the step area; the index of the first of them."""
        at = -(-self._used // align) * align
        self._used = at + words.size
        buffer = self._buffers[-1]
        if self._used > len(buffer.words):
            buffer = _Buffer(1 << self._used.bit_length(), self._is_cuda)
            buffer.words[:at] = self._buffers[-1].words[:at]
            self._buffers[-1] = buffer
        buffer.words[at : self._used] = words.ravel()
        return at

    def send(self) -> None:
        """Send what was put, and keep what is to be kept: nothing waits for it."""
        at = self.put(np.concatenate(self._fresh)) if self._fresh else 0
        if self._used > self.step.numel():
            self.step = self._words(len(self._buffers[-1].words))
        self.step[: self._used].copy_(self._buffers[-1].tensor[: self._used], non_blocking=True)
        if self._fresh:
            count = self._top - self._fresh_at
            self.arena[self._fresh_at : self._top].copy_(self.step[at : at + count], non_blocking=True)

    def sent(self) -> None:
        """The kernel that reads the step area has been queued."""
        event = self._buffers[-1].sent
        if event is not None:
            event.record()

    def _follow_stream(self) -> None:
        """What was queued on another stream comes first there; the host does not wait."""
        stream = torch.cuda.current_stream(self._device)
        if self._stream is not None and stream != self._stream:
            stream.wait_stream(self._stream)
        self._stream = stream

    def scratch_for(self, count: int) -> None:
        """Let `scratch` have at least so many floats."""
        if count > self.scratch.numel():
            self.scratch = torch.empty(1 << count.bit_length(), dtype=torch.float32, device=self._device)

    # -- lists -----------------------------------------------------------------------------------------------------

    def place(self, part: Ids) -> int:
        """The place of a list of ids, known by identity."""
        key = id(part), 0
        known = self._kept.get(key) or self._inline.get(key)
        return known[1] if known is not None else self._add(key, part, part)

    def place_weights(self, ids: Ids, values: npt.NDArray[np.float64]) -> int:
        """The place of a list of ids, behind which the bits of as many float32 values are."""
        key = id(ids), id(values)
        known = self._kept.get(key) or self._inline.get(key)
        if known is not None:
            return known[1]
        bits = values.astype(np.float32).view(np.int32)
        return self._add(key, (ids, values), np.concatenate((ids.astype(np.int32), bits)))

    def place_padding(self, padding: npt.NDArray[np.int64]) -> tuple[int, int]:
        """The place and length of the ids that stand for no token, known by value: the array may be a new one."""
        known = self._padding
        if known is None or not (known[0] is padding or np.array_equal(known[0], padding)):
            known = self._padding = padding.copy(), np.unique(padding).astype(np.int32)
        return self.place(known[1]), len(known[1])

    def place_mask(self, mask: Mask) -> Placed:
        """The segments of a mask. Its short parts are sent the first time, and from the second time on kept as one."""
        placed = mask.placed
        if placed is not None and (placed.epoch == self.epoch or placed.epoch == self.step_epoch):
            return placed
        segments, short = [], []
        for part in mask.parts:
            if len(part) < self._short:
                short.append(part)
            else:
                segments += [self.place(part), len(part)]
        if short:
            words = np.concatenate(short).astype(np.int32, copy=False)
            at = None if placed is None else self._keep(words)
            segments += [-1 - self.put(words) if at is None else at, len(words)]
        is_kept = min(segments[::2], default=0) >= 0
        mask.placed = placed = Placed(
            self.epoch if is_kept else self.step_epoch, np.array(segments, dtype=np.int32).reshape(-1, 2)
        )
        return placed

    def _add(self, key: tuple[int, int], owner: object, words: npt.NDArray[np.int32]) -> int:
        at = self._keep(words) if len(words) >= self._short else None
        if at is None:
            at = -1 - self.put(words)
            self._inline[key] = owner, at
        else:
            self._kept[key] = owner, at
        return at

    def _keep(self, words: npt.NDArray[np.int32]) -> int | None:
        """A place of the arena for words that are then sent there; None: there is no room in this step."""
        at = self._top
        if at + len(words) > self.arena.numel():
            if len(words) <= self._most:
                self._lacked += len(words)
            return None
        self._top += len(words)
        self._fresh.append(words)
        return at

    def _make_room(self) -> None:
        """A larger arena with what the old one has, or, where the bound does not allow that, an empty one."""
        wanted, size = self._top + self._lacked, self.arena.numel()
        larger = min(self._most, max(2 * size, wanted))
        arena = self.arena if larger == size else self._words(larger)
        if wanted <= self._most:
            arena[: self._top].copy_(self.arena[: self._top], non_blocking=True)
        else:
            self._top, self.epoch = 0, next(_epochs)
            self._kept.clear()
        self.arena, self._lacked = arena, 0
