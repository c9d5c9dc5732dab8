"""Ways to cut a text, and the fewest cuts with which something still goes wrong.

Everything random follows from the text itself, so that a failure comes back on every run and machine.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise

_EXHAUSTIVE = 6  # places to cut up to which every way is tried
_SINGLE_CUTS = 8
_RANDOM = 6
_FEW = 40  # cuts up to which every run of them is tried
_READ = 20_000  # code points that the random ways of one text may read together


def cut(text: str, places: Sequence[int]) -> list[str]:
    """The text in pieces that begin at the places, which ascend."""
    return [text[a:b] for a, b in pairwise((0, *places, len(text)))]


def chunkings(text: str) -> Iterator[list[str]]:
    """Ways in which a text may stream: all of them if it is short; else whole, in characters, in two, and by chance."""
    places = range(1, len(text))
    if len(places) <= _EXHAUSTIVE:
        for count in range(len(places) + 1):
            for chosen in combinations(places, count):
                yield cut(text, chosen)
        return
    yield [text]
    yield list(text)
    step = -(-len(places) // _SINGLE_CUTS)
    for place in places[::step]:
        yield cut(text, [place])
    rng = random.Random(text)
    for _ in range(max(2, min(_RANDOM, _READ // len(text)))):
        yield cut(text, sorted(rng.sample(places, rng.randint(2, min(len(places), 64)))))
    half = len(text) // 2
    yield ["", text[:half], "", "", text[half:], ""]


def fewest(places: Sequence[int], fails: Callable[[list[int]], bool]) -> list[int]:
    """As few of the places as possible, none of which can be left out, with which `fails` still holds.

    `fails` must hold for all of them. Long runs are left out first, so that long texts need few tries.
    """
    kept, size = list(places), len(places)
    while size > 1:
        kept, size = _without_runs(kept, size, size, fails), size // 2
    before = len(kept) + 1
    while len(kept) < before:
        before = len(kept)
        # Some can only be left out together: between them is no token.
        for run in range(len(kept) if len(kept) <= _FEW else 1, 0, -1):
            kept = _without_runs(kept, run, 1, fails)
    return kept


def _without_runs(kept: list[int], size: int, step: int, fails: Callable[[list[int]], bool]) -> list[int]:
    at = 0
    while at < len(kept):
        fewer = kept[:at] + kept[at + size :]
        if fails(fewer):
            kept = fewer
        else:
            at += step
    return kept
