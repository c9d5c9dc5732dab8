"""Rows that go a way which another row went before: the short cut answers as the session would."""

from __future__ import annotations

import random
import weakref
from typing import Any, Literal

import numpy as np
import pytest
import torch

from policyengine.automata.folding import FoldSpec
from policyengine.automata.phrases import PhraseAutomaton
from policyengine.engines.vllm.edits import PartCache
from policyengine.engines.vllm.memo import Mask, Memo
from policyengine.requests import build_parser
from policyengine.runtime.program import Component, MinTokensPlan, Program, RulePlan, WhenPlan
from tests.engines.vllm.batches import CPU, RICE, added, bind, new_batch, random_logits, sampling
from tests.engines.vllm.programs import avoid, policy

WHEN = WhenPlan(())


def words(eager: bool) -> Program:
    """`rice` and `the` as whole words, a bias on `ice`, and an output of at least two tokens."""
    policies = (policy("words", "always"),)

    def component(use: Literal["avoid", "bias"], rule: int, phrases: tuple[str, ...], weights: Any = ()) -> Component:
        n = len(phrases)
        edges = [use == "avoid"] * n
        automaton = PhraseAutomaton.from_phrases(
            FoldSpec(), phrases, left_edge=edges, right_edge=edges, eager=[eager] * n
        )
        return Component(use, (0,), ("vllm",), WHEN, automaton, (rule,) * n, phrases, weights)

    components = (component("avoid", 0, ("rice", "the")), component("bias", 0, ("ice",), (2.0,)))
    rules = (RulePlan(0, "bans", 1, avoid(12), WHEN), RulePlan(0, "long", 2, MinTokensPlan(2), WHEN))
    return Program(policies, rules, components, 4096, f"words-{eager}", build_parser(policies))


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize("bounds", [(1 << 14, 1 << 18), (3, 5)], ids=["roomy", "tight"])
def test_every_row_is_what_its_session_says(eager: bool, bounds: tuple[int, int]) -> None:
    """Many outputs of few tokens, limits and client minimums of all sizes: first, repeated and last steps alike."""
    bound, rng = bind(words(eager)), random.Random(1)
    batch = new_batch(bound)
    batch._memo = Memo(*bounds)
    short_cuts = 0
    for _ in range(30):
        rows = 6
        params = [
            sampling(
                max_tokens=rng.choice([1, 2, 4, 7, 30]), min_tokens=rng.choice([0, 0, 1]), ignore_eos=rng.random() < 0.2
            )
            for _ in range(rows)
        ]
        outputs: list[list[int]] = [[] for _ in range(rows)]
        batch.update(added(*((i, p, o) for i, (p, o) in enumerate(zip(params, outputs, strict=True)))))
        for step in range(12):
            before = random_logits(rows, step)
            after = batch.apply(before.clone())
            sessions = [(row.session, row.consumed) for _, row in batch._ordered]
            short_cuts += sum(session is not None and session.length < read for session, read in sessions)
            for i, (param, output) in enumerate(zip(params, outputs, strict=True)):
                session = bound.token_session(None, param.stop_token_ids, param.max_tokens, param.ignore_eos)
                for token in output:
                    session.advance(token)
                wanted = before[i].clone()
                for token, value in session.biases().items():
                    wanted[token] += value
                wanted[torch.from_numpy(session.masked())] = -torch.inf
                assert torch.equal(after[i], wanted), (output, param.max_tokens)
                # Also tokens that are masked: what an engine does after us is not ours to choose.
                output.append(rng.randrange(2, 17))
    assert short_cuts > (100 if bounds[0] > 100 else 0)


def test_masks_share_what_they_have_in_common() -> None:
    """A long part is held once however many masks have it, and not at all when none has it any more."""
    cache = PartCache(CPU)
    long, short = np.arange(1000, dtype=np.int32), np.arange(3, dtype=np.int32)
    masks = [Mask((long,)), Mask((short, long, short + 5))]
    one, (other, rest) = cache.widen(masks[0])[0], cache.widen(masks[1])
    assert one is other
    assert one.tolist() == long.tolist()
    assert rest.tolist() == [0, 1, 2, 5, 6, 7]
    held = weakref.ref(one)
    del one, other
    masks.pop(0)
    assert held() is not None
    masks.clear()
    assert held() is None


def test_an_overruled_mask_is_counted_each_time() -> None:
    """A masked token that was chosen all the same is never learned as a way."""
    batch = new_batch()
    for _ in range(4):
        outputs: list[list[int]] = [[5], [5]]
        batch.update(added(*((i, sampling(RICE, max_tokens=64), output) for i, output in enumerate(outputs))))
        for token in (7, 8, 2):  # r i ce: the last letters are banned
            batch.apply(random_logits(2))
            for output in outputs:
                output.append(token)
        batch.apply(random_logits(2))
    batch.update(added((0, sampling(), []), (1, sampling(), [])))
    assert batch.counters.snapshot()["overruled"] == 8


def test_an_output_that_was_cut_back_is_read_again() -> None:
    """The engine takes a token back and goes on otherwise, as far as before: no way that another row went is taken."""
    batch = new_batch()
    first, second = [2], [2]
    batch.update(added(*((i, sampling(RICE, max_tokens=64), output) for i, output in enumerate((first, second)))))
    for token in (5, 9, 7):  # r ic i
        batch.apply(random_logits(2))
        first.append(token)
        if token == 5:
            second.append(token)
    batch.apply(random_logits(2))
    second[-1] = 14
    second.append(9)  # the ic, after a space
    before = random_logits(2)
    after = batch.apply(before.clone())
    assert after[1, 10] == before[1, 10], "an e may follow: no r stands before this ic"
