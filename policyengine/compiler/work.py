"""What the passes of the compiler share: the policies in their final order and what has been made of them so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from policyengine.language.diagnostics import Diagnostic
from policyengine.language.policyset import Phrase, Policy, PolicySet, Rule
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
        """Whether b acts in every output in which a acts, or the other way round, on some target and device.

        Two policies that a request may or may not combine are not decided here: their request is refused, or the
        session copes.
        """
        first, second = self.plans[a.policy], self.plans[b.policy]
        certain = a.policy == b.policy or "always" in (first.activation, second.activation)
        devices = a.rule.when.device, b.rule.when.device
        same_device = not all(devices) or bool(set(devices[0]) & set(devices[1]))
        return certain and same_device and bool(set(first.targets) & set(second.targets))
