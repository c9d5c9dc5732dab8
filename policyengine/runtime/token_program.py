"""Policies joined with one vocabulary: everything that is decided once, before the first request.

Binding resolves `when`, encodes forced texts, checks token ids, and builds the tables of each automaton. A
`TokenProgram` is shared by all requests of a model; what belongs to one output is a `TokenSession`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from policyengine.automata.kept import Kept
from policyengine.automata.phrases import PhraseAutomaton
from policyengine.automata.thread_matcher import ThreadMatcher
from policyengine.automata.threads import ThreadAutomaton
from policyengine.automata.token_matcher import TokenMatcher
from policyengine.automata.utf8 import REPLACEMENT
from policyengine.runtime import bind_checks, table_cache
from policyengine.runtime.asked import Asked, Channel
from policyengine.runtime.choice_plans import ChoicePlans
from policyengine.runtime.ends import Ends
from policyengine.runtime.errors import BindError, RequestError
from policyengine.runtime.program import Component, ForcePlan, Program, Request, RulePlan, WhenPlan
from policyengine.runtime.token_markers import TokenMarkers

if TYPE_CHECKING:
    from policyengine.automata.folding import FoldSpec
    from policyengine.automata.matcher import Matcher, Position
    from policyengine.automata.phrases import Ints
    from policyengine.automata.vocabulary import Vocabulary
    from policyengine.automata.vocabulary_trie import VocabularyTrie
    from policyengine.runtime.token_session import TokenSession
    from policyengine.runtime.watched import ShadowProgram

# Clients have a part in these: they name ids and texts, as many and as long as they like.
_MOST_SHARED = 1 << 10
_MOST_ASKED = 1 << 8
_AN_ID = 100  # bytes that an id takes in sets, tuples and dicts, about
_FEW = 16  # ids that are looked at one by one, which costs less than a look at the whole vocabulary


@lru_cache(maxsize=8)
def _trie(vocabulary: Vocabulary, spec: FoldSpec) -> VocabularyTrie:
    """One index a vocabulary and folding; every program on the model shares it."""
    return table_cache.index(vocabulary, spec)


class BoundComponent:
    """One component on the vocabulary, with what its positions ask for."""

    def __init__(self, component: Component, vocabulary: Vocabulary) -> None:
        self.component, self._size = component, vocabulary.size
        automaton = component.automaton
        self.matcher: Matcher
        # Where the output ends matters to a word, and to U+FFFD, which an incomplete character then becomes.
        self.minds_the_end: bool
        if isinstance(automaton, PhraseAutomaton):
            trie = _trie(vocabulary, automaton.spec)
            self.matcher = TokenMatcher(table_cache.tables(automaton, trie))
            self.minds_the_end = any(p.right_edge or ord(REPLACEMENT) in p.symbols for p in automaton.patterns)
        elif isinstance(automaton, ThreadAutomaton):
            self.matcher = threads = ThreadMatcher(automaton, _trie(vocabulary, automaton.spec))
            self.minds_the_end = threads.minds_the_end
        else:
            raise TypeError(f"what is not regular has no token level: {type(automaton).__name__}")
        self._ends: Kept[tuple[Position, int], tuple[Ints, Ints]] = Kept()
        self._looks: Kept[tuple[Position, bool], tuple[tuple[Ints, ...], bool]] = Kept()
        self._pairs: Kept[tuple[Position, bool], tuple[Ints, Ints]] = Kept()

    def look(self, position: Position, last: bool) -> tuple[tuple[Ints, ...], bool]:
        """`TokenMatcher.masks`, and whether the output would hold a match if it ended here; cached by position."""
        key = position, last
        known = self._looks.get(key)
        if known is None:
            known = self.matcher.masks(position, last=last), bool(self.matcher.at_end(position))
            self._looks.keep(key, known, known[0])
        return known

    def ending(self, position: Position, ids: Ints) -> Ints:
        """Those of the ids (ascending) with which an output that ends with them, their text shown, holds a match.

        Cached by position and by the array.
        """
        key = position, id(ids)
        known = self._ends.get(key)
        if known is None:
            if len(ids) <= _FEW:
                found = frozen_ids(i for i in ids.tolist() if self.matcher.completes(position, i, last=True))
            else:
                completes = np.zeros(self._size, dtype=np.bool_)
                for part in self.look(position, True)[0]:
                    completes[part] = True
                found = frozen_ids(ids[completes[ids]].tolist())
            known = self._ends.keep(key, (ids, found), (ids, found))
        return known[1]

    def pairs(self, position: Position, last: bool) -> tuple[Ints, Ints]:
        """`TokenMatcher.completions`, cached by position; for the few phrases that carry a bias."""
        key = position, last
        known = self._pairs.get(key)
        if known is None:
            known = self.matcher.completions(position, last=last)
            self._pairs.keep(key, known, known)
        return known


class TokenProgram:
    """A program on one vocabulary, for one engine and device. Read-only but for caches."""

    def __init__(
        self, program: Program, vocabulary: Vocabulary, *, device: str | None, model: str | None, target: str | None
    ) -> None:
        self.program, self.vocabulary, self.target = program, vocabulary, target
        self.device, self.model = device, model
        # With their ranks, which are their places among all rules of the program.
        applying = [(rank, rule) for rank, rule in enumerate(program.rules) if self.applies(rule)]
        self.ranked = tuple((rank, rule) for rank, rule in applying if rule.mode == "enforce")
        self.in_shadow: frozenset[int] = frozenset()  # the ranks, where this is a program of rules in shadow alone
        self.rules = tuple(rule for _, rule in self.ranked)
        # What each id adds to the text: EOS is an end, not text, whatever it is called.
        ends = frozenset(vocabulary.eos_token_ids)
        self.texts = [b"" if token in ends else data for token, data in enumerate(vocabulary.tokens)]
        self._shared: Kept[frozenset[int], Ints] = Kept(_MOST_SHARED)
        components = [c for c in program.components if c.use != "text" and self.acts(c)]
        # bool [size]: ids that stand for something, if only for a special token.
        self.is_real = np.array([data is not None for data in vocabulary.tokens], dtype=np.bool_)
        self.n_real = int(self.is_real.sum())
        bind_checks.check_ids(self)
        self.avoid = tuple(BoundComponent(c, vocabulary) for c in components if c.use in ("avoid", "allow"))
        self.after = tuple(BoundComponent(c, vocabulary) for c in components if c.use == "after")
        self.bias = tuple(BoundComponent(c, vocabulary) for c in components if c.use == "bias")
        self.forced_texts: dict[str, tuple[int, ...]] = {}
        for rule in self.rules:
            if isinstance(rule.body, ForcePlan) and isinstance(rule.body.text, str):
                self.encode(rule, rule.body.text)
        self.choices = ChoicePlans(self)
        marks = program.reasoning
        self.markers = None if marks is None else TokenMarkers(marks, vocabulary, self.texts)
        self._asked: Kept[Hashable, Asked] = Kept(_MOST_ASKED)
        self._requested: Kept[str, tuple[int, ...]] = Kept(_MOST_ASKED)
        bind_checks.check_rules(self)
        self.shadows: tuple[ShadowProgram, ...] = ()
        if len(applying) > len(self.ranked):
            from policyengine.runtime.watched import shadow_programs

            self.shadows = shadow_programs(self, [one for one in applying if one[1].mode == "shadow"])

    def applies(self, rule: RulePlan) -> bool:
        """Whether a rule, in shadow or not, is one of this engine, device and model."""
        targets = self.program.policies[rule.policy].targets
        return self._holds(rule.when) and (self.target is None or self.target in targets)

    def acts(self, component: Component) -> bool:
        """Whether the facts of this engine leave a component active."""
        mine = self.in_shadow.intersection(component.rules) if component.mode == "shadow" else not self.in_shadow
        return bool(mine) and self.fits(component)

    def fits(self, component: Component) -> bool:
        """Whether the facts of this engine are what a component asks for, in shadow or not."""
        return self._holds(component.when) and (self.target is None or self.target in component.targets)

    def _holds(self, when: WhenPlan) -> bool:
        digest = self.vocabulary.digest if when.vocabulary else None
        return when.holds(device=self.device, model=self.model, vocabulary=digest)

    def name(self, rule: RulePlan) -> str:
        """`policy/rule`, as people write it."""
        return f"{self.program.policies[rule.policy].name}/{rule.id}"

    def refusal(self, rule: RulePlan, what: str) -> BindError:
        """An error about one rule; `what` goes on from the rule's name."""
        return BindError(self.name(rule) + what, rule=self.name(rule))

    def encode(self, rule: RulePlan, text: str) -> tuple[int, ...]:
        """The ids of a forced text, in the tokenizer's own encoding. Raises BindError where there is none."""
        known = self.forced_texts.get(text)
        if known is not None:
            return known
        if self.vocabulary.encode is None:
            raise self.refusal(rule, ": a forced text needs a tokenizer that can encode; this vocabulary has none")
        try:
            ids = tuple(int(i) for i in self.vocabulary.encode(text))
        except Exception as error:  # tokenizers raise what they like
            raise self.refusal(rule, f": the tokenizer cannot encode the forced text `{text}`: {error}") from error
        outside = [i for i in ids if not 0 <= i < self.vocabulary.size]
        if not ids or outside:
            raise self.refusal(rule, f": the tokenizer gives no usable ids for the forced text `{text}`")
        self.forced_texts[text] = ids
        return ids

    def ids_of(self, text: str) -> tuple[int, ...]:
        """The ids of a text that a rule or a request forces; raises RequestError for one that cannot be encoded."""
        known = self.forced_texts.get(text) or self._requested.get(text)
        if known is None:
            known = self._encode_requested(text)
            self._requested.keep(text, known, nbytes=_AN_ID * len(known) + len(text))
        return known

    def _encode_requested(self, text: str) -> tuple[int, ...]:
        ids: tuple[int, ...] = ()
        if self.vocabulary.encode is not None:
            try:
                ids = tuple(int(i) for i in self.vocabulary.encode(text))
            except Exception:  # tokenizers raise what they like; the text is the client's
                ids = ()
        # Special tokens that a client names, and what a tokenizer does not know, would stand for other text.
        written = b"".join(self.texts[i] or b"" for i in ids if 0 <= i < self.vocabulary.size)
        if not ids or written not in (text.encode(), b" " + text.encode()):
            raise RequestError("a text that this request forces cannot be written in the tokens of this model")
        return ids

    # -- requests --------------------------------------------------------------------------------------------------

    def token_session(
        self,
        request: Mapping[str, Any] | None = None,
        stop_token_ids: Iterable[int] = (),
        max_tokens: int | None = None,
        ignore_eos: bool = False,
        *,
        reasoning: bool | None = None,
    ) -> TokenSession:
        """Start the token level of one output; raises RequestError for a request that its policies do not allow.

        request: the request's `extra_args`; None: the `always` policies with their defaults.
        stop_token_ids: the client's own ids that end the output. max_tokens: the output's limit, None: none.
        ignore_eos: EOS is then no end of the output.
        reasoning: whether the prompt has begun the reasoning; False: it has ended it; None: neither (`markers.after`).
        """
        parsed = self.program.parse_request(request)
        return self.start(parsed, stop_token_ids, max_tokens, ignore_eos, reasoning=reasoning)

    def start(
        self,
        request: Request,
        stop_token_ids: Iterable[int] = (),
        max_tokens: int | None = None,
        ignore_eos: bool = False,
        *,
        reasoning: bool | None = None,
    ) -> TokenSession:
        """`token_session` for a request that was parsed before."""
        ends = self._ends(stop_token_ids, max_tokens, ignore_eos)
        session = self.begin(request, ends, reasoning)
        if not self.shadows:
            return session
        from policyengine.runtime.watched import watched

        return watched(self, session, request, ends, reasoning)

    def begin(self, request: Request, ends: Ends, reasoning: bool | None) -> TokenSession:
        """`start` without the rules in shadow."""
        from policyengine.runtime.channel_session import ChannelSession
        from policyengine.runtime.token_session import TokenSession

        if self.markers is None:
            return TokenSession(self, request, ends)
        return ChannelSession(self, request, ends, self.markers, reasoning)

    def forget(self) -> None:
        """Begin with no request known, as a copy must."""
        self._asked = Kept(_MOST_ASKED)

    def asked(self, request: Request, ends: Ends, channel: Channel | None, *, at_start: bool = True) -> Asked:
        """What the rules ask of a request in one channel; the same object for requests that are alike, while kept."""
        key = request.policies, tuple(sorted(request.values.items())), ends.key, channel, at_start
        known = self._asked.get(key)
        if known is None:
            known = Asked(self, request, ends, channel, at_start=at_start)
            self._asked.keep(key, known, known.arrays(), nbytes=_AN_ID * known.n_items)
        return known

    def _ends(self, stop_token_ids: Iterable[int], max_tokens: int | None, ignore_eos: bool) -> Ends:
        given = frozenset(i for i in stop_token_ids if 0 <= i < self.vocabulary.size)
        eos = self.vocabulary.eos_token_ids
        every, ids = given.union(eos), given if ignore_eos else given.union(eos)
        that_end = self.shared_ids(ids)
        return Ends(
            all=every,
            all_ids=self.shared_ids(every),
            ids=that_end,
            silent=frozenset(i for i in every if self.texts[i] == b""),
            shown=self.shared_ids(given.difference(eos)),
            closing=eos[0] if eos[0] in ids or not ids else min(ids),
            max_tokens=max_tokens,
            key=sha256(that_end.tobytes()).digest(),  # all others follow from those that end it
        )

    def shared_ids(self, ids: frozenset[int]) -> Ints:
        """`frozen_ids`, the same object for the same ids while it is kept; clients name some, so not all are."""
        known = self._shared.get(ids)
        if known is None:
            known = frozen_ids(ids)
            self._shared.keep(ids, known, (known,), nbytes=_AN_ID * len(ids))
        return known

    def nbytes(self) -> int:
        """Bytes that the tables of all components hold."""
        own = sum(bound.matcher.nbytes() for bound in (*self.avoid, *self.bias, *self.after))
        return own + sum(shadow.program.nbytes() for shadow in self.shadows)


def frozen_ids(ids: Iterable[int]) -> Ints:
    """A sorted, read-only int32 array of distinct ids."""
    array = np.array(sorted(set(ids)), dtype=np.int32)
    array.flags.writeable = False
    return array
