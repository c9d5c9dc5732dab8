"""What the V1 batch does to rows under allows, texts at the end, and channels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from vllm.sampling_params import StructuredOutputsParams
from vllm.v1.sample.logits_processor import BatchUpdate

from policyengine.engines.vllm import edits as edits_module
from policyengine.engines.vllm.v1 import Batch
from policyengine.runtime.program import AllowPlan, BiasPlan, ForcePlan, MinTokensPlan
from tests.engines.vllm.batches import CPU, VOCABULARY, possible, random_logits, sampling
from tests.engines.vllm.programs import EOS, OTHER_END, WIDTH
from tests.session_programs import Rule, ban, choices, make

THE, RICE, R, I, CE = 2, 3, 5, 7, 8  # noqa: E741


def batch_of(*rules: Any, reasoning: tuple[str, str] | None = None) -> Batch:
    """A batch under these rules, all of them on."""
    return Batch(make(*rules, reasoning=reasoning).bind(VOCABULARY, target="vllm"), CPU, object())


def step(batch: Batch, *outputs: list[int], before: torch.Tensor | None = None, **settings: Any) -> torch.Tensor:
    """The logits of these outputs after one step; each a request of its own."""
    rows = [(i, sampling(**settings), output) for i, output in enumerate(outputs)]
    batch.update(BatchUpdate(8, [], [(i, params, [], output) for i, params, output in rows], []))
    return batch.apply((random_logits(len(outputs)) if before is None else before).clone())


@pytest.mark.parametrize("inline", [0, 128], ids=["kept", "sent"])
def test_choices_keep_their_logits_and_nothing_else_stays(inline: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative probabilities among what is allowed are those of the model."""
    monkeypatch.setattr(edits_module, "_INLINE", inline)
    batch = batch_of(choices("rice", "ri"), BiasPlan(((R, 1.5),)))
    before = random_logits(4)
    after = step(batch, [], [R], [R, I], [R, I, CE], before=before)
    assert [possible(row) for row in after] == [[RICE, R], [I, 9], [EOS, OTHER_END, CE, 11], [EOS, OTHER_END]]
    for row in range(4):
        for token in possible(after[row]):
            assert after[row, token] == before[row, token] + (1.5 if token == R else 0.0)
    assert batch.counters.snapshot()["dead_ends"] == 0


def test_choices_and_a_grammar() -> None:
    """What the grammar masked stays masked; where nothing is left the request ends, counted."""
    batch = batch_of(choices("rice", "ri"))
    before = random_logits(2)
    before[0, RICE] = before[1, [RICE, R]] = -torch.inf
    after = step(batch, [], [], before=before, structured_outputs=StructuredOutputsParams(regex="x"))
    assert possible(after[0]) == [R]
    assert possible(after[1]) == [EOS]
    assert after[1, EOS] == before[1, EOS]
    assert batch.counters.snapshot()["dead_ends"] == 1


def test_many_allowed_ids_and_rows_without_rules() -> None:
    """One array for all rows; logits wider than the vocabulary stay within it."""
    batch = batch_of(AllowPlan(token_ids=(3, 4, 5, 6)), MinTokensPlan(1))
    before = torch.randn(3, WIDTH + 4)
    after = step(batch, [], [3], [4, 4], before=before)
    assert [possible(row) for row in after] == [[3, 4, 5, 6], [0, 1, 3, 4, 5, 6], [0, 1, 3, 4, 5, 6]]


def test_the_largest_end_moves_to_the_text() -> None:
    """EOS's logit, or that of another end; the token's own logit is gone, and the rest of the row untouched."""
    batch = batch_of(ForcePlan(" the", None, "end"))
    before = random_logits(2)
    before[0, [EOS, OTHER_END, THE]] = torch.tensor([1.0, -2.0, 7.0])
    before[1, [EOS, OTHER_END, THE]] = torch.tensor([-3.0, 2.0, 7.0])
    after = step(batch, [], [], before=before)
    for row, moved in ((0, 1.0), (1, 2.0)):
        assert after[row, THE] == moved
        assert possible(after[row]) == list(range(2, WIDTH))
        assert torch.equal(after[row, 3:], before[row, 3:])
    batch = batch_of(ForcePlan(" the", None, "end"))
    after = step(batch, [THE], before=before[:1])
    assert possible(after[0]) == [EOS]
    assert after[0, EOS] == 1.0


def test_an_end_that_is_masked_moves_nothing() -> None:
    """By the engine's own minimum, or a grammar; a ban on the text's first token keeps it masked."""
    batch = batch_of(ForcePlan(" the", None, "end"), ban("rice the"))
    before = random_logits(3)
    before[0, [EOS, OTHER_END]] = -torch.inf
    before[1, EOS] = -torch.inf
    after = step(batch, [], [], [RICE], before=before)
    assert THE not in possible(after[0])
    assert after[1, THE] == before[1, OTHER_END]
    assert not {THE, EOS, OTHER_END} & set(possible(after[2]))
    assert batch.counters.snapshot()["dead_ends"] == 0


def test_nothing_left_beside_a_text_that_cannot_stand() -> None:
    """The grammar wants the end now, and permits no text: EOS, counted."""
    batch = batch_of(ForcePlan(" the", None, "end"))
    before = torch.full((1, WIDTH), -torch.inf)
    before[0, EOS] = 0.25
    after = step(batch, [RICE], before=before, structured_outputs=StructuredOutputsParams(regex="x"))
    assert possible(after[0]) == [EOS]
    assert after[0, EOS] == 0.25
    assert batch.counters.snapshot()["dead_ends"] == 1


def test_the_start_of_an_answer_or_of_reasoning() -> None:
    """The forced token has the largest logit of all but the marker's, which keeps its own."""
    batch = batch_of(Rule(ForcePlan(" the", None, "start"), "answer"), reasoning=("ri", "ce"))
    before = random_logits(1)
    after = step(batch, [], before=before)
    assert possible(after[0]) == [THE, R]
    assert after[0, R] == before[0, R]
    others = [i for i in range(WIDTH) if i != R]
    assert after[0, THE] == before[0, others].max()


def test_a_prompt_that_begins_the_reasoning() -> None:
    """Its last tokens decide in which channel the output begins."""
    for prompt, inside in (([THE, R, I], True), ([R, I, THE], False), ([R, I, CE], False), (None, False)):
        batch = batch_of(ban("the", channel="answer"), reasoning=("ri", "ce"))
        batch.update(BatchUpdate(8, [], [(0, sampling(), prompt, [])], []))
        assert (THE in possible(batch.apply(random_logits(1))[0])) == inside


def test_mixed_rows_in_one_step() -> None:
    """Rows of one batch at different places of the same rules, each with its own."""
    batch = batch_of(choices("rice", " the", " the rice"), ForcePlan(" rice", None, "end"))
    after = step(batch, [], [THE], [R], [THE, 4])
    assert [possible(row) for row in after] == [[THE, RICE, R], [4, 6, 14], [I, 9], [EOS]]
    assert batch.counters.snapshot()["failed"] == 0


def test_max_tokens_too_short_for_a_choice_closes_the_request() -> None:
    """The front process knows no vocabulary: the request ends at once, counted."""
    batch = batch_of(choices(" the rice"))
    after = step(batch, [], max_tokens=1)
    assert possible(after[0]) == [EOS]
    assert batch.counters.snapshot()["refused"] == 1
