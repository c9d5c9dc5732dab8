"""The class that vLLM loads: what it refuses to start on, and the vocabulary it finds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from vllm.config import ModelConfig
from vllm.v1.sample.logits_processor import BatchUpdate

from policyengine.engines.vllm import vocabulary as vocabulary_module
from policyengine.engines.vllm.processor import PolicyProcessor
from policyengine.runtime.digest import program_digest
from policyengine.runtime.errors import BindError, BundleError
from policyengine.runtime.program import Program, WhenPlan
from tests.engines.vllm.batches import sampling
from tests.engines.vllm.programs import avoid, policy, program, vocabulary


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any model has the toy vocabulary."""
    monkeypatch.setattr(vocabulary_module, "of_model", lambda _config: vocabulary())


def processor_of(directory: Path) -> type[PolicyProcessor]:
    return type("PolicyLogitsProcessor", (PolicyProcessor,), {"bundle": directory})


def config(**model: Any) -> Any:
    """As much of vLLM's configuration as a start looks at."""
    speculative = model.pop("speculative_config", None)
    asynchronous = model.pop("async_scheduling", False)
    settings = {
        "runner_type": "generate",
        "is_diffusion": False,
        "logits_processors": ["policy_bundle.vllm:PolicyLogitsProcessor"],
        "logprobs_mode": "processed_logprobs",
        "model": "org/tiny",
        "served_model_name": "tiny",
    }
    return SimpleNamespace(
        model_config=SimpleNamespace(**settings | model),
        speculative_config=speculative,
        scheduler_config=SimpleNamespace(async_scheduling=asynchronous),
    )


def saved(compiled: Program, directory: Path) -> Path:
    compiled.save(directory)
    return directory


BAN = program([policy("bans", "always")], [(0, avoid(3))])


@pytest.mark.usefixtures("toy")
def test_a_bundle_starts_and_acts(tmp_path: Path) -> None:
    """Constructed as vLLM does, driven once."""
    processor = processor_of(saved(BAN, tmp_path))(config(), torch.device("cpu"), False)
    processor.update_state(BatchUpdate(1, [], [(0, sampling(), [], [])], []))
    logits = processor.apply(torch.zeros(1, 24))
    assert torch.nonzero(torch.isneginf(logits[0])).flatten().tolist() == [3]
    assert processor.is_argmax_invariant() is False
    assert processor.counters == {"refused": 0, "failed": 0, "overruled": 0, "dead_ends": 0}


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"runner_type": "pooling"}, "pooling"),
        ({"speculative_config": object()}, "speculative decoding"),
        ({"is_diffusion": True}, "diffusion"),
        ({"async_scheduling": True, "logits_processors": None}, "--logits-processors"),
    ],
)
def test_engines_that_would_not_run_the_policies_do_not_start(
    tmp_path: Path, facts: dict[str, Any], reason: str
) -> None:
    """Better no server than one whose policies are silently off."""
    with pytest.raises(BindError, match=reason):
        processor_of(saved(BAN, tmp_path))(config(**facts), torch.device("cpu"), False)


@pytest.mark.usefixtures("toy")
def test_async_scheduling_is_fine_for_a_named_class(tmp_path: Path) -> None:
    """Named processors are told the chosen tokens."""
    processor_of(saved(BAN, tmp_path))(config(async_scheduling=True), torch.device("cpu"), False)


@pytest.mark.usefixtures("toy")
def test_damaged_bundle_does_not_start(tmp_path: Path) -> None:
    """A changed file is noticed by its digest; a missing one by its absence."""
    directory = saved(BAN, tmp_path)
    (directory / "program.safetensors").write_bytes(b"\0" * 16)
    with pytest.raises(BundleError):
        processor_of(directory)(config(), torch.device("cpu"), False)
    with pytest.raises(BundleError):
        processor_of(tmp_path / "nowhere")(config(), torch.device("cpu"), False)


@pytest.mark.usefixtures("toy")
def test_a_rule_that_does_not_fit_the_vocabulary_does_not_start(tmp_path: Path) -> None:
    """Case 3: the message names the rule."""
    directory = saved(program([policy("bans", "always")], [(0, avoid(26))]), tmp_path)
    with pytest.raises(BindError, match=r"bans/r0.*26"):
        processor_of(directory)(config(), torch.device("cpu"), False)


def test_vocabulary_of_a_real_model(tiny_model: Path) -> None:
    """Every id has the bytes that the tokenizer writes; special ones none; both ids that end an answer are known."""
    model = ModelConfig(model=str(tiny_model))
    found = vocabulary_module.of_model(model)
    assert found.size == 4096
    assert found.eos_token_ids == (0, 1)
    assert found.tokens[:4] == [b""] * 4
    assert found.encode is not None
    text = "Answer: naïve 使用\n"
    ids = found.encode(text)
    assert b"".join(found.tokens[i] or b"" for i in ids).decode() == text


def test_model_without_a_tokenizer_is_refused(tiny_model: Path) -> None:
    """No text, no policies about text."""
    with pytest.raises(BindError, match="tokenizer"):
        vocabulary_module.of_model(ModelConfig(model=str(tiny_model), skip_tokenizer_init=True))


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(
    ("names", "acts"),
    [("tiny", True), (["tiny", "other"], True), (["other", "tiny"], False), (None, False)],
)
def test_rules_for_a_model_ask_for_the_name_it_is_served_under(names: Any, acts: bool, tmp_path: Path) -> None:
    """The first name, as in vLLM's metrics; the path of the model where it has none."""
    (rule,) = BAN.rules
    named = replace(BAN, rules=(replace(rule, when=WhenPlan(model=("tin?",))),))
    digest = program_digest(named.policies, named.rules, named.components, named.max_hold)
    settings = config(served_model_name=names)
    processor = processor_of(saved(replace(named, digest=digest), tmp_path))(settings, torch.device("cpu"), False)
    processor.update_state(BatchUpdate(1, [], [(0, sampling(), [], [])], []))
    logits = processor.apply(torch.zeros(1, 24))
    assert torch.nonzero(torch.isneginf(logits[0])).flatten().tolist() == [3] * acts
