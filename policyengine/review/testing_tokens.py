"""The token level of one test: whatever tokens spell the text, a choice is masked where the text level finds a match.

Only bans with the action `avoid` have both levels, so the program is cut down to them: forces, minimums, allows and
biases say nothing of a text. Like the text level, it knows no facts of an engine.

Where `word_end: eager` masks a token that leaves the text ending in a banned word, although the text goes on with a
letter, that is no mistake; it is counted (`Spelled.surplus`).
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import accumulate

from policyengine.automata.phrases import Ints
from policyengine.automata.vocabulary import Vocabulary
from policyengine.review.testing_pieces import fewest
from policyengine.runtime.program import BanPlan, Program, Request, TextAction
from policyengine.runtime.text_session import TextSession

_EXHAUSTIVE = 32  # segmentations up to which all are tried
_RANDOM = 8
_TOKENS = 10_000  # that the random segmentations of one text may have together, about
_LONGEST = 48  # bytes of a token; longer ones hold runs of blanks
_SILENT = 0.05  # how often a token without text is put in between


@dataclass(frozen=True, slots=True)
class Wrong:
    """A segmentation under which the levels disagree.

    pieces, ids: its tokens, up to the one where it shows. masked: whether that one is masked without reason; else it
    is not masked and should be. No `end`: it is the last of the tokens; else it is the end of the output.
    """

    pieces: tuple[bytes, ...]
    ids: tuple[int, ...]
    masked: bool
    end: bool


@dataclass(frozen=True, slots=True)
class Spelled:
    """What became of a text on the token level.

    ways: how many segmentations were tried; 0: the tokens cannot spell the text. surplus: those that `eager` forbids.
    """

    ways: int
    surplus: int
    wrong: Wrong | None


class TokenLevel:
    """The bans of one program on one vocabulary."""

    def __init__(self, program: Program, vocabulary: Vocabulary) -> None:
        self._bans = _only_bans(program)
        self._vocabulary = vocabulary
        self._bound = self._bans.bind(vocabulary) if self._bans.components else None
        self._speller = _speller(vocabulary)

    def check(self, text: str, request: Request) -> Spelled | None:
        """Try segmentations of the text; None: no ban has a token level, or there is no text."""
        if self._bound is None or not text:
            return None
        truth = _Truth(self._bans, text, request)
        ways = surplus = 0
        for ids in self._speller.ways(text):
            ways += 1
            wrong, forbidden = self._walk(ids, truth)
            surplus += forbidden
            if wrong is not None:
                return Spelled(ways, surplus, self._smallest(ids, truth) or wrong)
        return Spelled(ways, surplus, None)

    def _walk(self, ids: Sequence[int], truth: _Truth) -> tuple[Wrong | None, bool]:
        """What is wrong with a segmentation, and whether `eager` forbids it."""
        assert self._bound is not None
        session, surplus, tokens = self._bound.start(truth.request), False, self._vocabulary.tokens
        # Where the decoder drops a space in front, the client sees the text without it, and masks must hold for both.
        dropped = sum(len(tokens[token] or b"") for token in ids) - truth.size
        read, may = -dropped, truth.behind_space if dropped else truth
        stopped = False
        for place, token in enumerate(ids):
            masked = _holds(session.mask_parts(), token)
            read += len(tokens[token] or b"")
            complete, touched = truth.reach(read)[0], may.reach(read + dropped)[1]
            completes = may.end is not None and touched >= may.end
            if truth.end is not None and complete >= truth.end:
                fine = masked or stopped or not completes
                return (None if fine else self._wrong(ids[: place + 1], masked=False)), surplus
            # A character that is begun counts where the text goes on to complete it.
            if masked and not completes:
                if not may.ends_in_match(touched):
                    return self._wrong(ids[: place + 1], masked=True), surplus
                surplus = truth.passes
            # What could become a marker of reasoning is no text to the text level yet, which then finds a match later.
            stopped = self._bans.reasoning is not None and (masked or stopped) and may.ends_in_match(touched)
            session.advance(token)
        masked = _holds(session.mask_parts(), self._vocabulary.eos_token_ids[0])
        if masked not in (truth.at_end, may.at_end):
            return self._wrong(ids, masked=masked, end=True), surplus
        return None, surplus

    def _wrong(self, ids: Sequence[int], *, masked: bool, end: bool = False) -> Wrong:
        return Wrong(tuple(self._vocabulary.tokens[i] or b"" for i in ids), tuple(ids), masked, end)

    def _smallest(self, ids: Sequence[int], truth: _Truth) -> Wrong | None:
        """The same with as few tokens as it takes."""
        pieces = [self._vocabulary.tokens[i] or b"" for i in ids]
        data = b"".join(pieces)

        def spelled(places: list[int]) -> list[int] | None:
            parts = [data[a:b] for a, b in zip((0, *places), (*places, len(data)), strict=True)]
            found = [self._speller.ids.get(part) for part in parts]
            return None if any(one is None for one in found) else [one[0] for one in found if one]

        def fails(places: list[int]) -> bool:
            fewer = spelled(places)
            return fewer is not None and self._walk(fewer, truth)[0] is not None

        places = sorted({place for place in accumulate(map(len, pieces)) if 0 < place < len(data)})
        if not fails(places):  # it takes a token without text, or one of several ids
            return None
        return self._walk(spelled(fewest(places, fails)) or ids, truth)[0]


def _only_bans(program: Program) -> Program:
    """The program with nothing but its bans that avoid, each of which ends the text at its first match."""
    ends = TextAction("terminate", None, None)
    rules = tuple(replace(rule, body=BanPlan(True, ends, ())) for rule in program.rules)
    components = tuple(one for one in program.components if one.use == "avoid" and one.when.always)
    # No text is so long that the limit on what is held would end it.
    return replace(program, rules=rules, components=components, max_hold=1 << 30)


class _Truth:
    """What the text level says of a text.

    end: how many code points it reads until it finds a match; None: it finds none before the end. at_end: it does so
    where the output ends.
    """

    def __init__(self, program: Program, text: str, request: Request) -> None:
        self._program, self._text, self.request = program, text, request
        self._offsets = list(accumulate((len(ch.encode()) for ch in text), initial=0))
        self._known: dict[int, bool] = {}
        session = TextSession(program, request)
        self.end: int | None = None
        self.at_end = False
        for count, ch in enumerate(text, 1):
            if session.feed(ch).action == "terminate":
                self.end = count
                return
        self.at_end = session.finish().action == "terminate"

    @cached_property
    def behind_space(self) -> _Truth:
        """The same of the text behind a space."""
        return _Truth(self._program, f" {self._text}", self.request)

    @property
    def size(self) -> int:
        """The text's length in bytes."""
        return self._offsets[-1]

    @property
    def passes(self) -> bool:
        """Whether there is no match."""
        return self.end is None and not self.at_end

    def reach(self, size: int) -> tuple[int, int]:
        """How many code points of the text its first bytes hold whole, and how many at least in part."""
        at = max(0, bisect_right(self._offsets, size) - 1)
        return at, at + (self._offsets[at] < size)

    def ends_in_match(self, count: int) -> bool:
        """Whether the text would hold a match if it ended after so many code points."""
        if count not in self._known:
            session = TextSession(self._program, self.request)
            fed = session.feed(self._text[:count]).action
            self._known[count] = fed == "terminate" or session.finish().action == "terminate"
        return self._known[count]


def _holds(parts: Sequence[Ints], token: int) -> bool:
    """Whether a mask, in parts, holds an id."""
    return any(bool((part == token).any()) for part in parts)


class _Speller:
    """Ways to spell texts in the tokens of one vocabulary. ids: by what a token adds to the text."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        ends = frozenset(vocabulary.eos_token_ids)
        self.ids: dict[bytes, list[int]] = {}
        for token, data in enumerate(vocabulary.tokens):
            if data and token not in ends and len(data) <= _LONGEST:
                self.ids.setdefault(data, []).append(token)
        self._longest = max(map(len, self.ids), default=0)
        self._silent = [i for i, data in enumerate(vocabulary.tokens) if data == b"" and i not in ends]

    def ways(self, text: str) -> Iterator[list[int]]:
        """Segmentations of the text: all of them if there are few, else the plainest and some by chance."""
        rng = random.Random(text)
        for given in self._forms(text):
            yield from self._ways(given, rng)
        if self._vocabulary.encode is not None:
            own = self._own(text)
            if own:
                yield own

    def _forms(self, text: str) -> Iterator[bytes]:
        """The text as bytes; where the decoder drops a space in front, also behind one."""
        drops = self._vocabulary.drops_leading_space
        if not (drops and text.startswith(" ")):
            yield text.encode()
        if drops:
            yield b" " + text.encode()

    def _own(self, text: str) -> list[int] | None:
        """The tokenizer's own encoding, where it spells this very text."""
        assert self._vocabulary.encode is not None
        try:
            ids = [int(i) for i in self._vocabulary.encode(text)]
        except Exception:  # tokenizers raise what they like
            return None
        known = all(0 <= i < self._vocabulary.size and i not in self._vocabulary.eos_token_ids for i in ids)
        data = b"".join(self._vocabulary.tokens[i] or b"" for i in ids) if known else b""
        return ids if data in self._forms(text) else None

    def _ways(self, data: bytes, rng: random.Random) -> Iterator[list[int]]:
        ends = self._ends(data)
        if not ends[0]:
            return
        counts = [1] * (len(data) + 1)
        for at in range(len(data) - 1, -1, -1):
            counts[at] = min(sum(counts[end] for end in ends[at]), _EXHAUSTIVE + 1) if ends[at] else 0
        if counts[0] <= _EXHAUSTIVE:
            yield from sorted(self._all(data, ends), key=len)
            return
        for pick in (max, min):
            yield self._spell(data, ends, pick)
        for _ in range(max(2, min(_RANDOM, _TOKENS // len(data)))):
            yield self._at_random(data, ends, rng)

    def _ends(self, data: bytes) -> list[list[int]]:
        """From each place: where a token may end from which the rest can be spelled, ascending."""
        ends: list[list[int]] = [[] for _ in range(len(data) + 1)]
        ends[len(data)] = [len(data)]
        for at in range(len(data) - 1, -1, -1):
            last = min(at + self._longest, len(data))
            ends[at] = [end for end in range(at + 1, last + 1) if ends[end] and data[at:end] in self.ids]
        return ends

    def _all(self, data: bytes, ends: list[list[int]]) -> Iterator[list[int]]:
        open_ways: list[tuple[int, list[int]]] = [(0, [])]
        while open_ways:
            at, ids = open_ways.pop()
            while at < len(data):
                end, *others = ends[at]
                open_ways += [(other, [*ids, self.ids[data[at:other]][0]]) for other in others]
                ids.append(self.ids[data[at:end]][0])
                at = end
            yield ids

    def _spell(self, data: bytes, ends: list[list[int]], pick: Callable[[list[int]], int]) -> list[int]:
        at, ids = 0, list[int]()
        while at < len(data):
            end = pick(ends[at])
            ids.append(self.ids[data[at:end]][0])
            at = end
        return ids

    def _at_random(self, data: bytes, ends: list[list[int]], rng: random.Random) -> list[int]:
        at, ids = 0, list[int]()
        while at < len(data):
            if self._silent and rng.random() < _SILENT:
                ids.append(rng.choice(self._silent))
            end = rng.choice(ends[at])
            ids.append(rng.choice(self.ids[data[at:end]]))
            at = end
        return ids


_speller = cache(_Speller)

__all__ = ["Spelled", "TokenLevel", "Wrong"]
