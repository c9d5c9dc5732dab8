"""Whether a vLLM would run the policies of a bundle, judged from facts; `doctor_facts` collects them on a machine.

What vLLM 0.32 does with an option or a variable is written down here, and where it decides which model runner it uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from policyengine.engines.commands import Command
from policyengine.engines.findings import Finding, Judgement, Severity
from policyengine.engines.vllm.refusals import ALLOW, Runner, Settings, is_on, refusals

PROCESSORS, PLUGINS = "vllm.logits_processors", "vllm.general_plugins"
RUNNER = "VLLM_USE_V2_MODEL_RUNNER"

_RAW = ("raw_logprobs", "raw_logits")
_V1_ONLY = ("suffix", "medusa", "mlp_speculator", "custom_class")  # methods of speculative decoding
_SPECULATIVE = ("speculative-config", "spec-method", "spec-model", "spec-tokens")


@dataclass(frozen=True)
class EntryPoint:
    """One of an installed distribution."""

    group: str
    name: str
    value: str


@dataclass(frozen=True)
class Facts:
    """All that is judged.

    version, device ("cuda", "cpu", "tpu", …), triton (whether vLLM can use it): of the installed vLLM.
    unloadable: why the bundle's class cannot be loaded in a model runner; a runner that can is not in it.
    other_digest: of the bundle that would be loaded under this name, where it is not the one that is looked at.
    command: what starts the server; its own assignments are in `environment` already.
    config: the values of its configuration file, and config_path the file; empty if there is none.
    model: the model's `config.json`; empty where it is not at hand.
    package: the bundle's; bans: whether some rule of it masks tokens.
    """

    version: str
    device: str
    triton: bool
    command: Command
    package: str
    bans: bool = True
    unloadable: Mapping[Runner, str] = field(default_factory=dict)
    other_digest: str = ""
    entry_points: tuple[EntryPoint, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    config_path: str = ""
    model: Mapping[str, Any] = field(default_factory=dict)

    @property
    def processor(self) -> str:
        """The class, as vLLM is told of it."""
        return f"{self.package}.vllm:PolicyLogitsProcessor"

    def setting(self, name: str) -> Any:
        """What an option of the server is set to; None if nowhere."""
        return self.command.setting(name, self.config)


def judge(facts: Facts) -> Judgement:
    """What is wrong, and how the policies would run."""
    runner, why = runner_of(facts)
    active = _active(facts)
    findings = [*_engine(facts, runner), *_loading(facts, runner), *_activation(facts, active), *_options(facts)]
    how = [f"vllm {facts.version or 'of unknown version'} on {facts.device}, {runner.upper()} model runner ({why})"]
    how += [f"the policies are {text}" for text in active.values()]
    if not facts.config.get("middleware") and "middleware" not in facts.command.options:
        how.append("no text level: beam search (`use_beam_search`), and what vLLM cuts after sampling, are not covered")
    about: dict[str, str | bool | None] = {
        "runner": runner,
        "runner_because": why,
        "device": facts.device,
        "named": "named" in active,
        "installed": "installed" in active,
    }
    return Judgement("vllm", facts.version, tuple(how), about, tuple(findings))


def runner_of(facts: Facts) -> tuple[Runner, str]:
    """The model runner that vLLM uses, and by what it is decided."""
    forced = facts.environment.get(RUNNER)
    if facts.setting("watermark-config") is not None:
        return "v2", "watermarking needs it"
    if forced is not None:
        return ("v2" if is_on(forced) else "v1"), f"{RUNNER}={forced}"
    if not facts.triton:
        return "v1", "V2 needs Triton, which does not work here"
    method = _speculative_method(facts)
    if method in _V1_ONLY:
        return "v1", f"V2 does not know the speculative method {method}"
    if facts.setting("enable-dbo"):
        return "v1", "V2 does not do dual batch overlap by default"
    if facts.setting("distributed-executor-backend") == "external_launcher" and _stages(facts) > 1:
        return "v1", "V2 does not do pipeline parallelism with an external launcher"
    return "v2", "vLLM's default"


def _active(facts: Facts) -> dict[str, str]:
    """By what the class is loaded: "named" and "installed", each with a text for people."""
    found = {}
    if facts.processor in _named(facts):
        here = "the command line" if "logits-processors" in facts.command.options else facts.config_path
        found["named"] = f"named in {here}"
    if any(one.group == PROCESSORS and one.value == facts.processor for one in facts.entry_points):
        found["installed"] = "installed (entry points)"
    return found


def _named(facts: Facts) -> list[str]:
    value = facts.setting("logits-processors")
    return [] if value in (None, True, False) else [value] if isinstance(value, str) else [str(one) for one in value]


# -- what is wrong -------------------------------------------------------------------------------------------------


def _engine(facts: Facts, runner: Runner) -> Iterator[Finding]:
    """What the processor itself would refuse, or what keeps it from ever being asked."""
    allowed = facts.environment.get(ALLOW, "")
    places = {
        "requests-not-checked": "VLLM_USE_RUST_FRONTEND",
        "engine-too-old": "vllm",
        "engine-unverified": "vllm",
        "unsupported-device": facts.device,
        "diffusion-model": "the model",
    }
    for one in refusals(_settings(facts, runner)):
        severity: Severity | None = None
        if one.name == "engine-unverified" and allowed and allowed == facts.version:
            severity = "warning"
        yield Finding(one.name, one.reason, one.change, places.get(one.name, _source(facts)), severity)


def _settings(facts: Facts, runner: Runner) -> Settings:
    asynchronous = facts.setting("async-scheduling")
    if asynchronous is None:
        asynchronous = facts.device != "cpu" and _stages(facts) == 1
    overrides = facts.setting("hf-overrides")
    active = _active(facts)
    diffusion = any("canvas_length" in one for one in (facts.model, overrides) if isinstance(one, Mapping))
    return Settings(
        version=facts.version,
        runner=runner,
        device=facts.device,
        pooling=facts.setting("runner") == "pooling" or facts.setting("convert") not in (None, "auto", "none"),
        diffusion=diffusion,
        speculative=_is_speculative(facts),
        async_scheduling=bool(asynchronous),
        # A class that is loaded in no way is told of by `_activation`.
        named=bool(_named(facts)) or "installed" not in active,
        listed="installed" not in active or "named" in active,
        elsewhere=_is_elsewhere(facts),
        rust_frontend=is_on(facts.environment.get("VLLM_USE_RUST_FRONTEND")),
    )


def _loading(facts: Facts, runner: Runner) -> Iterator[Finding]:
    why = facts.unloadable.get(runner)
    if why:
        other: Runner = "v1" if runner == "v2" else "v2"
        change = "start it with the folder of the build in PYTHONPATH, in an environment with policyengine"
        if other not in facts.unloadable:
            change = (
                f"start it with {RUNNER}={'0' if other == 'v1' else '1'}: the class loads in the other model runner"
            )
        yield Finding("class-not-loadable", f"vLLM cannot load {facts.processor}: {why}", change, facts.processor)
    if facts.other_digest:
        message = f"vLLM would load another build under this name, with the digest {facts.other_digest[:12]}"
        change = "put the folder of this one first in PYTHONPATH, or take the other out of the environment"
        yield Finding("other-build", message, change, "PYTHONPATH")


def _activation(facts: Facts, active: Mapping[str, str]) -> Iterator[Finding]:
    command = facts.command
    unread = "config" in command.glued
    if unread:
        path = command.last("config")
        message = f"vLLM reads no file from `--config={path}`, and says nothing about it"
        yield Finding("config-not-read", message, f"write two words: `--config {path}`", "command line")
    listed = facts.config.get("logits-processors") or facts.config.get("logits_processors") or ()
    if active:
        pass
    elif "logits-processors" in command.options and facts.processor in listed:
        message = f"`--logits-processors` takes the place of the list in {facts.config_path}, which names the policies"
        change = f"add {facts.processor} to the option, or move its processors into the file"
        yield Finding("processors-replaced", message, change, "command line")
    elif not unread:
        message = f"nothing names {facts.processor}, and no entry point does"
        change = "start vLLM with `--config` and the file that `compile` writes, or `--logits-processors` and this name"
        yield Finding("not-activated", message, change, _source(facts))
    guard = f"{facts.package}.guard:guard"
    plugins = facts.environment.get("VLLM_PLUGINS")
    for one in facts.entry_points:
        if one.group == PLUGINS and one.value == guard and plugins is not None and one.name not in plugins.split(","):
            message = f"VLLM_PLUGINS leaves out `{one.name}`, which stops an engine that would not run the policies"
            yield Finding("plugin-filtered", message, f"add {one.name} to it", "VLLM_PLUGINS")


def _options(facts: Facts) -> Iterator[Finding]:
    mode = facts.setting("logprobs-mode") or _RAW[0]
    if facts.bans and mode in _RAW:
        message = f"logprobs are taken before the policies ({mode}): requests that ask for alternatives are refused"
        yield Finding("raw-logprobs", message, "set `--logprobs-mode processed_logprobs`", _source(facts))
    if facts.setting("skip-tokenizer-init"):
        message = "policies need the model's tokenizer, and the engine does not start without it"
        yield Finding("config-unsafe", message, "leave `--skip-tokenizer-init` out", _source(facts))


# -- reading options -----------------------------------------------------------------------------------------------


def _source(facts: Facts) -> str:
    return facts.config_path or "command line"


def _is_speculative(facts: Facts) -> bool:
    return any(facts.setting(name) for name in _SPECULATIVE) or "speculators_config" in facts.model


def _is_elsewhere(facts: Facts) -> bool:
    backends = (facts.setting("distributed-executor-backend"), facts.setting("data-parallel-backend"))
    nodes = facts.setting("nnodes") or facts.setting("n")
    return "ray" in backends or nodes not in (None, "1", 1)


def _speculative_method(facts: Facts) -> str | None:
    config = facts.setting("speculative-config")
    method = facts.setting("spec-method") or (config.get("method") if isinstance(config, Mapping) else None)
    return None if method is None else str(method)


def _stages(facts: Facts) -> int:
    given = facts.setting("pipeline-parallel-size") or facts.setting("pp")
    return int(given) if str(given).isdigit() else 1
