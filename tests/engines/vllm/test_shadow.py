"""Rules in shadow in the batch: logits stay bit-identical, and what a rule would have masked is counted."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from vllm.v1.sample.logits_processor import BatchUpdate

from policyengine.engines.vllm.v1 import Batch
from policyengine.runtime.counts import Tally
from policyengine.runtime.program import AllowPlan, BiasPlan, ForcePlan, MinTokensPlan, Program
from tests.engines.vllm.batches import added, bind, new_batch, possible, random_logits, sampling
from tests.engines.vllm.programs import EOS, OTHER_END, avoid, policy, program
from tests.shadows import in_shadow

TOKENS = [3, 5, 7, 8, 14, EOS]
NAMES = ["never", "length", "opening", "few", "nudge", "rice"]


def rules() -> Program:
    """A rule of each kind, each in a policy of its own: never/r0, length/r1, opening/r2, few/r3, nudge/r4, rice/r5."""
    return program(
        [policy(name) for name in NAMES],
        [
            (0, avoid(14)),
            (1, MinTokensPlan(3)),
            (2, ForcePlan(" the", None, "start")),
            (3, AllowPlan(token_ids=(3, 5, 7, 8))),
            (4, BiasPlan(((3, 2.5),))),
        ],
        bans=[(5, ["rice"])],
    )


def served(batch: Batch, requests: list[tuple[list[str], list[int]]], *, slots: int = 4) -> list[torch.Tensor]:
    """Serve requests (policies, tokens that will be chosen), some at once; returns pairs of logits before and after."""
    waiting = list(requests)
    running: dict[int, tuple[list[int], list[int]]] = {}
    steps: list[torch.Tensor] = []
    while waiting or running:
        removed = [slot for slot, (output, tokens) in running.items() if len(output) == len(tokens)]
        for slot in removed:
            del running[slot]
        new = []
        for slot in range(slots):
            if slot not in running and waiting:
                names, tokens = waiting.pop(0)
                output: list[int] = []
                running[slot] = output, tokens
                new.append((slot, sampling({"policies": names}, max_tokens=99), [], output))
        free = [slot for slot in removed if slot not in running]
        batch.update(BatchUpdate(slots, free, new, []) if free or new else None)
        before = random_logits(slots, len(steps))
        steps += [before, batch.apply(before.clone())]
        for output, tokens in running.values():
            output.append(tokens[len(output)])
    return steps


def traffic(seed: int) -> list[tuple[list[str], list[int]]]:
    rng = random.Random(seed)
    found = []
    for _ in range(60):
        names = sorted(rng.sample(NAMES, rng.randint(0, len(NAMES))))
        tokens = rng.choices(TOKENS[:-1], k=rng.randint(0, 7))
        found.append((names, [*tokens, rng.choice([EOS, 3, 14])]))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_all_in_shadow(seed: int) -> None:
    """A churning batch with the same tokens again and again, so that most steps are ways that were gone before."""
    batch = new_batch(bind(in_shadow(rules())))
    requests = traffic(seed)
    steps = served(batch, requests)
    for before, after in zip(steps[::2], steps[1::2], strict=True):
        assert torch.equal(before, after)
    acting = bind(rules())
    steps_of, outputs_of = Counter[str](), Counter[str]()
    for names, tokens in requests:
        for rank, name in enumerate(NAMES):
            if name in names:
                session = acting.token_session({"policies": [name]}, [], 99)
                wrong = 0
                for token in tokens:
                    if name == "nudge":
                        wrong += token == 3
                    else:
                        before_it = session.masked_choices
                        session.advance(token)
                        wrong += session.masked_choices - before_it
                steps_of[f"{name}/r{rank}"] += wrong
                outputs_of[f"{name}/r{rank}"] += wrong > 0
    found = batch.counters.rules.snapshot()
    assert {name: tally.steps for name, tally in found.items()} == {n: c for n, c in steps_of.items() if c}
    assert {name: tally.outputs for name, tally in found.items()} == {n: c for n, c in outputs_of.items() if c}
    assert batch.counters.snapshot() == {"refused": 0, "failed": 0, "overruled": 0, "dead_ends": 0}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shadows", [{5}, {1, 2}, {0, 3}, {4, 5}, {1, 2, 3, 4}])
def test_rules_that_act_act_alike(seed: int, shadows: set[int]) -> None:
    """Bit by bit what the batch does without the rules in shadow."""
    requests = traffic(seed)
    mixed = served(new_batch(bind(in_shadow(rules(), shadows))), requests)
    left = [([name for name in names if NAMES.index(name) not in shadows], tokens) for names, tokens in requests]
    plain = served(new_batch(bind(rules())), left)
    for mine, other in zip(mixed, plain, strict=True):
        assert torch.equal(mine, other)


def test_the_token_that_ends_a_request_is_counted() -> None:
    """No step follows it: an end that came too early, and a match that the last token completed."""
    batch = new_batch(bind(in_shadow(rules())))
    served(batch, [(["length"], [5, OTHER_END]), (["rice"], [6, 7, 8])])
    assert batch.counters.rules.snapshot() == {
        "length/r1": Tally(outputs=1, steps=1),
        "rice/r5": Tally(outputs=1, steps=1),
    }


def test_a_request_that_comes_back_is_not_counted_twice() -> None:
    """Preempted, it is added again with what it has."""
    batch = new_batch(bind(in_shadow(rules())))
    params = sampling({"policies": ["never"]}, max_tokens=9)
    output: list[int] = []
    batch.update(added((0, params, output)))
    batch.apply(random_logits(1))
    output.append(14)
    batch.update(BatchUpdate(1, [0], [], []))
    batch.update(BatchUpdate(1, [], [(0, params, [], output)], []))
    batch.apply(random_logits(1))
    output.append(14)
    batch.apply(random_logits(1))
    assert batch.counters.rules.snapshot()["never/r0"].steps == 2


def test_a_dead_end_that_a_rule_in_shadow_would_bring_about() -> None:
    """With the rules that act it would leave nothing; the row is as it was, and the total counts nothing."""
    policies = program(
        [policy("p", "always")], [(0, avoid(*range(2, 10))), (0, avoid(*range(10, 17))), (0, MinTokensPlan(2))]
    )
    batch = new_batch(bind(in_shadow(policies, {0})))
    batch.update(added((0, sampling(max_tokens=9), [])))
    after = batch.apply(random_logits(1))
    assert possible(after[0]) == [2, 3, 4, 5, 6, 7, 8, 9, *range(17, 24)]
    assert batch.counters.rules.snapshot() == {"p/r0": Tally(outputs=1, dead_ends=1)}
    assert batch.counters.snapshot()["dead_ends"] == 0


def test_dead_ends_of_rules_that_act_have_names() -> None:
    policies = program([policy("p", "always")], [(0, avoid(*range(2, 17))), (0, MinTokensPlan(2))])
    batch = new_batch(bind(policies))
    batch.update(added((0, sampling(max_tokens=9), [])))
    for _ in range(2):
        assert possible(batch.apply(random_logits(1))[0]) == [EOS]
    assert batch.counters.rules.snapshot() == {name: Tally(outputs=1, dead_ends=2) for name in ("p/r0", "p/r1")}
    assert batch.counters.snapshot()["dead_ends"] == 2


@pytest.mark.parametrize(
    ("bodies", "chosen", "names"),
    [
        pytest.param([avoid(*range(2, 17)), MinTokensPlan(2)], [], ["p/r0", "p/r1"], id="too short, and all banned"),
        pytest.param([AllowPlan(choices=("rice",)), ForcePlan(None, 8, 1)], [5], ["p/r1"], id="forced, and no choice"),
    ],
)
def test_the_end_that_a_dead_end_leaves_overrules_nothing(
    bodies: list[Any], chosen: list[int], names: list[str]
) -> None:
    """No one changed the logits behind the policies: the end was all that they left."""
    policies = program([policy("p", "always")], [(0, body) for body in bodies])
    batch, output = new_batch(bind(policies)), list(chosen)
    batch.update(added((0, sampling(max_tokens=9), output)))
    assert possible(batch.apply(random_logits(1))[0]) == [EOS]
    output.append(EOS)
    batch.update(BatchUpdate(0, [0], [], []))
    assert batch.counters.rules.snapshot() == {name: Tally(outputs=1, dead_ends=1) for name in names}
    counters = batch.counters.snapshot()
    assert (counters["dead_ends"], counters["overruled"]) == (1, 0)


def test_a_request_that_shadow_would_refuse_goes_on() -> None:
    """Two forces at one position, and an id that the vocabulary lacks."""
    policies = program(
        [policy("p", "always")],
        [(0, ForcePlan(None, 3, 0)), (0, ForcePlan(None, 4, 0)), (0, AllowPlan(choices=("rice",)))],
    )
    batch = new_batch(bind(in_shadow(policies)))
    batch.update(added((0, sampling(max_tokens=1), [])))
    before = random_logits(1)
    assert torch.equal(batch.apply(before.clone()), before)
    assert batch.counters.snapshot()["refused"] == 0


def test_the_log_names_rules_and_the_bundle_and_no_text(caplog: pytest.LogCaptureFixture) -> None:
    batch = new_batch(bind(in_shadow(rules(), {5})))
    with caplog.at_level("INFO"):
        served(batch, [(["rice"], [6, 7, 8]), (["never"], [14])])
        batch.update(BatchUpdate(0, [0, 1], [], []))
    assert f"policy rules, bundle digest {batch.digest}: " in caplog.text
    assert "rice/r5 (shadow): outputs 1, steps 1" in caplog.text
    assert "never/r0: outputs 1, steps 1" in caplog.text


_WORKER = """
from tests.engines.vllm.test_shadow import *
batch = new_batch(bind(in_shadow(rules())))
served(batch, [(["rice"], [6, 7, 8])])
batch.counters.report()
batch.counters.report()
"""


def test_metrics_reach_the_page_of_another_process(tmp_path: Path) -> None:
    """Through the files of prometheus_client, as with several API servers of vLLM."""
    prometheus = pytest.importorskip("prometheus_client")
    from prometheus_client import multiprocess

    env = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", _WORKER], env=env, check=True, cwd=Path(__file__).parents[3])
    registry = prometheus.CollectorRegistry()
    multiprocess.MultiProcessCollector(registry, path=str(tmp_path))
    labels = {"policy": "rice", "rule": "r5", "mode": "shadow"}
    assert registry.get_sample_value("policyengine_rule_outputs_total", labels) == 1
    assert registry.get_sample_value("policyengine_rule_steps_total", labels) == 1
