"""Text in chunks under a list of phrases: what one chunk costs, ours and four ways that people use today.

The peers only look for the phrases, letters of either case alike, in text as it is: they know no word edges, no other
spelling, and hold nothing back. Ours does all of that, and ends the stream.

    guard        a list scanned over all text so far, as guards in documentation do
    re           one alternation over the chunk and a tail as long as the longest phrase
    ahocorasick  ahocorasick_rs over the same
    hyperscan    Hyperscan's own streams
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import random
import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

from benchmarks import common, streaming_mixed
from benchmarks.streaming_texts import Reader, corpus

CHUNKS = 4_000
_WARM = (5, 20)  # texts that ours has read before new ones are measured
_SAMPLE = 200  # chunks, for peers that take long

Feed = Callable[[str], bool]  # whether something was found in, or with, this chunk


def phrases(count: int) -> tuple[str, ...]:
    """As many phrases, none of which the peers, who know no word edges, find in the texts that they read."""
    read = corpus().lower()
    return tuple([p for p in common.phrases(count + count // 2 + 50) if p.lower() not in read][:count])


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
    clean = Reader().text(120)
    feed = start()
    assert not any(feed(chunk) for chunk in clean)
    for phrase in random.Random(7).sample(list(banned), min(5, len(banned))):
        pieces = [phrase[:2].upper(), phrase[2:5], phrase[5:]]
        chunks = [*clean[:50], " ", *filter(None, pieces), " ", *clean[50:]]
        feed, ends = start(), 50 + len(list(filter(None, pieces)))
        found = next((place for place, chunk in enumerate(chunks) if feed(chunk)), None)
        assert found in (ends, ends + 1), (phrase, found, ends)


def _per_chunk(feed: Callable[[str], object], chunks: Sequence[str]) -> float:
    chunks = ["".join(list(chunk)) for chunk in chunks]  # strings just made, as those of a server are
    begin = time.process_time()  # of this process alone: other programs take their share of a machine, too
    for chunk in chunks:
        feed(chunk)
    return (time.process_time() - begin) / len(chunks)


def _freeze() -> None:
    """What there is by now, texts and programs measured before, is the benchmark's: no collection looks through it."""
    gc.collect()
    gc.freeze()


def _peer(start: Callable[[], Feed], rounds: int, *, slow: bool) -> float:
    """Seconds a chunk. A slow one is sampled half way through the text, where its cost is the average."""
    times, reader = [], Reader()
    for _ in range(rounds):
        chunks, feed = reader.text(CHUNKS), start()
        if slow:
            feed("".join(chunks[: CHUNKS // 2]))
            chunks = chunks[CHUNKS // 2 :][:_SAMPLE]
        times.append(_per_chunk(feed, chunks))
    return median(times)


def _ours(make: Callable[[], Callable[[], Callable[[str], object]]], rounds: int) -> dict[str, float]:
    """Seconds a chunk by what was read before. `make` gives a function that begins a stream of a new program."""
    row, reader = {}, Reader()
    row["first"] = median(_per_chunk(make()(), reader.text(CHUNKS)) for _ in range(rounds))
    start, read = make(), list[list[str]]()
    _freeze()
    for warm in _WARM:
        while len(read) < warm:
            read.append(reader.text(CHUNKS))
            _per_chunk(start(), read[-1])
        new = [reader.text(CHUNKS) for _ in range(rounds)]
        row[f"after {warm}"] = median(_per_chunk(start(), text) for text in new)
        read += new
    row["again"] = median(_per_chunk(start(), read[0]) for _ in range(rounds))
    return row


def rows(counts: Sequence[int], rounds: int) -> list[dict[str, float]]:
    """One row a number of phrases, seconds a chunk.

    first: ours on the first text that a program reads; after N: on a text that it has not read, after N others;
    again: on one that it has read; and each peer that is installed.
    """
    found = []
    for count in counts:
        banned = phrases(count)
        assert len(banned) == count
        check(ours(banned), banned)
        row: dict[str, float] = {"phrases": count} | _ours(partial(ours, banned), rounds)
        for name, peer in PEERS.items():
            if name not in absent():
                start = peer(banned)
                check(start, banned)
                row[name] = _peer(start, rounds, slow=name in ("guard", "re"))
        found.append(row)
    return found


def lengths(count: int, rounds: int) -> list[dict[str, float]]:
    """One row a length of text, in chunks: seconds a chunk of new texts after twenty others, and of one read before."""
    start, reader, found = ours(phrases(count)), Reader(), []
    for _ in range(20):
        _per_chunk(start(), reader.text(CHUNKS))
    for chunks in (250, 1_000, 4_000, 16_000, 64_000):
        texts = [reader.text(chunks) for _ in range(max(1, rounds * CHUNKS // chunks))]
        later = [_per_chunk(start(), text) for text in texts]
        again = [_per_chunk(start(), texts[0]) for _ in texts]
        found.append({"chunks": chunks, "new": median(later), "again": median(again)})
    return found


def mixtures(count: int, rounds: int) -> dict[str, dict[str, float]]:
    """By what stands beside the phrases: as the columns of ours in `rows`."""
    banned, found = phrases(count), {}
    for name in streaming_mixed.NAMES:
        found[name] = _ours(partial(streaming_mixed.feeds, name, banned), rounds)
    return found


def show(quick: bool) -> None:
    """Print the three tables, in microseconds a chunk."""
    rounds = 3 if quick else 7
    corpus()
    _freeze()
    mine = ["first", *(f"after {warm}" for warm in _WARM), "again"]
    names = [*mine, *(name for name in PEERS if name not in absent())]
    characters = sum(map(len, Reader().text(CHUNKS)))
    print(f"streaming, µs a chunk ({CHUNKS:,} chunks a text; the first has {characters:,} characters)")
    print(f"{'phrases':>9} " + " ".join(f"{name:>12}" for name in names))
    for row in rows((10, 1_000) if quick else (10, 100, 1_000, 10_000), rounds):
        print(f"{row['phrases']:>9,} " + " ".join(f"{row[name] * 1e6:>12.2f}" for name in names))
    if absent():
        print(f"absent: {', '.join(absent())} (pip install '.[bench]')")
    print(f"\n{'chunks':>9} {'new':>12} {'again':>12}   1,000 phrases, by length of text, after 20 others")
    for row in lengths(1_000, rounds):
        print(f"{row['chunks']:>9,} {row['new'] * 1e6:>12.2f} {row['again'] * 1e6:>12.2f}")
    print(f"\n{'1,000 phrases':>20} " + " ".join(f"{name:>12}" for name in mine))
    for name, row in mixtures(1_000, rounds).items():
        print(f"{name:>20} " + " ".join(f"{row[column] * 1e6:>12.2f}" for column in mine))
