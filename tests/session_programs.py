"""Programs of forces, allows and channels, built without YAML and without the compiler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from policyengine.automata.threads import ThreadAutomaton
from policyengine.automata.vocabulary import Vocabulary
from policyengine.requests import build_parser
from policyengine.runtime.digest import program_digest
from policyengine.runtime.program import (
    AllowPlan,
    BanPlan,
    Channel,
    Component,
    ForcePlan,
    ParameterPlan,
    PolicyPlan,
    Program,
    Reasoning,
    RuleBody,
    RulePlan,
    TextAction,
    WhenPlan,
)
from tests.oracle import Phrase
from tests.programs import automaton_of

Action = Literal["avoid", "redact", "terminate", "block"]


@dataclass(frozen=True)
class Rule:
    """A rule without phrases, or a ban of phrases. `policy`: its place among the policies of the program."""

    body: RuleBody
    channel: Channel = "all"
    policy: int = 0
    phrases: tuple[Phrase, ...] = ()


def ban(*phrases: Phrase | str, channel: Channel = "all", policy: int = 0, action: Action = "avoid") -> Rule:
    """A ban of phrases; one given as text is a substring."""
    shown = TextAction("terminate" if action == "avoid" else action, None, "banned")
    made = tuple(p if isinstance(p, Phrase) else Phrase(p, "substring") for p in phrases)
    return Rule(BanPlan(action == "avoid", shown, ()), channel, policy, made)


def ban_ids(*ids: int, channel: Channel = "all", policy: int = 0) -> Rule:
    """A ban of token ids."""
    return Rule(BanPlan(True, TextAction("terminate", None, "banned"), ids), channel, policy)


def choices(*texts: str, channel: Channel = "all", policy: int = 0) -> Rule:
    """The whole output is one of these."""
    return Rule(AllowPlan(choices=texts), channel, policy)


def policy(
    name: str, activation: Literal["always", "on_request"] = "on_request", *parameters: ParameterPlan
) -> PolicyPlan:
    """A policy for vLLM."""
    return PolicyPlan(name, f"{name}.yaml", "", "", activation, ("vllm",), parameters)


def make(
    *rules: Rule | RuleBody, policies: Sequence[PolicyPlan] = (), reasoning: tuple[str, str] | None = None
) -> Program:
    """The rules as r0, r1, ... of their policies; by default all of one policy `test` that is always on."""
    plans = tuple(policies) or (policy("test", "always"),)
    given = [rule if isinstance(rule, Rule) else Rule(rule) for rule in rules]
    ranked, components = [], []
    for rank, rule in enumerate(given):
        ranked.append(RulePlan(rule.policy, f"r{rank}", rank + 1, rule.body, channel=rule.channel))
        components += [_component(rule, rank, phrase) for phrase in _phrases(rule)]
        if isinstance(rule.body, AllowPlan) and rule.body.scripts:
            # What a script is does not matter here: any expression for what is left out will do.
            automaton = ThreadAutomaton.from_expressions([*rule.body.scripts])
            ranks = (rank,) * automaton.n_patterns
            components.append(
                Component(
                    "allow",
                    (rule.policy,),
                    ("vllm",),
                    WhenPlan(),
                    automaton,
                    ranks,
                    rule.body.scripts,
                    (),
                    rule.channel,
                )
            )
    marks, hold = None if reasoning is None else Reasoning(*reasoning), 4096
    digest = program_digest(plans, ranked, components, hold, marks)
    return Program(plans, tuple(ranked), tuple(components), hold, digest, build_parser(plans), marks)


def _phrases(rule: Rule) -> tuple[Phrase, ...]:
    if isinstance(rule.body, ForcePlan) and rule.body.after is not None:
        return (Phrase(rule.body.after, "prefix"),)
    return rule.phrases


def _component(rule: Rule, rank: int, phrase: Phrase) -> Component:
    use: Literal["avoid", "text", "after"] = "after"
    if isinstance(rule.body, BanPlan):
        use = "avoid" if rule.body.avoid else "text"
    automaton = automaton_of([phrase])
    return Component(use, (rule.policy,), ("vllm",), WhenPlan(), automaton, (rank,), (phrase.text,), (), rule.channel)


def letters(text: str, *others: bytes | None) -> Vocabulary:
    """Id 0 is EOS, then a token a character, then the others. Encodes a character at a time."""
    tokens: list[bytes | None] = [b"", *(ch.encode() for ch in text), *others]
    ids = {ch: i for i, ch in enumerate(text, 1)}
    return Vocabulary(tokens, [0], encode=lambda said: [ids[ch] for ch in said])
