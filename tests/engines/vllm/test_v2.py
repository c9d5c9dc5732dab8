"""The same artifacts under vLLM's V2 model runner: one class for both, and what clients get.

The engine's kernels run under Triton's interpreter here, so the answers are few and short. Two of its kernels do not
run there: that of its grammars and that of its n-gram drafts. `test_slots.py` drives the interface itself through
everything that a schedule may bring, those included.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
import yaml

from tests.engines.vllm.server import MODEL_NAME, Server, compiled, environment, running
from tests.engines.vllm.test_server import EARLY_END, REPOSITORY
from tests.engines.vllm.traffic import Ask, answers, part_hits

pytestmark = pytest.mark.engine

# An answer of sixteen tokens without them is no accident, whatever the model writes.
PARTS = ["t", "o", "i"]
KEY = "x[0-9]{2,4}y"
SHORT = 16


@pytest.fixture(scope="module")
def server(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Some of the repository's policies and these bans, served with the config file of the artifacts."""
    policies = tmp_path_factory.mktemp("policies") / "policies"
    policies.mkdir()
    for name in ("answer-prefix", "minimum-length", "pin-token"):
        shutil.copy(REPOSITORY / "policies" / f"{name}.yaml", policies)
    rules = {
        "parts": {"ban": {"phrases": PARTS, "match": "substring"}},
        "spread": {"ban": {"phrases": ["a b c"], "gaps": "letters"}},
        "keys": {"ban": {"regex": [KEY]}},
    }
    (policies / "parts.yaml").write_text(yaml.safe_dump({"version": 1, "policy": "parts", "rules": rules}))
    (policies / "early-end.yaml").write_text(EARLY_END)
    build = compiled(policies, policies.parent / "build")
    # So few tokens a step that prompts are read in chunks beside answers that are being written.
    flags = ["--config", str(build / "vllm" / "config.yaml"), "--max-num-batched-tokens=24", "--max-num-seqs=12"]
    with running(tiny_model, tmp_path_factory.mktemp("v2"), python_path=build, flags=flags, v2=True) as server:
        yield server


def test_no_answer_holds_a_banned_part(server: Server) -> None:
    """Twenty-four answers, whole and streamed, on both routes."""
    assert "Using V2 Model Runner" in server.log()
    assert "policies in force (V2 model runner)" in server.log()
    asks = [Ask(seed, max_tokens=SHORT, chat=seed % 3 == 0, stream=seed % 2 == 0) for seed in range(24)]
    found = answers(server, asks)
    assert sum(part_hits(answer.text, PARTS) for answer in found) == 0
    assert sum(answer.tokens for answer in found) > 24 * SHORT * 0.8


def test_what_a_request_asks_for(server: Server) -> None:
    """Pinned tokens, openings and minimum lengths beside requests without them, and the same answers again."""
    asks = [
        Ask(1, max_tokens=SHORT),
        Ask(1, xargs={"target_token": 128}, max_tokens=SHORT),
        Ask(2, xargs={"policies": ["answer-prefix"]}, max_tokens=SHORT),
        Ask(3, xargs={"policies": ["early-end"]}, max_tokens=SHORT),
        Ask(3, xargs={"policies": ["early-end"], "min_len": 8}, max_tokens=SHORT),
    ]
    plain, pinned, opened, early, late = answers(server, asks)
    assert pinned.ids == (128,) * SHORT
    assert opened.text.startswith("Answer: ")
    assert early.tokens < 8 <= late.tokens
    assert answers(server, asks[:1]) == [plain], "a seed is reproducible"


def test_several_answers_of_one_request(server: Server) -> None:
    """`n`: each of them is a request of its own to the engine."""
    reply = server.client().completions.create(
        model=MODEL_NAME, prompt="import", n=4, max_tokens=SHORT, temperature=1, seed=5
    )
    texts = [choice.text for choice in reply.choices]
    assert len(set(texts)) == 4
    assert part_hits("\n".join(texts), PARTS) == 0


def test_mistakes_fail_alone(server: Server) -> None:
    """A bad parameter is the client's 400 with the reason, and nobody else's."""
    client = server.client()
    with pytest.raises(openai.BadRequestError, match="target_token"):
        client.completions.create(
            model=MODEL_NAME, prompt="import", max_tokens=2, extra_body={"vllm_xargs": {"target_token": "x"}}
        )
    outside = client.completions.create(
        model=MODEL_NAME, prompt="import", max_tokens=4, extra_body={"vllm_xargs": {"target_token": 131072}}
    )
    assert (outside.choices[0].finish_reason, outside.choices[0].text) == ("stop", "")
    assert answers(server, [Ask(1, max_tokens=2)])[0].tokens == 2


@pytest.mark.parametrize("draft_tokens", [0, 3])
def test_churn_inside_the_engines_own_states_and_sampler(draft_tokens: int) -> None:
    """Slots that come and go, return, and get drafts: each row is what a dictionary of requests says."""
    command = [sys.executable, str(Path(__file__).with_name("v2_sampler.py")), "1", "60", str(draft_tokens)]
    done = subprocess.run(
        command, env=environment(REPOSITORY, v2=True), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    rows, requests = map(int, done.stdout.split())
    assert rows > 100
    assert requests > 40
