"""Where an output's reasoning ends and its answer begins. Shared by both levels, so that they cannot disagree.

Reasoning comes first and once: it begins with the start marker, before which nothing but ASCII white space may stand
(or at once, where the prompt ended with that marker), and goes on to the first end marker. All that follows is the
answer, further markers included, and so is an output that begins with anything else, or whose prompt ended with the
end marker. So a marker that is only
mentioned, or repeated, takes no text out of the rules of the answer.

A marker belongs to neither channel. What could still become one is not known to be text until it is decided.

The same code reads characters (text level) and bytes (token level): a marker is valid text, so that its bytes are
found exactly where its characters are.
"""

from __future__ import annotations

from enum import IntEnum
from typing import AnyStr, Final, Generic, Literal, NamedTuple

_BLANKS: Final = " \t\n\v\f\r"
_WHITE_SPACE: Final = frozenset(_BLANKS) | frozenset(_BLANKS.encode())


class Phase(IntEnum):
    """How far an output is. BLANK: nothing was written; OPEN: only white space, so that reasoning may still begin."""

    BLANK = 0
    OPEN = 1
    REASONING = 2
    ANSWER = 3

    @property
    def channel(self) -> Literal["answer", "reasoning"]:
        """The channel that text belongs to now."""
        return "reasoning" if self is Phase.REASONING else "answer"


class Place(NamedTuple):
    """What a reader knows of the output so far. `matched`: how many units of the next marker the text ends in."""

    phase: Phase
    matched: int


START: Final = Place(Phase.BLANK, 0)
INSIDE: Final = Place(Phase.REASONING, 0)  # for an output whose prompt began the reasoning
AFTER: Final = Place(Phase.ANSWER, 0)


class _Marker(Generic[AnyStr]):
    """One marker, looked for unit by unit (Knuth, Morris and Pratt)."""

    def __init__(self, text: AnyStr) -> None:
        if not text:
            raise ValueError("a marker needs at least one character")
        self.text: AnyStr = text
        # For each number of matched units: the next shorter head of the marker that the text ends in as well.
        self.shorter = [0, 0]
        for size in range(1, len(text)):
            self.shorter.append(self.step(self.shorter[size], text[size]))

    def step(self, matched: int, unit: object) -> int:
        """How many units match after one more. `matched` is less than all of them."""
        while matched and self.text[matched] != unit:
            matched = self.shorter[matched]
        return matched + 1 if self.text[matched] == unit else 0


class Markers(Generic[AnyStr]):
    """The two markers of a reasoning model. Immutable."""

    def __init__(self, start: AnyStr, end: AnyStr) -> None:
        """Both `str` or both `bytes`, which is what they then read. Raises ValueError for an empty one."""
        self.start: AnyStr = start
        self.end: AnyStr = end
        self._start: _Marker[AnyStr] = _Marker(start)
        self._end: _Marker[AnyStr] = _Marker(end)

    def next_marker(self, phase: Phase) -> AnyStr | None:
        """The marker that ends a phase; None: nothing does any more."""
        return None if phase is Phase.ANSWER else self.end if phase is Phase.REASONING else self.start

    def heads(self, place: Place) -> list[int]:
        """The sizes of all heads of the next marker that the text ends in, longest first; that of nothing left out."""
        marker = self._end if place.phase is Phase.REASONING else self._start
        sizes, size = [], place.matched
        while size:
            sizes.append(size)
            size = marker.shorter[size]
        return sizes

    @staticmethod
    def passed(phase: Phase) -> Place:
        """The place behind the marker that ends a phase."""
        return AFTER if phase is Phase.REASONING else INSIDE

    def read(self, place: Place, text: AnyStr) -> tuple[Place, int | None]:
        """Read on, up to the end of the next marker.

        Returns the place reached, and how many units of `text` were read if a marker ended there, None if none did
        (all of it was read then).
        """
        phase = place.phase
        if phase is Phase.ANSWER or not text:
            return place, None
        if phase is Phase.REASONING:
            return self._read_reasoning(place.matched, text)
        return self._read_opening(place, text)

    def _read_reasoning(self, matched: int, text: AnyStr) -> tuple[Place, int | None]:
        marker: _Marker[AnyStr] = self._end
        at = 0
        while at < len(text):
            if not matched:
                at = text.find(marker.text[:1], at)
                if at < 0:
                    break
            matched = marker.step(matched, text[at])
            at += 1
            if matched == len(marker.text):
                return AFTER, at
        return Place(Phase.REASONING, matched), None

    def _read_opening(self, place: Place, text: AnyStr) -> tuple[Place, int | None]:
        marker: _Marker[AnyStr] = self._start
        phase = place.phase
        matched: int = place.matched
        for at, unit in enumerate(text):
            after = marker.step(matched, unit)
            # What the head of the marker no longer covers is text of its own.
            lost = matched + 1 - after
            if lost:
                if not all(part in _WHITE_SPACE for part in (*marker.text[:matched], unit)[:lost]):
                    return AFTER, None
                phase = Phase.OPEN
            matched = after
            if matched == len(marker.text):
                return INSIDE, at + 1
        return Place(phase, matched), None

    def after(self, prompt: AnyStr) -> Place:
        """Where an output begins behind a prompt that ends in this text: what marker it says last decides."""
        for marker, place in ((self.start, INSIDE), (self.end, AFTER)):
            if _ends_with(prompt, marker):
                return place
        return START


def _ends_with(text: AnyStr, marker: AnyStr) -> bool:
    """Whether a text ends with a marker and white space."""
    # Without an argument, `str.rstrip` would take more white space than `bytes.rstrip`.
    if isinstance(text, str):
        core: AnyStr = marker.rstrip(_BLANKS)
        return bool(core) and text.rstrip(_BLANKS).endswith(core)
    core = marker.rstrip()
    return bool(core) and text.rstrip().endswith(core)


class Segment(NamedTuple):
    """A piece of an output. `channel` None: a marker, after which another channel's text begins anew."""

    channel: Literal["answer", "reasoning"] | None
    text: str


class Splitter:
    """Cuts the text of one output into channels as it comes, in any chunks."""

    def __init__(self, markers: Markers[str], *, inside: bool = False) -> None:
        """inside: the prompt has begun the reasoning."""
        self._markers, self._place, self._held = markers, INSIDE if inside else START, ""

    @property
    def held(self) -> str:
        """Text that came and may still become a marker."""
        return self._held

    @property
    def is_settled(self) -> bool:
        """Whether all that comes is of the channel that came last."""
        return self._place.phase is Phase.ANSWER

    def feed(self, text: str) -> list[Segment]:
        """The segments that are decided now, none of them empty."""
        found: list[Segment] = []
        while text:
            before, data = self._place, self._held + text
            self._place, read = self._markers.read(before, text)
            if read is None:
                clear = len(data) - self._place.matched
                self._held = data[clear:]
                found += _text(before.phase, data[:clear])
                break
            marker = self._markers.next_marker(before.phase)
            assert marker is not None
            end = len(self._held) + read
            found += _text(before.phase, data[: end - len(marker)])
            found.append(Segment(None, marker))
            self._held, text = "", text[read:]
        return found

    def finish(self) -> list[Segment]:
        """What was held, when the output has ended: text after all."""
        held, self._held = self._held, ""
        return _text(self._place.phase, held)


def _text(phase: Phase, text: str) -> list[Segment]:
    return [Segment(phase.channel, text)] if text else []


__all__ = ["AFTER", "INSIDE", "START", "Markers", "Phase", "Place", "Segment", "Splitter"]
