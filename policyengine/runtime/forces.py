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

Ids = tuple[int, ...]


@dataclass(slots=True)
class Schedule:
    """The forced tokens of one output, or of one of its channels.

    every: the token of every position, None: no such force. at: the tokens of single positions, counted from the
    start. end: what is written before the output may end. after: what follows a phrase, by the rule that forces it.
    """

    every: int | None = None
    at: dict[int, int] = field(default_factory=dict)
    end: Ids = ()
    after: dict[int, Ids] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.every is not None or self.at or self.end or self.after)

    @property
    def horizon(self) -> int:
        """From this position on, the position does not matter any more."""
        return max(self.at, default=-1) + 1

    @property
    def n_ids(self) -> int:
        """How many ids it holds."""
        return len(self.at) + len(self.end) + sum(map(len, self.after.values()))

    def token(self, place: int) -> int | None:
        """The token forced at a position; None: none is."""
        return self.at.get(place, self.every) if self.at else self.every


def value_of(value: Value | Param | None, request: Request) -> Value | None:
    """A literal, or what the request gives for a parameter; None where it gives nothing."""
    return request.values.get(value.name) if isinstance(value, Param) else value


def text_of(plan: ForcePlan, request: Request) -> str | None:
    """The text that is forced; None: a token id is, or nothing. An empty text forces nothing."""
    text = value_of(plan.text, request)
    return text if isinstance(text, str) and text else None


def clash(a: ForcePlan, b: ForcePlan, request: Request) -> bool:
    """Whether two forces certainly want different things at one position, whatever the tokenizer."""
    first, second = value_of(a.token_id, request), value_of(b.token_id, request)
    text, other = text_of(a, request), text_of(b, request)
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
    return same_place and not (text.startswith(other) or other.startswith(text))


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
    forces: Iterable[tuple[int, str, ForcePlan]],
    request: Request,
    encode: Callable[[str], Sequence[int]],
    is_real: npt.NDArray[np.bool_],
) -> Schedule:
    """The forced tokens of one output; raises RequestError for clashes and for ids that the vocabulary lacks.

    forces: rank and name of each rule, in order. is_real: bool [vocabulary], False for padding ids, which no model
    should be made to write.
    """
    result = Schedule()
    for rule, name, plan in forces:
        ids = _ids(plan, request, encode, is_real)
        if not ids:
            continue
        if plan.at == "every":
            _put_everywhere(result, name, ids[0])
        elif plan.at == "end":
            result.end = _longer(result.end, ids, f"{name} and another rule force different tokens at the end")
        elif plan.at is None:
            result.after[rule] = ids
        else:
            for place, forced in enumerate(ids, 0 if plan.at == "start" else plan.at):
                free = result.every is None or result.every == forced
                if result.at.setdefault(place, forced) != forced or not free:
                    raise RequestError(f"{name} and another rule force different tokens at position {place}")
    return result


def _ids(
    plan: ForcePlan, request: Request, encode: Callable[[str], Sequence[int]], is_real: npt.NDArray[np.bool_]
) -> Ids:
    text, token = text_of(plan, request), value_of(plan.token_id, request)
    if text is not None:
        return tuple(encode(text))
    if not isinstance(token, int):
        return ()
    if not (0 <= token < len(is_real) and is_real[token]):
        parameter = plan.token_id.name if isinstance(plan.token_id, Param) else "token_id"
        raise RequestError(f"`{parameter}`: token id {token} is none of the {int(is_real.sum())} of this vocabulary")
    return (token,)


def _longer(a: Ids, b: Ids, otherwise: str) -> Ids:
    """The longer of two texts, one of which is the head of the other."""
    short, long = sorted((a, b), key=len)
    if long[: len(short)] != short:
        raise RequestError(otherwise)
    return long


def _put_everywhere(result: Schedule, name: str, token: int) -> None:
    if (result.every is not None and result.every != token) or any(other != token for other in result.at.values()):
        raise RequestError(f"{name} and another rule force different tokens at one position")
    result.every = token
