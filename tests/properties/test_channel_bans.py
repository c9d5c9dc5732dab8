"""Bans of one channel mask exactly what the definition names, however the markers and the text are cut into tokens."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.automata.vocabulary import Vocabulary
from policyengine.runtime.errors import BindError, RequestError
from policyengine.runtime.program import ForcePlan, MinTokensPlan
from tests import oracle
from tests.oracle import Phrase, TokenOracle, decode
from tests.session_programs import Rule, ban, choices, make

Channel = Literal["all", "answer", "reasoning"]
START, END = "<ab>", "</b>"
PIECES: list[bytes | None] = [
    *(b"", b"a", b"b", b" ", b"ab", b"<", b">", b"</", b"/", b"<a", b"b>", b"ab>", b"/b>", b"<ab>", b"</b>"),
    *(b"a<", b"b</b", b">b", b"</b>a", b" <ab>b", b"b>ab", "é".encode(), b"\xc3", b"\xa9<", b"", b"", None),
    *(b"<ab></b>a", b"<ab>b</b>", b"ab></b>", b"> <ab>a</b>b<ab>"),
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

    def bans_of(channel: str) -> TokenOracle:
        return TokenOracle(PIECES, [0], [phrase for phrase, where in bans if where in ("all", channel)])

    here, start = bans_of(before.channel), decode([before.text])
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
    for channel, text in after.texts[len(before.texts) : -1]:  # a channel that begins and ends in the token
        if bans_of(channel).complete_at_end(*decode([text])):
            return True
    return bool(bans_of(after.channel).would_match(("", b""), decode([after.text])))


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
        [
            [13],
            [14],
            [5, 4, 6],
            [9, 10],
            [7, 2, 6],
            [15, 12],
            [16, 6],
            [18],
            [19],
            [24],
            [25],
            [27],
            [28],
            [5, 29],
            [3],
            [1],
            [2],
        ]
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
    session = bound.token_session(reasoning=inside or None)
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


# -- other kinds ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asks:
    """Rules of the answer, and of both channels."""

    bans: tuple[tuple[Phrase, Channel], ...]
    choices: frozenset[str] | None
    least: int
    start: str
    end: str
    after: str

    def rules(self) -> list[Rule]:
        found = [ban(phrase, channel=channel) for phrase, channel in self.bans]
        if self.choices is not None:
            found.append(choices(*self.choices, channel="answer"))
        if self.least:
            found.append(Rule(MinTokensPlan(self.least), "answer"))
        if self.start:
            found.append(Rule(ForcePlan(self.start, None, "start"), "answer"))
        if self.end:
            found.append(Rule(ForcePlan(self.end, None, "end"), "answer"))
        if self.after:
            found.append(Rule(ForcePlan(self.after, None, None, "a"), "answer"))
        return found


SAYABLE = st.text("ab ", min_size=1, max_size=3)
MAYBE = st.one_of(st.just(""), SAYABLE)
ASKS = st.one_of(
    st.builds(Asks, BANS.map(tuple), st.none(), st.integers(0, 3), MAYBE, MAYBE, MAYBE),
    st.builds(
        Asks,
        BANS.map(lambda bans: tuple(bans[:1])),
        st.frozensets(st.text("ab <", min_size=1, max_size=4), min_size=1, max_size=4),
        *(st.just(value) for value in (0, "", "", "")),
    ),
)


def spell(text: str) -> list[int]:
    return [{"a": 1, "b": 2, " ": 3}[ch] for ch in text]


@settings(max_examples=300, deadline=None)
@given(ASKS, st.booleans(), st.booleans(), st.randoms(use_true_random=False))
def test_an_output_of_permitted_tokens_keeps_the_rules_of_its_channels(
    asks: Asks, special: bool, inside: bool, rng: random.Random
) -> None:
    """A walk that is drawn to markers: never without a choice, and in the end each channel is what it should be."""
    vocabulary = Vocabulary(
        PIECES, [0], encode=spell, special={START: SILENT_START, END: SILENT_END} if special else None
    )
    try:
        bound = make(*asks.rules(), reasoning=(START, END)).bind(vocabulary)
        session = bound.token_session(reasoning=inside or None)
    except (BindError, RequestError):
        return
    history: list[int] = []
    drawn = [5, 4, 6, 13, 7, 2, 14, 24, 25, 27, 28]
    for _ in range(14):
        free = set(range(len(PIECES))) - set(session.masked().tolist()) - {26}
        assert free, "no row without a choice"
        if free == {0}:
            said = read([i for i in history if i != 0], special, inside)
            assert asks.choices is None or (said.channel == "answer" and said.text.decode() in asks.choices)
            break  # a dead end, or the only thing left to do
        liked = sorted(free.intersection(drawn))
        token = rng.choice(liked if liked and rng.random() < 0.5 else sorted(free))
        fresh = bound.token_session(reasoning=inside or None)
        fresh.move(session.place, session.length)
        assert fresh.masked().tolist() == session.masked().tolist()
        session.advance(token)
        history.append(token)
        if token == 0:
            break
    assert session.masked_choices == 0
    ended = history[-1:] == [0]
    texts = read([i for i in history if i != 0], special, inside).texts
    for i, (channel, text) in enumerate(texts):
        if i < len(texts) - 1 or ended:
            banned = [phrase for phrase, where in asks.bans if where in ("all", channel)]
            assert not oracle.find(text.decode("utf-8", "replace"), banned), (channel, text)
    channel, text = texts[-1]
    if not ended or (asks.choices is None and channel == "reasoning" and not asks.least):
        return
    assert channel == "answer", "an answer that is due came"
    assert asks.choices is None or text.decode() in asks.choices
    assert text.startswith(asks.start.encode())
    assert text.endswith(asks.end.encode())
