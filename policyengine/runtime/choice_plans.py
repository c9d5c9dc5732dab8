"""The choices of all requests of one program: each set of texts under each set of bans is worked out once."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import TYPE_CHECKING

from policyengine.automata.choices import Choices
from policyengine.automata.kept import Kept
from policyengine.runtime import forced_text
from policyengine.runtime.allowed_choices import ChoicePlan

if TYPE_CHECKING:
    from policyengine.runtime.program import Component
    from policyengine.runtime.token_program import TokenProgram

_MOST_KEPT = 64
_AN_ITEM = 100  # bytes that a node or an edge takes, about


class ChoicePlans:
    """Choices on one vocabulary. A cache; not thread-safe while it fills."""

    def __init__(self, program: TokenProgram) -> None:
        self._program = program
        self._choices: dict[tuple[frozenset[str], bool], Choices] = {}
        self._plans: Kept[Hashable, ChoicePlan] = Kept(_MOST_KEPT)

    def choices(self, texts: Collection[str], at_start: bool = True) -> Choices:
        """The texts on the vocabulary. at_start: nothing stands before them, so that a space there may be dropped."""
        optional = at_start and self._program.vocabulary.drops_leading_space
        key = frozenset(texts), optional
        known = self._choices.get(key)
        if known is None:
            if len(self._choices) >= _MOST_KEPT:
                self._choices.clear()
            data = [text.encode() for text in texts]
            known = self._choices[key] = Choices(data + [b" " + d for d in data] * optional, self._program.texts)
        return known

    def plan(
        self,
        texts: Collection[str],
        policies: Collection[int],
        channel: str | None,
        *,
        at_start: bool = True,
        forbidden: Collection[int] = (),
        only: frozenset[int] | None = None,
    ) -> ChoicePlan:
        """What the active bans of these policies leave of the texts. forbidden, only: as in `ChoicePlan`."""
        program, choices = self._program, self.choices(texts, at_start)
        here = ("all", channel)

        def acts(component: Component) -> bool:
            return any(p in policies for p in component.policies) and (channel is None or component.channel in here)

        bans = tuple(bound for bound in program.avoid if acts(bound.component))
        relevant = choices.tokens.intersection(forbidden)
        key = choices, tuple(id(ban) for ban in bans), relevant, only, frozenset(policies)
        known = self._plans.get(key)
        if known is not None:
            return known
        texts_bans = [c for c in program.program.components if c.use == "text" and program.acts(c) and acts(c)]
        dropped = {
            data
            for data in choices.texts
            if any(forced_text.matches(c.automaton, data.decode(), "alone", masks=False) for c in texts_bans)
        }
        plan = ChoicePlan(choices, program.texts, bans, forbidden=relevant, only=only, dropped=dropped)
        return self._plans.keep(key, plan, nbytes=_AN_ITEM * plan.n_items)


__all__ = ["ChoicePlans"]
