"""What only the vocabulary shows to be contradictory: rules that can never do what they say. Found before serving."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from policyengine.runtime.program import BanPlan, BiasPlan, ForcePlan, MinTokensPlan, RulePlan

if TYPE_CHECKING:
    from policyengine.runtime.token_program import TokenProgram

_MOST_REPEATS = 256  # steps after which a token that is forced everywhere has shown what it does


def check_ids(program: TokenProgram) -> None:
    """Raise BindError for a token id of a rule that the vocabulary lacks, or that it cannot do without."""
    size, ends = program.vocabulary.size, set(program.vocabulary.eos_token_ids)
    for rule in program.rules:
        for token in _literal_ids(rule):
            if not 0 <= token < size:
                raise program.refusal(rule, f": token id {token} is outside the vocabulary of {size} ids")
            if isinstance(rule.body, BanPlan) and token in ends:
                raise program.refusal(rule, f": token id {token} ends this model's outputs and cannot be banned")
            if isinstance(rule.body, ForcePlan) and not program.is_real[token]:
                raise program.refusal(rule, f": token id {token} stands for nothing in this vocabulary")


def _literal_ids(rule: RulePlan) -> list[int]:
    body = rule.body
    if isinstance(body, BanPlan):
        return list(body.token_ids)
    if isinstance(body, BiasPlan):
        return [token for token, _ in body.token_ids]
    return [body.token_id] if isinstance(body, ForcePlan) and isinstance(body.token_id, int) else []


def check_forces(program: TokenProgram) -> None:
    """Raise BindError for a force that a ban or a minimum length, certain to act with it, never lets through.

    Looked at: a run of forced tokens from the start of the output, with the text they spell; a token forced everywhere;
    and single tokens that hold a banned phrase whatever stands before them. Values of requests are not known here.
    """
    always = {i for i, p in enumerate(program.program.policies) if p.activation == "always"}
    for rule in program.rules:
        if isinstance(rule.body, ForcePlan):
            _check_with(program, always | {rule.policy})


def _check_with(program: TokenProgram, policies: set[int]) -> None:
    """`check_forces` for the rules of these policies, which can act together."""
    rules = [rule for rule in program.rules if rule.policy in policies]
    banned = {t: r for r in rules if isinstance(r.body, BanPlan) for t in r.body.token_ids}
    lengths = [(r.body.n, r) for r in rules if isinstance(r.body, MinTokensPlan) and isinstance(r.body.n, int)]
    least, shortest = max(lengths, key=lambda entry: entry[0], default=(0, None))
    forced, every = _schedule(program, rules)
    for place, (token, rule) in forced.items():
        _check_alone(program, policies, token, rule)
        if token in banned:
            raise program.refusal(rule, f" forces token {token}, which {program.name(banned[token])} bans")
        if shortest is not None and place < least and token in program.vocabulary.eos_token_ids:
            raise program.refusal(rule, f" forces the end of an output that {program.name(shortest)} lengthens")
    for bound in program.avoid:
        if not policies.intersection(bound.component.policies):
            continue
        position = bound.matcher.START
        for token, rule in _run(forced, every):
            done = bound.matcher.completes(position, token)
            if done:
                other = program.program.rules[bound.component.rules[min(done)]]
                what = f" forces {_shown(rule)}, which holds a phrase that {program.name(other)} bans"
                raise program.refusal(rule, what)
            position, _ = bound.matcher.advance(position, token)


def _schedule(
    program: TokenProgram, rules: list[RulePlan]
) -> tuple[dict[int, tuple[int, RulePlan]], tuple[int, RulePlan] | None]:
    """Forced tokens by position, and the one of every position; only those that no request decides."""
    forced: dict[int, tuple[int, RulePlan]] = {}
    every = None
    for rule in rules:
        body = rule.body
        if not isinstance(body, ForcePlan):
            continue
        ids = list(program.forced_texts[body.text]) if isinstance(body.text, str) else _literal_ids(rule)
        if body.at == "every":
            every = (ids[0], rule) if ids else every
            continue
        if body.at is None or body.at == "end":
            continue
        for place, token in enumerate(ids, 0 if body.at == "start" else body.at):
            forced.setdefault(place, (token, rule))
    if every is not None:
        forced.setdefault(0, every)
    return forced, every


def _run(forced: dict[int, tuple[int, RulePlan]], every: tuple[int, RulePlan] | None) -> Iterator[tuple[int, RulePlan]]:
    """The forced tokens from the start of an output up to the first free position."""
    place = 0
    while place in forced or (every is not None and place < _MOST_REPEATS):
        entry = forced.get(place, every)
        assert entry is not None
        yield entry
        place += 1


def _check_alone(program: TokenProgram, policies: set[int], token: int, rule: RulePlan) -> None:
    for bound in program.avoid:
        done = bound.matcher.always_completes(token)
        if done and policies.intersection(bound.component.policies):
            other = program.program.rules[bound.component.rules[min(done)]]
            what = f" forces {_shown(rule)}, which holds a phrase that {program.name(other)} bans"
            raise program.refusal(rule, what)


def _shown(rule: RulePlan) -> str:
    body = rule.body
    return (
        f"`{body.text}`" if isinstance(body, ForcePlan) and body.text is not None else f"token {_literal_ids(rule)[0]}"
    )
