"""The class that vLLM loads: `policy_bundle.vllm:PolicyLogitsProcessor` derives from it and names its bundle."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from vllm.v1.sample.logits_processor import BatchUpdate
from vllm.v1.sample.logits_processor import LogitsProcessor as V1LogitsProcessor
from vllm.v1.worker.gpu.sample.logits_processor.interface import LogitsContext
from vllm.v1.worker.gpu.sample.logits_processor.interface import LogitsProcessor as V2LogitsProcessor

from policyengine.engines.vllm import params, v1, v2, vocabulary
from policyengine.engines.vllm.refusals import refusal
from policyengine.engines.vllm.rows import Rows
from policyengine.runtime.counts import Tally
from policyengine.runtime.errors import BindError

_log = logging.getLogger("vllm.policyengine")


class PolicyProcessor(V1LogitsProcessor, V2LogitsProcessor):
    """Applies the policies of a bundle to vLLM's batches, in whichever of its two model runners constructs it.

    Subclasses set `bundle`, the directory of `manifest.json`. Constructing raises BundleError or BindError, and the
    engine then does not start, where the policies would not hold.
    """

    bundle: ClassVar[Path]

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Called for every request in the API process; a ValueError becomes HTTP 400 with its text."""
        from vllm.platforms import current_platform

        params.validate(params.program_at(Path(cls.bundle)), sampling_params, current_platform.device_type)

    def __init__(self, vllm_config: Any, device_or_states: Any, is_pin_memory: bool | None = None) -> None:
        """V1 gives a device and whether memory is pinned, V2 gives its `LogitsProcRequestState`."""
        program = params.program_at(Path(self.bundle))
        model = vllm_config.model_config
        runner: Literal["v1", "v2"] = "v1" if is_pin_memory is not None else "v2"
        refused = refusal(vllm_config, runner)
        if refused is not None:
            raise BindError(f"policies do not hold on this engine: {refused}")
        device = torch.device(device_or_states if runner == "v1" else device_or_states.device)
        bound = program.bind(
            vocabulary.of_model(model), device=device.type, model=params.served_name(model), target=params.TARGET
        )
        self._v1: v1.Batch | None = None
        self._v2: v2.Batch | None = None
        self._batch: Rows
        if runner == "v1":
            self._batch = self._v1 = v1.Batch(bound, device, vllm_config)
        else:
            speculative = vllm_config.speculative_config
            drafts = 0 if speculative is None else speculative.num_speculative_tokens
            self._batch = self._v2 = v2.Batch(bound, device_or_states, vllm_config, draft_tokens=drafts)
        shadows = sum(rule.mode == "shadow" and bound.applies(rule) for rule in program.rules)
        _log.info(
            "policies in force (%s model runner): %d rules%s, bundle digest %s%s",
            runner.upper(),
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

    # -- V1 --------------------------------------------------------------------------------------------------------

    def is_argmax_invariant(self) -> bool:
        """Never: greedy sampling must not skip the policies."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follow the batch; called before every forward pass."""
        assert self._v1 is not None
        self._v1.update(batch_update)

    # -- V2 --------------------------------------------------------------------------------------------------------

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """A request takes a slot. Returns whether rules act on it."""
        assert self._v2 is not None
        return self._v2.add(req_idx, sampling_params)

    def apply_staged_writes(self) -> None:
        """Called once a step before the forward pass."""
        assert self._v2 is not None
        self._v2.flush()

    # -- both ------------------------------------------------------------------------------------------------------

    def apply(self, logits: torch.Tensor, ctx: LogitsContext | None = None) -> torch.Tensor:
        """Change the logits (float32 [rows, vocabulary]) in place and return them. ctx: V2's layout of the rows."""
        if self._v1 is not None:
            return self._v1.apply(logits)
        assert self._v2 is not None
        assert ctx is not None
        return self._v2.apply(logits, ctx)
