"""The markers of a reasoning model as tokens.

A marker is recognised by its text, in whatever tokens it is spelled, as the text level does. Where the vocabulary has
it as a token without text (a special token), that token is the marker as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from policyengine.automata.kept import Kept
from policyengine.runtime.channels import Markers, Phase, Place

if TYPE_CHECKING:
    from policyengine.automata.phrases import Ints
    from policyengine.automata.vocabulary import Vocabulary
    from policyengine.runtime.program import Reasoning

_PROMPT_TAIL = 64  # tokens of a prompt that are looked at

Crossing = tuple[tuple[int, int], ...]  # (id, bytes of it up to the end of the marker), by id


class TokenMarkers:
    """Two markers on one vocabulary. Shared by all sessions; what changes is a cache.

    silent: the id of each marker as a token without text, None where there is none: the start, then the end.
    """

    def __init__(self, reasoning: Reasoning, vocabulary: Vocabulary, texts: Sequence[bytes | None]) -> None:
        """texts: what each id adds to the text."""
        self.markers = Markers(reasoning.start.encode(), reasoning.end.encode())
        self._texts = texts
        self.silent = tuple(_silent(vocabulary, texts, name) for name in (reasoning.start, reasoning.end))
        self._whole: tuple[list[int], list[int]] = ([], [])
        self._pieces: tuple[dict[bytes, list[int]], dict[bytes, list[int]]] = ({}, {})
        for which, marker in enumerate((self.markers.start, self.markers.end)):
            rests = tuple(marker[i:] for i in range(1, len(marker)))
            for token, data in enumerate(texts):
                if data and (data.startswith(rests) or marker in data):
                    self._whole[which].append(token)
                if data and data in marker:
                    self._pieces[which].setdefault(data, []).append(token)
        self._crossings: dict[tuple[bool, int], Crossing] = {}
        self._leading: dict[tuple[bool, int], Ints] = {}
        self._exits: dict[tuple[bool, int, bool], Ints] = {}
        # With what their keys are the identities of.
        self._others: Kept[int, tuple[Ints, Ints]] = Kept()
        self._without: Kept[tuple[int, int], tuple[Ints, Crossing, Ints]] = Kept()

    @cached_property
    def ids(self) -> frozenset[int]:
        """All ids that may be a marker, or a part of one."""
        pieces = (token for some in self._pieces for tokens in some.values() for token in tokens)
        return frozenset((*self._whole[0], *self._whole[1], *pieces, *(i for i in self.silent if i is not None)))

    def single(self, which: int) -> list[int]:
        """The ids that are a marker (0: start, 1: end) by themselves."""
        silent = self.silent[which]
        shown = self._pieces[which].get(self.markers.end if which else self.markers.start, [])
        return sorted([*shown, *([] if silent is None else [silent])])

    def read(self, place: Place, token: int) -> tuple[Place, int | None]:
        """The place after a token, or behind the marker in it; how many bytes that is, None: no marker ends in it."""
        if place.phase is Phase.ANSWER:
            return place, None
        if token == self.silent[place.phase is Phase.REASONING] and self._may_be_silent(place):
            return Markers.passed(place.phase), 0
        return self.markers.read(place, self._texts[token] or b"")

    @staticmethod
    def _may_be_silent(place: Place) -> bool:
        """Whether a marker may stand here at all: before a start, the head of another is text like any other."""
        return place.phase is Phase.REASONING or not place.matched

    def crossing(self, place: Place) -> Crossing:
        """The tokens in which the next marker ends."""
        if place.phase is Phase.ANSWER:
            return ()
        which = place.phase is Phase.REASONING
        known = self._crossings.get((which, place.matched))
        if known is None:
            silent = self.silent[which]
            candidates = [*self._whole[which], *([] if silent is None else [silent])]
            cuts = ((token, self.read(place, token)[1]) for token in sorted(candidates))
            known = tuple((token, cut) for token, cut in cuts if cut is not None)
            self._crossings[which, place.matched] = known
        return known

    def leading(self, place: Place) -> Ints:
        """The tokens that go on with the next marker and hold nothing else, int32, ascending."""
        which = place.phase is Phase.REASONING
        known = self._leading.get((which, place.matched))
        if known is None:
            silent = self.silent[which]
            found = [silent] if silent is not None and not place.matched else []
            rest = (self.markers.end if which else self.markers.start)[place.matched :]
            for size in range(1, len(rest) + 1):
                found += self._pieces[which].get(rest[:size], [])
            known = self._leading[which, place.matched] = np.array(sorted(found), dtype=np.int32)
            known.flags.writeable = False
        return known

    def exits(self, place: Place, *, whole: bool) -> Ints:
        """The tokens that go on with the next marker, or end it; whole: or begin it anew. int32, ascending.

        Behind the marker they may hold more, before it nothing.
        """
        key = place.phase is Phase.REASONING, place.matched, whole
        known = self._exits.get(key)
        if known is None:
            size = len(self.markers.next_marker(place.phase) or b"")
            cuts = {size - place.matched, *((size, 0) if whole else ())}
            found = {token for token, cut in self.crossing(place) if cut in cuts}
            known = np.array(sorted(found.union(self.leading(place).tolist())), dtype=np.int32)
            known.flags.writeable = False
            self._exits[key] = known
        return known

    def others(self, ids: Ints) -> Ints:
        """All ids but these, int32, ascending; the same object for the same object."""
        known = self._others.get(id(ids))
        if known is None:
            rest = np.setdiff1d(np.arange(len(self._texts), dtype=np.int32), ids)
            rest.flags.writeable = False
            known = self._others.keep(id(ids), (ids, rest), (ids, rest))
        return known[1]

    def without(self, part: Ints, crossing: Crossing) -> Ints:
        """A part of a mask without the tokens in which a marker ends; the same object for the same objects."""
        key = id(part), id(crossing)
        known = self._without.get(key)
        if known is None:
            gone = np.isin(part, [token for token, _ in crossing])
            rest = part[~gone] if gone.any() else part
            rest.flags.writeable = False
            known = self._without.keep(key, (part, crossing, rest), (part, rest))
        return known[2]

    def after(self, prompt: Sequence[int]) -> bool | None:
        """Whether a prompt has begun the reasoning (True) or ended it (False): what marker it says last decides.

        None: neither stands last.
        """
        tail = b""
        for token in reversed(prompt[-_PROMPT_TAIL:]):
            if token in self.silent and not tail.strip():
                return bool(token == self.silent[0])
            tail = (self._texts[token] or b"" if 0 <= token < len(self._texts) else b"") + tail
        place = self.markers.after(tail)
        return None if place.phase is Phase.BLANK else place.phase is Phase.REASONING


def _silent(vocabulary: Vocabulary, texts: Sequence[bytes | None], name: str) -> int | None:
    """The id of the token without text that a marker is, if there is one."""
    token = vocabulary.special.get(name)
    if token is None and vocabulary.encode is not None:
        try:
            ids = list(vocabulary.encode(name))
        except Exception:  # a tokenizer that cannot write it does not have it
            return None
        token = ids[0] if len(ids) == 1 else None
    if token is None or not 0 <= token < len(texts) or texts[token] != b"" or token in vocabulary.eos_token_ids:
        return None
    return token


__all__ = ["Crossing", "TokenMarkers"]
