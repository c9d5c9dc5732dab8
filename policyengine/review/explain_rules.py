"""The rules of an explanation: where each stands in the files, and each compiled by itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from policyengine.compiler.pipeline import analyse, assemble
from policyengine.language.diagnostics import PolicyError
from policyengine.language.policyset import Ban, Bias, Phrase, Policy, PolicySet, Rule, Span
from policyengine.runtime.program import BanPlan, Component, Program, Request, RulePlan


@dataclass(frozen=True, slots=True)
class Known:
    """A rule by its rank. phrase: which of its phrases (or expressions) is meant, where it stands; None: no single one.

    file, line, column: the place of the phrase, else of the rule's id.
    """

    rank: int
    name: str  # policy/rule
    file: str
    line: int
    column: int
    phrase: str | None = None

    @property
    def place(self) -> str:
        """`file:line:column`."""
        return f"{self.file}:{self.line}:{self.column}"


class Rules:
    """Policies, compiled together and one by one. Raises PolicyError for policies that do not compile."""

    def __init__(self, policies: PolicySet) -> None:
        work = analyse(policies)
        if work.diagnostics:
            raise PolicyError(work.diagnostics, policies.sources)
        self._work, self._project = work, policies.project
        self.program = assemble(work)
        self._alone: dict[int, Program] = {}

    def plan(self, rank: int) -> RulePlan:
        """The rule as the program holds it."""
        return self.program.rules[rank]

    def said(self, rank: int) -> Rule:
        """The rule as it was written."""
        return self._work.sources[rank].rule

    def policy(self, rank: int) -> Policy:
        """The policy of a rule."""
        return self._work.policies[self.plan(rank).policy]

    def known(self, rank: int, phrase: Phrase | None = None) -> Known:
        """A rule, or one of its phrases, by name and place."""
        span: Span = self.said(rank).span if phrase is None else phrase.span
        name = f"{self.policy(rank).name}/{self.said(rank).id}"
        return Known(rank, name, span.file, span.line, span.column, None if phrase is None else phrase.text)

    @cached_property
    def ranks(self) -> dict[str, int]:
        """Ranks by `policy/rule`."""
        return {self.known(rank).name: rank for rank in range(len(self.program.rules))}

    def patterns(self, component: Component) -> list[Known]:
        """By pattern of a component of this program: the rule and phrase that it comes from."""
        at = next(i for i, one in enumerate(self.program.components) if one is component)
        pairs = zip(component.rules, self._work.patterns[at], strict=True)
        return [self.known(rank, phrase) for rank, phrase in pairs]

    def phrases(self, rank: int) -> list[Phrase]:
        """What a rule looks for, as the program calls it: phrases, expressions, names of scripts."""
        body = self.said(rank).body
        if isinstance(body, Ban):
            return [*body.phrases, *(Phrase(one.text, one.span) for one in body.expressions), *body.scripts]
        return [phrase for phrase, _ in body.phrases] if isinstance(body, Bias) else []

    def action(self, rank: int) -> str:
        """What a ban does to text: redact, terminate or block."""
        body = self.plan(rank).body
        return body.text_action.kind if isinstance(body, BanPlan) else "none"

    def is_active(self, rank: int, request: Request) -> bool:
        """Whether the request runs under the rule's policy."""
        return self.plan(rank).policy in request.policies

    def is_shadow(self, rank: int) -> bool:
        """Whether a rule only watches."""
        return self.plan(rank).mode == "shadow"

    def alone(self, rank: int) -> Program:
        """A program of nothing but this rule, which acts even if it only watches; its policy is number 0."""
        if rank not in self._alone:
            self._alone[rank] = self.changed(rank, replace(self.said(rank), mode="enforce"))
        return self._alone[rank]

    def changed(self, rank: int, rule: Rule) -> Program:
        """A program of nothing but another form of a rule, to find out what it matches, even if it may not be used."""
        policy = replace(self.policy(rank), rules=(rule,), activation="always")
        return assemble(analyse(PolicySet((policy,), self._project, {})))


__all__ = ["Known", "Rules"]
