"""Bans of one channel mask exactly what the definition names, however the markers and the text are cut into tokens."""

from __future__ import annotations

import random
from typing import Literal, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.automata.vocabulary import Vocabulary
from tests.oracle import Phrase, TokenOracle, decode
from tests.session_programs import Rule, ban, make

Channel = Literal["all", "answer", "reasoning"]
START, END = "<ab>", "</b>"
PIECES: list[bytes | None] = [
    *(b"", b"a", b"b", b" ", b"ab", b"<", b">", b"</", b"/", b"<a", b"b>", b"ab>", b"/b>", b"<ab>", b"</b>"),
    *(b"a<", b"b</b", b">b", b"</b>a", b" <ab>b", b"b>ab", "é".encode(), b"\xc3", b"\xa9<", b"", b"", None),
]
SILENT_START, SILENT_END = 24, 25
SHOWN = Vocabulary(PIECES, [0])
SPECIAL = Vocabulary(PIECES, [0], special={START: SILENT_START, END: SILENT_END})


class Part(NamedTuple):
    """What an output is, told from its beginning: the text of its channels, the last of which is not finished."""

    texts: list[tuple[str, bytes]]

    @property
    def channel(self) -> str:
        return self.texts[-1][0]

    @property
    def text(self) -> bytes:
        return self.texts[-1][1]


def read(history: list[int], special: bool, inside: bool) -> Part:
    """By the definition: white space, a start marker, what comes before the first end marker, and the rest."""
    marks = {SILENT_START: "S", SILENT_END: "E"} if special else {}
    # Markers without text as letters that no text holds; bytes one to one.
    units = "".join(marks.get(i) or (PIECES[i] or b"").decode("latin-1") for i in history)
    texts: list[tuple[str, bytes]] = []

    def put(channel: str, units: str) -> None:
        texts.append((channel, units.replace("S", "").replace("E", "").encode("latin-1")))

    if not inside:
        starts = _places(units, START, "S")
        start = next(((b, e) for e, b in starts if not units[:b].replace("S", "").replace("E", "").strip(" ")), None)
        if start is None:
            put("answer", units)
            return Part(texts)
        put("answer", units[: start[0]])
        units = units[start[1] :]
    ends = _places(units, END, "E")
    if not ends:
        put("reasoning", units)
        return Part(texts)
    after, begin = ends[0]
    put("reasoning", units[:begin])
    put("answer", units[after:])
    return Part(texts)


def _places(units: str, marker: str, silent: str) -> list[tuple[int, int]]:
    """Where markers stand, as (end, begin), first ends first. Tokens without text may stand inside a marker's text."""
    found = []
    for begin, unit in enumerate(units):
        if unit == silent:
            found.append((begin + 1, begin))
        rest, end = marker, begin
        while rest and end < len(units) and unit not in "SE" and units[end] in (rest[0], "S", "E"):
            rest = rest if units[end] in "SE" else rest[1:]
            end += 1
        if not rest:
            found.append((end, begin))
    return sorted(found)


def is_masked(history: list[int], token: int, bans: list[tuple[Phrase, Channel]], special: bool, inside: bool) -> bool:
    """Whether the definition forbids a token."""
    if PIECES[token] is None:
        return False
    before, after = read(history, special, inside), read([*history, token], special, inside)

    def oracle(channel: str) -> TokenOracle:
        return TokenOracle(PIECES, [0], [phrase for phrase, where in bans if where in ("all", channel)])

    here, start = oracle(before.channel), decode([before.text])
    if token == 0:
        return bool(here.complete_at_end(*start) - here.complete(start[0]))
    if len(after.texts) == len(before.texts):
        return bool(here.would_match(start, decode([after.text])))
    finished = decode([after.texts[len(before.texts) - 1][1]])
    if len(after.texts[len(before.texts) - 1][1]) >= len(before.text):
        if here.would_match(start, finished):
            return True
        known = here.complete(start[0])
    else:
        known = here.complete(finished[0])
    if here.complete_at_end(*finished) - known:
        return True
    return bool(oracle(after.channel).would_match(("", b""), decode([after.text])))


PHRASES = st.builds(
    Phrase,
    st.sampled_from(["a", "b", "ab", "<", "ba", "b>", "a b", "é", ">b", "</"]),
    st.sampled_from(["word", "prefix", "substring"]),
    word_end=st.sampled_from(["eager", "exact"]),
)
BANS = st.lists(st.tuples(PHRASES, st.sampled_from(["all", "answer", "reasoning"])), min_size=1, max_size=3)
# Histories that come to markers often.
RUNS = st.lists(
    st.sampled_from(
        [[13], [14], [5, 4, 6], [9, 10], [7, 2, 6], [15, 12], [16, 6], [18], [19], [24], [25], [3], [1], [2]]
    ),
    max_size=5,
).map(lambda runs: [token for run in runs for token in run])


@settings(max_examples=400, deadline=None)
@given(BANS, RUNS, st.booleans(), st.booleans(), st.randoms(use_true_random=False))
def test_bans_by_channel(
    bans: list[tuple[Phrase, Channel]], history: list[int], special: bool, inside: bool, rng: random.Random
) -> None:
    """At every step of a history, whether it was permitted or not."""
    rules: list[Rule] = [ban(phrase, channel=channel) for phrase, channel in bans]
    bound = make(*rules, reasoning=(START, END)).bind(SPECIAL if special else SHOWN)
    session = bound.token_session(reasoning=inside)
    if rng.random() < 0.5:
        history = [*history, rng.randrange(len(PIECES)), rng.randrange(len(PIECES))]
    for step in range(len(history) + 1):
        said = history[:step]
        masked = set(session.masked().tolist())
        expected = {i for i in range(len(PIECES)) if is_masked(said, i, bans, special, inside)}
        if all(i in expected for i, token in enumerate(PIECES) if token is not None):
            expected = set(range(1, len(PIECES)))
        assert masked == expected, (said, sorted(masked - expected), sorted(expected - masked))
        if step < len(history):
            session.advance(history[step])
