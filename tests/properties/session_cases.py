"""Random mixtures of rules on one output, for the product and for the oracle, over a vocabulary of a few tokens."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from policyengine.automata.vocabulary import Vocabulary
from policyengine.runtime.program import AllowPlan, ForcePlan, MinTokensPlan, Program
from policyengine.runtime.token_program import TokenProgram
from policyengine.runtime.token_session import TokenSession
from tests.oracle import Phrase
from tests.session_oracle import Asked, Output
from tests.session_programs import Rule, ban, ban_ids, choices, make, policy

EOS = 0
# Letters, pairs of them, pieces of `é`, padding, a token without text, and a second EOS that looks like text.
TOKENS: list[bytes | None] = [
    *(b"", b"a", b"b", b"c", b" ", b"ab", b"bc", b" a", b"ca", "é".encode(), b"\xc3", b"\xa9", b"a\xc3"),
    *(None, b"", b"<end>", b"abc"),
]
VOCABULARY = Vocabulary(TOKENS, [EOS, 15], encode=lambda text: [" abc".index(ch) or 4 for ch in text])
SIZE = len(TOKENS)

TEXTS = st.text("abc é", min_size=1, max_size=4)
SAYABLE = st.text("abc ", min_size=1, max_size=3)
IDS = st.integers(0, SIZE - 1)
REAL_IDS = IDS.filter(lambda i: TOKENS[i] is not None)


@st.composite
def phrases(draw: st.DrawFn) -> Phrase:
    text = draw(st.sampled_from(["a", "b", "ab", "bc", "abc", "a b", "é", "ca", "c a"]))
    match = draw(st.sampled_from(["word", "prefix", "substring"]))
    return Phrase(text, match, word_end=draw(st.sampled_from(["eager", "exact"])))  # type: ignore[arg-type]


@dataclass
class Case:
    """The same rules for the product and for the oracle, and how the output may end."""

    program: Program
    asked: Asked
    options: dict[str, Any]

    @property
    def request(self) -> dict[str, Any]:
        """What switches all rules on."""
        return {"policies": [plan.name for plan in self.program.policies]}

    def bound(self) -> TokenProgram:
        return self.program.bind(VOCABULARY)

    def session(self) -> TokenSession:
        """Raises RequestError for rules that cannot act together."""
        return self.bound().token_session(self.request, **self.options)

    def output(self) -> Output:
        return Output(
            TOKENS,
            VOCABULARY.eos_token_ids,
            self.asked,
            self.options["stop_token_ids"],
            self.options["max_tokens"],
            self.options["ignore_eos"],
        )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Each rule in a policy of its own, so that only a request brings them together."""
    rules: list[Rule] = []
    asked: dict[str, Any] = {}

    def maybe(chance: float = 0.4) -> bool:
        return draw(st.floats(0, 1)) < chance

    def put(rule: Rule) -> None:
        rules.append(Rule(rule.body, rule.channel, len(rules), rule.phrases))

    bans = draw(st.lists(phrases(), max_size=2))
    for phrase in bans:
        put(ban(phrase))
    asked["bans"] = tuple(bans)
    if maybe(0.3):
        ids = draw(st.frozensets(IDS.filter(lambda i: i not in VOCABULARY.eos_token_ids), min_size=1, max_size=3))
        put(ban_ids(*ids))
        asked["ban_ids"] = ids
    if maybe(0.3):
        asked["least"] = draw(st.integers(1, 4))
        put(Rule(MinTokensPlan(asked["least"])))
    if maybe():
        texts = draw(st.frozensets(TEXTS, min_size=1, max_size=4))
        put(choices(*texts))
        asked["choices"] = texts
        if maybe(0.3):
            more = draw(st.frozensets(TEXTS, min_size=1, max_size=3)) | draw(
                st.frozensets(st.sampled_from(sorted(texts)))
            )
            put(choices(*more))
            asked["choices"] = texts & more
    if maybe(0.2):
        only = draw(st.frozensets(REAL_IDS, min_size=3, max_size=10))
        put(Rule(AllowPlan(token_ids=tuple(only))))
        asked["only"] = only
    encode = VOCABULARY.encode
    assert encode is not None
    at: dict[int, int] = {}
    if maybe(0.2):
        text = draw(SAYABLE)
        put(Rule(ForcePlan(text, None, "start")))
        at = dict(enumerate(encode(text)))
    if maybe(0.2):
        place, token = draw(st.integers(0, 5)), draw(REAL_IDS)
        put(Rule(ForcePlan(None, at.setdefault(place, token), place)))
    elif not at and maybe(0.1):
        asked["every"] = draw(REAL_IDS)
        put(Rule(ForcePlan(None, asked["every"], "every")))
    asked["at"] = tuple(at.items())
    after = []
    for _ in range(draw(st.integers(0, 2))):
        said, text = draw(st.sampled_from(["a", "ab", "b", "c a"])), draw(SAYABLE)
        put(Rule(ForcePlan(text, None, None, said)))
        after.append((Phrase(said, "prefix"), tuple(encode(text))))
    asked["after"] = tuple(after)
    if maybe():
        text = draw(SAYABLE)
        put(Rule(ForcePlan(text, None, "end")))
        asked["end"] = tuple(encode(text))
    options = {
        "stop_token_ids": draw(st.frozensets(IDS, max_size=2)),
        "max_tokens": draw(st.one_of(st.none(), st.integers(1, 7))),
        "ignore_eos": draw(st.booleans()),
    }
    plans = [policy(f"p{i}") for i in range(max(1, len(rules)))]
    return Case(make(*rules, policies=plans), Asked(**asked), options)


def choose(free: set[int], output: Output, rng: random.Random) -> int:
    """One of these, an end now and then only, so that outputs grow."""
    goes_on = sorted(free - output.ends - set(output.eos))
    return rng.choice(goes_on if goes_on and rng.random() < 0.9 else sorted(free))


GRAMMARS = st.lists(st.one_of(st.none(), st.lists(IDS, min_size=1, max_size=8, unique=True)), min_size=8, max_size=8)
