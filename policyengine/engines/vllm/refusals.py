"""On which engines policies would not hold, and what to change: asked once, when vLLM constructs the processor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Runner = Literal["v1", "v2"]


@dataclass(frozen=True)
class Refusal:
    """Why policies do not hold on an engine, and what its operator can change."""

    reason: str
    change: str

    def __str__(self) -> str:
        return f"{self.reason}; {self.change}"


def refusal(vllm_config: Any, runner: Runner) -> Refusal | None:
    """The first thing that keeps policies from holding under a configuration, in this model runner; None if nothing."""
    for check in _CHECKS:
        found = check(vllm_config, runner)
        if found is not None:
            return found
    return None


def _pooling(vllm_config: Any, runner: Runner) -> Refusal | None:
    if vllm_config.model_config.runner_type != "pooling":
        return None
    return Refusal("a pooling model generates no text", "serve it without policies")


def _diffusion(vllm_config: Any, runner: Runner) -> Refusal | None:
    if not getattr(vllm_config.model_config, "is_diffusion", False):
        return None
    return Refusal("a diffusion model's sampler calls no logits processor", "serve another model")


def _speculative(vllm_config: Any, runner: Runner) -> Refusal | None:
    if runner != "v1" or vllm_config.speculative_config is None:
        return None
    return Refusal(
        "the V1 model runner calls no custom logits processor under speculative decoding",
        "start without --speculative-config",
    )


def _unknown_tokens(vllm_config: Any, runner: Runner) -> Refusal | None:
    if runner != "v1" or not vllm_config.scheduler_config.async_scheduling:
        return None
    if vllm_config.model_config.logits_processors:
        return None
    return Refusal(
        "with async scheduling, vLLM tells chosen tokens only to processors that are named",
        "add --logits-processors (or use the --config file of the artifacts), or start with --no-async-scheduling",
    )


_CHECKS: tuple[Callable[[Any, Runner], Refusal | None], ...] = (_pooling, _diffusion, _speculative, _unknown_tokens)

__all__ = ["Refusal", "Runner", "refusal"]
