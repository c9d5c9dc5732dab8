"""The token level of an output that reasons before it answers.

Each channel's text is read from its beginning, by the rules that act in it. A token in which a marker ends is judged by
what it holds before the marker (in the channel that ends there), and behind it (in the one that begins). As long as a
marker that is spelled in several tokens is not whole, its head is judged as the text that it may still become.

What a rule asks of the answer as a whole, a minimum length or one of some choices, also keeps the output from ending
while it still reasons. And where an answer may begin with a forced token, it may also begin with the start marker.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from policyengine.automata.phrases import Ints
from policyengine.automata.token_matcher import Position
from policyengine.runtime.allowed_choices import read
from policyengine.runtime.channels import AFTER, INSIDE, START, Phase, Place
from policyengine.runtime.course import Course
from policyengine.runtime.program import Request
from policyengine.runtime.token_session import StandIn, TokenSession

if TYPE_CHECKING:
    from policyengine.runtime.ends import Ends
    from policyengine.runtime.token_markers import TokenMarkers
    from policyengine.runtime.token_program import BoundComponent, TokenProgram

# For each head of the next marker that the text ends in: its size, and whether the text before it ends in a match.
Heads = tuple[tuple[int, bool], ...]


class ChannelSession(TokenSession):
    """As `TokenSession`, under a program that knows the markers of reasoning."""

    _course: Course

    def __init__(
        self, program: TokenProgram, request: Request, ends: Ends, markers: TokenMarkers, reasoning: bool | None
    ) -> None:
        """reasoning: whether the prompt has begun the reasoning; False: it has ended it; None: neither."""
        self._markers, self._place = markers, START if reasoning is None else INSIDE if reasoning else AFTER
        self._heads: Heads = ()
        self._strayed = False  # a token that only a marker explains was chosen: the marker it must be
        self._marks_end = markers.ids.intersection(ends.ids.tolist())
        super().__init__(program, request, ends)
        self.kind = self.kind, reasoning

    def _begin(self) -> None:
        program, request, ends = self.program, self.request, self._ends
        opening = program.asked(request, ends, "answer", at_start=True)
        reasoning = program.asked(request, ends, "reasoning", at_start=self._place is INSIDE)
        answer = opening
        if program.vocabulary.drops_leading_space:
            answer = program.asked(request, ends, "answer", at_start=False)
        opening.check_fits(self.max_tokens)
        self._asked = {Phase.BLANK: opening, Phase.OPEN: opening, Phase.REASONING: reasoning, Phase.ANSWER: answer}
        # Once the answer has begun without reasoning, it goes on under what it began with.
        self._answers = opening
        self._course = Course(program.texts, ends)
        own = opening.layers[1]
        self._answer_is_due = own.least > 0 or own.choices is not None
        for asked in (reasoning, answer, opening):
            self._enter(asked)
        self.is_idle = not any(asked.asks for asked in (opening, reasoning))
        if self._place is AFTER:
            self._asked[Phase.ANSWER] = opening  # nothing of the output stands before it
        self._begin_channel(self._place)

    def _begin_channel(self, place: Place) -> None:
        """A channel's text begins."""
        asked = self._asked[place.phase]
        if place.phase is Phase.ANSWER:
            self._answers = asked
        self._place, self._heads, self._strayed = place, (), False
        self._enter(asked)
        self._course.enter(asked.layers)
        self._settle_least()

    def _settle_least(self) -> None:
        due = self._place.phase is Phase.REASONING and self._answer_is_due
        self._least = self.length + 1 if due or self._course.is_short else 0

    # -- what may be chosen now ------------------------------------------------------------------------------------

    def _alternatives(self) -> Ints | None:
        """What may be chosen although the answer's own rules name other tokens: the beginning of reasoning."""
        if self._place.phase is not Phase.BLANK:
            return None
        leading = self._markers.leading(self._place)
        if self._marks_end:  # a marker in pieces may not come to its end
            leading = self._going_on(np.intersect1d(leading, self._markers.single(0)))
        return leading if len(leading) else None

    def _going_on(self, ids: Ints) -> Ints:
        """Those of a few ids that do not end the output: a marker that a client made an end of it leads nowhere."""
        if not self._marks_end:
            return ids
        return self.program.shared_ids(frozenset(ids.tolist()) - self._marks_end)

    @property
    def forced(self) -> int | None:
        """As in a session without channels; None where reasoning may begin in place of the answer (see `stand_in`)."""
        if self._strayed or (self._course.own_forced is not None and self._alternatives() is not None):
            return None
        return self._course.forced

    @property
    def only(self) -> Ints | None:
        """As in a session without channels; with what leads from one channel to the next, where that may be."""
        extra = self._alternatives()
        if self._place.phase is Phase.REASONING and self._course.may_leave(self._place.matched > 0):
            extra = self._going_on(self._markers.exits(self._place, whole=not self._strayed))
        found = self._course.only(None if self.max_tokens is None else self.max_tokens - self.length, extra)
        if self._strayed and extra is not None:
            return extra if found is None else np.intersect1d(found, extra, assume_unique=True)
        return found

    @property
    def stand_in(self) -> StandIn | None:
        """Also where an answer may begin: the forced token stands for everything but the beginning of reasoning."""
        if self._strayed:
            return None
        token, alternatives = self._course.own_forced, self._alternatives()
        if token is not None and alternatives is not None:
            return StandIn(token, self._markers.others(alternatives))
        return super().stand_in

    def mask_parts(self) -> tuple[Ints, ...]:
        """As in a session without channels; tokens in which a marker ends are judged one by one."""
        parts = super().mask_parts()
        crossing = self._markers.crossing(self._place)
        if not crossing:
            return parts
        kept = tuple(self._markers.without(part, crossing) for part in parts)
        masked = frozenset(token for token, cut in crossing if self._may_not_cross(token, cut))
        return (*kept, self.program.shared_ids(masked)) if masked else kept

    def _may_not_cross(self, token: int, cut: int) -> bool:
        """Whether a token in which a marker ends, at that byte of it, is masked."""
        if token in self._banned or (token in self._ends.all and self._may_not_end(token)):
            return True
        data, phase = self.program.texts[token] or b"", self._place.phase
        marker = self._markers.markers.next_marker(phase)
        assert marker is not None
        begin = cut - len(marker) if data else 0
        before, after = data[: max(begin, 0)], data[cut:]
        if phase is Phase.REASONING and self._course.is_unfinished(None if begin < 0 else before):
            return True
        completes, ends = (False, dict(self._heads).get(-begin, True)) if begin < 0 else self._ending(before)
        return completes or ends or (bool(after) and self._may_not_begin(token, after))

    def _ending(self, data: bytes) -> tuple[bool, bool]:
        """Whether these bytes complete a match in this channel, and whether its text may not end behind them."""
        completes = ends = False
        for bound, position in zip(self._avoid, self._positions, strict=True):
            after, completed = read(bound, position, data)
            completes = completes or completed
            ends = ends or bool(bound.matcher.at_end(after))
        return completes, ends

    def _may_not_begin(self, token: int, data: bytes) -> bool:
        """Whether what follows a marker may not begin with these bytes of a token."""
        place = self._markers.markers.passed(self._place.phase)
        following, cut = self._markers.markers.read(place, data)
        if cut is not None:  # the reasoning also ends in this token
            inside, data = data[: cut - len(self._markers.markers.end)], data[cut:]
            if self._may_not_pass(token, inside):
                return True
            if not data:
                return False
            place = following
        asked = self._asked[place.phase]
        own = asked.layers[1]
        if token in asked.banned or own.schedule.token(0) is not None or own.ids is not None or own.choices is not None:
            return True
        return any(_stops_in_match(bound, data) for bound in asked.avoid)

    def _may_not_pass(self, token: int, data: bytes) -> bool:
        """Whether these bytes of a token may not be the whole reasoning. As none of its tokens, they are no choice."""
        asked = self._asked[Phase.REASONING]
        own = asked.layers[1]
        if own.least > 0 or own.schedule.token(0) is not None or own.choices is not None:
            return True
        if data and (token in asked.banned or own.ids is not None):
            return True
        reads = ((bound, *read(bound, bound.matcher.START, data)) for bound in asked.avoid)
        return any(completed or bool(bound.matcher.at_end(position)) for bound, position, completed in reads)

    def _completing(self, bound: BoundComponent, position: Position) -> tuple[Ints, Ints]:
        """As in a session without channels; a token in which a marker ends is not pushed for the marker's text."""
        ids, patterns = super()._completing(bound, position)
        crossing = self._markers.crossing(self._place)
        if not crossing or not len(ids):
            return ids, patterns
        keep = ~np.isin(ids, [token for token, _ in crossing])
        return ids[keep], patterns[keep]

    # -- what a choice changes -------------------------------------------------------------------------------------

    def advance(self, token_id: int) -> None:
        """As in a session without channels; a marker that ends in the token begins another channel."""
        if self._place.phase is Phase.ANSWER or not 0 <= token_id < self._size:
            super().advance(token_id)
            self._settle_least()
            return
        place, cut = self._markers.read(self._place, token_id)
        if cut is None:
            heads = self._heads_after(place, token_id)
            strayed = place.matched > 0 and (self._strayed or not self._course.own_permits(token_id))
            super().advance(token_id)
            self._place, self._heads, self._strayed = place, heads, strayed
            self._settle_least()
            return
        permitted = self._is_on_course(self._course, token_id) and not self._may_not_cross(token_id, cut)
        self._course.advance(token_id)
        self.length += 1
        self.masked_choices += not permitted
        self._begin_channel(place)
        self._read_on((self.program.texts[token_id] or b"")[cut:])

    def _read_on(self, data: bytes) -> None:
        """Read what a token holds behind a marker."""
        if not data:
            return
        place, cut = self._markers.markers.read(self._place, data)
        if cut is not None:  # the token holds both markers
            self._begin_channel(place)
            self._read_on(data[cut:])
            return

        def after(bounds: Iterable[BoundComponent]) -> tuple[Position, ...]:
            return tuple(read(bound, bound.matcher.START, data)[0] for bound in bounds)

        self._positions, self._bias_positions = after(self._avoid), after(self._bias)
        self._after_positions = after(self._after)
        self._course.begin_with(data)
        self._settle_least()
        self._place = place

    def _heads_after(self, place: Place, token: int) -> Heads:
        """The heads of the marker that the text ends in behind a token."""
        sizes, data = self._markers.markers.heads(place), self.program.texts[token] or b""
        if not sizes:
            return ()
        known = dict(self._heads)
        return tuple(
            (size, known.get(size - len(data), True) if size > len(data) else self._ending(data[:-size])[1])
            for size in sizes
        )

    # -- for engines that keep answers -----------------------------------------------------------------------------

    @property
    def place(self) -> Hashable:
        """What choices change in a session, its length and counters aside."""
        behind = self._answers is self._asked[Phase.ANSWER]
        return super().place, self._place, self._heads, self._strayed, behind

    def move(self, place: Any, length: int) -> None:
        """Go on at a place that a session of this kind was at. The choices in between must have been permitted ones."""
        inner, self._place, self._heads, self._strayed, behind = place
        opening, answer = self._asked[Phase.BLANK], self._asked[Phase.ANSWER]
        self._answers = answer if behind else opening
        asked = self._answers if self._place.phase is Phase.ANSWER else self._asked[self._place.phase]
        self._enter(asked)
        self._course.enter(asked.layers)
        super().move(inner, length)
        self._settle_least()


def _stops_in_match(bound: BoundComponent, data: bytes) -> bool:
    """Whether a text that begins with these bytes holds a match, or stops in a word that `eager` forbids to stop in."""
    (state, pending), completed = read(bound, bound.matcher.START, data)
    return completed or (not pending and bool(bound.matcher.automaton.waiting(state)))


__all__ = ["ChannelSession"]
