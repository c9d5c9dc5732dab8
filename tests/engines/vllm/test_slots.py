"""The V2 batch, driven slot by slot: whatever comes, goes and is drafted, each row gets its own rules.

`Engine` does what the interface of vLLM's V2 processors says (`engines.md` of the design; vLLM 0.32): slots are
recycled, rows come in any order, prompts are read in chunks, and tokens live in `states` alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from vllm import SamplingParams
from vllm.sampling_params import StructuredOutputsParams
from vllm.v1.worker.gpu.sample.logits_processor.interface import LogitsContext, LogitsProcRequestState

from policyengine.engines.vllm.row import UnknownTokenError
from policyengine.engines.vllm.v2 import Batch
from policyengine.runtime.program import BiasPlan
from policyengine.runtime.token_program import TokenProgram
from tests.engines.vllm.batches import (
    CPU,
    MIXED,
    REQUESTS,
    RICE,
    bind,
    expected_row,
    possible,
    random_logits,
    sampling,
)
from tests.engines.vllm.programs import EOS, WIDTH, policy, program

SLOTS, LENGTH = 5, 200


@dataclass
class Request:
    """One request as a dictionary would hold it."""

    params: SamplingParams
    prompt: list[int]
    output: list[int] = field(default_factory=list)
    slot: int = -1
    read: int = 0  # how much of the prompt (and of earlier output) the model has read


class Engine:
    """A V2 model runner reduced to what a processor sees of it."""

    def __init__(self, bound: TokenProgram = MIXED, draft_tokens: int = 0) -> None:
        def tensor(*shape: int) -> SimpleNamespace:
            return SimpleNamespace(gpu=torch.randint(0, WIDTH, shape, dtype=torch.int32))

        def array() -> SimpleNamespace:
            return SimpleNamespace(np=np.zeros(SLOTS, dtype=np.int32))

        self.states = LogitsProcRequestState(CPU, SLOTS, WIDTH, tensor(SLOTS, LENGTH), array(), array(), tensor(SLOTS))
        self.batch = Batch(bound, self.states, object(), draft_tokens=draft_tokens)
        self.free = list(range(SLOTS))
        self.running: list[Request] = []
        self.steps = 0

    def start(self, request: Request) -> bool:
        """Give it a slot: a new one, or one that was preempted and comes back with its output."""
        request.slot = self.free.pop()
        tokens = [*request.prompt, *request.output]
        self.states.prompt_len.np[request.slot] = len(request.prompt)
        self.states.prefill_len.np[request.slot] = len(tokens)
        self.states.total_len.gpu[request.slot] = len(tokens)
        self.states.all_token_ids.gpu[request.slot, : len(tokens)] = torch.tensor(tokens, dtype=torch.int32)
        request.read = 0
        self.running.append(request)
        return self.batch.add(request.slot, request.params)

    def stop(self, request: Request) -> None:
        """It is over or preempted; the processor is not told."""
        self.running.remove(request)
        self.free.insert(0, request.slot)

    def rows(
        self,
        scheduled: list[Request],
        chunks: dict[int, int],
        drafts: dict[int, list[int]],
        allowed: tuple[int, ...] = (),
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """One step for these requests, in this order: its logits before and after.

        chunks: by slot, how much of the prompt is read in it, where it is not the rest. drafts: by slot. allowed: what
        a grammar leaves of all rows; none: there is no grammar.
        """
        self.steps += 1
        self.batch.flush()
        slots = [request.slot for request in scheduled]
        expanded, local, fed, pos, lengths = [], [], [], [], []
        for request in scheduled:
            tokens, more = [*request.prompt, *request.output], drafts.get(request.slot, [])
            known = int(self.states.prefill_len.np[request.slot])
            request.read = request.read + chunks[request.slot] if request.slot in chunks else max(known, len(tokens))
            lengths.append(request.read + len(more))
            for place, token in enumerate([tokens[request.read - 1], *more]):
                expanded.append(request.slot)
                local.append(place)
                fed.append(token)
                pos.append(request.read - 1 + place)
        ctx = LogitsContext(
            torch.tensor(expanded),
            torch.tensor(slots),
            np.array(slots),
            torch.tensor(local),
            torch.tensor(fed),
            torch.tensor(pos),
            np.array(lengths),
        )
        before = random_logits(len(expanded), self.steps)
        if allowed:
            before[:, [token for token in range(WIDTH) if token not in allowed]] = -torch.inf
        return before, self.batch.apply(before.clone(), ctx)

    def commit(self, request: Request, tokens: list[int]) -> None:
        """What was sampled, written where the device keeps it."""
        for token in tokens:
            place = len(request.prompt) + len(request.output)
            self.states.all_token_ids.gpu[request.slot, place] = token
            request.output.append(token)
        self.states.total_len.gpu[request.slot] = len(request.prompt) + len(request.output)


def check(request: Request, before: torch.Tensor, after: torch.Tensor, drafts: list[int]) -> None:
    """The rows of one request: the first after its output, the others after each draft."""
    for place in range(len(drafts) + 1):
        wanted = expected_row(before[place], request.params, [*request.output, *drafts[:place]])
        assert torch.equal(after[place], wanted), (request, drafts, place)


@pytest.mark.parametrize("draft_tokens", [0, 3])
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_any_schedule_leaves_every_row_with_its_own_rules(draft_tokens: int, data: st.DataObject) -> None:
    """Requests come, end, are preempted and return; prompts come in chunks; drafts are accepted or rejected."""
    engine, waiting = Engine(draft_tokens=draft_tokens), list[Request]()
    for _ in range(data.draw(st.integers(1, 12))):
        for request in data.draw(st.lists(st.sampled_from(engine.running), unique_by=id)) if engine.running else []:
            engine.stop(request)
            if data.draw(st.booleans()):
                waiting.append(request)
        for extra in data.draw(st.lists(st.sampled_from(REQUESTS), max_size=3)):
            prompt = data.draw(st.lists(st.integers(0, 16), min_size=1, max_size=4))
            waiting.append(Request(sampling(extra, max_tokens=64), prompt))
        while waiting and engine.free and data.draw(st.booleans()):
            engine.start(waiting.pop(0))
        if not engine.running:
            continue
        scheduled = data.draw(st.permutations(engine.running))[: data.draw(st.integers(1, SLOTS))]
        chunks, drafts = {}, {}
        for request in scheduled:
            left = int(engine.states.prefill_len.np[request.slot]) - request.read
            if left > 1 and data.draw(st.booleans()):
                chunks[request.slot] = data.draw(st.integers(1, left - 1))
            elif left <= 0 and draft_tokens:
                drafts[request.slot] = data.draw(st.lists(st.integers(2, 16), max_size=draft_tokens))
        before, after = engine.rows(scheduled, chunks, drafts)
        row = 0
        for request in scheduled:
            mine = drafts.get(request.slot, [])
            rows = slice(row, row + 1 + len(mine))
            row = rows.stop
            if request.slot in chunks:
                assert torch.equal(after[rows], before[rows])  # what is chosen here is thrown away
                continue
            check(request, before[rows], after[rows], mine)
            if not request.params.extra_args:
                assert torch.equal(after[rows], before[rows])
            accepted = data.draw(st.integers(0, len(mine)))
            options = [token for token in possible(after[rows][accepted]) if token < 17]
            engine.commit(request, [*mine[:accepted], data.draw(st.sampled_from(options))])


def test_rejected_drafts_leave_no_trace() -> None:
    """After drafts that would have completed the phrase, and were rejected, the session stands where it stood."""
    engine = Engine(draft_tokens=2)
    request = Request(sampling(RICE, max_tokens=9), [2])
    engine.start(request)
    engine.rows([request], {}, {})
    engine.commit(request, [5])  # "r"
    _, after = engine.rows([request], {}, {request.slot: [7, 8]})  # "i", "ce"
    assert 8 not in possible(after[1])
    engine.commit(request, [10])  # "e": not what was drafted
    _, after = engine.rows([request], {}, {request.slot: []})
    assert 8 in possible(after[0])
    assert engine.batch.counters.snapshot()["overruled"] == 0


def test_a_draft_that_is_no_token_is_passed_over() -> None:
    """Its row, and those behind it, are left as they are: nothing is chosen after it."""
    engine = Engine(draft_tokens=2)
    request = Request(sampling(RICE, max_tokens=9), [2])
    engine.start(request)
    engine.rows([request], {}, {})
    engine.commit(request, [5])
    before, after = engine.rows([request], {}, {request.slot: [-1, 8]})
    assert torch.equal(after[1:], before[1:])
    assert 3 not in possible(after[0])
    assert engine.batch.counters.snapshot()["failed"] == 0


def test_a_slot_says_whether_rules_act_on_it() -> None:
    """vLLM skips all processors for batches that none of them changes."""
    engine = Engine()
    assert engine.start(Request(sampling(RICE), [2])) is True
    assert engine.start(Request(sampling(), [2])) is False
    assert engine.start(Request(sampling({"policies": ["pin"]}), [2])) is False  # without its token
    assert engine.start(Request(sampling({"policies": ["pin"], "target_token": WIDTH}), [2])) is True  # ends at once


def test_a_recycled_slot_forgets_its_rules() -> None:
    """A request without rules takes the slot of one with rules, and the other way round."""
    engine = Engine()
    for extra, changes in ((RICE, True), (None, False), (RICE, True)):
        request = Request(sampling(extra, max_tokens=9), [2])
        engine.start(request)
        before, after = engine.rows([request], {}, {})
        assert torch.equal(before, after) is not changes
        engine.stop(request)
        assert engine.free[0] == request.slot
        engine.free.append(engine.free.pop(0))


def test_tokens_that_the_engine_does_not_tell_stop_it() -> None:
    """A choice after more tokens than are known would be a guess."""
    engine = Engine()
    request = Request(sampling(RICE, max_tokens=9), [2])
    engine.start(request)
    engine.rows([request], {}, {})
    engine.commit(request, [5, 7])
    engine.states.total_len.gpu[request.slot] -= 2
    with pytest.raises(UnknownTokenError, match="after 3 tokens and tells 1"):
        engine.rows([request], {}, {})


@pytest.mark.parametrize("draft_tokens", [0, 2])
def test_tokens_that_come_late_are_read_all_the_same(draft_tokens: int) -> None:
    """What was not known ahead of the forward pass is read behind it; the last token is also the one that is fed."""
    engine = Engine(draft_tokens=draft_tokens)
    request = Request(sampling(RICE, max_tokens=9), [2])
    engine.start(request)
    drafts = {request.slot: [2] * draft_tokens}
    engine.rows([request], {}, drafts)
    engine.commit(request, [5, 7])  # "r", "i"
    engine.states.total_len.gpu[request.slot] -= 1
    before, after = engine.rows([request], {}, drafts)
    check(request, before, after, drafts[request.slot])
    assert 8 not in possible(after[0])
    engine.states.total_len.gpu[request.slot] += 1
    engine.batch.flush = lambda: None  # type: ignore[method-assign]
    engine.commit(request, [10, 5, 7])
    before, after = engine.rows([request], {}, drafts)
    check(request, before, after, drafts[request.slot])
    assert 8 not in possible(after[0])


def test_rows_that_were_not_scheduled_catch_up() -> None:
    """More tokens than a step may add are read from the device itself."""
    engine = Engine()
    request = Request(sampling(RICE, max_tokens=20), [2])
    engine.start(request)
    engine.rows([request], {}, {})
    for _ in range(3):
        engine.commit(request, [2, 5])
    before, after = engine.rows([request], {}, {})
    check(request, before, after, [])
    engine.commit(request, [7])  # "r", "i"
    before, after = engine.rows([request], {}, {})
    check(request, before, after, [])
    assert 8 not in possible(after[0])


def test_counts_are_logged_while_the_engine_runs(caplog: pytest.LogCaptureFixture) -> None:
    """V2 never says that it is idle: the steps after tell what changed, numbers only."""
    engine = Engine()
    request = Request(sampling({"policies": ["only-padding-left"]}, max_tokens=9), [2])
    engine.start(request)
    engine.rows([request], {}, {})
    engine.commit(request, [2])
    engine.batch.counters._next_look = 0.0
    with caplog.at_level("INFO"):
        engine.rows([request], {}, {})
    assert "policy counters: refused 0, failed 0, overruled 0, dead_ends 1" in caplog.text


def test_the_second_of_two_instances_stands_by() -> None:
    """Named and by entry point at once: each gets every call, and a bias counts once."""
    nudge = bind(program([policy("nudge", "always")], [(0, BiasPlan(((4, 1.5),)))]))
    engine = Engine(nudge)
    second = Batch(nudge, engine.states, engine.batch.engine)
    assert (engine.batch.is_second, second.is_second) == (False, True)
    first, request = engine.batch, Request(sampling(), [2])
    engine.start(request)
    second.add(request.slot, request.params)
    for _ in range(2):
        before, once = engine.rows([request], {}, {})
        engine.batch = second
        engine.steps -= 1  # the same logits
        _, again = engine.rows([request], {}, {})
        assert once[0, 4] == before[0, 4] + 1.5
        assert torch.equal(again, before)
        engine.batch = first
        engine.commit(request, [2])


def test_batches_of_others_are_not_looked_at() -> None:
    """The profile run and requests without rules: the same logits, object and all."""
    engine = Engine(bind(program([policy("no-rice")], bans=[(0, ["rice"])])))
    request = Request(sampling(), [2])
    engine.start(request)
    before, after = engine.rows([request], {}, {})
    assert torch.equal(before, after)


def test_a_grammar_and_policies_leave_a_choice() -> None:
    """What the engine masked stays masked; where nothing is left, EOS is, and is counted."""
    engine = Engine()
    grammar = StructuredOutputsParams(regex="x")
    requests = [Request(sampling(extra, max_tokens=9, structured_outputs=grammar), [2]) for extra in (RICE, None)]
    for request in requests:
        engine.start(request)
    before, after = engine.rows(requests, {}, {}, allowed=(3, 7))
    assert possible(after[0]) == [7]
    assert torch.equal(after[1], before[1])
    before, after = engine.rows(requests, {}, {}, allowed=(3, 12))
    assert possible(after[0]) == [EOS]
    assert torch.equal(after[1], before[1])
    assert engine.batch.counters.snapshot()["dead_ends"] == 1
