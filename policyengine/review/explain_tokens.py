"""The token level explained token by token: what was masked, forced and pushed at each, and by which rules.

What holds is what the session of all rules says. Who did it is what a session of each rule alone says: a token that
none of them masks and the whole does is masked by several rules together.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policyengine.automata import utf8
from policyengine.automata.vocabulary import Vocabulary
from policyengine.review.explain_rules import Known, Rules
from policyengine.review.explain_text import acts_in, segments
from policyengine.runtime.allowed_choices import read
from policyengine.runtime.errors import BindError, RequestError
from policyengine.runtime.program import BanPlan, Request, RewritePlan
from policyengine.runtime.token_program import TokenProgram
from policyengine.runtime.token_session import TokenSession

_EXAMPLES = 3  # tokens that are named of those that a rule masks

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Masking:
    """What one rule masks now. count: ids; examples: some of them, the shortest texts first."""

    rule: Known
    count: int
    examples: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TokenStep:
    """What could be chosen at one place of an output, and what was.

    at: the token's place, from 0. token: the id that was chosen; None: the end of what was given.
    masked: ids that may not be chosen, int64, ascending. by: the rules that mask any of them by themselves.
    only_eos: whether nothing is left but the first EOS, the way out of a dead end.
    refused: the rules, with the phrase where there is one, for which the chosen token is masked; `is_masked` without
    any: several rules together. waived: rules that would mask it but give way in a dead end; watching: rules in shadow
    that would mask it.
    forced: the id that alone may be chosen. may_end: whether an id that ends the output may be chosen.
    bias: what is added to the chosen token's logit, pushed: by which rules.
    """

    at: int
    token: int | None
    masked: Ids
    by: tuple[Masking, ...]
    only_eos: bool
    is_masked: bool
    refused: tuple[Known, ...]
    waived: tuple[Known, ...]
    watching: tuple[Known, ...]
    forced: int | None
    forced_by: tuple[Known, ...]
    may_end: bool
    bias: float
    pushed: tuple[tuple[Known, float], ...]
    pushes: int  # ids that carry a bias now


@dataclass(frozen=True, slots=True)
class TokensExplained:
    """An output in tokens. text: what they spell; `ended`: whether the last one ends it."""

    vocabulary: Vocabulary
    ids: tuple[int, ...]
    text: str
    ended: bool
    steps: tuple[TokenStep, ...]

    def show(self, token: int) -> str:
        """A token's text; its name where it has none, or its id."""
        data = self.vocabulary.tokens[token]
        names = [name for name, i in self.vocabulary.special.items() if i == token]
        if token in self.vocabulary.eos_token_ids:
            return names[0] if names else "EOS"
        return data.decode("utf-8", "backslashreplace") if data else names[0] if names else f"#{token}"


def spell(vocabulary: Vocabulary, text: str) -> list[int]:
    """The tokenizer's own ids of a text. Raises ValueError where it cannot encode, or gives other text."""
    if vocabulary.encode is None:
        raise ValueError("this vocabulary cannot encode text here; give the ids with --tokens")
    try:
        ids = [int(i) for i in vocabulary.encode(text)]
    except Exception as error:  # tokenizers raise what they like
        raise ValueError(f"the tokenizer cannot encode the text: {error}") from error
    if text_of(vocabulary, ids) != text:
        raise ValueError("the tokenizer's own ids do not spell the text; give the ids with --tokens")
    return ids


def text_of(vocabulary: Vocabulary, ids: Sequence[int]) -> str:
    """What a client sees of tokens, up to the first that ends the output."""
    parts = []
    for i in ids:
        if i in vocabulary.eos_token_ids:
            break
        parts.append(vocabulary.tokens[i] or b"")
    text, tail = utf8.decode(b"".join(parts))
    text += "\ufffd" if tail else ""
    return text[1:] if vocabulary.drops_leading_space and text.startswith(" ") else text


class _One:
    """The session of one rule alone."""

    def __init__(self, rules: Rules, rank: int, program: TokenProgram, request: Request) -> None:
        self._rules, self.rank, self._program = rules, rank, program
        self._session = program.start(Request(frozenset({0}), request.values))
        self.known, self.shadow = rules.known(rank), rules.is_shadow(rank)
        self._phrases = {phrase.text: phrase for phrase in reversed(rules.phrases(rank))}

    @property
    def session(self) -> TokenSession:
        """Its session."""
        return self._session

    def refusing(self, before: bytes, token: int) -> list[Known]:
        """The rule, with the phrases that a masked token would complete, behind these bytes."""
        names: list[str] = []
        text, _ = utf8.decode(before)
        channel = segments(self._program.program, text)[-1] if text else None
        for bound in self._program.avoid:
            if channel is not None and not acts_in(bound.component, channel):
                continue
            start = before if channel is None else before[len(text[: channel.start].encode()) :]
            position, _ = read(bound, bound.matcher.START, start)
            is_end = token in self._program.vocabulary.eos_token_ids
            done = bound.matcher.at_end(position) if is_end else bound.matcher.completes(position, token)
            names += [bound.component.phrases[pattern] for pattern in sorted(done)]
        found = [self._phrases[name] for name in dict.fromkeys(names) if name in self._phrases]
        return [self._rules.known(self.rank, phrase) for phrase in found] or [self.known]


def explain_tokens(
    rules: Rules,
    request: Request,
    vocabulary: Vocabulary,
    ids: Sequence[int],
    *,
    device: str | None = None,
    model: str | None = None,
) -> TokensExplained:
    """Follow the tokens of one output, to its end. Raises BindError, RequestError, and ValueError for unknown ids."""
    wrong = next((i for i in ids if not 0 <= i < vocabulary.size), None)
    if wrong is not None:
        raise ValueError(f"token id {wrong} is outside the vocabulary of {vocabulary.size:,} ids")
    bound = rules.program.bind(vocabulary, device=device, model=model)
    whole = bound.start(request)
    ones = []
    for rank, plan in enumerate(rules.program.rules):
        fits = plan.when.holds(device=device, model=model, vocabulary=vocabulary.digest)
        if fits and rules.is_active(rank, request) and _steers(rules, rank):
            with contextlib.suppress(*([BindError, RequestError] if rules.is_shadow(rank) else [])):
                alone = rules.alone(rank).bind(vocabulary, device=device, model=model)
                ones.append(_One(rules, rank, alone, request))
    steps = []
    before = b""
    ended = False
    for at, token in enumerate(ids):
        steps.append(_step(at, token, whole, ones, vocabulary, before))
        for session in (whole, *(one.session for one in ones)):
            session.advance(token)
        before += bound.texts[token] or b""
        if token in vocabulary.eos_token_ids:
            ended = True
            break
    if not ended:
        steps.append(_step(len(ids), None, whole, ones, vocabulary, before))
    seen = tuple(ids[: len(steps) if ended else len(ids)])
    return TokensExplained(vocabulary, seen, text_of(vocabulary, seen), ended, tuple(steps))


def _steers(rules: Rules, rank: int) -> bool:
    body = rules.plan(rank).body
    return not isinstance(body, RewritePlan) and (not isinstance(body, BanPlan) or body.avoid or bool(body.token_ids))


def _step(
    at: int, token: int | None, whole: TokenSession, ones: Sequence[_One], vocabulary: Vocabulary, before: bytes
) -> TokenStep:
    masked = whole.masked()
    eos = vocabulary.eos_token_ids
    free = vocabulary.size - len(masked)
    only_eos = free == 1 and not _holds(masked, eos[0])
    is_masked = token is not None and _holds(masked, token)
    watching = [] if token is None else [one for one in ones if one.shadow and _holds(one.session.masked(), token)]
    ones = [one for one in ones if not one.shadow]
    own = [(one, one.session.masked()) for one in ones]
    by = tuple(Masking(one.known, len(ids), _some(ids, vocabulary)) for one, ids in own if len(ids))
    refused: list[Known] = []
    waived: list[Known] = []
    if token is not None:
        for one, ids in own:
            if _holds(ids, token):
                (refused if is_masked else waived).extend(one.refusing(before, token))
    bias, pushed, pushes = _pushes(whole, ones, token)
    forced = whole.forced
    return TokenStep(
        at,
        token,
        masked,
        by,
        only_eos,
        is_masked,
        tuple(refused),
        tuple(waived),
        tuple(known for one in watching for known in one.refusing(before, token or 0)),
        forced,
        tuple(_forcing(forced, ones)),
        any(not _holds(masked, i) for i in eos),
        bias,
        pushed,
        pushes,
    )


def _pushes(
    whole: TokenSession, ones: Sequence[_One], token: int | None
) -> tuple[float, tuple[tuple[Known, float], ...], int]:
    biases = whole.biases()
    if token is None or token not in biases:
        return 0.0, (), len(biases)
    parts = [(one.known, one.session.biases().get(token, 0.0)) for one in ones]
    return biases[token], tuple((known, value) for known, value in parts if value), len(biases)


def _forcing(forced: int | None, ones: Sequence[_One]) -> Iterator[Known]:
    if forced is not None:
        yield from (one.known for one in ones if one.session.forced == forced)


def _holds(ids: Ids, token: int) -> bool:
    place = int(ids.searchsorted(token))
    return place < len(ids) and int(ids[place]) == token


def _some(ids: Ids, vocabulary: Vocabulary) -> tuple[int, ...]:
    """A few ids that show what is masked."""
    texts = ((vocabulary.tokens[i], i) for i in ids.tolist()[: 1 << 12])
    found = sorted((not data.decode("utf-8", "replace").isprintable(), len(data), i) for data, i in texts if data)
    return tuple(i for _, _, i in found[:_EXAMPLES])


__all__ = ["Masking", "TokenStep", "TokensExplained", "explain_tokens", "spell", "text_of"]
