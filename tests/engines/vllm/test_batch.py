"""The V1 batch, driven by vLLM's own persistent batch: whatever comes, goes and moves, each row gets its own rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, LogitsProcessors, MoveDirectionality
from vllm.v1.worker.gpu_input_batch import CachedRequestState, InputBatch

from policyengine.engines.vllm import edits as edits_module
from policyengine.engines.vllm.v1 import Batch, UnknownTokenError
from policyengine.runtime.program import BiasPlan, ForcePlan, Param, ParameterPlan, Program
from policyengine.runtime.token_program import TokenProgram
from tests.engines.vllm.programs import EOS, OTHER_END, WIDTH, avoid, mixed, policy, program, vocabulary

CPU = torch.device("cpu")
VOCABULARY = vocabulary()
MIXED = mixed().bind(VOCABULARY, device="cpu", target="vllm")
SLOTS = 6
RICE = {"policies": ["no-rice"]}


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


def sampling(extra_args: dict[str, Any] | None = None, **settings: Any) -> SamplingParams:
    """Parameters as a worker sees them: the engine has filled in what ends the request."""
    params = SamplingParams(extra_args=extra_args, **settings)
    params.update_from_generation_config({"eos_token_id": [EOS, OTHER_END]}, EOS)
    return params


def new_batch(bound: TokenProgram = MIXED) -> Batch:
    return Batch(bound, CPU, object())


def bind(compiled: Program) -> TokenProgram:
    return compiled.bind(VOCABULARY, device="cpu", target="vllm")


def added(*requests: tuple[int, SamplingParams, list[int]]) -> BatchUpdate:
    """An update that adds (slot, parameters, output)."""
    return BatchUpdate(8, [], [(slot, params, [], output) for slot, params, output in requests], [])


def random_logits(rows: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(seed))


def possible(row: torch.Tensor) -> list[int]:
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


# -- a batch that churns -------------------------------------------------------------------------------------------


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
        for processor in self.inputs.logitsprocs.all:
            after = processor.apply(after)
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


REQUESTS = st.sampled_from(
    [
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
)


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
            fresh = data.draw(st.lists(REQUESTS, max_size=3))
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


# -- what is done to a row -----------------------------------------------------------------------------------------


def test_pinned_token_keeps_its_logit_and_nothing_else_remains() -> None:
    """Rows beside it stay bit-identical; NaN and infinities do not appear."""
    batch = new_batch()
    batch.update(added((1, sampling({"policies": ["pin"], "target_token": 9}), [])))
    before = random_logits(3)
    after = batch.apply(before.clone())
    assert possible(after[1]) == [9]
    assert after[1, 9] == before[1, 9]
    assert torch.equal(after[[0, 2]], before[[0, 2]])
    assert batch.counters.snapshot()["dead_ends"] == 0


@pytest.mark.parametrize("masked_too", [False, True], ids=["eos-possible", "eos-masked"])
def test_forced_token_that_the_engine_masked_ends_the_request(masked_too: bool) -> None:
    """What a grammar masked stays masked; EOS is the way out, raised only if it must be."""
    batch = new_batch()
    batch.update(added((0, sampling({"policies": ["pin"], "target_token": 9}), [])))
    before = random_logits(1)
    before[0, 9] = -torch.inf
    if masked_too:
        before[0, EOS] = -torch.inf
    after = batch.apply(before.clone())
    assert possible(after[0]) == [EOS]
    assert after[0, EOS] == (0.0 if masked_too else before[0, EOS])
    assert batch.counters.snapshot()["dead_ends"] == 1


def test_banned_forced_token_ends_the_request() -> None:
    """A ban wins over a force that a request's parameter asks for."""
    batch = new_batch()
    batch.update(added((0, sampling({"policies": ["pin", "no-rice"], "target_token": 3}), [])))
    assert possible(batch.apply(random_logits(1))[0]) == [EOS]


@pytest.mark.parametrize(
    "limits",
    [{"allowed_token_ids": [3, 12]}, {"bad_words": ["x"]}, {"structured_outputs": {"regex": "rice"}}],
    ids=["allowed", "bad-words", "grammar"],
)
def test_engine_masks_and_ours_leave_eos(limits: dict[str, Any]) -> None:
    """Case 24: nothing is left between the engine's masks and ours, so EOS is chosen and counted."""
    from vllm.sampling_params import StructuredOutputsParams

    if "structured_outputs" in limits:
        limits = {"structured_outputs": StructuredOutputsParams(**limits["structured_outputs"])}
    batch = new_batch()
    batch.update(added((0, sampling(RICE, **limits), []), (1, sampling(RICE, **limits), [])))
    before = random_logits(2)
    keep = torch.zeros(WIDTH, dtype=torch.bool)
    keep[[3, 12]] = True
    before[:, ~keep] = -torch.inf
    before[1, 7] = 0.5  # the second row has something left
    after = batch.apply(before.clone())
    assert possible(after[0]) == [EOS]
    assert after[0, EOS] == 0.0
    assert possible(after[1]) == [7]
    assert after[1, 7] == 0.5
    assert batch.counters.snapshot()["dead_ends"] == 1


def test_bans_that_leave_nothing_end_the_request() -> None:
    """Everything with text is banned and the minimum length masks EOS: it gives way, padding is no way out."""
    batch = new_batch()
    batch.update(added((0, sampling({"policies": ["only-padding-left"]}), [])))
    assert possible(batch.apply(random_logits(1))[0]) == [EOS]


def test_minimum_length_of_the_client_gives_way_too() -> None:
    """The client's own min_tokens masks the ends in the engine, our bans the rest."""
    everything = bind(program([policy("all", "always")], [(0, avoid(*range(2, 17)))]))
    batch = new_batch(everything)
    batch.update(added((0, sampling(min_tokens=5, max_tokens=9), [])))
    before = random_logits(1)
    before[0, [EOS, OTHER_END]] = -torch.inf
    assert possible(batch.apply(before.clone())[0]) == [EOS]


def test_logits_wider_than_the_vocabulary() -> None:
    """Columns beyond the vocabulary are left alone, unless a row must end; non-contiguous rows work as well."""
    batch = new_batch()
    batch.update(
        added((0, sampling(RICE), []), (1, sampling({"policies": ["only-padding-left"]}), []), (2, sampling(), []))
    )
    storage = torch.randn(3, WIDTH + 8)
    before = storage.clone()
    batch.apply(storage[:, : WIDTH + 4])
    assert torch.equal(storage[0, WIDTH:], before[0, WIDTH:])
    assert torch.equal(storage[2], before[2])
    assert possible(storage[1, : WIDTH + 4]) == [EOS]
    assert torch.equal(storage[:, WIDTH + 4 :], before[:, WIDTH + 4 :])


def test_logits_narrower_than_the_vocabulary_are_refused() -> None:
    """Nothing is ever written out of bounds."""
    batch = new_batch()
    batch.update(added((0, sampling(RICE), [])))
    with pytest.raises(RuntimeError, match="do not fit"):
        batch.apply(torch.zeros(1, WIDTH - 1))


@pytest.mark.parametrize("on_host", [True, False])
def test_shared_masks_over_scattered_rows(on_host: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows with the same ban between rows without it: theirs are written, and no other row."""
    monkeypatch.setattr(edits_module, "_INLINE", 1)
    monkeypatch.setattr(edits_module, "_on_host", lambda _logits: on_host)
    batch = new_batch(bind(program([policy("some")], [(0, avoid(5, 7, 11))])))
    chosen = {0, 2, 3, 7}
    batch.update(added(*((i, sampling({"policies": ["some"]} if i in chosen else None), []) for i in range(8))))
    before = random_logits(8)
    after = batch.apply(before.clone())
    for i in range(8):
        gone = sorted(set(range(WIDTH)) - set(possible(after[i])))
        assert gone == ([5, 7, 11] if i in chosen else [])
        left = possible(after[i])
        assert torch.equal(after[i, left], before[i, left])


# -- what goes wrong -----------------------------------------------------------------------------------------------


def test_placeholder_ids_are_never_trusted() -> None:
    """Without named loading, async scheduling leaves -1 in the list: that must stop the engine, with the reason."""
    batch = new_batch()
    batch.update(added((0, sampling(RICE), [3, -1])))
    with pytest.raises(UnknownTokenError, match=r"async scheduling .* --logits-processors"):
        batch.apply(random_logits(1))


@pytest.mark.parametrize("token", [WIDTH, 131072, 2**31 - 1])
def test_token_id_outside_the_vocabulary_ends_its_request(token: int) -> None:
    """The front process cannot know the vocabulary: the request ends at once, its neighbour is not touched."""
    batch = new_batch()
    batch.update(added((0, sampling({"policies": ["pin"], "target_token": token}), []), (1, sampling(), [])))
    before = random_logits(2)
    after = batch.apply(before.clone())
    assert possible(after[0]) == [EOS]
    assert torch.equal(after[1], before[1])
    assert batch.counters.snapshot() == {"refused": 1, "failed": 0, "overruled": 0, "dead_ends": 0}


def test_failure_inside_closes_one_request(caplog: pytest.LogCaptureFixture) -> None:
    """The request that failed gets EOS from then on; the batch goes on; the log holds no text of the request."""
    batch = new_batch()
    output: list[int] = []
    batch.update(added((0, sampling(RICE), output), (1, sampling(RICE), [])))
    before = random_logits(2)
    neighbour = batch.apply(before.clone())[1]
    output.append(WIDTH + 5)  # a choice that no vocabulary explains
    with caplog.at_level("ERROR"):
        for _ in range(2):
            after = batch.apply(before.clone())
            assert possible(after[0]) == [EOS]
            assert torch.equal(after[1], neighbour)
            output.append(3)
    assert batch.counters.snapshot()["failed"] == 1
    assert "failed closed: ValueError at" in caplog.text
    assert str(WIDTH + 5) not in caplog.text


def test_choices_against_a_mask_are_counted() -> None:
    """Something after the policies chose a masked token: counted when the request leaves."""
    batch = new_batch()
    batch.update(added((0, sampling(RICE), [3])))
    batch.apply(random_logits(1))
    batch.update(BatchUpdate(0, [0], [], []))
    assert batch.counters.snapshot()["overruled"] == 1


def test_counts_are_logged_when_they_change(caplog: pytest.LogCaptureFixture) -> None:
    """When the batch has no requests of ours; numbers only."""
    batch = new_batch()
    batch.update(added((0, sampling({"policies": ["pin", "no-rice"], "target_token": 3}), [])))
    batch.apply(random_logits(1))
    with caplog.at_level("INFO"):
        batch.update(BatchUpdate(0, [0], [], []))
    assert "policy counters: refused 0, failed 0, overruled 0, dead_ends 1" in caplog.text


def test_ignore_eos_keeps_the_tokenizers_eos_as_the_way_out() -> None:
    """With ignore_eos the engine names no EOS of its own; a dead end still has one to choose."""
    batch = new_batch()
    batch.update(added((0, sampling({"policies": ["only-padding-left"]}, ignore_eos=True), [])))
    assert possible(batch.apply(random_logits(1))[0]) == [EOS]


# -- loaded twice --------------------------------------------------------------------------------------------------


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


def test_parts_stay_on_the_device_within_a_bound() -> None:
    """The cache holds the most recent arrays, by identity, and lets older ones go."""
    cache = edits_module.PartCache(CPU, most_ids=100)
    parts = [np.arange(60, dtype=np.int32), np.arange(30, dtype=np.int32), np.arange(50, dtype=np.int32)]
    first = cache.get(parts[0])
    assert cache.get(parts[0]) is first
    assert first.dtype == torch.int64
    second = cache.get(parts[1])
    cache.get(parts[2])
    assert cache.get(parts[1]) is second
    again = cache.get(parts[0])
    assert again is not first
    assert torch.equal(again, first)


def test_force_by_parameter_is_idle_without_its_value() -> None:
    """The classic of a token from `extra_args`: requests that name none are not touched."""
    pin = program(
        [policy("pin", "always", [ParameterPlan("target_token", "token_id")])],
        [(0, ForcePlan(None, Param("target_token"), "every"))],
    )
    batch = new_batch(bind(pin))
    batch.update(added((0, sampling(), []), (1, sampling({"target_token": 8}), []), (2, sampling({"other": 1}), [])))
    before = random_logits(3)
    after = batch.apply(before.clone())
    assert possible(after[1]) == [8]
    assert torch.equal(after[[0, 2]], before[[0, 2]])
