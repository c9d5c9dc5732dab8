"""Rules in shadow at the token level: sessions that run beside the one that acts, and are only asked what they think.

What a rule in shadow would do is a question about the tokens that were chosen without it. Each rule that steers (a
force, a minimum length, an allow) is a session of its own, as if it were alone; all bans share one, and all biases. So
two rules in shadow that could not both act may both be tried.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from policyengine.automata.phrases import Ints
from policyengine.runtime import bind_checks
from policyengine.runtime.choice_plans import ChoicePlans
from policyengine.runtime.errors import RequestError
from policyengine.runtime.program import (
    AllowPlan,
    BanPlan,
    BiasPlan,
    Component,
    ForcePlan,
    Request,
    RewritePlan,
    RulePlan,
    TextAction,
)
from policyengine.runtime.reasons import masking
from policyengine.runtime.token_session import Answers, StandIn, TokenSession

if TYPE_CHECKING:
    import numpy.typing as npt

    from policyengine.runtime.ends import Ends
    from policyengine.runtime.token_program import BoundComponent, TokenProgram

_COUNTED = TextAction("terminate", None, None)

Ranked = tuple[int, RulePlan]


class ShadowProgram:
    """Rules in shadow, as a program in which nothing else acts. pushes: they are biases, which forbid nothing."""

    def __init__(self, program: TokenProgram, rules: tuple[Ranked, ...], bounds: list[BoundComponent]) -> None:
        """program: what they are bound with; the rest of it is shared. bounds: those of their components."""
        self.pushes = any(isinstance(rule.body, BiasPlan) for _, rule in rules)
        self.program = view = copy(program)
        view.ranked = tuple((rank, _as_ban(rule)) for rank, rule in rules)
        view.rules = tuple(rule for _, rule in view.ranked)
        # A bias is watched as the ban of what it pushes: both are about tokens that complete a phrase.
        view.avoid = tuple(bound for bound in bounds if bound.component.use != "after")
        view.after = tuple(bound for bound in bounds if bound.component.use == "after")
        view.bias = ()
        view.shadows = ()
        view.in_shadow = frozenset(rank for rank, _ in rules)
        view.choices = ChoicePlans(view)
        view.forget()
        if not self.pushes:
            bind_checks.check_ids(view)
        for _, rule in rules:
            if isinstance(rule.body, ForcePlan) and isinstance(rule.body.text, str):
                view.encode(rule, rule.body.text)
        bind_checks.check_rules(view)


def shadow_programs(program: TokenProgram, ranked: Iterable[Ranked]) -> tuple[ShadowProgram, ...]:
    """What is watched of a program. Raises BindError for a rule that can never do what it says, as if it acted."""
    from policyengine.runtime.token_program import BoundComponent

    bans: list[Ranked] = []
    biases: list[Ranked] = []
    groups: list[list[Ranked]] = []
    for rank, rule in ranked:
        body = rule.body
        if isinstance(body, BanPlan):
            bans.append((rank, rule))
        elif isinstance(body, AllowPlan) and body.scripts:
            bans.append((rank, rule))  # in its component, the characters that it leaves out
        elif isinstance(body, BiasPlan):
            biases.append((rank, rule))
        elif not isinstance(body, RewritePlan):
            groups.append([(rank, rule)])
    found = []
    known: dict[int, BoundComponent] = {}

    def bound(component: Component) -> BoundComponent:
        if id(component) not in known:
            known[id(component)] = BoundComponent(component, program.vocabulary)
        return known[id(component)]

    components = [c for c in program.program.components if c.mode == "shadow" and c.use != "text" and program.fits(c)]
    for group in (bans, biases, *groups):
        ranks = {rank for rank, _ in group}
        mine = [bound(component) for component in components if ranks.intersection(component.rules)]
        if mine or any(_at_token_level(rule) for _, rule in group):
            found.append(ShadowProgram(program, tuple(group), mine))
    return tuple(found)


def _at_token_level(rule: RulePlan) -> bool:
    return not isinstance(rule.body, BanPlan) or bool(rule.body.token_ids)


def _as_ban(rule: RulePlan) -> RulePlan:
    body = rule.body
    if not isinstance(body, BiasPlan):
        return rule
    return replace(rule, body=BanPlan(True, _COUNTED, tuple(token for token, _ in body.token_ids)))


def watched(
    program: TokenProgram, own: TokenSession, request: Request, ends: Ends, reasoning: bool | None
) -> TokenSession:
    """A session with those of the rules in shadow beside it; the session itself where none of them is about it."""
    beside: list[tuple[ShadowProgram, TokenSession]] = []
    for shadow in program.shadows:
        try:
            session = shadow.program.begin(request, ends, reasoning)
        except RequestError:
            continue  # acting, it would refuse this request; what it would do later is nothing
        if not session.is_idle:
            beside.append((shadow, session))
    return WatchedSession(own, beside) if beside else own


class WatchedSession(TokenSession):
    """A session that acts, and beside it those that only count. All that an engine may see of it is the first."""

    def __init__(self, own: TokenSession, beside: list[tuple[ShadowProgram, TokenSession]]) -> None:
        self._own = own
        self._beside = tuple(session for _, session in beside)
        self._masking = tuple(session for shadow, session in beside if not shadow.pushes)
        self.program, self.request, self.max_tokens = own.program, own.request, own.max_tokens
        self.kind = own.kind
        self.is_idle = False

    # -- what the session that acts says ---------------------------------------------------------------------------

    @property
    def length(self) -> int:  # type: ignore[override]
        """Tokens chosen so far."""
        return self._own.length

    @property
    def masked_choices(self) -> int:  # type: ignore[override]
        """Choices that a mask should have prevented."""
        return self._own.masked_choices

    @property
    def has_bias(self) -> bool:  # type: ignore[override]
        """As in the session that acts, where it changes with the channel."""
        return self._own.has_bias

    @property
    def forced(self) -> int | None:
        """As in the session that acts."""
        return self._own.forced

    @property
    def only(self) -> Ints | None:
        """As in the session that acts."""
        return self._own.only

    @property
    def stand_in(self) -> StandIn | None:
        """As in the session that acts."""
        return self._own.stand_in

    def mask_parts(self) -> tuple[Ints, ...]:
        """As in the session that acts."""
        return self._own.mask_parts()

    def masked(self, allowed: Iterable[int] | None = None) -> npt.NDArray[np.int64]:
        """As in the session that acts."""
        return self._own.masked(allowed)

    def bias_arrays(self) -> tuple[Ints, npt.NDArray[np.float64]]:
        """As in the session that acts."""
        return self._own.bias_arrays()

    # -- what is watched -------------------------------------------------------------------------------------------

    def advance(self, token_id: int) -> None:
        """As in the session that acts."""
        self._own.advance(token_id)
        for session in self._beside:
            session.advance(token_id)

    def choose(self, token_id: int) -> tuple[int, ...]:
        """Of a rule in shadow: whether it would have masked the token, or (a bias) pushed it."""
        found = self._own.choose(token_id)
        for session in self._beside:
            found += session.choose(token_id)
        return found

    def dead_ends(self, answers: Answers | None = None) -> tuple[int, ...]:
        """Also the rules in shadow that would leave nothing, those of a kind together with the rules that act."""
        answers = answers or self._own.answers()
        found = self._own.dead_ends(answers)
        if found:
            return found
        for session in self._masking:
            if session.leaves_nothing(_together(answers, session.answers())):
                found += masking(session, None)
        return found

    @property
    def settled(self) -> tuple[int, int]:
        """As in a session, for all of them."""
        spans = [session.settled for session in self._all()]
        return max(since for since, _ in spans), min(until for _, until in spans)

    @property
    def state(self) -> Hashable:
        """As in a session, for all of them."""
        return tuple(session.state for session in self._all())

    @property
    def place(self) -> Hashable:
        """As in a session, for all of them."""
        return tuple([session.place for session in self._all()])

    def move(self, place: Any, length: int) -> None:
        """As in a session, for all of them."""
        for session, its in zip(self._all(), place, strict=True):
            session.move(its, length)

    def _all(self) -> Iterator[TokenSession]:
        yield self._own
        yield from self._beside


def _together(a: Answers, b: Answers) -> Answers:
    """What two sets of rules would leave if both acted; of two forces the first one counts."""
    only = b.only if a.only is None else a.only if b.only is None else np.intersect1d(a.only, b.only)
    forced = b.forced if a.forced is None else a.forced
    return Answers((*a.parts, *b.parts), forced, only, a.stand_in or b.stand_in)


__all__ = ["ShadowProgram", "WatchedSession", "shadow_programs", "watched"]
