"""What the text level does for one choice of policies: the part of a program that sessions share.

A `TextPlan` is made once for each set of active components and kept (`plan_for`), so that what one session learns, a
step of an automaton or the effect of a whole chunk, the next one finds ready.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence, Set
from typing import Any

from policyengine.automata.phrases import PhraseAutomaton
from policyengine.automata.threads import ThreadAutomaton
from policyengine.runtime.irregular import Irregular
from policyengine.runtime.program import BanPlan, Channel, Component, Program, Request, RewritePlan, TextAction
from policyengine.runtime.scanner_threads import ThreadScanner
from policyengine.runtime.scanners import NOTHING, Effect, PhraseScanner, Scanner, replacement
from policyengine.runtime.text_memo import Lane, Memo
from policyengine.runtime.text_watch import WatchPlan

BLOCKED = "Blocked by policy."

_KEPT_PLANS = 64  # each holds its program in memory


def scanner_of(component: Component, actions: tuple[TextAction | None, ...]) -> Scanner[Any]:
    """The scanner of a component's kind of automaton."""
    automaton = component.automaton
    if isinstance(automaton, PhraseAutomaton):
        return PhraseScanner(automaton, component, actions)
    if isinstance(automaton, ThreadAutomaton):
        return ThreadScanner(automaton, component, actions)
    from policyengine.runtime.scanner_irregular import IrregularScanner  # most programs need no `regex`

    return IrregularScanner(automaton, component, actions)


class TextPlan:
    """The text level of a program for one set of active rules.

    Attributes:
        scanners: one an active component that acts.
        acts: whether any rule acts; watched: the components in shadow, where what takes too long stands alone.
        idle: nothing acts and nothing is watched.
        actions: by rule (index into `program.rules`); None: the rule has nothing to do with text.
        rewrite: what becomes of every character that leaves; None: nothing, unless `silent`.
        silent: no text ever leaves.
        holds: nothing leaves before the end, since a `block` rule may replace it all; holds_all: one of all channels.
        choices: what may be put in place of a match; `made`: which of them a match of a character may put there.
        fragile: replacements that may hold a match themselves, so that they may have to be dropped.
        memo: what characters and whole chunks do.
    """

    def __init__(
        self,
        program: Program,
        components: Sequence[Component],
        rewrites: Sequence[RewritePlan],
        shadows: Sequence[Component] = (),
    ) -> None:
        self.program = program
        bodies = [rule.body for rule in program.rules]
        self.actions = tuple(body.text_action if isinstance(body, BanPlan) else None for body in bodies)
        self.names = tuple((program.policies[rule.policy].name, rule.id) for rule in program.rules)
        self.scanners = tuple(scanner_of(component, self.actions) for component in components)
        modes = [rewrite.to for rewrite in rewrites]
        self.silent = "nothing" in modes
        self.rewrite = None if self.silent or not modes else str.upper if modes[0] == "upper" else str.lower
        blocks = [any(action.kind == "block" for action in scanner.actions) for scanner in self.scanners]
        self.holds = any(blocks)
        self.holds_all = any(b and component.channel == "all" for b, component in zip(blocks, components, strict=True))
        self.acts = bool(self.scanners or modes)
        self.watched = self._watched(shadows)
        self.idle = not self.acts and not self.watched
        self.searches = any(scanner.searches for scanner in self.scanners)
        self.initial = tuple(scanner.start for scanner in self.scanners)
        self.fragile: frozenset[str] = frozenset()
        self._find_effects()
        lanes = [Lane(scanner) for scanner in self.scanners]
        if self.rewrite is not None:
            lanes += [Lane(scanner, self.rewrite) for scanner in self.scanners]
        self.memo = Memo(lanes, program.max_hold, self.made)

    def _watched(self, shadows: Sequence[Component]) -> tuple[WatchPlan, ...]:
        together: list[Scanner[Any]] = []
        alone: list[WatchPlan] = []
        for component in shadows:
            scanner = scanner_of(component, self.actions)
            if isinstance(component.automaton, Irregular):
                alone.append(WatchPlan([scanner], self.program.max_hold))
            else:
                together.append(scanner)
        return (*([WatchPlan(together)] if together else []), *alone)

    def _find_effects(self) -> None:
        """Tell each scanner what its rules may put in place of a match."""
        redactions = {action for scanner in self.scanners for action in scanner.actions if action.kind == "redact"}
        texts = frozenset(map(replacement, redactions))
        self.fragile = frozenset(text for text in texts if any(scanner.may_hold(text) for scanner in self.scanners))
        choices: dict[tuple[Effect, ...], int] = {(Effect("", False),): NOTHING}
        for scanner in self.scanners:
            effects: list[Effect] = []
            for action in scanner.actions:
                if action.kind == "redact":
                    effects += [Effect(text := replacement(action), False)]
                    effects += [Effect("", False)] * (text in self.fragile)
                elif action.kind == "terminate":
                    effects.append(Effect("", True))
            endings = tuple(effect for effect in effects if effect.ends)
            scanner.effects = choices.setdefault(tuple(dict.fromkeys(effects)), len(choices))
            scanner.endings = choices.setdefault(endings[:1], len(choices))
        for scanner in self.scanners:
            scanner.choices = tuple(choices)
        self.choices = tuple(choices)
        self.made = frozenset(choice for scanner in self.scanners for choice in (scanner.effects, scanner.endings))

    def action(self, rule: int) -> TextAction:
        """The action of a rule that a scanner names."""
        action = self.actions[rule]
        assert action is not None
        return action

    def is_redaction(self, rule: int) -> bool:
        """Whether the rule replaces its matches, and does not end the output."""
        return self.action(rule).kind == "redact"


_Choice = tuple[int, frozenset[int], str | None, Channel]
_plans: OrderedDict[_Choice, TextPlan] = OrderedDict()
_lock = threading.Lock()


def plan_for(program: Program, request: Request, target: str | None, channel: Channel = "all") -> TextPlan:
    """The plan of a request. Equal choices share one plan.

    target: only policies for that engine; None: all. channel: only rules that act there; "all": every rule.
    """
    # A kept plan keeps its program alive, so that no other object can get the program's id meanwhile.
    choice = (id(program), request.policies, target, channel)
    with _lock:
        plan = _plans.get(choice)
        if plan is None:
            plan = _plans[choice] = _plan(program, request.policies, target, {"all", channel})
            if len(_plans) > _KEPT_PLANS:
                _plans.popitem(last=False)
        _plans.move_to_end(choice)
        return plan


def _plan(program: Program, policies: frozenset[int], target: str | None, channels: Set[str]) -> TextPlan:
    """What depends on facts of an engine is left out: the text level knows none."""
    components = [
        component
        for component in program.components
        if component.use in ("avoid", "text")
        and component.when.always
        and not policies.isdisjoint(component.policies)
        and (target is None or target in component.targets)
        and (component.channel in channels or channels == {"all"})
    ]
    rewrites = [
        rule.body
        for rule in program.rules
        if isinstance(rule.body, RewritePlan)
        and rule.mode == "enforce"
        and rule.when.always
        and rule.policy in policies
        and (target is None or target in program.policies[rule.policy].targets)
        and (rule.channel in channels or channels == {"all"})
    ]
    enforced, shadows = ([one for one in components if one.mode == mode] for mode in ("enforce", "shadow"))
    return TextPlan(program, enforced, rewrites, shadows)
