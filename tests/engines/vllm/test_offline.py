"""`LLM(logits_processors=[...])`: the class object and its name, without a server and without the config file."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.engines.vllm.server import compiled, run_to_end
from tests.engines.vllm.test_server import EARLY_END, REPOSITORY
from tests.engines.vllm.traffic import part_hits

pytestmark = pytest.mark.engine

PARTS = ["ing", "ion", "tio", "err", "sel"]  # frequent in what the tiny model writes


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository's policies, a ban and a push towards the end."""
    policies = tmp_path_factory.mktemp("policies") / "policies"
    shutil.copytree(REPOSITORY / "policies", policies)
    rules = {"parts": {"ban": {"phrases": PARTS, "match": "substring"}}}
    (policies / "parts.yaml").write_text(yaml.safe_dump({"version": 1, "policy": "parts", "rules": rules}))
    (policies / "early-end.yaml").write_text(EARLY_END)
    return compiled(policies, policies.parent / "build")


@pytest.mark.parametrize("given", ["class", "name"])
def test_offline_engine_obeys(tiny_model: Path, build: Path, tmp_path: Path, given: str) -> None:
    """Bans, pins, openings and minimum lengths hold; mistakes are told with the name of what is wrong."""
    result = tmp_path / "result.json"
    command = [sys.executable, str(Path(__file__).with_name("offline.py")), str(tiny_model), given, str(result)]
    status, log = run_to_end(command, tmp_path, python_path=build, limit=300)
    assert status == 0, log[-4000:]
    found: dict[str, Any] = json.loads(result.read_text())
    assert sum(len(ids) for _, ids in found["plain"]) > 60 * 20
    assert sum(part_hits(text, PARTS) for text, _ in found["plain"]) == 0
    assert [ids for _, ids in found["pinned"]] == [[128] * 40] * 2
    assert all(text.startswith("Answer: ") for text, _ in found["opened"])
    assert all(len(ids) >= 20 for _, ids in found["long"])
    assert "target_token" in found["mistake"]
    assert "--logprobs-mode processed_logprobs" in found["logprobs"]
    assert found["after"] == found["plain"]
