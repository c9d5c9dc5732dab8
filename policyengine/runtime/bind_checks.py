"""What only the vocabulary shows to be contradictory: rules that can never do what they say. Found before serving.

Looked at are rules that are certain to act together: those of the `always` policies, and of one other policy. Values
of requests are not known here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from policyengine.runtime import forced_text
from policyengine.runtime.errors import BindError, RequestError
from policyengine.runtime.forces import Ids, Schedule, schedule
from policyengine.runtime.program import (
    AllowPlan,
    BanPlan,
    BiasPlan,
    ForcePlan,
    MinTokensPlan,
    Request,
    RulePlan,
)

if TYPE_CHECKING:
    from policyengine.runtime.allowed_choices import ChoicePlan
    from policyengine.runtime.token_program import BoundComponent, TokenProgram

_MOST_REPEATS = 256  # steps after which a token that is forced everywhere has shown what it does
_NOTHING_GIVEN = Request(frozenset(), {})


def check_ids(program: TokenProgram) -> None:
    """Raise BindError for a token id of a rule that the vocabulary lacks, or that it cannot do without."""
    size, ends = program.vocabulary.size, set(program.vocabulary.eos_token_ids)
    for rule in program.rules:
        for token in _literal_ids(rule):
            if not 0 <= token < size:
                raise program.refusal(rule, f": token id {token} is outside the vocabulary of {size} ids")
            if isinstance(rule.body, BanPlan) and token in ends:
                raise program.refusal(rule, f": token id {token} ends this model's outputs and cannot be banned")
            if isinstance(rule.body, ForcePlan | BiasPlan) and not program.is_real[token]:
                raise program.refusal(rule, f": token id {token} stands for nothing in this vocabulary")


def _literal_ids(rule: RulePlan) -> list[int]:
    body = rule.body
    if isinstance(body, BanPlan | AllowPlan):
        return list(body.token_ids)
    if isinstance(body, BiasPlan):
        return [token for token, _ in body.token_ids]
    return [body.token_id] if isinstance(body, ForcePlan) and isinstance(body.token_id, int) else []


def check_rules(program: TokenProgram) -> None:
    """Raise BindError for a force that other rules never let through, and for an allow that leaves nothing."""
    for rule in program.rules:
        if isinstance(rule.body, AllowPlan) and rule.body.choices:
            _check_spelling(program, rule, rule.body.choices)
    always = frozenset(i for i, p in enumerate(program.program.policies) if p.activation == "always")
    together = {always | {rule.policy} for rule in program.rules if isinstance(rule.body, ForcePlan | AllowPlan)}
    channels = (None,) if program.markers is None else ("all", "answer", "reasoning")
    for policies in sorted(together, key=sorted):
        for channel in channels:
            _Scope(program, policies, channel).check()


def _check_spelling(program: TokenProgram, rule: RulePlan, choices: tuple[str, ...]) -> None:
    made = program.choices.choices(choices)
    lacking = set(made.unspellable())
    for choice in choices:
        data = choice.encode()
        # Where a space before it may be dropped, a choice can be written in two ways.
        if data in lacking and (b" " + data in lacking or b" " + data not in made.texts):
            raise program.refusal(rule, f": this vocabulary cannot write the choice `{choice}`")


class _Scope:
    """Rules that are certain to act together on one text."""

    def __init__(self, program: TokenProgram, policies: frozenset[int], channel: str | None) -> None:
        """channel: only what names it, under bans of it and of all channels; None: there are no channels."""
        self._program, self._policies, self._channel = program, policies, channel
        rules = [(rank, rule) for rank, rule in program.ranked if rule.policy in policies]
        self._rules = [(rank, rule) for rank, rule in rules if channel is None or rule.channel == channel]
        meets = (channel, "all")
        self._banned = {
            token: rule
            for _, rule in rules
            if isinstance(rule.body, BanPlan) and (channel is None or rule.channel in meets)
            for token in rule.body.token_ids
        }
        self._avoid = [
            bound
            for bound in program.avoid
            if policies.intersection(bound.component.policies) and (channel is None or bound.component.channel in meets)
        ]
        self._least = 0
        self._lengthens: RulePlan | None = None  # the rule that asks for it
        for _, rule in self._rules:
            n = rule.body.n if isinstance(rule.body, MinTokensPlan) else 0
            if isinstance(n, int) and n > self._least:
                self._least, self._lengthens = n, rule

    def check(self) -> None:
        """Raise BindError for the first contradiction."""
        only, listing = self._allowed()
        choices = self._choices(only if listing is not None else None)
        forces = [(rank, rule) for rank, rule in self._rules if isinstance(rule.body, ForcePlan)]
        made = Schedule()
        for count, (_, rule) in enumerate(forces, 1):
            made = self._schedule(forces[:count])
            for token in self._ids(rule):
                self._check_alone(rule, token)
                if listing is not None and token not in only.union(self._program.vocabulary.eos_token_ids):
                    what = f" forces {_shown(rule)}, which {self._program.name(listing)} does not allow"
                    raise self._program.refusal(rule, what)
            self._check_text(rule)
        self._check_lengths(made)
        self._check_run(made, choices)
        if choices is not None:
            self._check_end(made, *choices)

    # -- forces ----------------------------------------------------------------------------------------------------

    def _ids(self, rule: RulePlan) -> Ids:
        """What a force writes, as far as no request decides it."""
        body = rule.body
        if isinstance(body, ForcePlan) and isinstance(body.text, str):
            return self._program.forced_texts[body.text]
        return tuple(_literal_ids(rule))

    def _schedule(self, forces: list[tuple[int, RulePlan]]) -> Schedule:
        program = self._program
        plans = [(rank, program.name(r), r.body) for rank, r in forces if isinstance(r.body, ForcePlan)]
        try:
            return schedule(plans, _NOTHING_GIVEN, program.ids_of, program.is_real)
        except RequestError as error:
            raise BindError(str(error), rule=program.name(forces[-1][1])) from None

    def _check_alone(self, rule: RulePlan, token: int) -> None:
        """One forced token, whatever stands before it."""
        program = self._program
        if token in self._banned:
            raise program.refusal(rule, f" forces token {token}, which {program.name(self._banned[token])} bans")
        for bound in self._avoid:
            self._refuse(rule, bound, bound.matcher.always_completes(token))

    def _check_text(self, rule: RulePlan) -> None:
        """A forced text, in which the text before it can change nothing."""
        plan = rule.body
        if isinstance(plan, ForcePlan) and isinstance(plan.text, str):
            for bound in self._avoid:
                place = forced_text.place_of(plan)
                self._refuse(rule, bound, forced_text.matches(bound.component.automaton, plan.text, place, masks=True))

    def _refuse(self, rule: RulePlan, bound: BoundComponent, done: set[int]) -> None:
        if done:
            program = self._program
            other = program.name(program.program.rules[bound.component.rules[min(done)]])
            is_ban = bound.component.use == "avoid"
            held = f"a phrase that {other} bans" if is_ban else f"what {other} does not allow"
            raise program.refusal(rule, f" forces {_shown(rule)}, which holds {held}")

    def _check_lengths(self, made: Schedule) -> None:
        for place in range(min(self._least, max(made.horizon, 1))):
            token = made.token(place)
            if self._lengthens is not None and token in self._program.vocabulary.eos_token_ids:
                assert token is not None
                what = f" forces the end of an output that {self._program.name(self._lengthens)} lengthens"
                raise self._program.refusal(self._forcing(place, token), what)

    def _check_run(self, made: Schedule, choices: tuple[ChoicePlan, RulePlan] | None) -> None:
        """The forced tokens from the start of the text up to the first free position, with the text they spell."""
        program = self._program
        positions = [bound.matcher.START for bound in self._avoid]
        node = 0
        for place, token in _run(made):
            rule = self._forcing(place, token)
            for i, bound in enumerate(self._avoid):
                self._refuse(rule, bound, bound.matcher.completes(positions[i], token))
                positions[i], _ = bound.matcher.advance(positions[i], token)
            if choices is not None and token not in program.vocabulary.eos_token_ids:
                plan, other = choices
                node = plan.follow(node, token)
                if node < 0:
                    what = f" forces {_shown(rule)}, with which no choice of {program.name(other)} begins"
                    raise program.refusal(rule, what)

    def _forcing(self, place: int, token: int) -> RulePlan:
        """The rule that forces a token at a position."""
        for _, rule in self._rules:
            body = rule.body
            if not isinstance(body, ForcePlan):
                continue
            ids = self._ids(rule)
            if body.at == "every" and ids == (token,):
                return rule
            begins = 0 if body.at == "start" else body.at
            if isinstance(begins, int) and begins <= place < begins + len(ids) and ids[place - begins] == token:
                return rule
        raise AssertionError("a forced token comes from a rule")

    # -- allows ----------------------------------------------------------------------------------------------------

    def _allowed(self) -> tuple[frozenset[int], RulePlan | None]:
        """The ids that alone may be chosen, and the last rule that says so; None: no rule does."""
        only: frozenset[int] = frozenset()
        last = None
        for _, rule in self._rules:
            if isinstance(rule.body, AllowPlan) and rule.body.token_ids:
                mine = frozenset(t for t in rule.body.token_ids if self._program.is_real[t] and t not in self._banned)
                only, last = mine if last is None else only & mine, rule
                if not only:
                    raise self._program.refusal(rule, ": none of its tokens is left under the other rules")
        return only, last

    def _choices(self, only: frozenset[int] | None) -> tuple[ChoicePlan, RulePlan] | None:
        """What is left of all choices, and the last rule that names some."""
        program = self._program
        texts: frozenset[str] | None = None
        plan, last = None, None
        for _, rule in self._rules:
            if isinstance(rule.body, AllowPlan) and rule.body.choices:
                mine = frozenset(rule.body.choices)
                texts, last = mine if texts is None else texts & mine, rule
                plan = program.choices.plan(
                    texts, self._policies, self._channel, forbidden=frozenset(self._banned), only=only
                )
                if plan.is_empty:
                    raise program.refusal(rule, ": none of its choices is left under the other rules")
                if self._lengthens is not None and plan.most < self._least:
                    other = program.name(self._lengthens)
                    what = f": no choice takes more than {plan.most} tokens, and {other} asks for {self._least}"
                    raise program.refusal(rule, what)
        return None if plan is None or last is None else (plan, last)

    def _check_end(self, made: Schedule, plan: ChoicePlan, other: RulePlan) -> None:
        """A text at the end, behind which the output is no choice any more."""
        if not made.end:
            return
        data = b"".join(self._program.texts[token] or b"" for token in made.end)
        if not any(plan.may_end(plan.step(node, data)) for node in range(len(plan.whole)) if plan.whole[node]):
            for _, rule in self._rules:
                if isinstance(rule.body, ForcePlan) and rule.body.at == "end":
                    what = f" forces {_shown(rule)} behind the choices of {self._program.name(other)}"
                    raise self._program.refusal(rule, what)


def _run(made: Schedule) -> Iterator[tuple[int, int]]:
    place = 0
    while place < max(made.horizon, _MOST_REPEATS) and (token := made.token(place)) is not None:
        yield place, token
        place += 1


def _shown(rule: RulePlan) -> str:
    body = rule.body
    return (
        f"`{body.text}`" if isinstance(body, ForcePlan) and body.text is not None else f"token {_literal_ids(rule)[0]}"
    )
