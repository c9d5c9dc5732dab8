"""The definition of what a step does on a device, beside a model of dictionaries and the host's numpy."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.engines.vllm import edits as edits_module
from policyengine.engines.vllm.edits import PartCache
from tests.engines.vllm.kernel_cases import (
    CPU,
    SIZES,
    Lists,
    equal,
    gather,
    modelled,
    random_steps,
    rare,
)


@pytest.mark.parametrize(("on_host", "inline"), [(True, 4), (False, 0), (False, 4), (False, 128)])
@settings(max_examples=40)
@given(size=SIZES, rng=st.randoms(use_true_random=False))
def test_a_step_is_what_the_model_says(on_host: bool, inline: int, size: tuple[int, int], rng: random.Random) -> None:
    """Several steps with lists in common, some rows and ids out of range (on the host they are in range)."""
    lists = Lists()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edits_module, "_INLINE", inline)
        patch.setattr(edits_module, "_on_host", lambda _logits: on_host)
        cache = PartCache(CPU)
        total = torch.zeros((), dtype=torch.int64)
        ended = 0
        for step, logits, wanted, count in random_steps(rng, size, wild=not on_host):
            ended += count
            found = gather(step, cache, lists).apply(
                logits, torch.tensor(step.padding, dtype=torch.int64).numpy(), total
            )
            assert found is None
            assert equal(logits, wanted), step
            assert total == ended


@pytest.mark.parametrize("on_host", [True, False])
def test_rare_steps(on_host: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN, infinities, both zeros, sums whose order counts, dead ends of each kind."""
    monkeypatch.setattr(edits_module, "_on_host", lambda _logits: on_host)
    logits, step = rare()
    wanted, ended = modelled(logits, step)
    assert ended == 6
    found = gather(step, PartCache(CPU), Lists()).apply(logits, np.array(step.padding))
    assert equal(logits, wanted)
    assert found == ended
    assert logits[0, 1] == 0.0, "and not 2.0, as in another order of the calls"
    assert not torch.isnan(logits[1:6]).any()
