"""Text in chunks under a list of phrases: what one chunk costs, ours and four ways that people use today.

The peers only look for the phrases, letters of either case alike, in text as it is: they know no word edges, no other
spelling, and hold nothing back. Ours does all of that, and ends the stream.

    guard        a list scanned over all text so far, as guards in documentation do
    re           one alternation over the chunk and a tail as long as the longest phrase
    ahocorasick  ahocorasick_rs over the same
    hyperscan    Hyperscan's own streams
"""

from __future__ import annotations

import importlib
import importlib.util
import random
import re
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from benchmarks import common

CHUNKS = 4_000
_SAMPLE = 200  # chunks, for peers that take long
_CLEAN = 99  # the seed of the text that is checked

Feed = Callable[[str], bool]  # whether something was found in, or with, this chunk


def text(seed: int, chunks: int = CHUNKS) -> list[str]:
    """Prose in chunks of four characters on average: words with their space, whole or in two pieces."""
    pick, pieces = random.Random(seed), list[str]()
    for word in common.prose(chunks, seed):
        spaced = " " + word
        cut = pick.randint(1, len(spaced)) if len(spaced) > 4 else len(spaced)
        pieces += [piece for piece in (spaced[:cut], spaced[cut:]) if piece]
        if len(pieces) >= chunks:
            break
    return pieces[:chunks]


def phrases(count: int, rounds: int) -> tuple[str, ...]:
    """As many phrases, none of which the peers, who know no word edges, find in the texts that they read."""
    read = "\n".join("".join(text(seed)).lower() for seed in (*range(rounds), _CLEAN))
    return tuple([p for p in common.phrases(count + count // 2) if p.lower() not in read][:count])


# -- the peers: each gives a function that reads one stream --------------------------------------------------------


def ours(banned: tuple[str, ...]) -> Callable[[], Feed]:
    """The text level of a ban that ends the stream."""
    program = common.program(banned)

    def start() -> Feed:
        feed = program.text_session().feed
        return lambda chunk: feed(chunk).action == "terminate"

    return start


def guard(banned: tuple[str, ...]) -> Callable[[], Feed]:
    """All text so far, and every phrase looked for in it."""
    wanted = [phrase.lower() for phrase in banned]

    def start() -> Feed:
        seen = ""

        def feed(chunk: str) -> bool:
            nonlocal seen
            seen += chunk
            lowered = seen.lower()
            return any(phrase in lowered for phrase in wanted)

        return feed

    return start


def _tailed(banned: tuple[str, ...], search: Callable[[str], object]) -> Callable[[], Feed]:
    keep = max(map(len, banned)) - 1

    def start() -> Feed:
        tail = ""

        def feed(chunk: str) -> bool:
            nonlocal tail
            window = tail + chunk
            tail = window[-keep:]
            return bool(search(window))

        return feed

    return start


def alternation(banned: tuple[str, ...]) -> Callable[[], Feed]:
    """Python's `re`."""
    return _tailed(banned, re.compile("|".join(map(re.escape, banned)), re.IGNORECASE).search)


def ahocorasick(banned: tuple[str, ...]) -> Callable[[], Feed]:
    """The Rust package's automaton."""
    automaton = importlib.import_module("ahocorasick_rs").AhoCorasick([phrase.lower() for phrase in banned])
    return _tailed(banned, lambda window: automaton.find_matches_as_indexes(window.lower()))


def hyperscan(banned: tuple[str, ...]) -> Callable[[], Feed]:
    """Hyperscan's streaming mode, which needs no tail."""
    library: Any = importlib.import_module("hyperscan")
    database = library.Database(mode=library.HS_MODE_STREAM)
    expressions = [re.escape(phrase).encode() for phrase in banned]
    flags = library.HS_FLAG_CASELESS | library.HS_FLAG_SINGLEMATCH
    database.compile(expressions=expressions, ids=list(range(len(banned))), elements=len(banned), flags=flags)

    def start() -> Feed:
        found: list[int] = []

        def note(number: int, *_: Any) -> bool:
            found.append(number)
            return False  # go on

        stream = database.stream(match_event_handler=note)
        stream.__enter__()

        def feed(chunk: str, _: object = (database, note)) -> bool:  # the stream keeps no reference to them
            stream.scan(chunk.encode())
            return bool(found)

        return feed

    return start


PEERS: dict[str, Callable[[tuple[str, ...]], Callable[[], Feed]]] = {
    "guard": guard,
    "re": alternation,
    "ahocorasick": ahocorasick,
    "hyperscan": hyperscan,
}
_PACKAGES = {"ahocorasick": "ahocorasick_rs", "hyperscan": "hyperscan"}


def absent() -> list[str]:
    """The peers whose package is not installed."""
    return [name for name, package in _PACKAGES.items() if importlib.util.find_spec(package) is None]


# -- measuring -----------------------------------------------------------------------------------------------------


def check(start: Callable[[], Feed], banned: Sequence[str]) -> None:
    """A clean text passes; a phrase in it, cut into pieces, is found with the chunk that ends it or the next one."""
    clean = text(_CLEAN)[:120]
    feed = start()
    assert not any(feed(chunk) for chunk in clean)
    for phrase in random.Random(7).sample(list(banned), min(5, len(banned))):
        pieces = [phrase[:2].upper(), phrase[2:5], phrase[5:]]
        chunks = [*clean[:50], " ", *filter(None, pieces), " ", *clean[50:]]
        feed, ends = start(), 50 + len(list(filter(None, pieces)))
        found = next((place for place, chunk in enumerate(chunks) if feed(chunk)), None)
        assert found in (ends, ends + 1), (phrase, found, ends)


def _per_chunk(feed: Feed, chunks: Sequence[str]) -> float:
    begin = time.process_time()  # of this process alone: other programs take their share of a machine, too
    for chunk in chunks:
        feed(chunk)
    return (time.process_time() - begin) / len(chunks)


def _peer(start: Callable[[], Feed], rounds: int, *, slow: bool) -> float:
    """Seconds a chunk. A slow one is sampled half way through the text, where its cost is the average."""
    times = []
    for seed in range(rounds):
        chunks, feed = text(seed), start()
        if slow:
            feed("".join(chunks[: CHUNKS // 2]))
            chunks = chunks[CHUNKS // 2 :][:_SAMPLE]
        times.append(_per_chunk(feed, chunks))
    return median(times)


def rows(counts: Sequence[int], rounds: int) -> list[dict[str, float]]:
    """One row a number of phrases, seconds a chunk.

    first: ours on the first text that a program reads; later: on a text that it has not read, after twenty others;
    again: on one that it has read; and each peer that is installed.
    """
    found = []
    for count in counts:
        banned = phrases(count, rounds)
        assert len(banned) == count
        mine = ours(banned)
        check(mine, banned)
        row: dict[str, float] = {"phrases": count}
        row["first"] = median(_per_chunk(ours(banned)(), text(seed)) for seed in range(rounds))
        for seed in range(100, 120):
            _per_chunk(mine(), text(seed))
        row["later"] = median(_per_chunk(mine(), text(seed)) for seed in range(200, 200 + rounds))
        row["again"] = median(_per_chunk(mine(), text(100)) for _ in range(rounds))
        for name, peer in PEERS.items():
            if name not in absent():
                start = peer(banned)
                check(start, banned)
                row[name] = _peer(start, rounds, slow=name in ("guard", "re"))
        found.append(row)
    return found


def lengths(count: int, rounds: int) -> list[dict[str, float]]:
    """One row a length of text, in chunks: seconds a chunk, `later` and `again` as in `rows`."""
    start, found = ours(phrases(count, 0)), []
    for seed in range(100, 120):
        _per_chunk(start(), text(seed))
    for chunks in (250, 1_000, 4_000, 16_000, 64_000):
        repeat = max(1, 4_000 // chunks)
        later = [_per_chunk(start(), text(300 + chunks + i, chunks)) for i in range(rounds * repeat)]
        again = [_per_chunk(start(), text(300 + chunks, chunks)) for _ in range(rounds * repeat)]
        found.append({"chunks": chunks, "later": median(later), "again": median(again)})
    return found


def show(quick: bool) -> None:
    """Print both tables, in microseconds a chunk."""
    rounds = 3 if quick else 7
    names = ["first", "later", "again", *(name for name in PEERS if name not in absent())]
    print(f"streaming, µs a chunk ({CHUNKS:,} chunks, {len(''.join(text(0))):,} characters)")
    print(f"{'phrases':>9} " + " ".join(f"{name:>12}" for name in names))
    for row in rows((10, 100, 1_000) if quick else (10, 100, 1_000, 10_000), rounds):
        print(f"{row['phrases']:>9,} " + " ".join(f"{row[name] * 1e6:>12.2f}" for name in names))
    if absent():
        print(f"absent: {', '.join(absent())} (pip install '.[bench]')")
    print(f"\n{'chunks':>9} {'later':>12} {'again':>12}   1,000 phrases, by length of text")
    for row in lengths(1_000, rounds):
        print(f"{row['chunks']:>9,} {row['later'] * 1e6:>12.2f} {row['again'] * 1e6:>12.2f}")
