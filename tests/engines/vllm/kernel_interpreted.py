"""The Triton kernel under Triton's interpreter. `test_kernel_triton` runs this in a process of its own, since Triton
must be told to interpret before anything imports it."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.engines.vllm import edits as edits_module
from policyengine.engines.vllm import kernel_plan, kernel_torch, kernel_triton
from policyengine.engines.vllm.edits import Kernel, PartCache
from policyengine.engines.vllm.kernel_plan import Plan
from policyengine.engines.vllm.kernel_tables import Tables
from tests.engines.vllm.kernel_cases import (
    CPU,
    SIZES,
    Lists,
    Step,
    equal,
    gather,
    modelled,
    random_logits,
    random_steps,
    rare,
)


def both(found: list[torch.Tensor]) -> Kernel:
    """Applies the kernel, and its definition to a copy in `found`; both must count the same."""

    def apply(logits: torch.Tensor, plan: Plan, tables: Tables, total: torch.Tensor) -> None:
        copy, count = logits.clone(), torch.zeros_like(total)
        before = total.clone()
        kernel_torch.apply(copy, plan, tables, count)
        found.append(copy)
        tables.scratch.fill_(float("nan"))  # nothing may be expected of it
        kernel_triton.apply(logits, plan, tables, total)
        assert torch.equal(total - before, count)

    return apply


@pytest.fixture(autouse=True)
def on_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logits of a host go the way of a device."""
    monkeypatch.setattr(edits_module, "_on_host", lambda _logits: False)


@pytest.mark.parametrize(("inline", "block"), [(0, 8), (4, 2048)])
@settings(max_examples=15)
@given(size=SIZES, rng=st.randoms(use_true_random=False))
def test_the_kernel_is_its_definition(inline: int, block: int, size: tuple[int, int], rng: random.Random) -> None:
    """Bit for bit, and what the model says; nothing is written beside the rows."""
    lists = Lists()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edits_module, "_INLINE", inline)
        patch.setattr(kernel_triton, "BLOCK", block)
        cache, defined = PartCache(CPU), list[torch.Tensor]()
        cache.kernel = both(defined)
        for step, logits, wanted, ended in random_steps(rng, size, wild=True):
            storage = logits.untyped_storage()
            whole = torch.empty(0).set_(storage)
            outside = torch.ones_like(whole, dtype=torch.bool)
            outside.as_strided(logits.shape, logits.stride(), logits.storage_offset()).fill_(False)
            beside = whole[outside].clone()
            defined.clear()
            padding = np.array(step.padding, dtype=np.int64)
            found = gather(step, cache, lists).apply(logits, padding)
            for definition in defined:  # none where there was nothing to do
                assert torch.equal(logits.view(torch.int32), definition.view(torch.int32))
            assert equal(logits, wanted)
            assert (0 if found is None else found) == ended
            assert torch.equal(whole[outside].view(torch.int32), beside.view(torch.int32))


def test_thousands_of_ids() -> None:
    """Lists longer than a block, in all that takes a list."""
    width, rng = 9_001, random.Random(3)
    some = [rng.sample(range(width), 5_000) for _ in range(6)]
    step = Step(
        masks=[(0, [some[0], some[1][:7], some[2][:4_999]]), (2, [list(range(width))]), (5, [some[0]])],
        biases=[(row, {token: rng.uniform(-9, 9) for token in some[3]}) for row in (0, 3)],
        only={3: (some[4], None), 4: (some[5], 7)},
        stand_ins={0: (17, some[1]), 5: (3, some[2])},
        forces={6: (8_192, 7)},
        checks={2: 7, 5: 7},
        padding=list(range(6_000, 9_000)),
    )
    logits = random_logits(rng, 7, width)
    wanted, ended = modelled(logits, step)
    cache, defined = PartCache(CPU), list[torch.Tensor]()
    cache.kernel = both(defined)
    for _ in range(3):
        now = logits.clone()
        found = gather(step, cache, Lists()).apply(now, np.array(step.padding))
        assert torch.equal(now.view(torch.int32), defined[-1].view(torch.int32))
        assert equal(now, wanted)
        assert found == ended


def test_rare_steps() -> None:
    """NaN, infinities, both zeros, sums whose order counts, dead ends of each kind."""
    logits, step = rare()
    wanted, ended = modelled(logits, step)
    cache, defined = PartCache(CPU), list[torch.Tensor]()
    cache.kernel = both(defined)
    found = gather(step, cache, Lists()).apply(logits, np.array(step.padding))
    assert torch.equal(logits.view(torch.int32), defined[0].view(torch.int32))
    assert equal(logits, wanted)
    assert found == ended


def test_a_plan_that_names_no_row_of_the_logits() -> None:
    """Whatever its other fields say."""
    tables = Tables(CPU, short=4)
    tables.begin()
    records = np.full((3, kernel_plan.FIELDS), -1, dtype=np.int32)
    records[:, kernel_plan.ROW] = -1, 4, 2**31 - 1
    at = tables.put(records)
    tables.send()
    logits, total = torch.randn(4, 8), torch.zeros((), dtype=torch.int64)
    before = logits.clone()
    kernel_triton.apply(logits, Plan(records, records[:0, :2], at, 0, (0, 0)), tables, total)
    assert torch.equal(logits, before)
    assert total == 0
