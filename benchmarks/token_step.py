"""One step of a batch under a ban of n phrases: what the sampler waits for, ours and the engines' own.

The peers ban one or two id sequences a phrase; ours holds for every segmentation, case and spacing. Each row of the
batch is somewhere in a text; between two steps every row gets the token that its text goes on with, as in an engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from benchmarks import common
from policyengine.engines.vllm import v1

WIDTH = 131_072
_CPU = torch.device("cpu")


@dataclass
class Batch:
    """Histories that grow by a token a step; the same for every peer."""

    size: int
    texts: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        ids = {token: i for i, token in enumerate(common.vocabulary().tokens) if token}
        self.texts = [[ids[f" {w}".encode()] for w in common.prose(400, seed)] for seed in range(self.size)]


def ours(
    banned: tuple[str, ...], batch: Batch, device: torch.device = _CPU
) -> tuple[Any, torch.Tensor, list[list[int]]]:
    """The V1 adapter's batch, ready to apply; its logits; the live output lists."""
    program = common.program(banned).bind(common.vocabulary(), device="cpu", target="vllm")
    adapter = v1.Batch(program, device, object())
    outputs: list[list[int]] = [text[:20] for text in batch.texts]
    params = SimpleNamespace(
        structured_outputs=None,
        allowed_token_ids=None,
        bad_words=None,
        eos_token_id=None,
        extra_args=None,
        stop_token_ids=None,
        max_tokens=4096,
        ignore_eos=False,
        min_tokens=0,
        all_stop_token_ids=set(),
    )
    adapter.update(SimpleNamespace(removed=[], added=[(i, params, None, o) for i, o in enumerate(outputs)], moved=[]))
    return adapter, torch.zeros(batch.size, WIDTH), outputs


def bad_words(banned: tuple[str, ...], batch: Batch) -> tuple[dict[int, list[list[int]]], list[list[int]]]:
    """vLLM's form of the same list: with and without a leading space, as its own conversion does."""
    ids = {token: i for i, token in enumerate(common.vocabulary().tokens) if token}
    sequences = []
    for phrase in banned:
        rest = [ids[f" {w}".encode()] for w in phrase.split()]
        sequences.append(rest)
        bare = ids.get(phrase.split()[0].encode())
        if bare is not None:
            sequences.append([bare, *rest[1:]])
    return dict.fromkeys(range(batch.size), sequences), [text[:20] for text in batch.texts]


def check(banned: tuple[str, ...]) -> None:
    """Both mask the last token of a phrase after its first ones, and ours also another spelling of it."""
    ids = {token: i for i, token in enumerate(common.vocabulary().tokens) if token}
    phrase = next(p for p in banned if " " in p)
    spelled = [ids[f" {w}".encode()] for w in phrase.split()]
    session = common.program(banned).bind(common.vocabulary()).token_session()
    for token in spelled[:-1]:
        session.advance(token)
    masked = set(session.masked().tolist())
    assert spelled[-1] in masked
    for letter in f" {phrase.split()[-1]}".encode()[:-1]:
        session.advance(ids[bytes([letter])])
    assert ids[phrase[-1:].encode()] in set(session.masked().tolist())


def rows(sizes: tuple[int, ...], counts: tuple[int, ...], rounds: int) -> list[dict[str, Any]]:
    """One row a batch size and phrase count: ours, vLLM's `apply_bad_words`, and the floor; seconds a step."""
    from vllm.v1.sample.ops.bad_words import apply_bad_words

    found = []
    for count in counts:
        banned = common.phrases(count)
        check(banned)
        for size in sizes:
            batch = Batch(size)
            adapter, logits, outputs = ours(banned, batch)

            def step(adapter: Any = adapter, logits: Any = logits, outputs: Any = outputs, batch: Any = batch) -> None:
                adapter.apply(logits)
                for output, text in zip(outputs, batch.texts, strict=True):
                    output.append(text[len(output) % len(text)])

            for _ in range(60):
                step()  # caches warm as they are after the first seconds of serving
            logits.zero_()
            step()
            written = int(torch.isneginf(logits).sum())
            mine = common.median(step, rounds)
            # The floor: as many -inf as that step wrote, in one indexed write whose indices are there already; by
            # PyTorch's threads or by numpy, whichever is faster (threads wait for a core where others use it too).
            spots = np.sort(np.random.default_rng(0).choice(size * WIDTH, written, replace=False))
            flat, places, never = torch.zeros(size * WIDTH), torch.from_numpy(spots), np.float32("-inf")
            host = flat.numpy()
            floor = min(
                common.median(lambda f=flat, p=places: f.index_fill_(0, p, float("-inf")), rounds),
                common.median(lambda f=host, p=spots, n=never: f.__setitem__(p, n), rounds),
            )
            blank = flat.view(size, WIDTH)

            peer = None
            if count <= 1000:
                sequences, past = bad_words(banned, batch)
                peer = common.median(lambda b=blank, s=sequences, p=past: apply_bad_words(b, s, p), max(3, rounds // 8))
            found.append({"phrases": count, "batch": size, "ours": mine, "bad_words": peer, "floor": floor})
    return found
