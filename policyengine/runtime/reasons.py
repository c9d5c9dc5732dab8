"""Which rules mask what: asked only where something unusual happened, since a step needs no names."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from policyengine.runtime.course import holds
from policyengine.runtime.forces import value_of
from policyengine.runtime.program import AllowPlan, BanPlan, ForcePlan, MinTokensPlan

if TYPE_CHECKING:
    from policyengine.runtime.token_session import TokenSession

Body = TypeVar("Body", BanPlan, ForcePlan, MinTokensPlan, AllowPlan)


def masking(session: TokenSession, token: int | None) -> tuple[int, ...]:
    """The rules (by rank) that mask a token now, ascending; None: that mask any token.

    Of several forces, or allows of choices or ids, no one is told from the others: all of the request are named.
    """
    ends = session._ends
    found: set[int] = set()
    for bound, position in zip(session._avoid, session._positions, strict=True):
        if token is None:
            patterns = set(bound.matcher.completions(position, last=session._is_last())[1].tolist())
        else:
            patterns = bound.matcher.completes(position, token)
        if (len(ends.ids) > 0) if token is None else token in ends.ids:
            patterns = patterns.union(bound.matcher.at_end(position))
        found.update(bound.component.rules[pattern] for pattern in patterns)
    found.update(
        rank
        for rank, body in _bodies(session, BanPlan)
        if (body.token_ids if token is None else token in body.token_ids)
    )
    if session.length < session._least and (token is None or token in ends.all):
        found.update(_lengthening(session))
    found.update(_steering(session, token))
    if not found and len(session._rules) == 1:  # where a marker begins in a token, say
        return (session._rules[0][0],)
    return tuple(sorted(found))


def _lengthening(session: TokenSession) -> list[int]:
    values = [(rank, value_of(body.n, session.request)) for rank, body in _bodies(session, MinTokensPlan)]
    asking = [(rank, n) for rank, n in values if isinstance(n, int | float) and n > 0]
    # A channel's own length is counted from where it begins.
    return [rank for rank, n in asking if n > session.length] or [rank for rank, _ in asking]


def _steering(session: TokenSession, token: int | None) -> list[int]:
    """The forces, or else the allows, that keep a token from being chosen; None: any token."""
    course = session._course
    if course is None or (token is not None and session._is_on_course(course, token)):
        return []
    only = session.only
    if session.forced is not None or session.stand_in is not None or only is None:
        return [rank for rank, _ in _bodies(session, ForcePlan)]
    if token is not None and holds(only, token):
        return []
    return [rank for rank, body in _bodies(session, AllowPlan) if not body.scripts]


def _bodies(session: TokenSession, kind: type[Body]) -> list[tuple[int, Body]]:
    return [(rank, rule.body) for rank, rule in session._rules if isinstance(rule.body, kind)]


__all__ = ["masking"]
