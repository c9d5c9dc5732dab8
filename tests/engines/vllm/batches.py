"""Batches for tests: requests as a worker sees them, driven without an engine."""

from __future__ import annotations

from typing import Any

import torch
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import BatchUpdate

from policyengine.engines.vllm.v1 import Batch
from policyengine.runtime.program import Program
from policyengine.runtime.token_program import TokenProgram
from tests.engines.vllm.programs import EOS, OTHER_END, WIDTH, mixed, vocabulary

CPU = torch.device("cpu")
VOCABULARY = vocabulary()
MIXED = mixed().bind(VOCABULARY, device="cpu", target="vllm")
RICE = {"policies": ["no-rice"]}
# What clients may ask of them.
REQUESTS: list[dict[str, Any] | None] = [
    None,
    {"policies": ["no-rice"]},
    {"policies": ["pin"], "target_token": 9},
    {"policies": ["pin"]},
    {"policies": ["long"], "min_len": 5},
    {"policies": ["nudge", "no-rice"]},
    {"policies": ["open", "no-rice"]},
    {"policies": ["only-padding-left"]},
    {"policies": ["no-rice", "long", "nudge"]},
]


def sampling(extra_args: dict[str, Any] | None = None, **settings: Any) -> SamplingParams:
    """Parameters as a worker sees them: the engine has filled in what ends the request."""
    params = SamplingParams(extra_args=extra_args, **settings)
    params.update_from_generation_config({"eos_token_id": [EOS, OTHER_END]}, EOS)
    return params


def new_batch(bound: TokenProgram = MIXED) -> Batch:
    """A batch of an engine of its own."""
    return Batch(bound, CPU, object())


def bind(compiled: Program) -> TokenProgram:
    """On the toy vocabulary."""
    return compiled.bind(VOCABULARY, device="cpu", target="vllm")


def added(*requests: tuple[int, SamplingParams, list[int]]) -> BatchUpdate:
    """An update that adds (slot, parameters, output)."""
    return BatchUpdate(8, [], [(slot, params, [], output) for slot, params, output in requests], [])


def random_logits(rows: int, seed: int = 0) -> torch.Tensor:
    """Float32 [rows, WIDTH]."""
    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(seed))


def possible(row: torch.Tensor) -> list[int]:
    """The ids that may still be chosen."""
    return torch.nonzero(row > -torch.inf).flatten().tolist()


def expected_row(row: torch.Tensor, params: SamplingParams, output: list[int]) -> torch.Tensor:
    """What the rules ask, from a session of its own that knows no batch."""
    session = MIXED.token_session(params.extra_args, params.stop_token_ids, params.max_tokens, params.ignore_eos)
    for token in output:
        session.advance(token)
    row = row.clone()
    for token, value in session.biases().items():
        row[token] += torch.tensor(value, dtype=torch.float32)
    row[torch.from_numpy(session.masked())] = -torch.inf
    return row
