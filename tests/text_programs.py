"""Programs of the text level, built without YAML and without the compiler."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal

from policyengine.automata.threads import ThreadAutomaton
from policyengine.requests import build_parser
from policyengine.runtime.digest import program_digest
from policyengine.runtime.irregular import Irregular
from policyengine.runtime.program import (
    Automaton,
    BanPlan,
    Channel,
    Component,
    PolicyPlan,
    Program,
    Reasoning,
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
    channel: Channel = "all"


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


def program(
    *rules: Rule | Literal["upper", "lower", "nothing"], max_hold: int = 4096, reasoning: Reasoning | None = None
) -> Program:
    """One policy that is always on. Its rules are r0, r1, ...; a word in place of a ban is a rewrite of the answer."""
    plans = []
    for index, rule in enumerate(rules):
        if isinstance(rule, Rule):
            body: RuleBody = BanPlan(rule.avoid, TextAction(rule.kind, rule.text, rule.reason), ())
            plans.append(RulePlan(0, f"r{index}", index + 1, body, channel=rule.channel))
        else:
            plans.append(RulePlan(0, f"r{index}", index + 1, RewritePlan(rule), channel="answer"))
    groups: dict[Hashable, list[tuple[int, Rule, Phrase | str]]] = {}
    for index, rule in enumerate(rules):
        if isinstance(rule, Rule):
            for phrase in rule.phrases:
                groups.setdefault((rule.channel, rule.avoid, kind_of(phrase)), []).append((index, rule, phrase))
            for source in rule.expressions:
                groups.setdefault((rule.channel, rule.irregular), []).append((index, rule, source))
    components = []
    for entries in groups.values():
        first, sources = entries[0][1], [source for _, _, source in entries]
        phrases = [source for source in sources if isinstance(source, Phrase)]
        texts = tuple(source.text if isinstance(source, Phrase) else source for source in sources)
        automaton: Automaton
        if phrases:
            automaton = automaton_of(phrases)
        else:
            automaton = Irregular(texts) if first.irregular else ThreadAutomaton.from_expressions(texts)
        ranks = tuple(index for index, _, _ in entries)
        use: Literal["avoid", "text"] = "avoid" if first.avoid else "text"
        component = Component(use, (0,), _TARGETS, WhenPlan(), automaton, ranks, texts, channel=first.channel)
        components.append(component)
    digest = program_digest((POLICY,), plans, components, max_hold)
    parser = build_parser((POLICY,))
    return Program((POLICY,), tuple(plans), tuple(components), max_hold, digest, parser, reasoning)
