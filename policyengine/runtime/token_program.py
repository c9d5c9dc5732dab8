"""Policies joined with one vocabulary: everything that is decided once, before the first request.

Binding resolves `when`, encodes forced texts, checks token ids, and builds the tables of each automaton. A
`TokenProgram` is shared by all requests of a model; what belongs to one output is a `TokenSession`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from policyengine.automata.token_matcher import Position, TokenMatcher
from policyengine.automata.token_tables import TokenTables
from policyengine.automata.utf8 import REPLACEMENT
from policyengine.automata.vocabulary_trie import VocabularyTrie
from policyengine.runtime.errors import BindError
from policyengine.runtime.program import BanPlan, BiasPlan, Component, ForcePlan, Program, Request, RulePlan

if TYPE_CHECKING:
    from policyengine.automata.folding import FoldSpec
    from policyengine.automata.phrases import Ints
    from policyengine.automata.vocabulary import Vocabulary
    from policyengine.runtime.token_session import TokenSession

_MOST_CACHED = 1 << 14


@lru_cache(maxsize=8)
def _trie(vocabulary: Vocabulary, spec: FoldSpec) -> VocabularyTrie:
    """One index a vocabulary and folding; every program on the model shares it."""
    return VocabularyTrie(vocabulary, spec)


class BoundComponent:
    """One component on the vocabulary, with what its positions ask for."""

    def __init__(self, component: Component, vocabulary: Vocabulary) -> None:
        self.component = component
        automaton = component.automaton
        self.matcher = TokenMatcher(TokenTables(automaton, _trie(vocabulary, automaton.spec)))
        # Where the output ends matters to a word, and to U+FFFD, which an incomplete character then becomes.
        self.minds_the_end = any(p.right_edge or ord(REPLACEMENT) in p.symbols for p in automaton.patterns)
        self._ends: dict[tuple[Position, int], bool] = {}
        self._looks: dict[tuple[Position, bool], tuple[tuple[Ints, ...], bool]] = {}
        self._pairs: dict[tuple[Position, bool], tuple[Ints, Ints]] = {}

    def look(self, position: Position, last: bool) -> tuple[tuple[Ints, ...], bool]:
        """`TokenMatcher.masks`, and whether the output would hold a match if it ended here; cached by position."""
        key = position, last
        known = self._looks.get(key)
        if known is None:
            if len(self._looks) >= _MOST_CACHED:
                self._looks.clear()
            known = self._looks[key] = self.matcher.masks(position, last=last), bool(self.matcher.at_end(position))
        return known

    def ends_in_match(self, position: Position, token: int) -> bool:
        """Whether the output holds a match if it ends with this token, its text shown; cached."""
        key = position, token
        known = self._ends.get(key)
        if known is None:
            if len(self._ends) >= _MOST_CACHED:
                self._ends.clear()
            known = self._ends[key] = bool(self.matcher.completes(position, token, last=True))
        return known

    def pairs(self, position: Position, last: bool) -> tuple[Ints, Ints]:
        """`TokenMatcher.completions`, cached by position; for the few phrases that carry a bias."""
        key = position, last
        known = self._pairs.get(key)
        if known is None:
            if len(self._pairs) >= _MOST_CACHED:
                self._pairs.clear()
            known = self._pairs[key] = self.matcher.completions(position, last=last)
        return known


class TokenProgram:
    """A program on one vocabulary, for one engine and device. Read-only but for caches."""

    def __init__(self, program: Program, vocabulary: Vocabulary, *, device: str | None, target: str | None) -> None:
        self.program, self.vocabulary, self.device, self.target = program, vocabulary, device, target
        self.rules = tuple(rule for rule in program.rules if self._applies(rule))
        self._shared: dict[frozenset[int], Ints] = {}
        components = [
            c
            for c in program.components
            if c.use != "text" and (not c.device or device in c.device) and (target is None or target in c.targets)
        ]
        # bool [size]: ids that stand for something, if only for a special token.
        self.is_real = np.array([data is not None for data in vocabulary.tokens], dtype=np.bool_)
        self._check_ids()
        self.avoid = tuple(BoundComponent(c, vocabulary) for c in components if c.use == "avoid")
        self.bias = tuple(BoundComponent(c, vocabulary) for c in components if c.use == "bias")
        self.forced_texts: dict[str, tuple[int, ...]] = {}
        for rule in self.rules:
            if isinstance(rule.body, ForcePlan) and isinstance(rule.body.text, str):
                self.encode(rule, rule.body.text)
        self._check_forces()

    def _applies(self, rule: RulePlan) -> bool:
        targets = self.program.policies[rule.policy].targets
        return (not rule.device or self.device in rule.device) and (self.target is None or self.target in targets)

    def name(self, rule: RulePlan) -> str:
        """`policy/rule`, as people write it."""
        return f"{self.program.policies[rule.policy].name}/{rule.id}"

    # -- checks that need the vocabulary ---------------------------------------------------------------------------

    def _refusal(self, rule: RulePlan, what: str) -> BindError:
        return BindError(self.name(rule) + what, rule=self.name(rule))

    def _check_ids(self) -> None:
        size = self.vocabulary.size
        for rule in self.rules:
            ids: list[int] = []
            if isinstance(rule.body, BanPlan):
                ids = list(rule.body.token_ids)
                banned_ends = sorted(set(ids) & set(self.vocabulary.eos_token_ids))
                if banned_ends:
                    raise self._refusal(
                        rule, f": token id {banned_ends[0]} ends this model's outputs and cannot be banned"
                    )
            elif isinstance(rule.body, BiasPlan):
                ids = [token for token, _ in rule.body.token_ids]
            elif isinstance(rule.body, ForcePlan) and isinstance(rule.body.token_id, int):
                ids = [rule.body.token_id]
            for token in ids:
                if not 0 <= token < size:
                    raise self._refusal(rule, f": token id {token} is outside the vocabulary of {size} ids")
                if isinstance(rule.body, ForcePlan) and not self.is_real[token]:
                    raise self._refusal(rule, f": token id {token} stands for nothing in this vocabulary")

    def encode(self, rule: RulePlan, text: str) -> tuple[int, ...]:
        """The ids of a forced text, in the tokenizer's own encoding. Raises BindError where there is none."""
        known = self.forced_texts.get(text)
        if known is not None:
            return known
        if self.vocabulary.encode is None:
            raise self._refusal(rule, ": a forced text needs a tokenizer that can encode; this vocabulary has none")
        ids = tuple(int(i) for i in self.vocabulary.encode(text))
        outside = [i for i in ids if not 0 <= i < self.vocabulary.size]
        if not ids or outside:
            raise self._refusal(rule, f": the tokenizer gives no usable ids for the forced text `{text}`")
        self.forced_texts[text] = ids
        return ids

    def _check_forces(self) -> None:
        """A text that is always forced must be one that the bans in force let through."""
        always = {i for i, p in enumerate(self.program.policies) if p.activation == "always"}
        for rule in self.rules:
            body = rule.body
            if not isinstance(body, ForcePlan) or not isinstance(body.text, str) or body.at == "every":
                continue
            policies = always | {rule.policy}
            bans = [(r, r.body) for r in self.rules if isinstance(r.body, BanPlan) and r.policy in policies]
            banned = {token: other for other, ban in bans for token in ban.token_ids}
            for token in self.forced_texts[body.text]:
                if token in banned:
                    raise self._refusal(rule, f" forces token {token}, which {self.name(banned[token])} bans")
            for bound in self.avoid:
                if not policies.intersection(bound.component.policies):
                    continue
                position = bound.matcher.START
                for token in self.forced_texts[body.text]:
                    done = bound.matcher.completes(position, token)
                    if done:
                        other = self.program.rules[bound.component.rules[min(done)]]
                        raise self._refusal(
                            rule, f" forces `{body.text}`, which holds a phrase that {self.name(other)} bans"
                        )
                    position, _ = bound.matcher.advance(position, token)

    # -- requests --------------------------------------------------------------------------------------------------

    def token_session(
        self,
        request: Mapping[str, Any] | None = None,
        stop_token_ids: Iterable[int] = (),
        max_tokens: int | None = None,
        ignore_eos: bool = False,
    ) -> TokenSession:
        """Start the token level of one output; raises RequestError for a request that its policies do not allow.

        request: the request's `extra_args`; None: the `always` policies with their defaults.
        stop_token_ids: the client's own ids that end the output. max_tokens: the output's limit, None: none.
        ignore_eos: EOS is then no end of the output.
        """
        return self.start(self.program.parse_request(request), stop_token_ids, max_tokens, ignore_eos)

    def start(
        self,
        request: Request,
        stop_token_ids: Iterable[int] = (),
        max_tokens: int | None = None,
        ignore_eos: bool = False,
    ) -> TokenSession:
        """`token_session` for a request that was parsed before."""
        from policyengine.runtime.token_session import TokenSession

        return TokenSession(self, request, tuple(stop_token_ids), max_tokens, ignore_eos)

    def shared_ids(self, ids: frozenset[int]) -> Ints:
        """`frozen_ids`, the same object for the same ids; there are as many sets as combinations of policies."""
        return self._shared.setdefault(ids, frozen_ids(ids))

    def nbytes(self) -> int:
        """Bytes that the tables of all components hold."""
        return sum(bound.matcher.nbytes() for bound in (*self.avoid, *self.bias))


def frozen_ids(ids: Iterable[int]) -> Ints:
    """A sorted, read-only int32 array of distinct ids."""
    array = np.array(sorted(set(ids)), dtype=np.int32)
    array.flags.writeable = False
    return array
