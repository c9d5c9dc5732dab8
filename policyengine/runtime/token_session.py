"""The token level of one output: which ids may not be chosen now, which are pushed, and what a choice changes."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from policyengine.automata.phrases import Ints
from policyengine.automata.token_matcher import Position
from policyengine.runtime.forces import Schedule, schedule, value_of
from policyengine.runtime.program import BanPlan, BiasPlan, ForcePlan, MinTokensPlan, Param, Request
from policyengine.runtime.token_program import BoundComponent, TokenProgram, frozen_ids

_NOTHING: tuple[Ints, ...] = ()
_NO_BIASES = frozen_ids(()), np.zeros(0)


class TokenSession:
    """One output under a bound program.

    An engine asks before every choice for `forced`, `mask_parts` and `bias_arrays`, and tells each choice to `advance`.
    Everything it asks is a function of `state`.
    """

    def __init__(
        self,
        program: TokenProgram,
        request: Request,
        stop_token_ids: tuple[int, ...],
        max_tokens: int | None,
        ignore_eos: bool,
    ) -> None:
        self.program, self.request, self.max_tokens = program, request, max_tokens
        vocabulary = program.vocabulary
        self._size = vocabulary.size
        self.length = 0
        self.masked_choices = 0  # choices that a mask should have prevented
        self._avoid = tuple(b for b in program.avoid if request.policies.intersection(b.component.policies))
        self._bias = tuple(b for b in program.bias if request.policies.intersection(b.component.policies))
        self._positions = tuple(b.matcher.START for b in self._avoid)
        self._bias_positions = tuple(b.matcher.START for b in self._bias)
        self._weights = tuple(self._resolve_weights(b.component.weights) for b in self._bias)
        ends = {i for i in stop_token_ids if 0 <= i < vocabulary.size}
        self._min_ids = frozen_ids(ends | set(vocabulary.eos_token_ids))
        self._end_ids = frozen_ids(ends if ignore_eos else ends | set(vocabulary.eos_token_ids))
        self._ends = frozenset(self._min_ids.tolist())
        # Stop ids whose text the engine may show, so that it counts too.
        self._shown_ends = tuple(sorted(ends - set(vocabulary.eos_token_ids)))
        self._watch_last = max_tokens is not None and any(b.minds_the_end for b in (*self._avoid, *self._bias))
        self._min_tokens = 0
        self._forces = Schedule()
        self._banned: frozenset[int] = frozenset()
        self._token_biases: dict[int, float] = {}
        self._read_rules()
        self._always_banned = (program.shared_ids(self._banned),) if self._banned else _NOTHING
        # From this length on, nothing depends on the length any more.
        self._horizon = max(self._min_tokens, *(place + 1 for place in self._forces.at), 0)
        # What two sessions have in common that answer alike at the same place (see `settled`).
        self.kind: Hashable = request.policies, tuple(sorted(request.values.items())), self._end_ids.tobytes()
        self._has_single_ids = bool(self._banned or self._forces.at or self._forces.every is not None)
        self.has_bias = bool(self._bias or self._token_biases)
        self.is_idle = not (self._avoid or self.has_bias or self._min_tokens or self._has_single_ids)

    # -- what the rules ask of this request ------------------------------------------------------------------------

    def _read_rules(self) -> None:
        banned: set[int] = set()
        forces: list[tuple[str, ForcePlan]] = []
        for rule in self.program.rules:
            if rule.policy not in self.request.policies:
                continue
            body = rule.body
            if isinstance(body, BanPlan):
                banned.update(body.token_ids)
            elif isinstance(body, MinTokensPlan):
                n = value_of(body.n, self.request)
                self._min_tokens = max(self._min_tokens, int(n) if isinstance(n, int | float) else 0)
            elif isinstance(body, BiasPlan):
                for token, weight in body.token_ids:
                    value = value_of(weight, self.request)
                    if isinstance(value, int | float):
                        self._token_biases[token] = self._token_biases.get(token, 0.0) + float(value)
            elif isinstance(body, ForcePlan):
                forces.append((self.program.name(rule), body))
        self._banned = frozenset(banned)
        self._forces = schedule(forces, self.request, self.program.forced_texts.__getitem__, self.program.is_real)

    def _resolve_weights(self, weights: Iterable[float | Param]) -> npt.NDArray[np.float64]:
        values = [value_of(w, self.request) for w in weights]
        return np.array([float(v) if isinstance(v, int | float) else 0.0 for v in values])

    # -- what may be chosen now ------------------------------------------------------------------------------------

    @property
    def forced(self) -> int | None:
        """The only id that may be chosen now; None: no force acts here. A ban on it wins, and leaves nothing."""
        token = self._forces.at.get(self.length) if self._forces.at else None
        return self._forces.every if token is None else token

    def mask_parts(self) -> tuple[Ints, ...]:
        """The ids that bans and the minimum length forbid now: int32, read-only, in parts that may overlap.

        Force is not included (see `forced`). The same part is the same object from step to step and from request to
        request, so that an engine can keep it on its device.
        """
        last = self._is_last()
        parts, ends_in_match = self._always_banned, False
        for bound, position in zip(self._avoid, self._positions, strict=True):
            more, ends = bound.look(position, last)
            parts = parts + more if parts else more
            ends_in_match = ends_in_match or ends
        if self.length < self._min_tokens:
            parts += (self._min_ids,)
        elif ends_in_match and len(self._end_ids):
            parts += (self._end_ids,)
        if self._shown_ends and not last:
            parts += self._ends_that_show()
        return parts

    def _is_last(self) -> bool:
        """Whether the output ends with the next token, where that matters."""
        return self._watch_last and self.max_tokens is not None and self.length + 1 >= self.max_tokens

    def _ends_that_show(self) -> tuple[Ints, ...]:
        """The stop ids whose own text leaves the output ending in a match."""
        steps = [(b, p) for b, p in zip(self._avoid, self._positions, strict=True) if b.minds_the_end]
        ids = [i for i in self._shown_ends if any(bound.ends_in_match(position, i) for bound, position in steps)]
        return (frozen_ids(ids),) if ids else _NOTHING

    def masked(self, allowed: Iterable[int] | None = None) -> npt.NDArray[np.int64]:
        """Ids that may not be chosen now, sorted. allowed: the ids that the engine still permits; None: all.

        If that leaves nothing, everything but EOS is masked: EOS is the way out of a dead end, even from the engine's
        own masks and from a minimum length.
        """
        size = self.program.vocabulary.size
        blocked = np.zeros(size, dtype=bool)
        for part in self.mask_parts():
            blocked[part] = True
        forced = self.forced
        if forced is not None:
            others = np.arange(size) != forced
            blocked |= others
        permitted = np.ones(size, dtype=bool)
        if allowed is not None:
            permitted[:] = False
            permitted[np.fromiter((i for i in allowed if 0 <= i < size), dtype=np.int64)] = True
        if forced is None:
            permitted &= self.program.is_real
        if not (permitted & ~blocked).any():
            blocked[:] = True
            blocked[self.program.vocabulary.eos_token_ids[0]] = False
        return np.flatnonzero(blocked)

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
        at_end = bound.matcher.at_end(position) if len(self._end_ids) else ()
        shown = [i for i in self._shown_ends if bound.minds_the_end]
        if not at_end and not shown:
            return ids, patterns
        pairs = set(zip(ids.tolist(), patterns.tolist(), strict=True))
        pairs.update((token, pattern) for token in self._end_ids.tolist() for pattern in at_end)
        pairs.update((i, p) for i in shown for p in bound.matcher.completes(position, i, last=True))
        return np.array([i for i, _ in pairs], dtype=np.int32), np.array([p for _, p in pairs], dtype=np.int32)

    # -- what a choice changes -------------------------------------------------------------------------------------

    def advance(self, token_id: int) -> None:
        """Tell the token that was chosen. One that was masked is counted; raises ValueError outside the vocabulary."""
        if not 0 <= token_id < self._size:
            raise ValueError(f"token id {token_id} is outside the vocabulary of {self._size} ids")
        wrong = token_id in self._ends and self._may_not_end(token_id)
        if self._has_single_ids:
            forced = self.forced
            wrong = wrong or token_id in self._banned or (forced is not None and token_id != forced)
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
        self.masked_choices += wrong

    def _may_not_end(self, token_id: int) -> bool:
        """Whether this id, which ends the output, is masked for that now."""
        if self.length < self._min_tokens:
            return True
        steps = zip(self._avoid, self._positions, strict=True)
        return token_id in self._end_ids and any(bound.look(position, False)[1] for bound, position in steps)

    @property
    def state(self) -> Hashable:
        """Everything that later answers depend on, this program and request given. Equal states behave alike."""
        if self.max_tokens is not None and self._watch_last:
            phase = self.length
        else:
            phase = min(self.length, self._horizon)
        return self._positions, self._bias_positions, phase, self.kind, self.max_tokens

    # -- for engines that keep answers -----------------------------------------------------------------------------

    @property
    def settled(self) -> tuple[int, int]:
        """From which length on, and below which, all answers and the next place depend on `kind` and `place` alone."""
        last = self.max_tokens - 1 if self._watch_last and self.max_tokens is not None else sys.maxsize
        return self._horizon, last

    @property
    def place(self) -> Hashable:
        """What choices change in a session, its length and counters aside."""
        return self._positions, self._bias_positions

    def move(self, place: Any, length: int) -> None:
        """Go on at a place that a session of this kind was at. The choices in between must have been permitted ones."""
        self._positions, self._bias_positions = place
        self.length = length
