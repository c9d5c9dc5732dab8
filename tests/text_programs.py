"""Programs of the text level, built without YAML and without the compiler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from policyengine.automata.threads import ThreadAutomaton
from policyengine.requests import build_parser
from policyengine.runtime.digest import program_digest
from policyengine.runtime.irregular import Irregular
from policyengine.runtime.program import (
    BanPlan,
    Component,
    PolicyPlan,
    Program,
    RewritePlan,
    RuleBody,
    RulePlan,
    TextAction,
    WhenPlan,
)
from tests.oracle import Phrase
from tests.programs import automaton_of, kind_of

_TARGETS = ("vllm", "trtllm")
POLICY = PolicyPlan("test", "test.yaml", "", "", "always", _TARGETS, ())


@dataclass(frozen=True)
class Rule:
    """A ban of phrases, or of regular expressions.

    text: the replacement or the message, as in `TextAction`; avoid: the action is a fallback.
    irregular: the expressions are searched by the `regex` package.
    """

    phrases: tuple[Phrase, ...]
    kind: Literal["redact", "terminate", "block"]
    text: str | None = None
    reason: str | None = None
    avoid: bool = False
    expressions: tuple[str, ...] = ()
    irregular: bool = False


def ban(
    *phrases: str,
    match: Literal["word", "prefix", "substring"] = "word",
    redact: str | None = None,
    terminate: str | None = None,
    message: str | None = None,
    block: str | None = None,
) -> Rule:
    """A ban whose action is the argument given: a replacement, a reason (with a message), or a message."""
    found = tuple(Phrase(text, match) for text in phrases)
    if terminate is not None:
        return Rule(found, "terminate", message, terminate)
    if block is not None:
        return Rule(found, "block", block, "blocked")
    return Rule(found, "redact", redact)


def program(*rules: Rule | Literal["upper", "lower", "nothing"], max_hold: int = 4096) -> Program:
    """One policy that is always on. Its rules are r0, r1, ...; a word in place of a ban is a rewrite."""
    bodies: list[RuleBody] = []
    for rule in rules:
        if isinstance(rule, Rule):
            bodies.append(BanPlan(rule.avoid, TextAction(rule.kind, rule.text, rule.reason), ()))
        else:
            bodies.append(RewritePlan(rule))
    plans = tuple(RulePlan(0, f"r{i}", i + 1, body) for i, body in enumerate(bodies))
    bans = [(index, rule) for index, rule in enumerate(rules) if isinstance(rule, Rule)]
    entries = [(index, phrase, rule.avoid) for index, rule in bans for phrase in rule.phrases]
    components = []
    for irregular in (False, True):
        expressions = [(i, source) for i, rule in bans if rule.irregular == irregular for source in rule.expressions]
        if expressions:
            ranks, texts = tuple(index for index, _ in expressions), tuple(source for _, source in expressions)
            searched = Irregular(texts) if irregular else ThreadAutomaton.from_expressions(texts)
            components.append(Component("text", (0,), _TARGETS, WhenPlan(), searched, ranks, texts))
    for kind, avoid in dict.fromkeys((kind_of(phrase), avoid) for _, phrase, avoid in entries):
        mine = [(index, phrase) for index, phrase, other in entries if kind_of(phrase) == kind and other == avoid]
        automaton = automaton_of([phrase for _, phrase in mine])
        use: Literal["avoid", "text"] = "avoid" if avoid else "text"
        ranks, texts = tuple(index for index, _ in mine), tuple(phrase.text for _, phrase in mine)
        components.append(Component(use, (0,), _TARGETS, WhenPlan(), automaton, ranks, texts))
    digest = program_digest((POLICY,), plans, components, max_hold)
    return Program((POLICY,), plans, tuple(components), max_hold, digest, build_parser((POLICY,)))
