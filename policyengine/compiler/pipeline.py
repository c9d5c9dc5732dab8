"""PolicySet to Program: the whole compiler as one ordered list of passes."""

from __future__ import annotations

from collections.abc import Callable

from policyengine.compiler.allowed import check_allowed, check_forced_allowed
from policyengine.compiler.components import build_components
from policyengine.compiler.contradictions import (
    check_followed_phrases,
    check_followed_texts,
    check_forced_texts,
    check_forced_tokens,
    check_forces,
    check_rewrites,
    check_shown_texts,
)
from policyengine.compiler.lowering import lower_rules, resolve_policies
from policyengine.compiler.parameters import check_parameters
from policyengine.compiler.work import Work
from policyengine.language.diagnostics import PolicyError
from policyengine.language.policyset import PolicySet
from policyengine.requests import build_parser
from policyengine.runtime.digest import program_digest
from policyengine.runtime.program import Program, Reasoning

Pass = Callable[[Work], None]

PASSES: tuple[Pass, ...] = (
    resolve_policies,  # policies by file name, their targets settled: everything below refers to them by place
    check_parameters,
    lower_rules,  # rules by file name and id: their place is their rank in ties
    build_components,  # phrases into automata; needs the ranks
    check_forces,  # contradictions from here on; those about phrases ask the automata themselves
    check_forced_tokens,
    check_forced_texts,
    check_followed_phrases,
    check_followed_texts,
    check_shown_texts,
    check_rewrites,
    check_allowed,
    check_forced_allowed,
)


def compile_policies(policies: PolicySet) -> Program:
    """Compile policies to a program; the same policies give the same program, wherever they lie.

    Raises `PolicyError` with every contradiction that can be proven. What a target can enforce is not asked here (see
    `levels`).
    """
    work = analyse(policies)
    if work.diagnostics:
        raise PolicyError(work.diagnostics, policies.sources)
    return assemble(work)


def analyse(policies: PolicySet) -> Work:
    """Run all passes; what they find wrong is in `Work.diagnostics`."""
    work = Work(policies)
    for run in PASSES:
        run(work)
    return work


def assemble(work: Work) -> Program:
    """The program of finished work. Where something is wrong with it, it only serves to find out more."""
    hold, markers = work.given.project.max_hold, work.given.project.reasoning
    reasoning = Reasoning(markers.start, markers.end) if markers else None
    return Program(
        policies=work.plans,
        rules=work.rules,
        components=work.components,
        max_hold=hold,
        digest=program_digest(work.plans, work.rules, work.components, hold, reasoning),
        parse_request=build_parser(work.plans),
        reasoning=reasoning,
    )
