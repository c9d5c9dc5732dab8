"""`python -m benchmarks.device_step`: what a step for a device costs the host, and on CUDA the device.

The host's share is the whole step of the adapter (read the tokens, look up the masks, write the plan) with a kernel
that does nothing, in time of the process, so that other programs on the machine count less; the same step with numpy
writing to the host's own logits stands beside it. On CUDA the kernel stands beside the engine's own, `bad_words` and
`logit_bias` of the V2 runner at their limits, and beside an indexed write of as many -inf as ours writes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from benchmarks import common, token_step
from policyengine.engines.vllm import edits

_ROUNDS = 200


@contextmanager
def device_way(cache: Any, kernel: Any) -> Iterator[None]:
    """Logits of a host go the way of a device, to this kernel."""
    before, edits._on_host = edits._on_host, lambda _logits: False
    cache.kernel = kernel
    try:
        yield
    finally:
        edits._on_host = before


def host_share(banned: tuple[str, ...], size: int, *, to_device: bool) -> tuple[float, int]:
    """The tenth percentile of the steps, in seconds, and the words that the last one sent."""
    batch = token_step.Batch(size)
    adapter, logits, outputs = token_step.ours(banned, batch)
    cache = adapter._cache

    def work() -> float:
        start = time.process_time()
        adapter.apply(logits)
        spent = time.process_time() - start
        for output, text in zip(outputs, batch.texts, strict=True):
            output.append(text[len(output) % len(text)])
        return spent

    def measured() -> float:
        for _ in range(60):
            work()
        return sorted(work() for _ in range(_ROUNDS))[_ROUNDS // 10]

    if not to_device:
        return measured(), 0
    with device_way(cache, lambda *_: None):
        return measured(), cache.tables._used


def on_device(work: Callable[[], object], name: str) -> tuple[float, float]:
    """Seconds that the kernels of this name take on the device for one call of `work`, and how many there are."""
    for _ in range(10):
        work()
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for _ in range(_ROUNDS):
            work()
        torch.cuda.synchronize()
    found = [event for event in profile.key_averages() if name in event.key]
    spent = sum(event.self_device_time_total for event in found) * 1e-6
    return spent / _ROUNDS, sum(event.count for event in found) / _ROUNDS


def ours_on_device(banned: tuple[str, ...], size: int) -> tuple[float, float, float]:
    """The kernel's seconds, launches a step, and the seconds of one indexed write of as many -inf."""
    device = torch.device("cuda")
    batch = token_step.Batch(size)
    adapter, _, _ = token_step.ours(banned, batch, device)
    logits = torch.zeros(size, token_step.WIDTH, device=device)
    spent, launches = on_device(lambda: adapter.apply(logits), "edit_rows")
    spots = torch.isneginf(logits).flatten().nonzero().flatten()
    flat = torch.zeros(size * token_step.WIDTH, device=device)
    floor, _ = on_device(lambda: flat.index_fill_(0, spots, float("-inf")), "index_fill")
    return spent, launches, floor


def peers_on_device(size: int) -> tuple[float, float]:
    """vLLM's own kernels at their limits: 128 bad words of eight tokens each, 1,024 biases; seconds a step."""
    from vllm.v1.worker.gpu.sample.bad_words import apply_bad_words
    from vllm.v1.worker.gpu.sample.logit_bias import apply_logit_bias

    device = torch.device("cuda")

    def ints(*shape: int, value: int = 0) -> torch.Tensor:
        return torch.full(shape, value, dtype=torch.int32, device=device)

    logits = torch.zeros(size, token_step.WIDTH, device=device)
    rows, some = torch.arange(size, dtype=torch.int32, device=device), ints(size, 1_024, value=7)
    some += torch.arange(1_024, dtype=torch.int32, device=device)
    offsets = (torch.arange(129, dtype=torch.int32, device=device) * 8).expand(size, -1).contiguous()
    counts = ints(size, value=128), ints(size, 512, value=7), ints(size), ints(size, value=100), rows, ints(size)
    words, _ = on_device(lambda: apply_bad_words(logits, rows, some, offsets, *counts, 128), "_bad_words_kernel")
    none, weights = ints(size), torch.ones(size, 1_024, device=device)
    bias = none, none, some, ints(size, value=1_024), some, weights, none, none, none, ints(size, 128)
    biases, _ = on_device(lambda: apply_logit_bias(logits, rows, *bias), "_bias_kernel")
    return words, biases


def main() -> None:
    """Print both tables, or say what the second one lacks."""
    print(f"{'phrases':>9} {'batch':>6} {'numpy ms':>9} {'plan ms':>9} {'KiB sent':>9}")
    for count in (100, 1_000, 10_000):
        banned = common.phrases(count)
        for size in (64, 256):
            numpy, (plan, words) = (
                host_share(banned, size, to_device=False)[0],
                host_share(banned, size, to_device=True),
            )
            print(f"{count:>9,} {size:>6} {numpy * 1e3:>9.3f} {plan * 1e3:>9.3f} {words / 256:>9.1f}")
    if not torch.cuda.is_available():
        print("\nNo CUDA device: the kernel itself was not measured.")
        return
    print(f"\n{'phrases':>9} {'batch':>6} {'ours µs':>8} {'launches':>9} {'floor µs':>9}", end="")
    print(f" {'bad_words µs':>13} {'bias µs':>8}")
    for count in (100, 1_000, 10_000):
        for size in (64, 256):
            spent, launches, floor = ours_on_device(common.phrases(count), size)
            words, biases = peers_on_device(size)
            times = (
                f"{spent * 1e6:>8.1f} {launches:>9.2f} {floor * 1e6:>9.1f} {words * 1e6:>13.1f} {biases * 1e6:>8.1f}"
            )
            print(f"{count:>9,} {size:>6} {times}")


if __name__ == "__main__":
    main()
