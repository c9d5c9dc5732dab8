"""A real vLLM server under real artifacts, asked through the real OpenAI client.

The words to ban are the ones that the tiny model writes most, so that an answer without them is no accident.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import openai
import pytest
import yaml

from tests.engines.vllm.server import MODEL_NAME, Server, compiled, running
from tests.engines.vllm.traffic import Answer, Ask, answers, frequent_parts, frequent_words, part_hits, word_hits

pytestmark = pytest.mark.engine

REPOSITORY = Path(__file__).parents[3]
MANY = [Ask(seed) for seed in range(200)]
SOME = [Ask(seed) for seed in range(12)]
PIN = {"target_token": 128}
SECRET = "quetzalcoatlus"  # a banned phrase that no other text holds

EARLY_END = """\
version: 1
policy: early-end
description: Makes the end of an answer likely at every token.
activation: on_request
targets: [vllm]
rules:
  soon:
    bias: {token_ids: {0: 8}}
"""


@dataclass(frozen=True)
class Bans:
    """What the policies of the test ban."""

    words: list[str]
    parts: list[str]

    def hits(self, answer: Answer) -> int:
        return word_hits(answer.text, self.words) + part_hits(answer.text, self.parts)

    def policy(self) -> str:
        rules = {
            "words": {"ban": {"phrases": [*self.words, SECRET]}},
            "parts": {"ban": {"phrases": self.parts, "match": "substring"}},
        }
        return yaml.safe_dump({"version": 1, "policy": "frequent", "targets": ["vllm"], "rules": rules})


@pytest.fixture(scope="module")
def without(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Answer]:
    """What the model answers without any policy."""
    with running(tiny_model, tmp_path_factory.mktemp("without")) as server:
        return answers(server, MANY)


@pytest.fixture(scope="module")
def bans(without: list[Answer]) -> Bans:
    """The most frequent words and letters of those answers."""
    texts = [answer.text for answer in without]
    return Bans(frequent_words(texts, 60), frequent_parts(texts, 6))


@pytest.fixture(scope="module")
def build(bans: Bans, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository's policies and those of this test, compiled by the command."""
    policies = tmp_path_factory.mktemp("policies") / "policies"
    shutil.copytree(REPOSITORY / "policies", policies)
    (policies / "frequent.yaml").write_text(bans.policy())
    (policies / "early-end.yaml").write_text(EARLY_END)
    return compiled(policies, policies.parent / "build")


@pytest.fixture(scope="module")
def server(tiny_model: Path, build: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server as an operator starts it: `--config build/vllm/config.yaml`, PYTHONPATH=build, no other change."""
    flags = ["--config", str(build / "vllm" / "config.yaml")]  # vLLM does not see `--config=FILE`
    with running(tiny_model, tmp_path_factory.mktemp("with"), python_path=build, flags=flags) as server:
        yield server


# -- bans ----------------------------------------------------------------------------------------------------------


def test_no_banned_phrase_where_there_would_be_hundreds(without: list[Answer], bans: Bans, server: Server) -> None:
    """The same seeds, batched; streamed answers are the same text."""
    assert sum(word_hits(answer.text, bans.words) for answer in without) >= 200
    assert sum(part_hits(answer.text, bans.parts) for answer in without) >= 200
    whole = answers(server, MANY)
    assert sum(bans.hits(answer) for answer in whole) == 0
    assert sum(answer.tokens for answer in whole) > 0.8 * sum(answer.tokens for answer in without)
    streamed = answers(server, [replace(ask, stream=True) for ask in MANY])
    assert [answer.text for answer in streamed] == [answer.text for answer in whole]


@pytest.mark.parametrize("stream", [False, True])
def test_no_banned_phrase_in_chat(bans: Bans, server: Server, stream: bool) -> None:
    """The other route takes the same policies."""
    chats = answers(server, [Ask(seed, chat=True, stream=stream) for seed in range(60)])
    assert sum(bans.hits(answer) for answer in chats) == 0
    assert sum(len(answer.text) for answer in chats) > 60 * 20


def test_logprobs_show_no_banned_token(bans: Bans, server: Server) -> None:
    """Case 23: alternatives are taken after the policies. A masked one may fill a place, with no probability."""
    reply = server.client().completions.create(
        model=MODEL_NAME, prompt="import", max_tokens=60, temperature=1, seed=1, logprobs=20
    )
    logprobs = reply.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.top_logprobs is not None
    shown = [token for position in logprobs.top_logprobs for token, value in position.items() if value > -1000]
    assert len(shown) > 1000
    assert part_hits("\n".join(shown), bans.parts) == 0


# -- forced text and tokens ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_first_text_is_the_forced_one(server: Server, chat: bool, stream: bool) -> None:
    """Only for requests that select the policy; beside others in one batch."""
    selected = {"policies": ["answer-prefix"]}
    asks = [Ask(seed, selected if seed % 2 else None, stream=stream, chat=chat) for seed in range(40)]
    opened = [answer.text.startswith("Answer: ") for answer in answers(server, asks)]
    assert opened == [bool(ask.xargs) for ask in asks]


def test_target_token_repeats_and_neighbours_keep_their_answers(server: Server) -> None:
    """One request's token masks all others, for that request only."""
    alone = answers(server, SOME)
    pinned = [Ask(100, PIN), Ask(101, {"policies": ["pin-token-on-request"], "target_token": 300}, stream=True)]
    together = answers(server, [*pinned[:1], *SOME, *pinned[1:]])
    assert together[1:-1] == alone
    assert together[0].ids == (128,) * 40
    assert together[-1].ids == (300,) * 40
    assert {answer.finish_reason for answer in (together[0], together[-1])} == {"length"}


# -- length --------------------------------------------------------------------------------------------------------


def test_minimum_length(server: Server) -> None:
    """With an end that is likely at every token, most answers end early, and none where a minimum length is asked."""
    early = [Ask(seed, {"policies": ["early-end"]}) for seed in range(60)]
    long = [Ask(seed, {"policies": ["early-end"], "min_len": 20}) for seed in range(60)]
    short = answers(server, early)
    assert sum(answer.tokens < 20 for answer in short) > 45
    kept = answers(server, long)
    assert min(answer.tokens for answer in kept) >= 20
    assert sum(answer.finish_reason == "stop" for answer in kept) > 45


def test_minimum_length_holds_back_stop_strings(server: Server) -> None:
    """The engine looks for the client's stop strings only from there on."""
    stop = ("e", "a", "o")
    short = answers(server, [Ask(seed, stop=stop) for seed in range(30)])
    assert sum(answer.tokens < 20 for answer in short) > 25
    kept = answers(server, [Ask(seed, {"min_len": 20}, stop=stop) for seed in range(30)])
    assert min(answer.tokens for answer in kept) >= 20
    assert sum(answer.finish_reason == "stop" for answer in kept) > 25


def test_minimum_length_gives_way_to_a_grammar(bans: Bans, server: Server) -> None:
    """Case 24: where the grammar is complete only the end is left. A grammar that only bans could fill fails alone."""

    def chosen(choice: str) -> str:
        extra = {"structured_outputs": {"choice": [choice]}, "vllm_xargs": {"min_len": 20}}
        reply = server.client().completions.create(model=MODEL_NAME, prompt="a", max_tokens=30, extra_body=extra)
        return reply.choices[0].text

    assert chosen("yes") == "yes"
    with pytest.raises(openai.APIStatusError):
        chosen(bans.parts[0])
    assert server.healthy()
    assert chosen("yes") == "yes"


# -- what a client gets wrong --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("xargs", "named"),
    [
        ({"target_token": "x"}, "target_token"),
        ({"target_token": 2**40}, "target_token"),
        ({"min_len": -1}, "min_len"),
        ({"policies": ["no-such-policy"]}, "no-such-policy"),
        ({"target_tokn": 5}, "target_token"),
    ],
)
def test_mistakes_are_400_and_name_what_is_wrong(server: Server, xargs: dict[str, object], named: str) -> None:
    """The client is told; the server goes on serving."""
    with pytest.raises(openai.BadRequestError) as caught:
        server.client().completions.create(model=MODEL_NAME, prompt="a", max_tokens=4, extra_body={"vllm_xargs": xargs})
    assert caught.value.status_code == 400
    assert named in caught.value.message
    assert server.healthy()


def test_token_outside_the_vocabulary_ends_its_request_alone(bans: Bans, server: Server) -> None:
    """Nothing crashes, nothing leaks, the neighbours keep their answers and the server goes on serving."""
    alone = answers(server, SOME)
    outside = [Ask(seed, {"target_token": token}) for seed, token in enumerate((4096, 131072, 2**31 - 1))]
    together = answers(server, [*SOME, *outside])
    assert together[:-3] == alone
    assert [(answer.text, answer.finish_reason, answer.tokens) for answer in together[-3:]] == [("", "stop", 1)] * 3
    assert server.healthy()
    assert answers(server, SOME) == alone


def test_a_client_cannot_assign_itself_policies(server: Server) -> None:
    """The reserved key of a client counts for nothing."""
    plain, assigned = answers(server, [Ask(3), Ask(3, {"policyengine_assigned": ["early-end"]})])
    assert assigned == plain


# -- what an operator sees -----------------------------------------------------------------------------------------


def test_log_names_the_digest_and_no_phrase(build: Path, server: Server) -> None:
    """Which policies are in force can be read; what they ban cannot. No request failed inside."""
    manifest = json.loads((build / "policy_bundle" / "manifest.json").read_text())
    log = server.log()
    assert f"bundle digest {manifest['digest']}" in log
    assert SECRET not in log
    assert "failed closed" not in log
