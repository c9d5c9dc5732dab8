"""The token level of one output: which ids may not be chosen now, which are pushed, and what a choice changes."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from policyengine.automata.phrases import Ints
from policyengine.automata.thread_masks import distinct_pairs
from policyengine.automata.token_matcher import Position
from policyengine.runtime.asked import Asked
from policyengine.runtime.course import Course, holds
from policyengine.runtime.ends import Ends
from policyengine.runtime.program import Request
from policyengine.runtime.reasons import masking
from policyengine.runtime.token_program import BoundComponent, TokenProgram, frozen_ids

_NO_BIASES = frozen_ids(()), np.zeros(0)


class StandIn(NamedTuple):
    """A token that stands for others: the largest of their logits becomes its own, and they may not be chosen.

    sources: int32, ascending, read-only. What is masked of them does not count, and a masked token stands for nothing.
    """

    token: int
    sources: Ints


class Answers(NamedTuple):
    """What a session answers before a choice: `mask_parts`, `forced`, `only` and `stand_in`."""

    parts: tuple[Ints, ...]
    forced: int | None
    only: Ints | None
    stand_in: StandIn | None


class TokenSession:
    """One output under a bound program.

    An engine asks before every choice for `only`, `mask_parts`, `stand_in`, `forced` and `bias_arrays`, and tells each
    choice to `advance`. Everything it asks is a function of `state`.
    """

    def __init__(self, program: TokenProgram, request: Request, ends: Ends) -> None:
        self.program, self.request, self._ends, self.max_tokens = program, request, ends, ends.max_tokens
        self._size = program.vocabulary.size
        self.length = 0
        self.masked_choices = 0  # choices that a mask should have prevented
        # What two sessions have in common that answer alike at the same place (see `settled`).
        asks = sorted(request.policies), sorted(request.values.items()), ends.key
        self.kind: Hashable = sha256(repr(asks).encode("utf-8", "surrogatepass")).digest()  # short, whatever it asks
        self._course: Course | None = None
        self._least = 0  # the length below which the output may not end
        self._horizon = 0  # the length from which on nothing depends on the length any more, but for the end
        self._limit_matters = 0  # how many tokens before `max_tokens` it begins to matter
        self._begin()

    def _begin(self) -> None:
        """Settle what the rules ask; raises RequestError for what they cannot grant."""
        asked = self.program.asked(self.request, self._ends, None)
        asked.check_fits(self.max_tokens)
        (layer,) = asked.layers
        self._least, self._horizon = layer.least, layer.horizon
        if layer.steers:
            self._course = Course(self.program.texts, self._ends)
            self._course.enter(asked.layers)
        self._enter(asked)
        self.is_idle = not (self._course or self._avoid or self.has_bias or self._banned or self._least)

    def _enter(self, asked: Asked) -> None:
        """A text begins: from here on, these rules act on it."""
        self._avoid, self._bias, self._after, self._weights = asked.avoid, asked.bias, asked.after, asked.weights
        self._positions = tuple(b.matcher.START for b in self._avoid)
        self._bias_positions = tuple(b.matcher.START for b in self._bias)
        self._after_positions = tuple(b.matcher.START for b in self._after)
        self._banned, self._token_biases, self._rules = asked.banned, asked.biases, asked.rules
        self._always_banned = asked.always
        self.has_bias = bool(self._bias or self._token_biases)
        self._watch_last = self.max_tokens is not None and any(b.minds_the_end for b in (*self._avoid, *self._bias))
        if self.max_tokens is not None:
            self._limit_matters = max(self._limit_matters, self._watch_last, *(la.longest for la in asked.layers))

    # -- what may be chosen now ------------------------------------------------------------------------------------

    @property
    def forced(self) -> int | None:
        """The only id that may be chosen now; None: no force acts here. A ban on it wins, and leaves nothing."""
        return None if self._course is None else self._course.forced

    @property
    def only(self) -> Ints | None:
        """The ids that alone may be chosen now, bans aside: int32, ascending, read-only; None: no `allow` acts here.

        The ids that may end the output are among them where it may end.
        """
        if self._course is None:
            return None
        return self._course.only(None if self.max_tokens is None else self.max_tokens - self.length)

    @property
    def stand_in(self) -> StandIn | None:
        """The token that begins the text of `force: {at: end}` wherever the output may end; it stands for the ends."""
        token = self._closing()
        return None if token is None else StandIn(token, self._ends.ids)

    def _closing(self) -> int | None:
        course = self._course
        if course is None or not course.closing or self.length < self._least or not len(self._ends.ids):
            return None
        steps = zip(self._avoid, self._positions, strict=True)
        if course.forced is not None or any(bound.look(position, False)[1] for bound, position in steps):
            return None
        return course.closing[0]

    def mask_parts(self) -> tuple[Ints, ...]:
        """The ids that bans and the minimum length forbid now: int32, read-only, in parts that may overlap.

        Forces and allows are not included (see `forced`, `only` and `stand_in`). The same part is the same object from
        step to step and from request to request, so that an engine can keep it on its device.
        """
        last = self._is_last()
        parts, ends_in_match = self._always_banned, False
        for bound, position in zip(self._avoid, self._positions, strict=True):
            more, ends = bound.look(position, last)
            parts = parts + more if parts else more
            ends_in_match = ends_in_match or ends
        if self.length < self._least:
            parts += (self._ends.all_ids,)
        elif ends_in_match and len(self._ends.ids):
            parts += (self._ends.ids,)
        if len(self._ends.shown) and not last:
            parts += self._ends_that_show()
        return parts

    def _is_last(self) -> bool:
        """Whether the output ends with the next token, where that matters."""
        return self._watch_last and self.max_tokens is not None and self.length + 1 >= self.max_tokens

    def _ends_that_show(self) -> tuple[Ints, ...]:
        """The stop ids whose own text leaves the output ending in a match."""
        steps = [(b, p) for b, p in zip(self._avoid, self._positions, strict=True) if b.minds_the_end]
        found = (bound.ending(position, self._ends.shown) for bound, position in steps)
        return tuple(ids for ids in found if len(ids))

    def masked(self, allowed: Iterable[int] | None = None) -> npt.NDArray[np.int64]:
        """Ids that may not be chosen now, sorted. allowed: the ids that the engine still permits; None: all.

        If that leaves nothing, everything but EOS is masked: EOS is the way out of a dead end, even from the engine's
        own masks and from a minimum length.
        """
        size = self._size
        permitted = np.ones(size, dtype=bool)
        if allowed is not None:
            permitted[:] = False
            permitted[np.fromiter((i for i in allowed if 0 <= i < size), dtype=np.int64)] = True
        answers = self.answers()
        blocked = self._blocked(answers, permitted)
        if answers.forced is None:
            permitted &= self.program.is_real
        if not (permitted & ~blocked).any():
            blocked[:] = True
            blocked[self.program.vocabulary.eos_token_ids[0]] = False
        return np.flatnonzero(blocked)

    def _blocked(self, answers: Answers, permitted: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """bool [size]: what these answers mask, before what is done in a dead end. permitted: by the engine."""
        parts, forced, only, stand_in = answers
        blocked = np.zeros(self._size, dtype=bool)
        if only is not None:
            blocked[:] = True
            blocked[only] = False
        for part in parts:
            blocked[part] = True
        if stand_in is not None:
            token, sources = stand_in
            stands = not blocked[token] and bool((permitted[sources] & ~blocked[sources]).any())
            blocked[sources] = True
            blocked[token] = not stands
        if forced is not None:
            blocked |= np.arange(self._size) != forced
        return blocked

    def answers(self) -> Answers:
        """All that is masked or steered now."""
        return Answers(self.mask_parts(), self.forced, self.only, self.stand_in)

    def dead_ends(self, answers: Answers | None = None) -> tuple[int, ...]:
        """The rules (by rank) that mask something, if together they leave nothing now; else none.

        What the engine masks plays no part. answers: those of now, for who has them.
        """
        return masking(self, None) if self.leaves_nothing(answers or self.answers()) else ()

    def leaves_nothing(self, answers: Answers) -> bool:
        """Whether these answers mask every id that stands for something."""
        parts, forced, only, stand_in = answers
        if forced is not None:
            lost = any(bool((part == forced).any()) for part in parts)  # parts are in no order
            return lost or (only is not None and not holds(only, forced))
        most = sum(map(len, parts)) + (0 if stand_in is None else len(stand_in.sources) + 1)
        if most < (self.program.n_real if only is None else len(only)):
            return False
        permitted = self.program.is_real.copy()
        return not (permitted & ~self._blocked(answers, permitted)).any()

    def biases(self) -> dict[int, float]:
        """What is added to the logits now, by id; without zeros."""
        ids, values = self.bias_arrays()
        return dict(zip(ids.tolist(), values.tolist(), strict=True))

    def bias_arrays(self) -> tuple[Ints, npt.NDArray[np.float64]]:
        """`biases` as two arrays: ids int32, ascending, and float64 values."""
        if not self._bias:
            if not self._token_biases:
                return _NO_BIASES
            ids = np.array(sorted(self._token_biases), dtype=np.int32)
            values = np.array([self._token_biases[i] for i in ids.tolist()])
        else:
            found = [(np.array(list(self._token_biases), dtype=np.int32), np.array(list(self._token_biases.values())))]
            for bound, position, weights in zip(self._bias, self._bias_positions, self._weights, strict=True):
                some, patterns = self._completing(bound, position)
                found.append((some, weights[patterns]))
            all_ids = np.concatenate([i for i, _ in found])
            ids, inverse = np.unique(all_ids, return_inverse=True)
            values = np.bincount(inverse, weights=np.concatenate([v for _, v in found]), minlength=len(ids))
        keep = values != 0
        return ids[keep].astype(np.int32), values[keep]

    def _completing(self, bound: BoundComponent, position: Position) -> tuple[Ints, Ints]:
        """(ids, patterns): every token that completes a phrase now, those that end the output among them."""
        ids, patterns = bound.pairs(position, self._is_last())
        at_end = list(bound.matcher.at_end(position)) if len(self._ends.ids) else []
        shows = bound.minds_the_end and len(self._ends.shown) > 0
        if not at_end and not shows:
            return ids, patterns
        found = [(ids, patterns), (np.tile(self._ends.ids, len(at_end)), np.repeat(at_end, len(self._ends.ids)))]
        if shows:
            more, by = bound.pairs(position, True)
            mine = np.isin(more, self._ends.shown)
            found.append((more[mine], by[mine]))
        return distinct_pairs([(i.astype(np.int64), p.astype(np.int64)) for i, p in found])

    # -- what a choice changes -------------------------------------------------------------------------------------

    def advance(self, token_id: int) -> None:
        """Tell the token that was chosen. One that was masked is counted; raises ValueError outside the vocabulary."""
        if not 0 <= token_id < self._size:
            raise ValueError(f"token id {token_id} is outside the vocabulary of {self._size} ids")
        is_way_out = self._is_way_out(token_id)
        wrong = token_id in self._ends.all and self._may_not_end(token_id)
        if self._banned:
            wrong = wrong or token_id in self._banned
        if self._course is not None:
            wrong = not self._follow_course(self._course, token_id) or wrong
        after = []
        for bound, position in zip(self._avoid, self._positions, strict=True):
            place, completed = bound.matcher.advance(position, token_id)
            wrong = wrong or completed
            after.append(place)
        self._positions = tuple(after)
        if self._bias:
            steps = zip(self._bias, self._bias_positions, strict=True)
            self._bias_positions = tuple(b.matcher.advance(p, token_id)[0] for b, p in steps)
        self.length += 1
        self.masked_choices += wrong and not is_way_out

    def _is_way_out(self, token_id: int) -> bool:
        """Whether this is the EOS that is left where the rules leave nothing."""
        return token_id == self.program.vocabulary.eos_token_ids[0] and self.leaves_nothing(self.answers())

    def choose(self, token_id: int) -> tuple[int, ...]:
        """`advance`; returns the rules (by rank) that mask the token, for one that was masked."""
        place, length, before = self.place, self.length, self.masked_choices
        self.advance(token_id)
        if self.masked_choices == before:
            return ()
        after = self.place
        self.move(place, length)
        found = masking(self, token_id)
        self.move(after, length + 1)
        return found

    def _may_not_end(self, token_id: int) -> bool:
        """Whether this id, which ends the output, is masked for that now."""
        if self.length < self._least:
            return True
        steps = zip(self._avoid, self._positions, strict=True)
        return token_id in self._ends.ids and any(bound.look(position, False)[1] for bound, position in steps)

    def _follow_course(self, course: Course, token_id: int) -> bool:
        """Tell the token to the course; whether it was one that forces and allows permit."""
        permitted = self._is_on_course(course, token_id)
        closes = self._closing() == token_id
        completed: list[int] = []
        places = []
        for bound, position in zip(self._after, self._after_positions, strict=True):
            place, done = bound.matcher.advance(position, token_id)
            if done:
                completed += [bound.component.rules[p] for p in bound.matcher.completes(position, token_id)]
            places.append(place)
        self._after_positions = tuple(places)
        course.advance(token_id, closes=closes, completed=completed)
        return permitted

    def _is_on_course(self, course: Course, token_id: int) -> bool:
        forced, only, stand_in = self.forced, self.only, self.stand_in
        if (forced is not None and token_id != forced) or (only is not None and not holds(only, token_id)):
            return False
        return stand_in is None or token_id == stand_in.token or not holds(stand_in.sources, token_id)

    @property
    def state(self) -> Hashable:
        """Everything that later answers depend on, this program and request given. Equal states behave alike."""
        phase = self.length if self._limit_matters else min(self.length, self._horizon)
        return self.place, phase, self.kind, self.max_tokens

    # -- for engines that keep answers -----------------------------------------------------------------------------

    @property
    def settled(self) -> tuple[int, int]:
        """From which length on, and below which, all answers and the next place depend on `kind` and `place` alone."""
        if self.max_tokens is None or not self._limit_matters:
            return self._horizon, sys.maxsize
        return self._horizon, self.max_tokens - self._limit_matters

    @property
    def place(self) -> Hashable:
        """What choices change in a session, its length and counters aside."""
        if self._course is None:
            return self._positions, self._bias_positions
        return self._positions, self._bias_positions, self._after_positions, self._course.place

    def move(self, place: Any, length: int) -> None:
        """Go on at a place that a session of this kind was at. The choices in between must have been permitted ones."""
        self._positions, self._bias_positions, *rest = place
        if self._course is not None:
            self._after_positions, self._course.place = rest
        self.length = length
