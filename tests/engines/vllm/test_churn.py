"""The V1 batch inside vLLM's own batch and sampler: whatever comes, goes and moves, each row gets its own rules."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, LogitsProcessors, MoveDirectionality
from vllm.v1.sample.sampler import Sampler
from vllm.v1.worker.gpu_input_batch import CachedRequestState, InputBatch

from policyengine.engines.vllm import edits as edits_module
from policyengine.engines.vllm.v1 import Batch
from policyengine.runtime.program import BiasPlan
from tests.engines.vllm.batches import (
    CPU,
    REQUESTS,
    RICE,
    added,
    bind,
    expected_row,
    new_batch,
    possible,
    random_logits,
    sampling,
)
from tests.engines.vllm.programs import WIDTH, policy, program

SLOTS = 6


class AsProcessor(LogitsProcessor):
    """The thinnest wrapping that vLLM's batch accepts."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def is_argmax_invariant(self) -> bool:
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        self.batch.update(batch_update)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        return self.batch.apply(logits)


class Engine:
    """vLLM's persistent batch around ours, and beside it a plain dictionary of what each request is."""

    def __init__(self) -> None:
        self.batch = new_batch()
        self.inputs = InputBatch(
            max_num_reqs=SLOTS,
            max_model_len=512,
            max_num_batched_tokens=512,
            device=CPU,
            vocab_size=WIDTH,
            block_sizes=[16],
            max_num_blocks_per_req=[32],
            logitsprocs=LogitsProcessors([AsProcessor(self.batch)]),
            logitsprocs_need_output_token_ids=True,
        )
        self.sampler = Sampler()
        self.running: dict[str, CachedRequestState] = {}
        self.preempted: dict[str, CachedRequestState] = {}
        self.started = 0
        self.steps = 0

    def start(self, params: SamplingParams) -> CachedRequestState:
        self.started += 1
        return CachedRequestState(
            req_id=f"r{self.started}",
            prompt_token_ids=[2, 3],
            mm_features=[],
            sampling_params=params,
            generator=None,
            block_ids=([0],),
            num_computed_tokens=0,
            output_token_ids=[],
        )

    def change(self, leave: list[str], park: list[str], join: list[CachedRequestState]) -> None:
        """One step's changes in the runner's order: removals, then additions into the holes, then closing up."""
        for name in leave:
            self.inputs.remove_request(name)
            del self.running[name]
        for name in park:
            self.inputs.remove_request(name)
            self.preempted[name] = self.running.pop(name)
        for state in join:
            if len(self.running) < SLOTS:
                self.inputs.add_request(state)
                self.running[state.req_id] = state
                self.preempted.pop(state.req_id, None)
        self.inputs.condense()

    def step(self, choose: Any) -> None:
        """One forward pass on random logits, checked row by row."""
        self.inputs.refresh_metadata()
        self.steps += 1
        before = random_logits(len(self.inputs.req_ids), self.steps)
        after = before.clone()
        after = self.sampler.apply_logits_processors(after, self.inputs.sampling_metadata, False)
        for row, name in enumerate(self.inputs.req_ids):
            state = self.running[name]
            params = state.sampling_params
            assert params is not None
            wanted = expected_row(before[row], params, state.output_token_ids)
            assert torch.equal(after[row], wanted), (name, state.output_token_ids, after[row], wanted)
            if not params.extra_args:
                assert torch.equal(after[row], before[row])
            # Padding stays possible, as it is without policies; it is not what this test chooses.
            options = [token for token in possible(after[row]) if token < 17]
            state.output_token_ids.append(choose(options))


@pytest.mark.parametrize(
    ("inline", "on_host"),
    [(0, True), (128, True), (0, False), (128, False)],
    ids=["host-kept", "host-short", "device-kept", "device-short"],
)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_churn_leaves_every_row_with_its_own_rules(inline: int, on_host: bool, data: st.DataObject) -> None:
    """Requests join, leave, return and swap places; each row equals what its history alone asks for.

    Also with the writes that a GPU gets, which the CPU can run as well.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edits_module, "_INLINE", inline)
        patch.setattr(edits_module, "_on_host", lambda _logits: on_host)
        engine = Engine()
        for _ in range(data.draw(st.integers(1, 12))):
            names = sorted(engine.running)
            leave = data.draw(st.lists(st.sampled_from(names), unique=True, max_size=3)) if names else []
            rest = [name for name in names if name not in leave]
            park = data.draw(st.lists(st.sampled_from(rest), unique=True, max_size=2)) if rest else []
            waiting = sorted(engine.preempted)
            back = data.draw(st.lists(st.sampled_from(waiting), unique=True, max_size=2)) if waiting else []
            fresh = data.draw(st.lists(st.sampled_from(REQUESTS), max_size=3))
            join = [engine.preempted[name] for name in back]
            join += [engine.start(sampling(extra, max_tokens=64)) for extra in fresh]
            engine.change(leave, park, join)
            count = len(engine.inputs.req_ids)
            if count > 1 and data.draw(st.booleans()):
                a, b = data.draw(st.permutations(range(count)))[:2]
                engine.inputs.swap_states(a, b)
            if count:
                engine.step(lambda options: data.draw(st.sampled_from(options)))


def test_a_reused_slot_forgets_its_rules() -> None:
    """Case 8: a slot that a banned request used goes to one without rules, by removal and by replacement."""
    batch = new_batch()
    batch.update(added((0, sampling(RICE), [3]), (1, sampling(RICE), [])))
    logits = random_logits(2)
    assert not torch.equal(batch.apply(logits.clone()), logits)
    batch.update(BatchUpdate(2, [0], [(1, sampling(), [], [])], []))
    batch.update(added((0, sampling(), [])))
    assert torch.equal(batch.apply(logits.clone()), logits)


def test_moves_carry_the_rules_with_them() -> None:
    """A one-way move overwrites its target and leaves nothing behind; a swap exchanges."""
    batch = new_batch()
    batch.update(added((0, sampling(RICE), []), (1, sampling(), []), (2, sampling(), [])))
    batch.update(BatchUpdate(3, [], [], [(0, 1, MoveDirectionality.SWAP)]))
    logits = random_logits(3)
    after = batch.apply(logits.clone())
    assert [torch.equal(a, b) for a, b in zip(after, logits, strict=True)] == [True, False, True]
    batch.update(BatchUpdate(1, [0], [], [(1, 0, MoveDirectionality.UNIDIRECTIONAL)]))
    after = batch.apply(logits.clone())
    assert [torch.equal(a, b) for a, b in zip(after, logits, strict=True)] == [False, True, True]


def test_history_that_is_taken_back_is_taken_back_here() -> None:
    """vLLM may cut the end off an output (failed KV loads) and go on: the state follows the list."""
    batch = new_batch()
    output = [5, 9]
    batch.update(added((0, sampling(RICE), output)))
    assert not batch.apply(random_logits(1))[0, 10] > -torch.inf  # "r", "ic": "e" would complete the word
    del output[:]
    assert batch.apply(random_logits(1))[0, 10] > -torch.inf
    output += [5, 9]
    assert not batch.apply(random_logits(1))[0, 10] > -torch.inf
    output[:] = [7, 8]
    assert batch.apply(random_logits(1))[0, 10] > -torch.inf


def test_second_instance_stands_by() -> None:
    """Named and by entry point at once: a bias counts once; when the first is gone, the second acts."""
    engine = object()
    nudge = bind(program([policy("nudge", "always")], [(0, BiasPlan(((4, 1.5),)))]))
    first, second = Batch(nudge, CPU, engine), Batch(nudge, CPU, engine)
    assert (first.is_second, second.is_second) == (False, True)
    update = added((0, sampling(), []))
    before = random_logits(1)
    for batch in (first, second):
        batch.update(update)
    for _ in range(2):
        after = second.apply(first.apply(before.clone()))
        assert after[0, 4] == before[0, 4] + 1.5
    assert second.apply(before.clone())[0, 4] == before[0, 4] + 1.5  # the first no longer runs
    assert not Batch(nudge, CPU, object()).is_second
