"""What the policies do to the logits of one request: a row a beam, changed in place.

The work itself is that of the other engine's batches (`engines.vllm.edits`, which needs no vLLM). Here is only what is
particular to one request: its rows may be of any type and lie on a stream of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from policyengine.automata.phrases import Ints
    from policyengine.engines.trtllm.binding import Bound
    from policyengine.runtime.token_session import StandIn, TokenSession

_FLOOR = float("-inf")


def edit(rows: Any, sessions: Sequence[TokenSession], bound: Bound, eos: int) -> None:
    """Change the logits (tensor [beams, vocabulary]) as the sessions say: biases, stand-ins, masks, forces.

    Where nothing is left, the end is (`eos`). Nothing waits for the device.
    """
    if rows.device.type == "cpu" and str(rows.dtype) != "torch.float32":
        wide = rows.float()  # numpy knows no bfloat16; the way there and back changes no value
        _edit(wide, sessions, bound, eos)
        rows.copy_(wide)
    else:
        _edit(rows, sessions, bound, eos)


def _edit(rows: Any, sessions: Sequence[TokenSession], bound: Bound, eos: int) -> None:
    from policyengine.engines.vllm.edits import Edits
    from policyengine.engines.vllm.memo import Mask

    width = rows.shape[1]
    cache = bound.cache(rows.device)
    biases, edits = Edits(cache), Edits(cache)
    stand_ins: list[tuple[int, StandIn]] = []
    for row, session in enumerate(sessions):
        if session.has_bias:
            ids, values = session.bias_arrays()
            if len(ids):
                biases.bias(row, ids, values)
        parts, only, forced = session.mask_parts(), session.only, session.forced
        if only is not None:
            parts = (*parts, bound.others(only, width))
        stand_in = session.stand_in
        if stand_in is not None:
            parts, stands = _left_of(stand_in, parts)
            stand_ins += [(row, stands)] if stands is not None else []
        if parts:
            edits.mask(row, Mask(parts))
        if forced is not None:
            edits.force(row, forced, eos)
        elif only is not None or stand_in is not None or sum(map(len, parts)) >= bound.real:
            edits.check(row, eos)
    padding = bound.padding(width)
    biases.apply(rows, padding)
    for row, stand_in in stand_ins:
        _stand_in(rows, row, stand_in)
    bound.add_dead_ends(edits.apply(rows, padding))


def _left_of(stand_in: StandIn, parts: tuple[Ints, ...]) -> tuple[tuple[Ints, ...], StandIn | None]:
    """The parts with what a stand-in masks, and what is left of it: None where it stands for nothing."""
    left = [i for i in stand_in.sources.tolist() if not _holds(parts, i)]
    if not left or _holds(parts, stand_in.token):
        return (*parts, stand_in.sources, np.array([stand_in.token], dtype=np.int32)), None
    return (*parts, stand_in.sources), stand_in._replace(sources=np.array(left, dtype=np.int32))


def _holds(parts: Iterable[Ints], token: int) -> bool:
    return any(bool((part == token).any()) for part in parts)


def _stand_in(rows: Any, row: int, stand_in: StandIn) -> None:
    """Give a token the largest logit of those that it stands for."""
    import torch

    ids = torch.from_numpy(stand_in.sources.astype(np.int64)).to(rows.device, non_blocking=True)
    rows[row, stand_in.token] = rows[row, ids].amax()


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
