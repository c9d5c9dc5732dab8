"""Requests to a running server, many at once, and a judge of answers that shares no code with the matcher."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from openai import AsyncOpenAI

from tests.engines.vllm.server import MODEL_NAME, Server


@dataclass(frozen=True)
class Answer:
    """One answer as the client got it. `tokens`: how many were generated; `ids`: which, where they were asked for."""

    text: str
    finish_reason: str
    tokens: int
    ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Ask:
    """One request: what the client sends. `xargs` become vLLM's `extra_args`; greedy: the likeliest token each time."""

    seed: int
    xargs: dict[str, Any] | None = None
    stream: bool = False
    chat: bool = False
    max_tokens: int = 40
    stop: tuple[str, ...] = ()
    greedy: bool = False


def answers(server: Server, asks: Iterable[Ask]) -> list[Answer]:
    """All answers, in order; the requests run at once, so that they share batches."""

    async def run() -> list[Answer]:
        async with server.async_client() as client:
            return list(await asyncio.gather(*(_answer(client, ask) for ask in asks)))

    return asyncio.run(run())


async def _answer(client: AsyncOpenAI, ask: Ask) -> Answer:
    common: dict[str, Any] = {
        "model": MODEL_NAME,
        "seed": ask.seed,
        "temperature": 0 if ask.greedy else 1,
        "max_tokens": ask.max_tokens,
        "extra_body": {"return_token_ids": not ask.chat} | ({"vllm_xargs": ask.xargs} if ask.xargs else {}),
    }
    if ask.stop:
        common["stop"] = list(ask.stop)
    if ask.stream:
        common |= {"stream": True, "stream_options": {"include_usage": True}}
    prompt = f"def function_{ask.seed}"
    if ask.chat:
        reply = await client.chat.completions.create(messages=[{"role": "user", "content": prompt}], **common)
    else:
        reply = await client.completions.create(prompt=prompt, **common)
    if ask.stream:
        return await _collected(reply, ask.chat)
    choice = reply.choices[0]
    text = choice.message.content if ask.chat else choice.text
    return Answer(text or "", choice.finish_reason, reply.usage.completion_tokens, _ids(choice))


async def _collected(stream: Any, chat: bool) -> Answer:
    text, reason, tokens, ids = "", "", 0, []
    async for event in stream:
        for choice in event.choices:
            text += (choice.delta.content if chat else choice.text) or ""
            reason = choice.finish_reason or reason
            ids.extend(_ids(choice))
        if event.usage is not None:
            tokens = event.usage.completion_tokens
    return Answer(text, reason, tokens, tuple(ids))


def _ids(choice: Any) -> tuple[int, ...]:
    return tuple(getattr(choice, "token_ids", None) or ())


# -- the judge -----------------------------------------------------------------------------------------------------


def _goes_on(neighbour: str) -> bool:
    """Whether a word goes on with this character; "" is the start or the end."""
    return bool(neighbour) and (neighbour.isalnum() or neighbour == "_" or unicodedata.category(neighbour)[0] == "M")


def word_hits(text: str, words: Iterable[str]) -> int:
    """How often any of these lower-case words stands alone in a text, in any case."""
    text, hits = text.casefold(), 0
    for word in words:
        for found in re.finditer(re.escape(word), text):
            before, after = text[: found.start()][-1:], text[found.end() :][:1]
            hits += not (_goes_on(before) or _goes_on(after))
    return hits


def part_hits(text: str, parts: Iterable[str]) -> int:
    """How often any of these lower-case strings stands anywhere in a text, in any case."""
    return sum(text.casefold().count(part) for part in parts)


def frequent_words(texts: Sequence[str], count: int) -> list[str]:
    """The most frequent words of at least three letters, without one that the forced text needs."""
    seen = Counter(word for text in texts for word in re.findall(r"(?<!\w)[a-z]{3,}(?!\w)", text.casefold()))
    return [word for word, _ in seen.most_common(count + 1) if word != "answer"][:count]


def frequent_parts(texts: Sequence[str], count: int) -> list[str]:
    """The most frequent runs of three letters, without those that the forced text needs."""
    runs = Counter(text.casefold()[i : i + 3] for text in texts for i in range(len(text) - 2))
    letters = [run for run, _ in runs.most_common() if re.fullmatch("[a-z]{3}", run) and run not in "answer"]
    return letters[:count]
