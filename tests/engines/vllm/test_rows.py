"""What the V1 batch does to single rows, and what it does when something goes wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from vllm.v1.sample.logits_processor import BatchUpdate

import policyengine as pe
from policyengine.engines.vllm import edits as edits_module
from policyengine.engines.vllm.row import UnknownTokenError
from policyengine.runtime.program import ForcePlan, Param, ParameterPlan
from tests.engines.vllm.batches import RICE, VOCABULARY, added, bind, new_batch, possible, random_logits, sampling
from tests.engines.vllm.programs import EOS, OTHER_END, WIDTH, avoid, policy, program


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


@pytest.mark.parametrize(("device", "left"), [("cuda", [9]), ("cpu", list(range(WIDTH)))])
def test_rule_for_cuda_is_inactive_elsewhere(device: str, left: list[int]) -> None:
    """The repository's own example: the device of the engine decides once, at start."""
    policies = pe.load(Path(__file__).parents[3] / "policies" / "pin-token-on-cuda.yaml")
    batch = new_batch(pe.compile(policies).bind(VOCABULARY, device=device, target="vllm"))
    batch.update(added((0, sampling({"target_token": 9}), [])))
    assert possible(batch.apply(random_logits(1))[0]) == left
