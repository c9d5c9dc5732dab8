"""On which engines policies would not hold, and what to change there.

Asked three times: by the processor when vLLM constructs it, by the guard of an installed bundle, and by `doctor` before
any start. Standard library only: the guard must be able to run where nothing else can be imported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Runner = Literal["v1", "v2"]

VERIFIED = (0, 32)  # the minor version whose interfaces these modules were written against and tested with
ALLOW = "POLICYENGINE_ALLOW_VLLM"  # names another version that its operator has tried


@dataclass(frozen=True)
class Refusal:
    """Why policies do not hold on an engine. name: of the diagnostic; change: what its operator can do."""

    name: str
    reason: str
    change: str

    def __str__(self) -> str:
        return f"{self.reason}; {self.change}"


@dataclass(frozen=True)
class Settings:
    """What decides whether vLLM runs a custom logits processor.

    version: vLLM's own; "" if it does not say. device: vLLM's name of the platform ("cuda", "cpu", "tpu").
    named: whether any logits processor is named in the configuration; listed: whether the bundle's own is, or arrived
    where it is needed. elsewhere: whether workers may run in an environment that this process did not give them.
    allowed: the value of `ALLOW`.
    """

    version: str
    runner: Runner
    device: str = "cuda"
    pooling: bool = False
    diffusion: bool = False
    speculative: bool = False
    async_scheduling: bool = False
    named: bool = True
    listed: bool = True
    elsewhere: bool = False
    rust_frontend: bool = False
    allowed: str = ""


def refusal(vllm_config: Any, runner: Runner, installed: str = "") -> Refusal | None:
    """The first thing that keeps policies from holding under a configuration, in this model runner; None if nothing.

    installed: the class (`module:Class`) that is found by an entry point here; "" where it is already constructed.
    """
    return next(iter(refusals(_settings(vllm_config, runner, installed))), None)


def refusals(settings: Settings) -> list[Refusal]:
    """Everything that keeps policies from holding, what matters most first."""
    found = (check(settings) for check in _CHECKS)
    return [one for one in found if one is not None]


def _settings(vllm_config: Any, runner: Runner, installed: str) -> Settings:
    from vllm.platforms import current_platform
    from vllm.version import __version__

    model = vllm_config.model_config
    names = [
        one if isinstance(one, str) else f"{one.__module__}:{one.__qualname__}" for one in model.logits_processors or ()
    ]
    return Settings(
        version=__version__,
        runner=runner,
        device="tpu" if current_platform.is_tpu() else str(current_platform.device_type),
        pooling=model.runner_type == "pooling",
        diffusion=bool(getattr(model, "is_diffusion", False)),
        speculative=vllm_config.speculative_config is not None,
        async_scheduling=bool(vllm_config.scheduler_config.async_scheduling),
        named=bool(names),
        listed=not installed or installed in names,
        elsewhere=_is_elsewhere(getattr(vllm_config, "parallel_config", None)),
        rust_frontend=is_on(os.environ.get("VLLM_USE_RUST_FRONTEND")),
        allowed=os.environ.get(ALLOW, ""),
    )


def _is_elsewhere(parallel: Any) -> bool:
    """Whether vLLM's `ParallelConfig` has Ray start workers, or engines, or spreads one engine over machines."""
    by_ray = getattr(parallel, "use_ray", False) or getattr(parallel, "data_parallel_backend", "") == "ray"
    return bool(by_ray) or getattr(parallel, "nnodes", 1) > 1


def is_on(value: str | None) -> bool:
    """A variable that vLLM reads as a number: 0 and unset are off."""
    return value is not None and value.strip() not in ("", "0")


# -- one function a reason -----------------------------------------------------------------------------------------


def _version(settings: Settings) -> Refusal | None:
    found = re.match(r"(\d+)\.(\d+)", settings.version)
    minor = (int(found[1]), int(found[2])) if found else None
    if minor == VERIFIED:
        return None
    wanted = ".".join(map(str, VERIFIED))
    if minor is not None and minor < VERIFIED:
        reason = (
            f"vLLM {settings.version} is older than {wanted}, the first whose interfaces these policies are made for"
        )
        return Refusal("engine-too-old", reason, f"install vLLM {wanted}")
    if settings.version and settings.allowed == settings.version:
        return None
    reason = f"vLLM {settings.version or 'of unknown version'} is not {wanted}, with which this policyengine was tried"
    change = f"install vLLM {wanted} or a policyengine that knows this one"
    if settings.version:
        change += f", or try it and set {ALLOW}={settings.version}"
    return Refusal("engine-unverified", reason, change)


def _device(settings: Settings) -> Refusal | None:
    if settings.device != "tpu":
        return None
    reason = "on a TPU, vLLM loads no custom logits processor and says nothing"
    return Refusal("unsupported-device", reason, "serve the model on another device")


def _pooling(settings: Settings) -> Refusal | None:
    if not settings.pooling:
        return None
    reason = "a pooling model generates no text, and vLLM runs no logits processor for it"
    return Refusal("pooling-model", reason, "serve it without policies")


def _diffusion(settings: Settings) -> Refusal | None:
    if not settings.diffusion:
        return None
    return Refusal("diffusion-model", "a diffusion model's sampler calls no logits processor", "serve another model")


def _speculative(settings: Settings) -> Refusal | None:
    if not settings.speculative or settings.runner != "v1":
        return None
    reason = "the V1 model runner calls no custom logits processor under speculative decoding"
    return Refusal("speculative-decoding", reason, "start without --speculative-config, or with the V2 model runner")


def _unknown_tokens(settings: Settings) -> Refusal | None:
    if settings.runner != "v1" or settings.named or not settings.async_scheduling:
        return None
    return Refusal(
        "tokens-not-told",
        "with async scheduling, vLLM's V1 model runner tells chosen tokens only to processors that are named",
        "add --logits-processors (or use the --config file of the artifacts), or start with --no-async-scheduling",
    )


def _elsewhere(settings: Settings) -> Refusal | None:
    if settings.listed or not settings.elsewhere:
        return None
    return Refusal(
        "workers-not-told",
        "workers that Ray or another machine starts look for entry points in an environment of their own",
        "add --logits-processors (or use the --config file of the artifacts): a worker without the package then stops",
    )


def _rust_frontend(settings: Settings) -> Refusal | None:
    if not settings.rust_frontend:
        return None
    reason = "vLLM's Rust front end checks no request against the policies"
    return Refusal("requests-not-checked", reason, "start without VLLM_USE_RUST_FRONTEND")


_CHECKS: tuple[Callable[[Settings], Refusal | None], ...] = (
    _version,
    _device,
    _pooling,
    _diffusion,
    _speculative,
    _unknown_tokens,
    _elsewhere,
    _rust_frontend,
)

__all__ = ["ALLOW", "Refusal", "Runner", "Settings", "VERIFIED", "is_on", "refusal", "refusals"]
