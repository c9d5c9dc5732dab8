"""G5 in the batch: under any mixture of rules and any grammar, a row keeps a choice, and never a banned one."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from vllm import SamplingParams
from vllm.sampling_params import StructuredOutputsParams
from vllm.v1.sample.logits_processor import BatchUpdate

from policyengine.engines.vllm import edits as edits_module
from policyengine.engines.vllm.v1 import Batch
from policyengine.runtime.errors import RequestError
from tests.properties.session_cases import EOS, GRAMMARS, SIZE, TOKENS, VOCABULARY, Case, cases, choose

REAL = {i for i, token in enumerate(TOKENS) if token is not None}


def sampling(case: Case, extra_args: dict[str, Any] | None, limited: bool) -> SamplingParams:
    """As a worker sees them; a row that the engine masks says so by its grammar."""
    grammar = StructuredOutputsParams(regex="x") if limited else None
    params = SamplingParams(
        extra_args=extra_args,
        max_tokens=case.options["max_tokens"],
        stop_token_ids=sorted(case.options["stop_token_ids"]),
        ignore_eos=case.options["ignore_eos"],
        structured_outputs=grammar,
    )
    params.update_from_generation_config({"eos_token_id": list(VOCABULARY.eos_token_ids)}, EOS)
    return params


@pytest.mark.parametrize("on_host", [True, False], ids=["host", "device"])
@settings(max_examples=150, deadline=None)
@given(case=cases(), grammar=st.one_of(st.just([None] * 8), GRAMMARS), rng=st.randoms(use_true_random=False))
def test_what_is_left_of_a_row(on_host: bool, case: Case, grammar: list[list[int] | None], rng: random.Random) -> None:
    """Beside a request without rules: what may be chosen, with which logit, and how often nothing was left."""
    try:
        case.session()
    except RequestError:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edits_module, "_INLINE", rng.choice([0, 128]))
        patch.setattr(edits_module, "_on_host", lambda _logits: on_host)
        batch = Batch(case.bound(), torch.device("cpu"), object())
        seed, before = rng.randrange(1 << 30), 0
        # Twice the same, so that the second finds what was kept of the first; then another one.
        for choices in (seed, seed, seed + 1):
            before = check(batch, case, grammar, random.Random(choices), before)


def check(batch: Batch, case: Case, grammar: list[list[int] | None], rng: random.Random, dead_ends_before: int) -> int:
    """One output in a batch that may have had others; how often nothing was left so far."""
    output, tokens = case.output(), list[int]()
    limited = any(allowed is not None for allowed in grammar)
    rows: list[Any] = [(0, sampling(case, None, False), [], []), (1, sampling(case, case.request, limited), [], tokens)]
    batch.update(BatchUpdate(2, [], rows, []))
    dead_ends = dead_ends_before
    for step, allowed in enumerate(grammar[: case.options["max_tokens"] or 8]):
        before = torch.randn(2, SIZE, generator=torch.Generator().manual_seed(step))
        mine = set(range(SIZE)) if allowed is None else set(allowed)
        before[1, sorted(set(range(SIZE)) - mine)] = -torch.inf
        after = batch.apply(before.clone())
        assert torch.equal(after[0], before[0])

        history = tuple(tokens)
        free = output.free(history, mine)
        dead = output.is_dead_end(free, mine)
        expected = {EOS} if dead else free & mine & REAL
        dead_ends += dead
        possible = set(torch.nonzero(after[1] > -torch.inf).flatten().tolist())
        assert possible & REAL == expected, (history, allowed)
        assert possible, "no row without a choice"
        assert not torch.isnan(after).any()
        if dead:
            assert possible == {EOS}
        sources = output.stands_for(history)
        for token in expected:
            if sources and token == case.asked.end[0]:
                assert after[1, token] == before[1, sorted(sources & mine)].max()
            elif not (dead and token not in mine):
                assert after[1, token] == before[1, token], "relative probabilities are the model's"
        token = choose(expected, output, rng)
        if token in output.ends:
            break
        tokens.append(token)
    counters = batch.counters.snapshot()
    assert (counters["dead_ends"], counters["failed"], counters["refused"]) == (dead_ends, 0, 0)
    return dead_ends
