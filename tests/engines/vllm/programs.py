"""Programs for tests of the batch, built without YAML, over the toy vocabulary of the cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from policyengine.automata.folding import FoldSpec
from policyengine.automata.phrases import PhraseAutomaton
from policyengine.automata.vocabulary import Vocabulary
from policyengine.requests import build_parser
from policyengine.runtime.digest import program_digest
from policyengine.runtime.program import (
    BanPlan,
    BiasPlan,
    Component,
    ForcePlan,
    MinTokensPlan,
    Param,
    ParameterPlan,
    PolicyPlan,
    Program,
    RulePlan,
    TextAction,
    WhenPlan,
)

WIDTH = 24  # of the logits; ids 17 to 23 are padding
EOS, OTHER_END = 0, 1
WORDS = [
    "<eos>",
    "<end>",
    " the",
    "rice",
    " rice",
    "r",
    " r",
    "i",
    "ce",
    "ic",
    "e",
    "c",
    "Rice",
    " Rice",
    " ",
    "RI",
    "CE",
]


def vocabulary() -> Vocabulary:
    """The toy vocabulary, with a second EOS in place of `the`."""
    tokens: list[bytes | None] = [b"", b"", *(word.encode() for word in WORDS[2:])]
    ids = {word: i for i, word in enumerate(WORDS)}
    return Vocabulary.from_bytes(
        tokens + [None] * (WIDTH - len(tokens)), [EOS, OTHER_END], encode=lambda text: [ids[text]]
    )


def policy(
    name: str,
    activation: Literal["always", "on_request"] = "on_request",
    parameters: Sequence[ParameterPlan] = (),
    targets: tuple[str, ...] = ("vllm",),
) -> PolicyPlan:
    """A policy plan of that name."""
    return PolicyPlan(name, f"{name}.yaml", "", "", activation, targets, tuple(parameters))


def program(
    policies: Sequence[PolicyPlan],
    bodies: Sequence[tuple[int, Any]] = (),
    *,
    bans: Sequence[tuple[int, Sequence[str]]] = (),
    device: tuple[str, ...] = (),
) -> Program:
    """bodies: (policy, body) of rules without phrases; bans: (policy, phrases), each an `avoid` ban of substrings."""
    when = WhenPlan(device)
    rules = [RulePlan(owner, f"r{i}", i + 1, body, when) for i, (owner, body) in enumerate(bodies)]
    components = []
    for owner, phrases in bans:
        flags = [False] * len(phrases)
        automaton = PhraseAutomaton.from_phrases(FoldSpec(), phrases, left_edge=flags, right_edge=flags, eager=flags)
        ranks = (len(rules),) * len(phrases)
        rules.append(RulePlan(owner, f"r{len(rules)}", len(rules) + 1, avoid(), when))
        targets = policies[owner].targets
        components.append(Component("avoid", (owner,), targets, when, automaton, ranks, tuple(phrases)))
    plans, hold = tuple(policies), 4096
    digest = program_digest(plans, tuple(rules), tuple(components), hold)
    return Program(plans, tuple(rules), tuple(components), hold, digest, build_parser(plans))


def avoid(*token_ids: int) -> BanPlan:
    """A ban that masks these ids."""
    return BanPlan(True, TextAction("terminate", None, "r"), token_ids)


def mixed() -> Program:
    """What a busy server might hold; every policy is chosen by a request, so rows without rules exist too."""
    token = ParameterPlan("target_token", "token_id")
    length = ParameterPlan("min_len", "integer", default=3, ge=0)
    return program(
        [
            policy("no-rice"),
            policy("pin", parameters=[token]),
            policy("long", parameters=[length]),
            policy("nudge"),
            policy("open"),
            policy("only-padding-left"),
        ],
        [
            (1, ForcePlan(None, Param("target_token"), "every")),
            (2, MinTokensPlan(Param("min_len"))),
            (3, BiasPlan(((3, 2.5), (EOS, -1.0)))),
            (4, ForcePlan(" the", None, "start")),
            (5, avoid(*range(2, 17))),
            (5, MinTokensPlan(2)),
        ],
        bans=[(0, ["rice"])],
    )
