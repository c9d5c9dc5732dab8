"""One request in a running batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from policyengine.engines.vllm.memo import Spot
    from policyengine.runtime.counts import OutputCounts
    from policyengine.runtime.token_session import TokenSession


class UnknownTokenError(RuntimeError):
    """The engine does not say which tokens were chosen; no policy can hold."""


class Row:
    """One request in the batch. `params` and `output` (a live list) are vLLM's and are only read."""

    __slots__ = (
        "closed",
        "consumed",
        "counted",
        "counts",
        "eos",
        "last",
        "limited",
        "noted",
        "output",
        "overruled",
        "params",
        "reasoning",
        "session",
        "spot",
        "until",
    )

    def __init__(self, params: Any, output: list[int], default_eos: int) -> None:
        self.params, self.output = params, output
        self.session: TokenSession | None = None
        self.consumed = 0  # how much of `output` the session has seen
        self.last = -1  # the last id it has seen
        self.overruled = 0  # the session's count of masked choices at the last step
        self.counts: OutputCounts | None = None  # made with the session
        self.counted = len(output)  # how much of it was counted by rule: a request may come back with what it has
        self.noted = False  # whether anything was counted by rule of the token read last
        # Where the row stands, as long as the output is shorter than `until`; the session itself may be behind.
        self.spot: Spot | None = None
        self.until = 0
        self.closed = False  # failed: only EOS from here on
        # The engine has masks of its own for this request, which may leave nothing beside ours.
        self.limited = bool(params.structured_outputs or params.allowed_token_ids or params.bad_words)
        self.reasoning: bool | None = None  # whether the prompt has begun, or ended, the reasoning
        self.eos = default_eos if params.eos_token_id is None else params.eos_token_id

    def fits(self) -> bool:
        """Whether `output` continues what the session has seen."""
        seen = self.consumed
        return not seen or (len(self.output) >= seen and self.output[seen - 1] == self.last)


__all__ = ["Row", "UnknownTokenError"]
