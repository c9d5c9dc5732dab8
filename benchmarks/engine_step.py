"""What policies add to a step of a real vLLM engine, in turns with the same requests without them.

    python -m benchmarks.engine_step [ROUNDS]

One engine on the CPU (the tests' model of two layers, 4,096 ids), 64 answers of 100 tokens at once. The policy, with
1,000 phrases, acts on requests that ask for it: each round generates with and without, in random order, and what counts
is the median of the differences, by step. Identical rounds are compared as well: that is the noise.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

BATCH, TOKENS, PHRASES = 64, 100, 1_000


def build(folder: Path) -> Path:
    """The artifacts of the policy."""
    from benchmarks.common import phrases
    from tests.engines.vllm.server import compiled

    policy = {
        "version": 1,
        "policy": "bench",
        "activation": "on_request",
        "targets": ["vllm"],
        "rules": {"banned": {"ban": {"phrases": list(phrases(PHRASES))}}},
    }
    (folder / "bench.yaml").write_text(json.dumps(policy))
    return compiled(folder / "bench.yaml", folder / "build")


def main(rounds: int) -> None:
    """Print the table; the engine runs in this process's children."""
    from tests.engines import tiny_model

    with tempfile.TemporaryDirectory() as name:
        sys.path.insert(0, str(build(Path(name))))
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
        os.environ |= {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
        from vllm import LLM, SamplingParams

        engine = LLM(
            str(tiny_model.path()),
            logits_processors=["policy_bundle.vllm:PolicyLogitsProcessor"],
            enforce_eager=True,
            dtype="float32",
            max_model_len=512,
            max_num_seqs=BATCH,
            gpu_memory_utilization=0.4,
            disable_log_stats=True,
        )

        def step(policies: list[str], seed: int) -> float:
            extra = {"policies": policies} if policies else None
            params = SamplingParams(temperature=1, max_tokens=TOKENS, ignore_eos=True, extra_args=extra)
            prompts = [f"def function_{seed}_{i}" for i in range(BATCH)]
            start = time.perf_counter()
            engine.generate(prompts, params, use_tqdm=False)
            return (time.perf_counter() - start) / TOKENS * 1e3

        for seed in range(3):
            step(["bench"], seed)
        added, noise, plain = [], [], []
        for seed in range(rounds):
            kinds = [[], [], ["bench"]]
            order = random.Random(seed).sample(range(3), 3)
            times = [0.0] * 3
            for kind in order:
                times[kind] = step(kinds[kind], 100 + seed)
            plain.append(times[0])
            added.append(times[2] - (times[0] + times[1]) / 2)
            noise.append(abs(times[0] - times[1]))
        print(f"{BATCH} answers at once, {PHRASES:,} phrases, {rounds} rounds")
        print(f"a step without policies  {statistics.median(plain):7.3f} ms")
        print(f"added by the policy      {statistics.median(added):7.3f} ms")
        print(f"between identical rounds {statistics.median(noise):7.3f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
