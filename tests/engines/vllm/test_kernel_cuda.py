"""What holds on a GPU alone: one launch, no wait, no memory taken."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from policyengine.engines.vllm import kernel_torch
from policyengine.engines.vllm.edits import Edits, PartCache
from policyengine.engines.vllm.memo import Mask
from policyengine.engines.vllm.steering import Steering
from tests.engines.vllm.kernel_cases import Lists, equal, gather, modelled, random_logits, random_step

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

WIDTH = 131_072
PADDING = np.arange(130_072, WIDTH)


def steps(cache: PartCache, rng: random.Random) -> Iterator[Edits]:
    """Steps of 64 rows with everything in them, some lists known and some new."""
    known = [
        Mask((np.array(rng.sample(range(WIDTH), 900), dtype=np.int32), np.arange(i, i + 9, dtype=np.int32)))
        for i in range(40)
    ]
    weights = np.arange(300, dtype=np.int32), np.linspace(-2, 2, 300)
    few = np.array(rng.sample(range(WIDTH), 700), dtype=np.int32)
    while True:
        edits = Edits(cache)
        edits.steering = Steering()
        for row in range(64):
            mask = rng.choice(known) if rng.random() < 0.9 else Mask((np.arange(row, row + 200, dtype=np.int32),))
            edits.mask(row, mask)
            edits.bias(row, *weights)
        edits.steering.only(3, few, 2)
        edits.steering.stand_in(4, 17, few[:5])
        edits.force(5, 99, 2)
        edits.check(6, 2)
        yield edits


@pytest.mark.parametrize("form", ["triton", "torch"])
def test_steps_are_what_the_model_says(form: str) -> None:
    """On the device itself, rows and ids out of range included."""
    rng, lists = random.Random(form), Lists()
    cache = PartCache(torch.device("cuda"))
    assert cache.kernel is not kernel_torch.apply, "it compiles"
    if form == "torch":
        cache.kernel = kernel_torch.apply
    some = [random_step(rng, 5, 3_000, wild=True) for _ in range(20)]
    for step in (*some, *some, *some):
        host = random_logits(rng, 5, 3_000)
        wanted, ended = modelled(host, step)
        logits = host.cuda()
        found = gather(step, cache, lists).apply(logits, np.array(step.padding, dtype=np.int64))
        assert equal(logits.cpu(), wanted)
        assert (0 if found is None else int(found)) == ended


def test_nothing_waits_and_nothing_is_allocated() -> None:
    """Once memory has grown to what steps need."""
    cache = PartCache(torch.device("cuda"))
    logits, total = torch.randn(64, WIDTH, device="cuda"), torch.zeros((), dtype=torch.int64, device="cuda")
    coming = steps(cache, random.Random(1))
    for _ in range(30):
        next(coming).apply(logits, PADDING, total)
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(30):
            next(coming).apply(logits, PADDING, total)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before


def test_a_step_is_one_kernel() -> None:
    """Beside the copies, which are none."""
    cache = PartCache(torch.device("cuda"))
    logits, total = torch.randn(64, WIDTH, device="cuda"), torch.zeros((), dtype=torch.int64, device="cuda")
    coming = steps(cache, random.Random(2))
    next(coming).apply(logits, PADDING, total)
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(10):
            next(coming).apply(logits, PADDING, total)
        torch.cuda.synchronize()
    queued = [event.name for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    kernels = [name for name in queued if "memcpy" not in name.lower()]
    assert len(kernels) == 10
    assert all("edit_rows" in name for name in kernels)


def test_steps_that_run_ahead() -> None:
    """The host writes the next steps while the device is still at others: none of them is overwritten."""
    cache = PartCache(torch.device("cuda"))
    results = []
    spinning = torch.randn(4_096, 4_096, device="cuda")
    for step in range(12):
        spinning = spinning @ spinning
        logits = torch.zeros(64, WIDTH, device="cuda")
        edits = Edits(cache)
        for row in range(64):
            edits.mask(row, Mask((np.arange(step * 64 + row, step * 64 + row + 50, dtype=np.int32),)))
        edits.apply(logits, PADDING)
        results.append(logits)
    for step, logits in enumerate(results):
        for row in range(64):
            gone = torch.nonzero(logits[row] == -torch.inf).flatten().tolist()
            assert gone == list(range(step * 64 + row, step * 64 + row + 50))
