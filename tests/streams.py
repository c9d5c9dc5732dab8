"""Running texts through sessions in pieces."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from policyengine import Match, Program, TextSession, Verdict

_EXHAUSTIVE = 12  # places to cut up to which every split is tried
_PAIRS = 40  # and every split with two cuts


@dataclass(frozen=True)
class Result:
    """What a client got of an output, and why."""

    text: str
    reason: str | None
    matches: tuple[Match, ...]


def run(program: Program | TextSession, chunks: Sequence[str]) -> Result:
    """Feed the chunks and finish."""
    session = program.text_session() if isinstance(program, Program) else program
    verdicts: list[Verdict] = [*map(session.feed, chunks), session.finish()]
    reason = next((verdict.reason for verdict in verdicts if verdict.action == "terminate"), None)
    matches = tuple(match for verdict in verdicts for match in verdict.matches)
    return Result("".join(verdict.text for verdict in verdicts), reason, matches)


def cut(text: str, places: Sequence[int]) -> list[str]:
    """The text in pieces that begin at the places."""
    return [text[a:b] for a, b in itertools.pairwise((0, *places, len(text)))]


def splits(text: str, *, exhaustive: int = _EXHAUSTIVE) -> Iterator[list[str]]:
    """Ways of cutting a text: all of them if it is short; else all with few cuts, single characters, and some."""
    places = range(1, len(text))
    if len(places) <= exhaustive:
        for count in range(len(places) + 1):
            for chosen in itertools.combinations(places, count):
                yield cut(text, chosen)
        return
    for count in range(3 if len(places) <= _PAIRS else 2):
        for chosen in itertools.combinations(places, count):
            yield cut(text, chosen)
    yield list(text)
    rng = random.Random(text)
    for _ in range(100):
        yield cut(text, sorted(rng.sample(places, rng.randint(3, len(places)))))
    yield ["", *text[:2], "", "", text[2:], ""]


def held_after(policies: Program, chunks: Sequence[str]) -> Iterator[tuple[int, str]]:
    """After each chunk that does not end the output: how much is held, and what was read. What leaves stays right."""
    expected = run(policies, ["".join(chunks)]).text
    session, seen, read = policies.text_session(), "", ""
    for chunk in chunks:
        verdict = session.feed(chunk)
        seen, read = seen + verdict.text, read + chunk
        assert expected.startswith(seen)
        if verdict.action == "terminate":
            return
        yield session.held, read
