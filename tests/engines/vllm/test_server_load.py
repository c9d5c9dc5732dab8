"""A real vLLM server that has too little of everything: a cache that forces preemption, prompts read in small chunks.

Policies must hold for requests that are thrown out and come back, and each answer be the one it is on an idle server.
Where prompts may be cut in chunks, answers are greedy ones: on a CPU vLLM's V1 runner fails on a chunk of a request
that has a seed ("CPU Generator does not use offset").
"""

from __future__ import annotations

import asyncio
import random
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import regex
from openai import AsyncOpenAI

from tests.engines.vllm.server import MODEL_NAME, Server, compiled, running
from tests.engines.vllm.traffic import Ask, answers

pytestmark = pytest.mark.engine

EOS = 0
PARTS = ["e", "s", "in", "t"]
POLICY = """\
version: 1
policy: parts
targets: [vllm]
parameters:
  pieces: {type: integer, ge: 0, default: 0}
rules:
  parts: {ban: {phrases: [e, s, in, t], match: substring}}
  apart: {ban: {phrases: [or], gaps: letters, match: substring}}
  digits: {ban: {regex: ['[0-9]{2,}']}}
  long: {min_tokens: {param: pieces}}
"""
# 24 blocks of 32 tokens hold some ten of the 64 streams; the others wait or are thrown out.
FLAGS = ("--num-gpu-blocks-override=24", "--block-size=32", "--max-num-batched-tokens=64", "--max-num-seqs=64")


@pytest.fixture(scope="module")
def server(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server under the policy above."""
    folder = tmp_path_factory.mktemp("load")
    (folder / "policy.yaml").write_text(POLICY)
    build = compiled(folder / "policy.yaml", folder / "build")
    flags = ["--config", str(build / "vllm" / "config.yaml"), *FLAGS]
    with running(tiny_model, folder, python_path=build, flags=flags) as server:
        yield server


def preemptions(server: Server) -> float:
    """How often the engine has thrown a request out, by its own count."""
    with urllib.request.urlopen(f"{server.base_url}/metrics", timeout=10) as page:
        found = re.search(r"(?m)^vllm:num_preemptions_total\{.*\} (\S+)$", page.read().decode())
    assert found is not None
    return float(found[1])


def holds(texts: list[str]) -> bool:
    """Whether no text holds what is banned."""
    banned = [re.escape(part) for part in PARTS] + [r"o[\s\p{P}\p{S}]*r", "[0-9]{2}"]
    return not any(regex.search("|".join(banned), text.casefold()) for text in texts)


def test_sixty_four_streams_with_preemption_are_what_each_is_alone(server: Server) -> None:
    """Long answers at once; requests are thrown out and come back; some of them are asked again, one by one."""
    asks = [Ask(seed, stream=True, max_tokens=60, xargs={"pieces": 55}, greedy=True) for seed in range(64)]
    before = preemptions(server)
    found = answers(server, asks)
    assert preemptions(server) > before
    assert holds([answer.text for answer in found])
    assert all(answer.tokens >= 55 for answer in found)
    for seed in range(0, 64, 16):
        assert answers(server, [asks[seed]]) == [found[seed]]


def test_clients_that_go_away_leave_the_others_alone(server: Server) -> None:
    """Half of the streams are closed after a few events; the others are what they are without them."""
    kept = [Ask(seed, stream=True, greedy=True) for seed in range(100, 116)]

    async def abandon() -> None:
        async with server.async_client() as client:

            async def one() -> None:
                stream = await client.completions.create(
                    model=MODEL_NAME, prompt="import", max_tokens=200, temperature=1, stream=True
                )
                events = 0
                async for _ in stream:
                    events += 1
                    if events == 3:
                        await stream.close()
                        return

            await asyncio.gather(*(one() for _ in range(16)))

    async def both() -> list[str]:
        abandoned = asyncio.create_task(abandon())
        result = await asyncio.to_thread(lambda: [answer.text for answer in answers(server, kept)])
        await abandoned
        return result

    beside = asyncio.run(both())
    assert holds(beside)
    assert beside == [answer.text for answer in answers(server, kept)]


def test_long_prompts_in_chunks_and_a_prefix_from_the_cache(server: Server) -> None:
    """A prompt of hundreds of tokens is read in many steps, beside answers; the second time mostly from the cache."""
    client = server.client()

    def ask() -> str:
        reply = client.completions.create(model=MODEL_NAME, prompt="return value\n" * 60, max_tokens=40, temperature=0)
        assert reply.usage is not None
        assert reply.usage.prompt_tokens > 100
        return reply.choices[0].text

    first = ask()
    assert holds([first])
    assert ask() == first


@pytest.mark.parametrize("stream", [False, True])
def test_several_answers_that_ignore_their_end(server: Server, stream: bool) -> None:
    """`n` and `ignore_eos`: each answer goes on to its limit, and none holds what is banned."""
    texts = [""] * 4
    reply = server.client().completions.create(
        model=MODEL_NAME,
        prompt="class",
        n=4,
        max_tokens=60,
        temperature=1,
        stream=stream,
        extra_body={"ignore_eos": True, "return_token_ids": True},
    )
    events = list(reply) if stream else [reply]
    for event in events:
        for choice in event.choices:
            texts[choice.index] += choice.text
    assert len(set(texts)) == 4
    assert holds(texts)
    if not stream:
        assert reply.usage.completion_tokens == 4 * 60


def test_the_engines_own_limits_beside_policies(server: Server) -> None:
    """G5: ids, words and biases of clients, in one batch under bans. Each answer ends, and none holds what is banned.

    A client that allows only ids of which none may be chosen gets an empty answer that ended by itself.
    """
    rng = random.Random(11)

    def settings(seed: int) -> dict[str, Any]:
        chosen: dict[str, Any] = {"return_token_ids": True}
        if seed % 2:
            chosen["allowed_token_ids"] = rng.sample(range(256, 4000), rng.choice([1, 3, 200]))
        if seed % 3 == 0:
            chosen["bad_words"] = ["a", " l"]
        if seed % 5 == 0:
            chosen |= {"ignore_eos": True, "min_tokens": 5}
        return chosen

    async def ask(client: AsyncOpenAI, seed: int, chosen: dict[str, Any]) -> Any:
        bias = {str(token): 5.0 for token in rng.sample(range(256, 4000), 20)}
        reply = await client.completions.create(
            model=MODEL_NAME,
            prompt=f"def f{seed}",
            max_tokens=20,
            temperature=1,
            logit_bias=bias,
            extra_body=chosen,
        )
        return reply.choices[0]

    async def all_of(asked: list[dict[str, Any]]) -> list[Any]:
        async with server.async_client() as client:
            return list(await asyncio.gather(*(ask(client, seed, chosen) for seed, chosen in enumerate(asked))))

    asked = [settings(seed) for seed in range(60)]
    found = asyncio.run(all_of(asked))
    assert holds([choice.text for choice in found])
    at_once = 0
    for chosen, choice in zip(asked, found, strict=True):
        ids, allowed = list(choice.token_ids), set(chosen.get("allowed_token_ids", ()))
        written = [token for token in ids if token != EOS]
        assert not allowed or set(written) <= allowed
        assert choice.finish_reason == ("length" if len(ids) == 20 else "stop")
        if chosen.get("ignore_eos"):
            assert len(ids) == 20
        at_once += not written
    assert at_once >= 5, "some of those ids cannot be chosen under these bans"


def test_nothing_failed_inside(server: Server) -> None:
    """The engine is alive, and no request failed closed."""
    assert server.healthy()
    assert "failed closed" not in server.log()
