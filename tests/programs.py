"""Programs built straight from phrases and rules, without YAML and without the compiler."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Literal

from policyengine.automata.folding import FoldSpec
from policyengine.automata.phrases import PhraseAutomaton
from policyengine.automata.threads import ThreadAutomaton
from policyengine.requests import build_parser
from policyengine.runtime.digest import program_digest
from policyengine.runtime.program import (
    BanPlan,
    Component,
    PolicyPlan,
    Program,
    RuleBody,
    RulePlan,
    TextAction,
    WhenPlan,
)
from tests.oracle import Phrase

_POLICY = PolicyPlan("test", "test.yaml", "", "", "always", ("vllm",), ())


def spec_of(phrase: Phrase) -> FoldSpec:
    """The folding that a phrase's options ask for."""
    return FoldSpec(
        casefold=phrase.case == "insensitive",
        nfkc="nfkc" in phrase.normalize,
        invisible="invisible" in phrase.normalize,
        marks="marks" in phrase.normalize,
        collapse=phrase.gaps == "spaces" and not phrase.exceptions,
        confusables="confusables" in phrase.normalize,
    )


def kind_of(phrase: Phrase) -> Hashable:
    """What the phrases of one automaton have in common."""
    options = (phrase.match, phrase.word_end, phrase.exceptions) if phrase.exceptions else ()
    return spec_of(phrase), phrase.gaps, options


def automaton_of(phrases: Sequence[Phrase]) -> PhraseAutomaton | ThreadAutomaton:
    """One automaton; the phrases must be of one kind."""
    (_,) = {kind_of(phrase) for phrase in phrases}
    first, texts = phrases[0], [phrase.text for phrase in phrases]
    left_edge = [phrase.match != "substring" for phrase in phrases]
    right_edge = [phrase.match == "word" for phrase in phrases]
    eager = [phrase.word_end == "eager" for phrase in phrases]
    if first.gaps in ("spaces", "literal") and not first.exceptions:
        return PhraseAutomaton.from_phrases(
            spec_of(first), texts, left_edge=left_edge, right_edge=right_edge, eager=eager
        )
    return ThreadAutomaton.from_phrases(
        spec_of(first),
        texts,
        gaps=first.gaps,
        left_edge=left_edge,
        right_edge=right_edge,
        eager=eager,
        exceptions=first.exceptions,
    )


def program(
    *bodies: RuleBody,
    bans: Sequence[Phrase] = (),
    biases: Sequence[tuple[Phrase, float]] = (),
    expressions: Sequence[str] = (),
    action: Literal["avoid", "redact", "terminate", "block"] = "avoid",
) -> Program:
    """One policy that is always on. Its rules: `bodies` as r0, r1, ...; `bans` and `expressions`, one; `biases` act
    alone."""
    rules = [RulePlan(0, f"r{i}", i + 1, body) for i, body in enumerate(bodies)]
    components = []
    use: Literal["avoid", "text"] = "avoid" if action == "avoid" else "text"
    if bans or expressions:
        text = "[redacted]" if action == "redact" else None
        shown = TextAction("terminate" if action == "avoid" else action, text, "banned")
        rules.append(RulePlan(0, "banned", len(rules) + 1, BanPlan(action == "avoid", shown, ())))
    for kind in dict.fromkeys(kind_of(phrase) for phrase in bans):
        mine = [phrase for phrase in bans if kind_of(phrase) == kind]
        ranks, texts = (len(rules) - 1,) * len(mine), tuple(phrase.text for phrase in mine)
        components.append(Component(use, (0,), ("vllm",), WhenPlan(), automaton_of(mine), ranks, texts))
    if expressions:
        ranks, automaton = (len(rules) - 1,) * len(expressions), ThreadAutomaton.from_expressions(expressions)
        components.append(Component(use, (0,), ("vllm",), WhenPlan(), automaton, ranks, tuple(expressions)))
    for kind in dict.fromkeys(kind_of(phrase) for phrase, _ in biases):
        some = [(phrase, weight) for phrase, weight in biases if kind_of(phrase) == kind]
        texts, weights = tuple(phrase.text for phrase, _ in some), tuple(weight for _, weight in some)
        searched = automaton_of([phrase for phrase, _ in some])
        components.append(Component("bias", (0,), ("vllm",), WhenPlan(), searched, (0,) * len(some), texts, weights))
    policies, hold = (_POLICY,), 4096
    digest = program_digest(policies, rules, components, hold)
    return Program(policies, tuple(rules), tuple(components), hold, digest, build_parser(policies))
