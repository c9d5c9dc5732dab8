"""On which engines policies do not start, each with what to change."""

from __future__ import annotations

import subprocess
import sys

import pytest

from policyengine.engines.vllm.refusals import Settings, refusals
from policyengine.language import codes

FINE = Settings(version="0.32.0", runner="v1")


def test_nothing_is_refused_where_policies_hold() -> None:
    """Named in V1, with async scheduling; in V2 also by entry point, and with speculative decoding."""
    assert refusals(FINE) == []
    assert refusals(Settings("0.32.0", "v1", async_scheduling=True)) == []
    assert refusals(Settings("0.32.0", "v1", named=False)) == []
    assert refusals(Settings("0.32.4+cu130", "v2", named=False, async_scheduling=True, speculative=True)) == []
    assert refusals(Settings("0.32.1rc2", "v2", device="cpu")) == []


@pytest.mark.parametrize(
    ("settings", "name", "change"),
    [
        (Settings("0.31.2", "v1"), "engine-too-old", "0.32"),
        (Settings("0.8.5", "v1", allowed="0.8.5"), "engine-too-old", "0.32"),
        (Settings("0.33.0", "v2"), "engine-unverified", "POLICYENGINE_ALLOW_VLLM=0.33.0"),
        (Settings("0.33.0", "v2", allowed="0.33"), "engine-unverified", "POLICYENGINE_ALLOW_VLLM=0.33.0"),
        (Settings("1.0.0", "v2"), "engine-unverified", "0.32"),
        (Settings("dev", "v2"), "engine-unverified", "POLICYENGINE_ALLOW_VLLM=dev"),
        (Settings("", "v2"), "engine-unverified", "0.32"),
        (Settings("0.32.0", "v1", device="tpu"), "unsupported-device", "device"),
        (Settings("0.32.0", "v2", pooling=True), "pooling-model", "without policies"),
        (Settings("0.32.0", "v2", diffusion=True), "diffusion-model", "another model"),
        (Settings("0.32.0", "v1", speculative=True), "speculative-decoding", "--speculative-config"),
        (Settings("0.32.0", "v1", async_scheduling=True, named=False), "tokens-not-told", "--no-async-scheduling"),
        (Settings("0.32.0", "v2", listed=False, elsewhere=True), "workers-not-told", "--logits-processors"),
        (Settings("0.32.0", "v2", rust_frontend=True), "requests-not-checked", "VLLM_USE_RUST_FRONTEND"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_reason_says_what_to_change(settings: Settings, name: str, change: str) -> None:
    (found,) = refusals(settings)
    assert found.name == name
    assert change in found.change
    assert codes.find(name) is not None


def test_a_version_that_its_operator_tried() -> None:
    """That very one: the next release is asked about again."""
    assert refusals(Settings("0.33.0", "v2", allowed="0.33.0")) == []
    assert refusals(Settings("dev", "v2", allowed="dev")) == []


def test_what_a_guard_imports_is_in_the_standard_library() -> None:
    """It must be able to run where nothing else can be imported."""
    code = (
        "import sys, policyengine.engines.vllm.guard\n"
        "known = sys.stdlib_module_names | {'policyengine', '__main__', 'sitecustomize'}\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} - known))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in eval(done.stdout) if not name.startswith("_")] == []
