"""Where each request of a logits processor stands: its prompt, and a token session for each of its beams.

The engine tells the whole sequence of every beam at each call, prompt included. A beam's sequence need not continue
what it was at the call before: beams fork, and take one another's place. So a beam is known by what it has written.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from policyengine.runtime.counts import OutputCounts, RuleCounts
from policyengine.runtime.token_session import TokenSession

Start = Callable[[Sequence[int]], TokenSession]  # a session behind a prompt

_CLOSED = -1  # in place of the length of a prompt


_STALE = (
    "the engine does not tell the token it chose last, so that policies cannot hold: make the LLM with "
    "disable_overlap_scheduler=True; if it reads prompts in chunks, give the LLM itself to the processor"
)


class StaleTokensError(RuntimeError):
    """The engine calls again and does not tell what was chosen since; no policy can hold. The text says what to do."""


class LostSequenceError(RuntimeError):
    """A request goes on of which nothing is known, so that its prompt cannot be told from its output."""


@dataclass(slots=True)
class Beam:
    """One beam. written: its output so far; kept only where there are several. last: the last id of the sequence."""

    session: TokenSession
    length: int = 0
    last: int = -1
    written: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Spot:
    """A place that a beam was at: what a session is moved to, and what was written up to there."""

    place: Hashable
    length: int
    written: list[int]


class Request:
    """One request under way.

    counts: of its rules, over all beams. closed: it failed, and gets nothing but the end from here on.
    """

    def __init__(self, prompt: int, start: Start, counts: OutputCounts) -> None:
        self.prompt, self.counts = prompt, counts
        self.beams: list[Beam] = []
        self.closed = False
        self.overruled = 0  # masked tokens that were chosen, since it was last asked
        self._start = start
        self._origin: Spot | None = None

    def follow(self, sequences: Sequence[Sequence[int]], *, may_repeat: bool) -> list[Beam]:
        """Bring every beam up to its sequence (prompt included).

        may_repeat: the engine may call several times before the first token (a prompt read in chunks).
        Raises StaleTokensError if nothing was added since the last call, ValueError for an id outside the vocabulary.
        """
        longest = max(map(len, sequences)) - self.prompt
        if longest < 0:
            raise StaleTokensError(_STALE)
        if self.beams and longest <= max(beam.length for beam in self.beams) and (longest or not may_repeat):
            raise StaleTokensError(_STALE)
        if len(sequences) == len(self.beams) == 1 and self._continues(self.beams[0], sequences[0]):
            self._advance(self.beams[0], sequences[0][-1])
        else:
            self._settle(sequences, max((beam.length for beam in self.beams), default=0))
        return self.beams

    def _continues(self, beam: Beam, sequence: Sequence[int]) -> bool:
        """Whether the only sequence is the last one and a token. Reading a long prompt again would cost too much."""
        size = self.prompt + beam.length
        return len(sequence) == size + 1 and (beam.length == 0 or sequence[size - 1] == beam.last)

    def _settle(self, sequences: Sequence[Sequence[int]], seen: int) -> None:
        """Find for every sequence the beam that it goes on from; what has none is read from the start.

        seen: how long the longest output was at the last call; choices up to there were counted.
        """
        single = len(sequences) == 1 and len(self.beams) <= 1
        spots = [] if single else [Spot(b.session.place, b.length, b.written) for b in self.beams]
        while len(self.beams) < len(sequences):
            self.beams.append(Beam(self._start(sequences[0][: self.prompt])))
        del self.beams[len(sequences) :]
        if self._origin is None:
            self._origin = Spot(self.beams[0].session.place, 0, [])
        for i, (beam, sequence) in enumerate(zip(self.beams, sequences, strict=True)):
            written = list(sequence[self.prompt :])
            own = spots[i : i + 1] + spots  # most often a beam goes on itself
            spot = next(
                (s for s in own if len(written) - s.length in (0, 1) and written[: s.length] == s.written), None
            )
            spot = spot or self._origin
            beam.session.move(spot.place, spot.length)
            beam.length, beam.written = spot.length, list(spot.written)
            for token in written[spot.length :]:
                self._advance(beam, token, count=beam.length >= seen)
                beam.written.append(token)

    def _advance(self, beam: Beam, token: int, *, count: bool = True) -> None:
        before = beam.session.masked_choices
        rules = beam.session.choose(token)
        beam.length, beam.last = beam.length + 1, token
        if count:
            self.overruled += beam.session.masked_choices - before
            self.counts.steps(rules)


class Requests:
    """The requests under way, bounded: the one that was called least recently is dropped first.

    What is remembered of a dropped one is the length of its prompt, so that it can be read anew should it go on, and
    whether it failed.
    """

    def __init__(self, limit: int, start: Start, counts: RuleCounts) -> None:
        self.limit, self._counts = limit, counts
        self._start = start
        self._requests: OrderedDict[Any, Request] = OrderedDict()
        self._prompts: OrderedDict[Any, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._requests)

    def get(self, request: Any, sequences: Sequence[Sequence[int]]) -> Request:
        """The state of a request; raises LostSequenceError where its first call seems to have been missed."""
        known = self._requests.get(request)
        if known is None:
            prompt = self._prompts.get(request)
            if prompt is None:
                first = sequences[0]
                if any(sequence != first for sequence in sequences[1:]):
                    raise LostSequenceError("the first call already has beams that differ")
                prompt = len(first)
            known = self._requests[request] = Request(prompt, self._start, self._counts.output())
            known.closed = prompt == _CLOSED
            self._prompts[request] = prompt
            while len(self._requests) > self.limit:
                self._requests.popitem(last=False)
            while len(self._prompts) > 16 * self.limit:
                self._prompts.popitem(last=False)
        self._requests.move_to_end(request)
        self._prompts.move_to_end(request)
        return known

    def close(self, request: Any) -> None:
        """Let a request have nothing but the end from here on."""
        self._prompts[request] = _CLOSED
        if request in self._requests:
            self._requests[request].closed = True
