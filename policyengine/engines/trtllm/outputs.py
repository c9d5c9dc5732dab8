"""What the hook remembers between two chunks, bounded in number and age.

A request that its client gave up may never get a last call, so nothing here counts on one. What is dropped for want of
room is remembered as dropped: an output whose state is gone must not go on as if it were new.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from policyengine.runtime.counts import OutputCounts
from policyengine.runtime.text_session import TextSession

Fate = Literal["closed", "lost"]


@dataclass(slots=True)
class Output:
    """One output of one request.

    pending: text the session released that has not left yet, since its chunk was withheld.
    read, recent: how many characters of the engine's text were read, and the last of them.
    tail: U+FFFD that the engine's text ended in: a character that may not be complete.
    counts: what is counted of it by rule.
    redecodes: the engine decodes all tokens anew at each chunk, so that `text` is the whole raw text.
    """

    session: TextSession
    touched: float
    counts: OutputCounts
    pending: list[str] = field(default_factory=list)
    read: int = 0
    recent: str = ""
    tail: str = ""
    redecodes: bool = False


class Outputs:
    """The outputs under way, by request. `evicted`: how many were dropped that had not ended."""

    def __init__(self, limit: int, idle_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = limit
        self.idle_seconds = idle_seconds
        self.evicted = 0
        self._clock = clock
        self._requests: OrderedDict[int, dict[int, Output]] = OrderedDict()  # least recently called first
        self._count = 0
        self._fates: OrderedDict[int, Fate] = OrderedDict()

    def __len__(self) -> int:
        return self._count

    def fate(self, request: int) -> Fate | None:
        """Why a request has no state: its output was ended ("closed"), or dropped ("lost"); None: neither."""
        return self._fates.get(request)

    def get(self, request: int, index: int) -> Output | None:
        """The state of an output, which counts as called now."""
        output = self._requests.get(request, {}).get(index)
        if output is not None:
            self._requests.move_to_end(request)
            output.touched = self._clock()
        return output

    def add(self, request: int, index: int, session: TextSession, counts: OutputCounts) -> Output:
        """The state of an output that begins; makes room for it."""
        now = self._clock()
        output = Output(session, now, counts)
        self._requests.setdefault(request, {})[index] = output
        self._requests.move_to_end(request)
        self._count += 1
        while len(self._requests) > 1:
            oldest, outputs = next(iter(self._requests.items()))
            idle = now - max(output.touched for output in outputs.values())
            if self._count <= self.limit and idle < self.idle_seconds:
                break
            self.evicted += len(outputs)
            self.close(oldest, "lost")
        return output

    def end(self, request: int, index: int) -> None:
        """An output came to its end; others of its request may still have their last call."""
        outputs = self._requests.get(request)
        if outputs is not None and outputs.pop(index, None) is not None:
            self._count -= 1
            if not outputs:
                del self._requests[request]

    def close(self, request: int, fate: Fate = "closed") -> None:
        """Forget all outputs of a request, and remember why."""
        self._count -= len(self._requests.pop(request, {}))
        self._fates[request] = fate
        self._fates.move_to_end(request)
        while len(self._fates) > self.limit:
            self._fates.popitem(last=False)
