"""What the policies do to the logits of one request: a row a beam, changed in place.

The work itself is that of the other engine's batches (`engines.vllm.edits`, which needs no vLLM). Here is only what is
particular to one request: a row for each beam, on a stream of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from policyengine.engines.trtllm.binding import Bound
    from policyengine.runtime.token_session import TokenSession

_FLOOR = float("-inf")


def edit(rows: Any, sessions: Sequence[TokenSession], bound: Bound, eos: int) -> None:
    """Change the logits (tensor [beams, vocabulary]) as the sessions say: biases, masks, stand-ins, forces.

    Where nothing is left, the end is (`eos`). Nothing waits for the device.
    """
    from policyengine.engines.vllm.edits import Edits
    from policyengine.engines.vllm.memo import Mask
    from policyengine.engines.vllm.steering import Steering

    edits = Edits(bound.cache(rows.device))
    edits.steering = steering = Steering()
    for row, session in enumerate(sessions):
        if session.has_bias:
            ids, values = session.bias_arrays()
            if len(ids):
                edits.bias(row, ids, values)
        parts, forced, only, stand_in = session.answers()
        if parts:
            edits.mask(row, Mask(parts))
        if only is not None:
            steering.only(row, only, eos if forced is None else None)
        if stand_in is not None:
            steering.stand_in(row, *stand_in)
        if forced is not None:
            edits.force(row, forced, eos)
        elif stand_in is not None or sum(map(len, parts)) >= bound.real:
            edits.check(row, eos)
    edits.apply(rows, bound.padding(rows.shape[1]), bound.dead_ends(rows.device))


def close(rows: Any, eos: int) -> None:
    """Leave nothing but the end-of-sequence token, its logit as it is where it is a number."""
    kept = rows[:, eos].clone()
    rows.fill_(_FLOOR)
    rows[:, eos] = kept.where(kept.isfinite(), kept.new_zeros(()))


def on_stream(logits: Any, pointer: int | None) -> Any:
    """The stream that the engine computes the logits on, as a context; nothing where it is the current one."""
    if pointer is None or not logits.is_cuda:
        return nullcontext()
    import torch

    return torch.cuda.stream(torch.cuda.ExternalStream(pointer))
