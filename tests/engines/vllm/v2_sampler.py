"""Drives our V2 batch inside vLLM's own request states and sampler. A command for `test_v2.py`.

usage: v2_sampler.py SEED STEPS DRAFT_TOKENS

Requests take slots and leave them, come back with what they have written, and get drafts of which some are accepted;
what vLLM's sampler makes of the logits is compared with what a dictionary of requests says, row by row.
"""

from __future__ import annotations

import random
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import vllm.v1.worker.cpu.shm  # noqa: F401 - makes the buffers of the V2 runner work without a GPU
from vllm import SamplingParams
from vllm.v1.worker.gpu.input_batch import expand_idx_mapping, post_update
from vllm.v1.worker.gpu.sample.logits_processor.interface import (
    LogitsContext,
    LogitsProcessor,
    LogitsProcRequestState,
)
from vllm.v1.worker.gpu.sample.sampler import Sampler
from vllm.v1.worker.gpu.states import RequestState

from policyengine.engines.vllm.v2 import Batch
from tests.engines.vllm.batches import CPU, MIXED, REQUESTS, expected_row, possible, random_logits, sampling
from tests.engines.vllm.programs import WIDTH

SLOTS, LENGTH = 5, 256


class AsProcessor(LogitsProcessor):
    """The thinnest wrapping that vLLM's sampler accepts."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def add_request(self, req_idx: int, sampling_params: SamplingParams) -> bool:
        return self.batch.add(req_idx, sampling_params)

    def apply_staged_writes(self) -> None:
        self.batch.flush()

    def apply(self, logits: torch.Tensor, ctx: LogitsContext) -> torch.Tensor:
        return self.batch.apply(logits, ctx)


class Runner:
    """What is left of a model runner: states, the sampler, and a dictionary of what each request has written."""

    def __init__(self, rng: random.Random, draft_tokens: int) -> None:
        self.rng, self.draft_tokens = rng, draft_tokens
        self.states = RequestState(SLOTS, LENGTH, LENGTH, draft_tokens, WIDTH, CPU)
        seen = LogitsProcRequestState.from_request_state(self.states)
        self.batch = Batch(MIXED, seen, object(), draft_tokens=draft_tokens)
        config: Any = SimpleNamespace(reasoning_config=None, speculative_config=None)
        self.sampler = Sampler(
            config, SLOTS, WIDTH, CPU, self.states, custom_logits_processors=[AsProcessor(self.batch)]
        )
        self.running: dict[str, tuple[SamplingParams, list[int], list[int]]] = {}
        self.preempted: dict[str, tuple[SamplingParams, list[int], list[int]]] = {}
        self.started = self.steps = 0

    def change(self) -> None:
        """Some requests leave or are thrown out, others come; the slots' tokens are written as vLLM does it."""
        rng = self.rng
        for name in [name for name in self.running if rng.random() < 0.15]:
            request = self.running.pop(name)
            self.states.remove_request(name)
            if rng.random() < 0.5:
                self.preempted[name] = request
        waiting = [name for name in self.preempted if rng.random() < 0.5]
        for _ in range(rng.randrange(3)):
            self.started += 1
            waiting.append(f"r{self.started}")
            params = sampling(rng.choice(REQUESTS), max_tokens=100)
            self.preempted[waiting[-1]] = params, [rng.randrange(17) for _ in range(rng.randint(1, 5))], []
        for name in waiting[: SLOTS - len(self.running)]:
            params, prompt, output = self.running[name] = self.preempted.pop(name)
            tokens = [*prompt, *output]
            self.states.add_request(name, len(prompt), tokens, len(tokens) - 1, 100)
            self.sampler.add_request(self.states.req_id_to_index[name], params)
        self.states.apply_staged_writes()
        self.sampler.apply_staged_writes()

    def step(self) -> int:
        """One step of some of the requests, in random order; how many rows were compared."""
        names = self.rng.sample(sorted(self.running), self.rng.randint(0, len(self.running)))
        if not names:
            return 0
        self.steps += 1
        requests = [self.running[name] for name in names]
        drafts = [[self.rng.randrange(2, 17) for _ in range(self.rng.randint(0, self.draft_tokens))] for _ in names]
        slots = np.array([self.states.req_id_to_index[name] for name in names])
        idx_mapping = torch.from_numpy(slots)
        bounds = torch.tensor(np.cumsum([0, *(1 + len(d) for d in drafts)]), dtype=torch.int32)
        total = int(bounds[-1])
        expanded, local = expand_idx_mapping(idx_mapping, total, bounds, 1 + self.draft_tokens)
        fed = [t for (_, prompt, output), d in zip(requests, drafts, strict=True) for t in [(prompt + output)[-1], *d]]
        known = [len(prompt) + len(output) for _, prompt, output in requests]
        pos = [n - 1 + i for n, d in zip(known, drafts, strict=True) for i in range(len(d) + 1)]
        before = random_logits(total, self.steps)
        lengths = np.array([n + len(d) for n, d in zip(known, drafts, strict=True)])
        after = self.sampler.apply_sampling_params(
            before.clone(), expanded, idx_mapping, slots, torch.tensor(pos), torch.tensor(fed), local, lengths
        )
        sampled = torch.zeros((len(names), 1 + self.draft_tokens), dtype=torch.int64)
        counts = torch.zeros(len(names), dtype=torch.int32)
        for i, ((params, _, output), mine) in enumerate(zip(requests, drafts, strict=True)):
            first = int(bounds[i])
            for place in range(len(mine) + 1):
                wanted = expected_row(before[first + place], params, [*output, *mine[:place]])
                assert torch.equal(after[first + place], wanted), (params, output, mine, place)
            accepted = self.rng.randint(0, len(mine))
            options = [token for token in possible(after[first + accepted]) if token < 17]
            chosen = [*mine[:accepted], self.rng.choice(options)]
            sampled[i, : len(chosen)] = torch.tensor(chosen)
            counts[i] = len(chosen)
            output += chosen
        post_update(
            idx_mapping,
            self.states.num_computed_tokens.gpu,
            self.states.last_sampled_tokens,
            None,
            sampled,
            counts,
            torch.zeros(len(names), dtype=torch.int32),
            None,
            self.states.all_token_ids.gpu,
            self.states.total_len.gpu,
        )
        return total


def main(seed: str, steps: str, draft_tokens: str) -> None:
    """Print how many rows were compared and how many requests there were."""
    runner, rows = Runner(random.Random(seed), int(draft_tokens)), 0
    for _ in range(int(steps)):
        runner.change()
        rows += runner.step()
    counters = runner.batch.counters.snapshot()
    assert counters["failed"] == counters["refused"] == 0, counters
    sys.stdout.write(f"{rows} {runner.started}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
