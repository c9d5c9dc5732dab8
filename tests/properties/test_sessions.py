"""Any mixture of rules on one output permits exactly what their definitions say, and never leads nowhere."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.automata.vocabulary import Vocabulary
from policyengine.runtime.errors import RequestError
from policyengine.runtime.program import AllowPlan, ForcePlan, MinTokensPlan, Program
from policyengine.runtime.token_session import TokenSession
from tests import oracle
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

    def session(self) -> TokenSession:
        """Raises RequestError for rules that cannot act together."""
        names = [plan.name for plan in self.program.policies]
        return self.program.bind(VOCABULARY).token_session({"policies": names}, **self.options)

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


def left(session: TokenSession, allowed: list[int] | None = None) -> set[int]:
    return set(range(SIZE)) - set(session.masked(allowed).tolist())


def choose(free: set[int], output: Output, rng: random.Random) -> int:
    """One of these, an end now and then only, so that outputs grow."""
    goes_on = sorted(free - output.ends - set(output.eos))
    return rng.choice(goes_on if goes_on and rng.random() < 0.9 else sorted(free))


GRAMMARS = st.lists(st.one_of(st.none(), st.lists(IDS, min_size=1, max_size=8, unique=True)), min_size=8, max_size=8)


@settings(max_examples=500)
@given(cases(), GRAMMARS, st.booleans(), st.randoms(use_true_random=False))
def test_permitted_is_what_the_definitions_say(
    case: Case, grammar: list[list[int] | None], obedient: bool, rng: random.Random
) -> None:
    """At every step of an output, some of whose tokens were not permitted, under a grammar that changes at each."""
    output = case.output()
    try:
        session = case.session()
    except RequestError:
        return  # what cannot act together is refused, see below
    history: tuple[int, ...] = ()
    for allowed in grammar[: case.options["max_tokens"] or 8]:
        expected = output.permitted(history, allowed)
        found = left(session, allowed)
        assert found == expected, (history, allowed, sorted(found - expected), sorted(expected - found))
        free = expected if allowed is None else expected & set(allowed) or expected
        token = choose(free, output, rng) if obedient or rng.random() < 0.8 else rng.randrange(SIZE)
        if token in output.ends:
            break
        wrong = session.masked_choices
        session.advance(token)
        anything = output.permitted(history)
        if token not in anything:
            assert session.masked_choices == wrong + 1
        elif anything != {EOS}:
            assert session.masked_choices == wrong, (history, token)
        history += (token,)


@settings(max_examples=300)
@given(cases())
def test_refused_is_what_can_never_be_written(case: Case) -> None:
    """A request is refused for its choices exactly where none of them can be written under its other rules."""
    output, limit = case.output(), case.options["max_tokens"]
    asked = case.asked
    hopeless = asked.choices is not None and not output.finishes(b"", 99 if limit is None else limit)
    said = ""
    try:
        case.session()
    except RequestError as error:
        said = str(error)
    assert ("choice" in said) == hopeless


@settings(max_examples=300)
@given(cases(), st.randoms(use_true_random=False))
def test_an_output_of_permitted_tokens_keeps_every_rule(case: Case, rng: random.Random) -> None:
    """What is promised of a whole output, looked for in its text, unless it ran into a dead end."""
    try:
        session = case.session()
    except RequestError:
        return
    output, asked = case.output(), case.asked
    history: list[int] = []
    for _ in range(case.options["max_tokens"] or 12):
        free = left(session)
        assert free, "no row without a choice"
        if free == {EOS} and output.permitted(tuple(history), set(range(SIZE)) - {EOS}) == {EOS}:
            return  # a dead end, or the end
        token = choose(free, output, rng)
        session.advance(token)
        history.append(token)
        if token in output.ends:
            break
    assert session.masked_choices == 0
    ended = history[-1] in output.ends
    stopped = ended and history[-1] in output.stop
    shown = history[:-1] if stopped else history
    text = b"".join(output.tokens[i] or b"" for i in shown).decode("utf-8", "replace")
    assert not asked.ban_ids.intersection(history)
    if ended or len(history) == case.options["max_tokens"]:
        assert not oracle.find(text, asked.bans), text
        if asked.choices is not None:
            assert text in asked.choices
    if ended:
        assert len(history) > asked.least
        written = [i for i in shown if i not in output.eos]
        forced_end = history[-1] in (*dict(asked.at).values(), asked.every)
        assert not asked.end or forced_end or tuple(written[-len(asked.end) :]) == asked.end
    if asked.only is not None:
        assert all(i in asked.only or i in output.ends or i in output.eos for i in history)
    assert all(asked.every in (None, i) for i in history)
