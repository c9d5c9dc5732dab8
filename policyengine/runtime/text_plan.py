"""What the text level does for one choice of policies: the part of a program that sessions share.

A `TextPlan` is made once for each set of active components and kept (`plan_for`), so that what one session learns, a
step of an automaton or the effect of a whole chunk, the next one finds ready.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from policyengine.automata.phrases import PhraseAutomaton
from policyengine.runtime.program import BanPlan, Component, Program, Request, RewritePlan, TextAction

if TYPE_CHECKING:
    from policyengine.runtime.text_memo import Node

REDACTED = "[redacted]"
BLOCKED = "Blocked by policy."

_KEPT_PLANS = 64  # each holds its program in memory
_KEPT_STEPS = 1 << 17  # character steps that one scanner remembers

_SYMBOL_BITS = 21


class Hit(NamedTuple):
    """A pattern that completed. `end`: how many symbols of the text just read it includes (0: it ended before it)."""

    end: int
    length: int  # in symbols
    rule: int


class Step(NamedTuple):
    """What reading one character does. `symbols`: how many it adds (0: dropped, or more of the same white space)."""

    state: int
    symbols: int
    hits: tuple[Hit, ...]


class Effect(NamedTuple):
    """What a rule puts in place of a match. `ends`: the output ends after `text`."""

    text: str
    ends: bool


class Source(NamedTuple):
    """What an effect revives: matches that reach `found` symbols back, and those live `after` it that began before.

    own: how many symbols the effect itself adds.
    """

    found: tuple[int, ...]
    after: int  # a state
    own: int


NOTHING = 0  # the choice that puts nothing in place of a match, which is what a unit that grows does


class Scanner:
    """The automaton of one component, read by characters. Safe to share; everything it keeps is a cache."""

    def __init__(self, component: Component, actions: tuple[TextAction | None, ...]) -> None:
        automaton = component.automaton
        if not isinstance(automaton, PhraseAutomaton):
            raise NotImplementedError(f"no scanner of {type(automaton).__name__} yet")
        self.automaton = automaton
        self.rules = component.rules
        self.actions = tuple(dict.fromkeys(action for rule in component.rules if (action := actions[rule]) is not None))
        # What may be put in place of a match, by choice; and which choice holds the effects of all rules, and which
        # those that end the output. Set by the plan; the first is `NOTHING`.
        self.choices: tuple[tuple[Effect, ...], ...] = ()
        self.effects = self.endings = NOTHING
        self._table = automaton.folding.table
        self._steps: dict[int, Step] = {}
        self._links: dict[int, tuple[int, int]] = {}  # by state: the longest live match, and the state without it
        self._revived: dict[int, tuple[tuple[Source, ...], ...]] = {}

    def step(self, state: int, ch: str) -> Step:
        """Read one character."""
        return self._steps.get(state << _SYMBOL_BITS | ord(ch)) or self._learn(state, ch)

    def _learn(self, state: int, ch: str) -> Step:
        automaton = self.automaton
        current, count, hits = state, 0, []
        for symbol in self._table[ch]:
            if automaton.is_repeat(current, symbol):
                continue
            current, before, by = automaton.step(current, symbol)
            hits += [Hit(count, automaton.pattern_length(p), self.rules[p]) for p in before]
            count += 1
            hits += [Hit(count, automaton.pattern_length(p), self.rules[p]) for p in by]
        if not automaton.live_depth(current):
            # All that such a state still tells is what an edge depends on: fewer states, more that is known of them.
            current = int(automaton.context[current])
        step = Step(current, count, tuple(hits))
        if len(self._steps) >= _KEPT_STEPS:
            self._steps.clear()
        self._steps[state << _SYMBOL_BITS | ord(ch)] = step
        return step

    def read(self, state: int, text: str) -> Step:
        """Read any text as one step."""
        if len(text) == 1:
            return self.step(state, text)
        count, hits = 0, []
        for ch in text:
            state, symbols, found = self.step(state, ch)
            hits += [Hit(count + hit.end, hit.length, hit.rule) for hit in found]
            count += symbols
        return Step(state, count, tuple(hits))

    def at_end(self, state: int) -> tuple[Hit, ...]:
        """What completes if the output ends here."""
        patterns = self.automaton.at_end(state)
        return tuple(Hit(0, self.automaton.pattern_length(p), self.rules[p]) for p in patterns)

    def longest(self, state: int) -> int:
        """The length, in symbols, of the longest partial match that can still complete; 0: none."""
        return self.automaton.live_depth(state)

    def live(self, state: int) -> Iterator[int]:
        """The lengths, in symbols, of all partial matches that can still complete; the longest first."""
        while True:
            length, state = self._links.get(state) or self._link(state)
            if not length:
                return
            yield length

    def _link(self, state: int) -> tuple[int, int]:
        automaton, at = self.automaton, state
        if length := automaton.live_depth(state):
            while automaton.depth[at] >= length:
                at = int(automaton.fail[at])
        self._links[state] = length, at
        return length, at

    def revived(self, state: int, choice: int) -> Iterator[Iterable[int]]:
        """How many symbols back matches reach that a choice of effects, put here, completes or leaves alive.

        In groups, each with the longest first.
        """
        for found, after, own in self._sources(state)[choice]:
            yield found
            yield (length - own for length in takewhile(own.__lt__, self.live(after)))

    def _sources(self, state: int) -> tuple[tuple[Source, ...], ...]:
        known = self._revived.get(state)
        if known is None:
            made = ((self._source(state, effect) for effect in choice) for choice in self.choices)
            known = self._revived[state] = tuple(tuple(filter(None, sources)) for sources in made)
        return known

    def _source(self, state: int, effect: Effect) -> Source | None:
        found: list[int] = []
        after, own = state, 0
        for ch in effect.text:
            if not self.longest(after):
                break  # what begins inside the effect is none of what it revives
            after, symbols, hits = self.step(after, ch)
            found += [hit.length - hit.end - own for hit in hits]
            own += symbols
        if effect.ends:
            found += [hit.length - own for hit in self.at_end(after)]
            after = self.automaton.START  # nothing is live
        found = sorted({back for back in found if back > 0}, reverse=True)
        return Source(tuple(found), after, own) if found or self.longest(after) > own else None


def replacement(action: TextAction) -> str:
    """What a redaction shows in place of its matches."""
    return REDACTED if action.text is None else action.text


class TextPlan:
    """The text level of a program for one set of active rules.

    Attributes:
        scanners: one an active component.
        actions: by rule (index into `program.rules`); None: the rule has nothing to do with text.
        rewrite: what becomes of every character that leaves; None: nothing, unless `silent`.
        silent: no text ever leaves.
        holds: nothing leaves before the end, since a `block` rule may replace it all.
        choices: what may be put in place of a match; `made`: which of them a match of a character may put there.
        fragile: replacements that hold a banned phrase themselves, so that they may have to be dropped.
        nodes, resting, known_chunks: see `text_memo`.
    """

    def __init__(self, program: Program, components: Sequence[Component], rewrites: Sequence[RewritePlan]) -> None:
        self.program = program
        bodies = [rule.body for rule in program.rules]
        self.actions = tuple(body.text_action if isinstance(body, BanPlan) else None for body in bodies)
        self.names = tuple((program.policies[rule.policy].name, rule.id) for rule in program.rules)
        self.scanners = tuple(Scanner(component, self.actions) for component in components)
        modes = [rewrite.to for rewrite in rewrites]
        self.silent = "nothing" in modes
        self.rewrite = None if self.silent or not modes else str.upper if modes[0] == "upper" else str.lower
        self.holds = any(action.kind == "block" for scanner in self.scanners for action in scanner.actions)
        self.idle = not self.scanners and not modes
        self.initial = tuple(scanner.automaton.START for scanner in self.scanners)
        self.nodes: dict[object, Node] = {}
        self.resting: dict[tuple[int, ...], Node] = {}
        self.known_chunks = 0
        self.fragile: frozenset[str] = frozenset()
        self._find_effects()

    def _find_effects(self) -> None:
        """Tell each scanner what its rules may put in place of a match."""
        redactions = {action for scanner in self.scanners for action in scanner.actions if action.kind == "redact"}
        self.fragile = frozenset(text for text in map(replacement, redactions) if self._banned(text))
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

    def _banned(self, text: str) -> bool:
        """Whether a phrase stands in the text, in the surroundings that suit it best."""
        for scanner in self.scanners:
            after = scanner.read(scanner.automaton.START, text)
            if after.hits or scanner.at_end(after.state):
                return True
        return False

    def action(self, rule: int) -> TextAction:
        """The action of a rule that a scanner names."""
        action = self.actions[rule]
        assert action is not None
        return action

    def is_redaction(self, rule: int) -> bool:
        """Whether the rule replaces its matches, and does not end the output."""
        return self.action(rule).kind == "redact"


_Choice = tuple[int, frozenset[int], str | None]
_plans: OrderedDict[_Choice, TextPlan] = OrderedDict()
_lock = threading.Lock()


def plan_for(program: Program, request: Request, target: str | None) -> TextPlan:
    """The plan of a request. `target`: only policies for that engine; None: all. Equal choices share one plan."""
    # A kept plan keeps its program alive, so that no other object can get the program's id meanwhile.
    choice = (id(program), request.policies, target)
    with _lock:
        plan = _plans.get(choice)
        if plan is None:
            plan = _plans[choice] = _plan(program, request.policies, target)
            if len(_plans) > _KEPT_PLANS:
                _plans.popitem(last=False)
        _plans.move_to_end(choice)
        return plan


def _plan(program: Program, policies: frozenset[int], target: str | None) -> TextPlan:
    """What depends on facts of an engine is left out: the text level knows none."""
    components = [
        component
        for component in program.components
        if component.use in ("avoid", "text")
        and component.when.always
        and not policies.isdisjoint(component.policies)
        and (target is None or target in component.targets)
    ]
    rewrites = [
        rule.body
        for rule in program.rules
        if isinstance(rule.body, RewritePlan)
        and rule.when.always
        and rule.policy in policies
        and (target is None or target in program.policies[rule.policy].targets)
    ]
    return TextPlan(program, components, rewrites)
