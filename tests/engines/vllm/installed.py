"""Asks vLLM about an installed bundle and writes what it did as JSON. A command for `test_installed.py`.

usage: installed.py checks|engine MODEL RESULT
"""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

NAME = "policy_bundle.vllm:PolicyLogitsProcessor"
SMALL = {"enforce_eager": True, "dtype": "float32", "max_model_len": 512, "gpu_memory_utilization": 0.4}
DRAFTS = {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 2}


def checks(model: str) -> dict[str, Any]:
    """Everything that needs no engine."""
    import torch
    import vllm.plugins
    import vllm.version
    from vllm import SamplingParams
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.sample.logits_processor import BatchUpdate, build_logitsprocs
    from vllm.v1.worker.gpu.sample.logits_processor.loader import _load_v2_logitsprocs

    from policyengine.engines.vllm.guard import refuse

    found: dict[str, Any] = {}

    def made(**settings: Any) -> Any:
        try:
            return EngineArgs(model=model, **{**SMALL, **settings}).create_engine_config()
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    def start(name: str, **settings: Any) -> None:
        config = made(**settings)
        found[name] = config if isinstance(config, str) else "starts"

    start("plain")
    start("named", logits_processors=[NAME])
    start("speculative", speculative_config=DRAFTS)
    start("pooling", runner="pooling", convert="embed")
    watched = EngineArgs.create_engine_config
    for _ in range(3):
        vllm.plugins.plugins_loaded = False
        vllm.plugins.load_general_plugins()
    found["wrapped once"] = EngineArgs.create_engine_config is watched
    config = made()
    config.parallel_config.nnodes = 2
    for name, processors in {"elsewhere": None, "elsewhere, named": [NAME]}.items():
        config.model_config.logits_processors = processors
        try:
            refuse(config, "policy_bundle")
            found[name] = "starts"
        except ValueError as error:
            found[name] = str(error)
    version, vllm.version.__version__ = vllm.version.__version__, "0.99.0"
    start("unknown version")
    vllm.version.__version__ = version

    # Both ways at once: the bias must count once.
    config = made(logits_processors=[NAME])
    loaded = build_logitsprocs(config, torch.device("cpu"), False, False, (NAME,))
    ours = [one for one in loaded.all if type(one).__name__ == "PolicyLogitsProcessor"]
    update = BatchUpdate(1, [], [(0, SamplingParams(temperature=1), [], [])], [])
    logits = torch.zeros(1, config.model_config.get_vocab_size())
    for one in ours:
        one.update_state(update)
    for one in ours:
        logits = one.apply(logits)
    found["in V1"], found["in V2"] = len(ours), len(_load_v2_logitsprocs([NAME]))
    found["bias"] = logits[0, 128].item()
    found["others"] = int(torch.count_nonzero(logits).item())

    # Another worker of the same engine has a configuration of its own, and comes to the same.
    (other,) = [
        one
        for one in build_logitsprocs(made(), torch.device("cpu"), False, False).all
        if type(one).__name__ == "PolicyLogitsProcessor"
    ]
    other.update_state(update)
    found["workers agree"] = torch.equal(other.apply(torch.zeros_like(logits)), logits)
    found["needs other processes"] = torch.distributed.is_initialized()

    # What front ends do: look at requests, without a device or a configuration.
    cls = type(ours[0])
    found["pickled by name"] = pickle.loads(pickle.dumps(cls)) is cls
    try:
        cls.validate_params(SamplingParams(extra_args={"min_len": "long"}))
    except ValueError as error:
        found["mistake"] = str(error)
    found["device used"] = torch.cuda.is_initialized()
    return found


def engine(model: str) -> dict[str, Any]:
    """An engine that is told of no processor."""
    from vllm import LLM, SamplingParams

    running = LLM(model, disable_log_stats=True, **SMALL)
    params = [SamplingParams(temperature=1, seed=seed, max_tokens=12) for seed in range(8)]
    results = running.generate(["def f"] * len(params), params, use_tqdm=False)
    return {"ids": [list(result.outputs[0].token_ids) for result in results]}


if __name__ == "__main__":
    what = {"checks": checks, "engine": engine}[sys.argv[1]]
    Path(sys.argv[3]).write_text(json.dumps(what(sys.argv[2])))
