"""What the passes of the compiler share: the policies in their final order and what has been made of them so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from policyengine.language.diagnostics import Diagnostic
from policyengine.language.policyset import Phrase, Policy, PolicySet, Rule, When
from policyengine.runtime.program import Component, PolicyPlan, RulePlan


@dataclass(slots=True)
class Source:
    """A rule where it comes from. Its place in `Work.sources` is that of its plan in `Work.rules`."""

    policy: int
    rule: Rule


@dataclass(slots=True)
class Work:
    """Filled by the passes of `pipeline.PASSES`, in their order.

    policies: as loaded, sorted by file; plans: what became of each, by the same index.
    sources, rules: by rank (file name, then rule id).
    patterns: for each component the phrase of each pattern, for error messages.
    """

    given: PolicySet
    policies: tuple[Policy, ...] = ()
    plans: tuple[PolicyPlan, ...] = ()
    sources: tuple[Source, ...] = ()
    rules: tuple[RulePlan, ...] = ()
    components: tuple[Component, ...] = ()
    patterns: tuple[tuple[Phrase, ...], ...] = ()
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def name(self, source: Source) -> str:
        """`policy/rule`, as people write it."""
        return f"{self.plans[source.policy].name}/{source.rule.id}"

    def together(self, a: Source, b: Source) -> bool:
        """Whether b acts in every output in which a acts, or the other way round, on some target and engine.

        A rule in shadow acts in none. Two policies that a request may or may not combine are not decided here: their
        request is refused, or the session copes.
        """
        if "shadow" in (a.rule.mode, b.rule.mode):
            return False
        first, second = self.plans[a.policy], self.plans[b.policy]
        certain = a.policy == b.policy or "always" in (first.activation, second.activation)
        same_targets = bool(set(first.targets) & set(second.targets))
        return certain and same_targets and self._same_channel(a, b) and _same_engine(a.rule.when, b.rule.when)

    def _same_channel(self, a: Source, b: Source) -> bool:
        """Whether there is a part of the output that both are about."""
        if self.given.project.reasoning is None:
            return True
        return "all" in (a.rule.channel, b.rule.channel) or a.rule.channel == b.rule.channel


def _same_engine(a: When, b: When) -> bool:
    """Whether some engine certainly has what both ask for."""
    devices = not a.device or not b.device or bool(set(a.device) & set(b.device))
    models = not a.model or not b.model or any(_is_name(x, y) or _is_name(y, x) for x in a.model for y in b.model)
    vocabularies = (
        not a.vocabulary
        or not b.vocabulary
        or any(x.startswith(y) or y.startswith(x) for x in a.vocabulary for y in b.vocabulary)
    )
    return devices and models and vocabularies


def _is_name(name: str, glob: str) -> bool:
    """Whether a model of this name, if it is one, is meant by the glob; equal globs mean the same models."""
    return name == glob or (not set(name) & set("*?[") and fnmatchcase(name, glob))
