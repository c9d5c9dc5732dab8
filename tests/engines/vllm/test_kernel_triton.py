"""The Triton kernel: interpreted, where it is compared, and compiled for GPUs, which needs none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]

COMPILE = """
import sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from policyengine.engines.vllm import kernel_triton as kernel
types = dict.fromkeys(kernel.edit_rows.arg_names, "i32")
types.update(logits="*fp32", arena="*i32", step="*i32", scratch="*fp32", total="*i64", stride="constexpr")
del types["block"]
source = ASTSource(kernel.edit_rows, types, {"stride": 1, "block": kernel.BLOCK})
compiled = triton.compile(source, GPUTarget("cuda", int(sys.argv[1]), 32), {"num_warps": kernel.WARPS})
print(compiled.asm["ptx"])
"""


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Another interpreter, which has not imported Triton yet."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


@pytest.mark.slow
def test_the_interpreted_kernel_is_its_definition() -> None:
    """`kernel_interpreted.py`, all of it."""
    pytest.importorskip("triton")
    done = python(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / "kernel_interpreted.py"), TRITON_INTERPRET="1"
    )
    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout


@pytest.mark.parametrize("capability", ["80", "90"])
def test_the_kernel_compiles(capability: str) -> None:
    """And its order is kept by barriers; what it reads is never taken from the read-only cache, since it writes it."""
    pytest.importorskip("triton")
    done = python("-c", COMPILE, capability, TRITON_INTERPRET="0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("bar.sync") >= 12
    assert "ld.global.nc" not in done.stdout
