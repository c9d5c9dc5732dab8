"""What every row shares: a vocabulary, phrases, text that looks like text, a Program without YAML, and timing."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from functools import cache
from importlib.resources import files

from policyengine.automata.folding import FoldSpec
from policyengine.automata.phrases import PhraseAutomaton
from policyengine.automata.vocabulary import Vocabulary
from policyengine.requests import build_parser
from policyengine.runtime.program import BanPlan, Component, PolicyPlan, Program, RulePlan, TextAction, WhenPlan

VOCABULARY = "tekken_240911.json"


@cache
def vocabulary() -> Vocabulary:
    """131,072 ids, of which 130,072 have bytes."""
    return Vocabulary.from_tekken(str(files("mistral_common").joinpath("data", VOCABULARY)))


@cache
def words() -> tuple[str, ...]:
    """Latin words of more than three letters that are tokens with a space before them: common ones come first."""
    texts = (t[1:].decode() for t in vocabulary().tokens if t and t[:1] == b" " and t.isascii())
    return tuple(dict.fromkeys(w for w in texts if len(w) > 3 and w.isalpha()))


def phrases(count: int) -> tuple[str, ...]:
    """`count` different phrases of one to three words, none of them a word of `prose`."""
    pick = random.Random(count)
    rare = words()[2000:]
    found: dict[str, None] = {}
    while len(found) < count:
        found[" ".join(pick.choices(rare, k=pick.choice((1, 2, 2, 3))))] = None
    return tuple(found)


def prose(length: int, seed: int) -> list[str]:
    """Words with frequencies like a language's (Zipf), for texts that a model could have written."""
    pick = random.Random(seed)
    common = words()[:2000]
    return pick.choices(common, weights=[1 / (rank + 1) for rank in range(len(common))], k=length)


def program(banned: tuple[str, ...], *, avoid: bool = True) -> Program:
    """One policy that bans the phrases with every default of the language."""
    n = len(banned)
    flags = [True] * n
    automaton = PhraseAutomaton.from_phrases(FoldSpec(), banned, left_edge=flags, right_edge=flags, eager=flags)
    policies = (PolicyPlan("bench", "bench.yaml", "", "", "always", ("vllm", "trtllm"), ()),)
    action = TextAction("terminate", None, "bench") if avoid else TextAction("redact", "[redacted]", None)
    rules = (RulePlan(0, "banned", 1, BanPlan(avoid, action, ())),)
    component = Component(
        "avoid" if avoid else "text", (0,), ("vllm", "trtllm"), WhenPlan(), automaton, (0,) * n, banned
    )
    return Program(policies, rules, (component,), 4096, f"bench-{n}-{avoid}", build_parser(policies))


def median(work: Callable[[], object], rounds: int) -> float:
    """The median time of one call, in seconds, after a call that does not count."""
    work()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
