"""A bundle compiled with `--activate installed`, in vLLM's own hands: a folder on PYTHONPATH, and nobody names it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.engines.vllm.server import compiled, run_to_end

POLICY = """
version: 1
policy: steered
targets: [vllm]
parameters:
  min_len: {type: integer, ge: 0, le: 4096, default: 0}
rules:
  nudge: {bias: {token_ids: {128: 50}}}
  long-enough: {min_tokens: {param: min_len}}
"""


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    (folder / "steered.yaml").write_text(POLICY)
    return compiled(folder / "steered.yaml", folder / "build", "--activate", "installed")


def run(what: str, model: Path, build: Path, folder: Path) -> dict[str, Any]:
    """What `installed.py` found."""
    result = folder / f"{what}.json"
    command = [sys.executable, str(Path(__file__).with_name("installed.py")), what, str(model), str(result)]
    status, log = run_to_end(command, folder, python_path=build, limit=400)
    assert status == 0, log[-4000:]
    found: dict[str, Any] = json.loads(result.read_text())
    return found


@pytest.mark.slow
def test_vllm_finds_it_guards_it_and_runs_it_once(tiny_model: Path, build: Path, tmp_path: Path) -> None:
    """By vLLM's own loaders and configuration, without an engine."""
    found = run("checks", tiny_model, build, tmp_path)
    assert found["plain"] == found["named"] == "starts"
    for name, reason in {
        "speculative": "speculative decoding",
        "pooling": "pooling model",
        "unknown version": "0.99.0",
    }.items():
        assert found[name].startswith("BindError: the policies of `policy_bundle` are installed")
        assert reason in found[name]
    assert "environment of their own" in found["elsewhere"]
    assert found["elsewhere, named"] == "starts"
    assert found["wrapped once"]
    # Named and installed, the class is loaded twice in both model runners, and acts once.
    assert (found["in V1"], found["in V2"]) == (2, 2)
    assert (found["bias"], found["others"]) == (50.0, 1)
    assert found["workers agree"]
    assert not found["needs other processes"]
    assert found["pickled by name"]
    assert "min_len" in found["mistake"]
    assert not found["device used"]


@pytest.mark.engine
def test_an_engine_that_is_told_nothing_runs_it(tiny_model: Path, build: Path, tmp_path: Path) -> None:
    """The push towards one token is in every answer."""
    found = run("engine", tiny_model, build, tmp_path)
    assert [set(ids) for ids in found["ids"]] == [{128}] * 8
