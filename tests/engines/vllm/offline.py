"""Runs vLLM's `LLM` under a compiled bundle and writes its answers as JSON. A command for `test_offline.py`.

usage: offline.py MODEL class|name RESULT
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(model: str, given: str, result: str) -> None:
    """Give the processor as the class object or by its name; PYTHONPATH holds the bundle's package."""
    from vllm import LLM, SamplingParams
    from vllm.exceptions import VLLMValidationError

    processor: object = "policy_bundle.vllm:PolicyLogitsProcessor"
    if given == "class":
        from policy_bundle.vllm import PolicyLogitsProcessor

        processor = PolicyLogitsProcessor
    engine = LLM(
        model,
        logits_processors=[processor],
        enforce_eager=True,
        dtype="float32",
        max_model_len=512,
        gpu_memory_utilization=0.4,
        disable_log_stats=True,
    )

    def ask(count: int, **settings: object) -> list[list[object]]:
        params = [SamplingParams(temperature=1, seed=seed, max_tokens=40, **settings) for seed in range(count)]
        results = engine.generate([f"def function_{seed}" for seed in range(count)], params, use_tqdm=False)
        return [[result.outputs[0].text, list(result.outputs[0].token_ids)] for result in results]

    found: dict[str, object] = {
        "plain": ask(60),
        "pinned": ask(2, extra_args={"target_token": 128}),
        "opened": ask(4, extra_args={"policies": ["answer-prefix"]}),
        "long": ask(20, extra_args={"policies": ["early-end"], "min_len": 20}),
    }
    for name, settings in {"mistake": {"extra_args": {"target_token": "x"}}, "logprobs": {"logprobs": 5}}.items():
        try:
            ask(1, **settings)
        except VLLMValidationError as error:
            found[name] = str(error)
    found["after"] = ask(60)
    Path(result).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
