"""Programs in which some rules are in shadow, made of programs in which all of them act."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from policyengine.runtime.digest import program_digest
from policyengine.runtime.program import Component, Program, RulePlan


def in_shadow(program: Program, ranks: Collection[int] | None = None) -> Program:
    """The same program with these rules (by rank; None: all) in shadow. No component may hold rules of both modes."""
    chosen = set(range(len(program.rules))) if ranks is None else set(ranks)
    rules = tuple(replace(rule, mode="shadow") if i in chosen else rule for i, rule in enumerate(program.rules))
    components = []
    for component in program.components:
        mine = chosen.intersection(component.rules)
        assert not mine or mine == set(component.rules)
        components.append(replace(component, mode="shadow") if mine else component)
    return _made(program, rules, tuple(components))


def side_by_side(programs: Sequence[Program]) -> Program:
    """Programs of the same policies as one, in which no component is shared between them."""
    rules: list[RulePlan] = []
    components: list[Component] = []
    for program in programs:
        first = len(rules)
        rules += [replace(rule, id=f"r{first + i}") for i, rule in enumerate(program.rules)]
        components += [replace(one, rules=tuple(rank + first for rank in one.rules)) for one in program.components]
    return _made(programs[0], tuple(rules), tuple(components))


def _made(program: Program, rules: tuple[RulePlan, ...], components: tuple[Component, ...]) -> Program:
    digest = program_digest(program.policies, rules, components, program.max_hold, program.reasoning)
    return replace(program, rules=rules, components=components, digest=digest)
