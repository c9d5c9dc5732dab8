"""What the rules ask of one request, before its output begins.

Rules that read text act on each channel by itself. Those that count tokens or name the whole output come in layers: of
the whole output (channel `all`), and of the channel that they name, counted from where it begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from policyengine.runtime import forced_text
from policyengine.runtime.errors import RequestError
from policyengine.runtime.forces import Schedule, schedule, value_of
from policyengine.runtime.program import (
    AllowPlan,
    BanPlan,
    BiasPlan,
    ForcePlan,
    MinTokensPlan,
    Param,
    Request,
    RulePlan,
)

if TYPE_CHECKING:
    from policyengine.automata.phrases import Ints
    from policyengine.runtime.allowed_choices import ChoicePlan
    from policyengine.runtime.ends import Ends
    from policyengine.runtime.token_program import BoundComponent, TokenProgram

Channel = Literal["answer", "reasoning"]


@dataclass(slots=True)
class Layer:
    """What is asked of the whole output, or of one channel.

    least: tokens below which it may not end. ids: what alone may be chosen, ends without text among it; None: anything.
    choices: what it may be as a whole; None: anything.
    """

    least: int = 0
    schedule: Schedule = field(default_factory=Schedule)
    ids: Ints | None = None
    choices: ChoicePlan | None = None

    @property
    def horizon(self) -> int:
        """From this many tokens on, their number does not matter any more."""
        return max(self.least, self.schedule.horizon)

    @property
    def steers(self) -> bool:
        """Whether it asks for more than a length."""
        return bool(self.schedule) or self.ids is not None or self.choices is not None

    @property
    def longest(self) -> int:
        """The most tokens that a choice takes; 0: there are none."""
        return 0 if self.choices is None else self.choices.most


class Asked:
    """What acts in one channel of a request's output; channel None: the output has no channels. Shared by requests.

    rules: those of this channel, with their ranks.
    banned: ids that are always masked; always: the same as a mask has them. biases: by id.
    weights: float64 [patterns], one array a component of `bias`.
    layers: of the whole output, and of the channel if there are channels.
    """

    def __init__(
        self, program: TokenProgram, request: Request, ends: Ends, channel: Channel | None, *, at_start: bool = True
    ) -> None:
        """at_start: no text stands before this channel's. Raises RequestError for what cannot hold together.

        Nothing depends on `ends.max_tokens` (see `check_fits`).
        """
        self._program, self._request, self._channel = program, request, channel
        self.avoid = self._active(program.avoid)
        self.bias = self._active(program.bias)
        self.after = self._active(program.after)
        self.weights = tuple(self._weights(bound.component.weights) for bound in self.bias)
        rules = [(rank, rule) for rank, rule in program.ranked if self._acts(rule.policy, rule.channel)]
        self.rules = tuple(rules)
        self.banned = frozenset(t for _, rule in rules if isinstance(rule.body, BanPlan) for t in rule.body.token_ids)
        self.always: tuple[Ints, ...] = (program.shared_ids(self.banned),) if self.banned else ()
        self.biases = self._token_biases(rules)
        whole = [(rank, rule) for rank, rule in rules if channel is None or rule.channel == "all"]
        self.layers = [self._layer(whole, ends, at_start=True)]
        if channel is not None:
            own = [(rank, rule) for rank, rule in rules if rule.channel != "all"]
            self.layers.append(self._layer(own, ends, at_start=at_start))

    @property
    def asks(self) -> bool:
        """Whether any rule acts at all."""
        layered = any(layer.least or layer.steers for layer in self.layers)
        return bool(self.avoid or self.bias or self.banned or self.biases or layered)

    def arrays(self) -> Iterator[npt.NDArray[np.generic]]:
        """The arrays that it holds."""
        yield from self.weights
        yield from self.always
        yield from (layer.ids for layer in self.layers if layer.ids is not None)

    @property
    def n_items(self) -> int:
        """How many ids and characters it holds beside them, about; those that a client gave are among them."""
        texts = sum(len(value) for value in self._request.values.values() if isinstance(value, str))
        plans = sum(layer.choices.n_items for layer in self.layers if layer.choices is not None)
        return len(self.banned) + len(self.biases) + texts + plans + sum(layer.schedule.n_ids for layer in self.layers)

    def check_fits(self, max_tokens: int | None) -> None:
        """Refuse an output that is too short for any of its choices."""
        if max_tokens is not None and max_tokens < 0:
            raise RequestError(f"max_tokens is {max_tokens}; it must not be negative")
        least = max((layer.choices.least for layer in self.layers if layer.choices is not None), default=0)
        if max_tokens is not None and max_tokens < least:
            raise RequestError(f"max_tokens is {max_tokens}, and the shortest choice takes {least} tokens")

    def _acts(self, policy: int, channel: str) -> bool:
        return policy in self._request.policies and (self._channel is None or channel in ("all", self._channel))

    def _active(self, bounds: Iterable[BoundComponent]) -> tuple[BoundComponent, ...]:
        return tuple(
            bound for bound in bounds if any(self._acts(p, bound.component.channel) for p in bound.component.policies)
        )

    def _weights(self, weights: Iterable[float | Param]) -> npt.NDArray[np.float64]:
        values = [value_of(w, self._request) for w in weights]
        return np.array([float(v) if isinstance(v, int | float) else 0.0 for v in values])

    def _token_biases(self, rules: Iterable[tuple[int, RulePlan]]) -> dict[int, float]:
        found: dict[int, float] = {}
        for _, rule in rules:
            for token, weight in rule.body.token_ids if isinstance(rule.body, BiasPlan) else ():
                value = value_of(weight, self._request)
                if isinstance(value, int | float):
                    found[token] = found.get(token, 0.0) + float(value)
        return found

    # -- layers ----------------------------------------------------------------------------------------------------

    def _layer(self, rules: list[tuple[int, RulePlan]], ends: Ends, *, at_start: bool) -> Layer:
        program, request = self._program, self._request
        layer = Layer()
        forces: list[tuple[int, str, ForcePlan]] = []
        allows: list[tuple[RulePlan, AllowPlan]] = []
        for rank, rule in rules:
            body = rule.body
            if isinstance(body, MinTokensPlan):
                n = value_of(body.n, request)
                layer.least = max(layer.least, int(n) if isinstance(n, int | float) else 0)
            elif isinstance(body, ForcePlan):
                self._check_text(rule, body)
                forces.append((rank, program.name(rule), body))
            elif isinstance(body, AllowPlan):
                allows.append((rule, body))
        if forces:
            layer.schedule = schedule(forces, request, program.ids_of, program.is_real)
        listed = [frozenset(body.token_ids) for _, body in allows if body.token_ids]
        only = frozenset.intersection(*listed) if listed else None
        if only is not None:
            if not only:
                raise RequestError(f"{self._names(allows, 'token_ids')} have no token in common")
            layer.ids = program.shared_ids(only | ends.silent)
        if any(body.choices for _, body in allows):
            layer.choices = self._choices(allows, only, ends, at_start)
        return layer

    def _choices(
        self, allows: list[tuple[RulePlan, AllowPlan]], only: frozenset[int] | None, ends: Ends, at_start: bool
    ) -> ChoicePlan:
        texts = frozenset.intersection(*(frozenset(body.choices) for _, body in allows if body.choices))
        forbidden = self.banned.union(ends.shown.tolist())
        plan = self._program.choices.plan(
            texts, self._request.policies, self._channel, at_start=at_start, forbidden=forbidden, only=only
        )
        if plan.is_empty:
            what = "is left under the other rules of this request" if texts else "is in all of them"
            raise RequestError(f"{self._names(allows, 'choices')}: no choice {what}")
        return plan

    def _names(self, allows: list[tuple[RulePlan, AllowPlan]], kind: Literal["token_ids", "choices"]) -> str:
        return " and ".join(self._program.name(rule) for rule, body in allows if getattr(body, kind))

    def _check_text(self, rule: RulePlan, plan: ForcePlan) -> None:
        """Refuse a text of the request that a ban would never let through. One of a policy is checked before."""
        found = forced_text.refusal(self._program.program, self._request, rule, plan, self._program.acts)
        if found is not None:
            raise RequestError(found)


__all__ = ["Asked", "Channel", "Layer"]
