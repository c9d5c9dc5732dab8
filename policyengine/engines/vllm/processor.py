"""The class that vLLM loads: `policy_bundle.vllm:PolicyLogitsProcessor` derives from it and names its bundle."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, ClassVar

import torch
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor

from policyengine.engines.vllm import params, v1, vocabulary
from policyengine.engines.vllm.refusals import refusal
from policyengine.runtime.counts import Tally
from policyengine.runtime.errors import BindError

_log = logging.getLogger("vllm.policyengine")


class PolicyProcessor(LogitsProcessor):
    """Applies the policies of a bundle to vLLM's batches (V1 runner).

    Subclasses set `bundle`, the directory of `manifest.json`. Constructing raises BundleError or BindError, and the
    engine then does not start, where the policies would not hold.
    """

    bundle: ClassVar[Path]

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Called for every request in the API process; a ValueError becomes HTTP 400 with its text."""
        from vllm.platforms import current_platform

        params.validate(params.program_at(Path(cls.bundle)), sampling_params, current_platform.device_type)

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        device = torch.device(device)
        program = params.program_at(Path(self.bundle))
        model = vllm_config.model_config
        refused = refusal(vllm_config, "v1")
        if refused is not None:
            raise BindError(f"policies do not hold on this engine: {refused}")
        bound = program.bind(
            vocabulary.of_model(model), device=device.type, model=params.served_name(model), target=params.TARGET
        )
        self._batch = v1.Batch(bound, device, vllm_config)
        shadows = sum(rule.mode == "shadow" and bound.applies(rule) for rule in program.rules)
        _log.info(
            "policies in force: %d rules%s, bundle digest %s%s",
            len(bound.rules),
            f" and {shadows} in shadow" if shadows else "",
            program.digest,
            " (loaded twice; this instance stands by)" if self._batch.is_second else "",
        )
        if model.logprobs_mode in params.RAW_MODES and params.masks_tokens(program, device.type):
            _log.warning(
                "logprobs_mode is %s: requests that ask for logprobs are refused, since they would show banned tokens; "
                "start with --logprobs-mode processed_logprobs to allow them",
                model.logprobs_mode,
            )

    @property
    def counters(self) -> dict[str, int]:
        """Refused and failed requests, overruled masks and dead ends so far. Waits for the device."""
        return self._batch.counters.snapshot()

    @property
    def rule_counters(self) -> dict[str, Tally]:
        """What was counted by rule so far, by `policy/rule`."""
        return self._batch.counters.rules.snapshot()

    def is_argmax_invariant(self) -> bool:
        """Never: greedy sampling must not skip the policies."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follow the batch; called before every forward pass."""
        self._batch.update(batch_update)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Change the logits (float32 [requests, vocabulary]) in place and return them."""
        return self._batch.apply(logits)
