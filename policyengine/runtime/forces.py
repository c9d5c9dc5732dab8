"""Which token is forced where, and forces of one request that cannot both hold.

Two readings of the same rules: `conflict` needs no tokenizer, so that a request is refused where it comes in;
`schedule` knows the tokens and decides the rest when the output starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from policyengine.runtime.errors import RequestError
from policyengine.runtime.program import ForcePlan, Param, Request, Value


@dataclass(slots=True)
class Schedule:
    """`every`: the token of every position, None: no such force. `at`: the tokens of single positions."""

    every: int | None = None
    at: dict[int, int] = field(default_factory=dict)


def value_of(value: Value | Param | None, request: Request) -> Value | None:
    """A literal, or what the request gives for a parameter; None where it gives nothing."""
    return request.values.get(value.name) if isinstance(value, Param) else value


def clash(a: ForcePlan, b: ForcePlan, request: Request) -> bool:
    """Whether two forces certainly want different things at one position, whatever the tokenizer."""
    first, second = value_of(a.token_id, request), value_of(b.token_id, request)
    text, other = value_of(a.text, request), value_of(b.text, request)
    if (first is None and text is None) or (second is None and other is None):
        return False  # a parameter without a value: that rule is inactive
    always = "every" in (a.at, b.at)
    same_place = _place(a) == _place(b)
    if always and not all(isinstance(_place(plan), int) or plan.at == "every" for plan in (a, b)):
        return False  # whether the output comes to an end, or to that phrase, is not certain
    if text is None and other is None:
        return first != second and (always or same_place)
    if text is None or other is None:
        return always  # at best, the text says the same as that one token does already
    # From one place on, two texts agree only if one is the head of the other.
    return same_place and not (str(text).startswith(str(other)) or str(other).startswith(str(text)))


def _place(plan: ForcePlan) -> object:
    """Where a force acts, in a form that is equal for equal places."""
    return 0 if plan.at == "start" else ("after", plan.after) if plan.at is None else plan.at


def conflict(forces: Sequence[tuple[str, ForcePlan]], request: Request) -> str | None:
    """What to tell a client whose request switches on forces that clash; None if none do. Names are `policy/rule`."""
    for i, (name, plan) in enumerate(forces):
        for other, earlier in forces[:i]:
            if clash(plan, earlier, request):
                return f"{other} and {name} force different tokens at one position; a request can have only one of them"
    return None


def schedule(
    forces: Iterable[tuple[str, ForcePlan]],
    request: Request,
    encode: Callable[[str], Sequence[int]],
    is_real: npt.NDArray[np.bool_],
) -> Schedule:
    """The forced tokens of one output; raises RequestError for clashes and for ids that the vocabulary lacks.

    is_real: bool [vocabulary], False for padding ids, which no model should be made to write.
    """
    result = Schedule()
    for name, plan in forces:
        text, token = value_of(plan.text, request), value_of(plan.token_id, request)
        if isinstance(token, int) and not (0 <= token < len(is_real) and is_real[token]):
            parameter = plan.token_id.name if isinstance(plan.token_id, Param) else "token_id"
            raise RequestError(
                f"`{parameter}`: token id {token} is none of the {int(is_real.sum())} of this vocabulary"
            )
        ids = list(encode(text)) if isinstance(text, str) else [token] if isinstance(token, int) else []
        if not ids:
            continue
        if plan.at == "every":
            _put_everywhere(result, name, ids[0])
            continue
        if plan.at is None or plan.at == "end":
            continue
        for place, forced in enumerate(ids, 0 if plan.at == "start" else plan.at):
            if result.at.setdefault(place, forced) != forced or (result.every is not None and result.every != forced):
                raise RequestError(f"{name} and another rule force different tokens at position {place}")
    return result


def _put_everywhere(result: Schedule, name: str, token: int) -> None:
    if (result.every is not None and result.every != token) or any(other != token for other in result.at.values()):
        raise RequestError(f"{name} and another rule force different tokens at one position")
    result.every = token
