"""What happens to a request in the API process, before any engine sees it.

vLLM calls `validate_params` with nothing but the sampling parameters. What is refused here becomes HTTP 400 with the
message as its text.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from policyengine.bundles import open_bundle
from policyengine.requests import ASSIGNED_KEY
from policyengine.runtime import forced_text
from policyengine.runtime.errors import RequestError
from policyengine.runtime.forces import conflict, value_of
from policyengine.runtime.program import (
    AllowPlan,
    BanPlan,
    Component,
    ForcePlan,
    MinTokensPlan,
    Program,
    Request,
    RulePlan,
)

TARGET = "vllm"
RAW_MODES = ("raw_logprobs", "raw_logits")


@lru_cache(maxsize=8)
def program_at(directory: Path) -> Program:
    """The bundle in a directory, read once a process; raises BundleError."""
    return open_bundle(directory)


def validate(program: Program, params: Any, device: str) -> None:
    """Check and complete vLLM's `SamplingParams` in place; raises RequestError.

    The reserved key is taken out, since a client may not assign itself policies. `min_tokens` is raised to what the
    policies ask (but not above `max_tokens`), so that the engine holds its stop strings back as long.
    """
    if params.extra_args and ASSIGNED_KEY in params.extra_args:
        params.extra_args = {key: value for key, value in params.extra_args.items() if key != ASSIGNED_KEY}
    request = program.parse_request(params.extra_args)
    rules = [rule for rule in program.rules if rule.policy in request.policies and _acts(program, rule, device)]
    if any(_masks(rule) for rule in rules):
        _refuse_raw_logprobs(params)
    # What is refused or asked for here must be certain: the worker, which knows the model, decides about the rest.
    model = _model_name() if any(rule.when.model for rule in rules) else None
    rules = [rule for rule in rules if rule.when.holds(device=device, model=model, vocabulary=None)]
    for channel in ("all", "answer", "reasoning"):
        forces = [
            (f"{program.policies[rule.policy].name}/{rule.id}", rule.body)
            for rule in rules
            if isinstance(rule.body, ForcePlan) and rule.channel == channel
        ]
        clash = conflict(forces, request)
        if clash is not None:
            raise RequestError(clash)
    for rule in rules:
        if isinstance(rule.body, ForcePlan):
            banned = forced_text.refusal(program, request, rule, rule.body, lambda part: _is_sure(part, device))
            if banned is not None:
                raise RequestError(banned)
    # An output that does not reason has no minimum for its reasoning.
    lengths = [r.body for r in rules if isinstance(r.body, MinTokensPlan) and r.channel != "reasoning"]
    least = max((_least(plan, request) for plan in lengths), default=0)
    if params.max_tokens is not None:
        least = min(least, params.max_tokens)
    params.min_tokens = max(params.min_tokens, least)


def masks_tokens(program: Program, device: str) -> bool:
    """Whether any request can have tokens withheld on this engine."""
    return any(_masks(rule) and _acts(program, rule, device) for rule in program.rules)


def _masks(rule: RulePlan) -> bool:
    """Whether a rule withholds what a model might say: a ban, or an allow of scripts.

    The other allows, like forces, only choose among what the model may say.
    """
    body = rule.body
    return (isinstance(body, BanPlan) and body.avoid) or (isinstance(body, AllowPlan) and bool(body.scripts))


def _acts(program: Program, rule: RulePlan, device: str) -> bool:
    """Whether the rule may act here. The model and its vocabulary are not known in this process."""
    facts = replace(rule.when, model=(), vocabulary=())
    if rule.mode == "shadow":
        return False
    return TARGET in program.policies[rule.policy].targets and facts.holds(device=device, model=None, vocabulary=None)


def _is_sure(component: Component, device: str) -> bool:
    """Whether a component acts here whatever the model is; the worker, which knows it, decides about the others."""
    if component.mode == "shadow":
        return False
    return TARGET in component.targets and component.when.holds(device=device, model=None, vocabulary=None)


def _model_name() -> str | None:
    """The name of the model that this process serves; None if it cannot be seen."""
    config = _engine_model_config()
    return None if config is None else served_name(config)


def served_name(model_config: Any) -> str:
    """The name that a model is served under; the first one where there are several."""
    name = getattr(model_config, "served_model_name", None) or model_config.model
    return str(name if isinstance(name, str) else name[0])


def _least(plan: MinTokensPlan, request: Request) -> int:
    value = value_of(plan.n, request)
    return int(value) if isinstance(value, int | float) else 0


def _refuse_raw_logprobs(params: Any) -> None:
    """Refuse alternatives to the chosen token where the engine computes them before the policies act.

    The chosen token's own logprob (`logprobs: 0`) shows nothing that was withheld.
    """
    if not params.logprobs and not params.logprob_token_ids:
        return
    config = _engine_model_config()
    if config is None or config.logprobs_mode in RAW_MODES:
        raise RequestError(
            "logprobs would show tokens that this server's policies withhold: ask for none, or have the server "
            "started with --logprobs-mode processed_logprobs"
        )


def _engine_model_config() -> Any | None:
    """The model configuration of the engine whose input processor is calling; None if it cannot be seen.

    The request is all that vLLM passes down, so this looks up: the calling input processor owns the configuration.
    Were a later version to call from elsewhere, the caller would refuse more than it must, never less.
    """
    frame = sys._getframe(1)
    for _ in range(8):
        if frame.f_back is None:
            return None
        frame = frame.f_back
        config = getattr(frame.f_locals.get("self"), "model_config", None)
        if hasattr(config, "logprobs_mode"):
            return config
    return None
