"""Random policies on random vocabularies, against the oracle: what CI runs by the ten thousand, the long run by the
million.

A *case* is one policy bound to one vocabulary; a *trial* is one segmentation of one text under it. Everything a case
does follows from its seed. Each trial checks, of the output that the segmentation is:

- at every step, or at eight of them, that the chosen id and a sample of others are masked exactly where the oracle
  says (G1, G2);
- now and then, that the whole mask is the oracle's, and that some walk of permitted ids holds no match (G1);
- that text and tokens give one verdict: a match in the text is a masked choice, or a masked end (G4);
- that the text gives the same verdict token by token as at once (G3).
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from policyengine.automata.vocabulary import Vocabulary
from policyengine.runtime.program import Program
from policyengine.runtime.token_program import TokenProgram
from policyengine.runtime.token_session import TokenSession
from tests import oracle
from tests.oracle import Phrase, TokenOracle
from tests.programs import program
from tests.properties.texts import DISGUISES, GAPS, ODD, SCRIPTS, SPACES, usable
from tests.streams import run
from tests.vocabularies import FAMILIES, Segmenter

# A vocabulary of pieces of the text itself, and the families of real tokenizers.
KINDS = ("pieces", *FAMILIES)
TRIALS_A_CASE = 40


@dataclass(frozen=True)
class Effort:
    """How much one trial looks at. `whole_masks`, `walks`: shares of the trials that check every id at the steps looked
    at, and that walk on with permitted ids; `steps`: how many steps of an output are looked at, at most."""

    trials_a_case: int
    whole_masks: float
    walks: float
    steps: int


THOROUGH = Effort(TRIALS_A_CASE, 0.02, 0.25, 8)
LIGHT = Effort(100, 0.004, 0.05, 2)  # for the million: more policies and segmentations, fewer steps of each


@dataclass(frozen=True)
class Case:
    """A policy and a vocabulary."""

    seed: str
    kind: str
    banned: tuple[Phrase, ...]
    vocabulary: Vocabulary
    texts: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"case {self.seed} ({self.kind})", *map(repr, self.banned), repr(self.vocabulary.tokens)]
        return "\n".join([*lines, f"eos {self.vocabulary.eos_token_ids}", *map(ascii, self.texts)])


# -- making cases --------------------------------------------------------------------------------------------------


def case(seed: str, *, kinds: Sequence[str] = KINDS, effort: Effort = THOROUGH) -> Case:
    """The case of a seed."""
    rng = random.Random(seed)
    kind = rng.choice(kinds)
    banned = [phrase for _ in range(rng.choice((1, 1, 2, 3))) for phrase in _rule(rng)]
    texts = tuple(_text(rng, banned) for _ in range(effort.trials_a_case))
    return Case(seed, kind, tuple(banned), _vocabulary(rng, kind, banned, texts), texts)


def _words(rng: random.Random) -> str:
    pieces = []
    for _ in range(rng.choice((1, 1, 2, 2, 3, 4))):
        letters = rng.choice(SCRIPTS)
        word = "".join(rng.choices(letters, k=rng.randint(1, 4)))
        pieces.append(rng.choice((word, word, rng.choice(ODD), "a", " ", " ", "-")))
    return "".join(pieces)


def _rule(rng: random.Random) -> list[Phrase]:
    """The phrases of one ban; they share its options."""
    options = Phrase(
        "",
        match=rng.choice(("word", "word", "prefix", "substring")),
        case=rng.choice(("insensitive", "insensitive", "sensitive")),
        normalize=frozenset(rng.choice(_NORMALIZE)),
        gaps=rng.choice(("spaces", "spaces", "literal", "punctuation", "letters")),
        word_end=rng.choice(("eager", "exact")),
    )
    while True:
        written = [_words(rng) for _ in range(rng.choice((1, 1, 2, 3)))]
        exceptions = tuple(_around(rng, rng.choice(written)) for _ in range(rng.choice((0, 0, 0, 1, 2))))
        phrases = [_with(options, text, exceptions) for text in written]
        if all(map(usable, phrases)):
            return phrases


_NORMALIZE: tuple[tuple[str, ...], ...] = (
    *(("nfkc", "invisible"), ("nfkc", "invisible"), (), ("invisible", "marks"), ("confusables",)),
    ("nfkc", "invisible", "marks", "confusables"),
)


def _with(options: Phrase, text: str, exceptions: tuple[str, ...]) -> Phrase:
    return Phrase(
        text, options.match, options.case, options.normalize, options.gaps, options.word_end, exceptions=exceptions
    )


def _around(rng: random.Random, text: str) -> str:
    """An exception: the phrase inside more text, mostly."""
    before = rng.choice(("", "", _words(rng), _words(rng) + " "))
    after = rng.choice(("", _words(rng), " " + _words(rng), "s"))
    return rng.choice((before + text + after, before + text + after, text + after, text[1:] + after, _words(rng)))


def _text(rng: random.Random, banned: Sequence[Phrase]) -> str:
    """The phrases and their exceptions, whole and cut, in disguise, beside each other and beside other text."""
    known = [phrase.text for phrase in banned]
    known += [text for phrase in banned for text in phrase.exceptions] or known
    pieces = []
    for _ in range(rng.choice((1, 2, 2, 3, 4))):
        disguised = rng.choice(DISGUISES)(rng.choice(known))
        other = rng.choice((*SPACES, *GAPS, *ODD, rng.choice(rng.choice(SCRIPTS))))
        pieces.append(rng.choice((disguised, disguised, other)))
    return "".join(pieces)[:28]


def _vocabulary(rng: random.Random, kind: str, banned: Sequence[Phrase], texts: Sequence[str]) -> Vocabulary:
    """Tokens that spell pieces of the texts, and others: of a family those that it has."""
    data = [text.encode() for text in (*texts, *(phrase.text for phrase in banned))]
    pieces = {piece[i:j] for piece in data for i in range(len(piece)) for j in range(i + 1, min(i + 9, len(piece) + 1))}
    if kind == "pieces":
        sizes = rng.choice((20, 60))
        tokens = set(rng.sample(sorted(pieces), min(sizes, len(pieces)))) | {
            bytes([b]) for piece in data for b in piece
        }
        drops = rng.random() < 0.2
    else:
        family = _family(kind)
        fitting = sorted((pieces | {b" " + piece for piece in pieces}) & family.known)
        tokens = {token for token in fitting if len(token) < 2 or rng.random() < 0.8}
        tokens.update(rng.choices(family.tokens, k=30))
        tokens |= {bytes([b]) for piece in data for b in piece} & family.known
        drops = family.drops_leading_space
    ordered = [*sorted(tokens), *rng.choices(sorted(tokens), k=2)]  # some tokens have two ids
    rng.shuffle(ordered)
    ids: list[bytes | None] = [b"", b"<end>", b"", None, *ordered, None, None]
    ends = rng.choice(((0,), (0, 1), (1, 0, rng.randrange(4, len(ids) - 2))))
    return Vocabulary(ids, ends, drops_leading_space=drops)


class _Family:
    def __init__(self, kind: str) -> None:
        vocabulary = FAMILIES[kind]()
        self.tokens = sorted({token for token in vocabulary.tokens if token})
        self.known = frozenset(self.tokens)
        self.drops_leading_space = vocabulary.drops_leading_space


_family = functools.cache(_Family)


# -- trials --------------------------------------------------------------------------------------------------------


class FailedError(AssertionError):
    """A trial that went wrong."""


def run_case(chosen: Case, effort: Effort = THOROUGH) -> int:
    """Run the trials of a case and return how many they were. Raises FailedError."""
    rng = random.Random(f"{chosen.seed} trials")
    policies = program(bans=chosen.banned)
    bound = policies.bind(chosen.vocabulary)
    judge = TokenOracle(chosen.vocabulary.tokens, chosen.vocabulary.eos_token_ids, chosen.banned)
    segmenter, count = Segmenter(chosen.vocabulary), 0
    for text in chosen.texts:
        history = _history(rng, chosen.vocabulary, segmenter, text)
        try:
            _check(rng, policies, bound, judge, history, effort)
            if rng.random() < effort.walks:
                _walk(rng, bound, segmenter, chosen)
        except AssertionError as error:
            raise FailedError(f"{chosen}\nids {history}\n{error}") from error
        count += 1
    return count


def _history(rng: random.Random, vocabulary: Vocabulary, segmenter: Segmenter, text: str) -> list[int]:
    """A segmentation of the text, or of it behind a space; where the tokens spell neither, ids by chance."""
    ids = segmenter.random(text, rng) or segmenter.random(" " + text, rng)
    if ids is None:
        ids = rng.choices(range(vocabulary.size), k=rng.randint(1, 8))
    if rng.random() < 0.15:  # bytes that begin no character, characters that break off, padding, ends
        ids.insert(rng.randrange(len(ids) + 1), rng.randrange(vocabulary.size))
    end = next((place for place, i in enumerate(ids) if i in vocabulary.eos_token_ids), len(ids))
    return ids[: end - 1] if rng.random() < 0.1 else ids[:end]


def _check(
    rng: random.Random,
    policies: Program,
    bound: TokenProgram,
    judge: TokenOracle,
    history: Sequence[int],
    effort: Effort,
) -> None:
    vocabulary = bound.vocabulary
    max_tokens = rng.choice((None, None, len(history) + 1))
    stop = rng.choice(((), (), (rng.randrange(vocabulary.size),)))
    session = bound.token_session(stop_token_ids=stop, max_tokens=max_tokens)
    whole = rng.random() < effort.whole_masks
    looked_at = set(rng.sample(range(len(history) + 1), min(len(history) + 1, effort.steps)))
    for step in range(len(history) + 1):
        past, last = history[:step], max_tokens is not None and step + 1 == max_tokens
        if step in looked_at:
            masked = set(session.masked().tolist())
            if whole:
                expected = judge.masked(past, stop_token_ids=stop, last=last)
                ids = set(range(vocabulary.size))
            elif not _is_dead_end(vocabulary, masked):
                ids = {*history[step : step + 1], rng.choice((*vocabulary.eos_token_ids, *range(vocabulary.size)))}
                ids.update(rng.sample(sorted(masked), min(1, len(masked))))
                expected = {i for i in ids if judge.is_masked(past, i, stop_token_ids=stop, last=last)}
            else:
                expected, ids = set(), set()
            more = (masked & ids) - expected
            may = {i for i in more if judge.is_masked(past, i, stop_token_ids=stop, last=last, together=True)}
            _same(vocabulary, past, masked & ids, expected | may)
        if step < len(history):
            session.advance(history[step])
    plain = bound.token_session()
    for token in history:
        plain.advance(token)
    ends = any(judge.is_masked(history, i) for i in vocabulary.eos_token_ids)
    _one_verdict(policies, vocabulary, judge, history, masked=plain.masked_choices > 0 or ends)


def _is_dead_end(vocabulary: Vocabulary, masked: set[int]) -> bool:
    return len(masked) == vocabulary.size - 1 and vocabulary.eos_token_ids[0] not in masked


def _same(vocabulary: Vocabulary, past: Sequence[int], masked: set[int], expected: set[int]) -> None:
    def shown(ids: set[int]) -> dict[int, bytes | None]:
        return {i: vocabulary.tokens[i] for i in sorted(ids)}

    after = [vocabulary.tokens[i] for i in past]
    assert not masked - expected, f"masked without reason: {shown(masked - expected)} after {after}"
    assert not expected - masked, f"not masked: {shown(expected - masked)} after {after}"


def _broken_in_exception(text: str, phrases: Sequence[Phrase]) -> bool:
    """Whether U+FFFD may have let an exception go on, by name or as a gap, that no way to complete the character did.

    What is masked for the sake of every completion of a character is then not matched in the text that broke it off.
    """
    return "\ufffd" in text and any(p.exceptions for p in phrases)


def _one_verdict(
    policies: Program, vocabulary: Vocabulary, judge: TokenOracle, history: Sequence[int], *, masked: bool
) -> None:
    """G3 and G4: the text of these tokens is stopped where a choice of them was masked, and the same in any pieces."""
    chunks = list(_chunks([judge.tokens[i] or b"" for i in history]))
    text = "".join(chunks)
    found = oracle.find(text, judge.phrases)
    whole = run(policies, [text])
    assert (whole.reason is not None) == bool(found), f"the text level on {text!a}: {whole}, the oracle: {found}"
    assert run(policies, chunks) == whole, f"{chunks} otherwise than at once"
    if found:
        assert masked, f"{text!a} holds {found}, but no choice was masked"
    elif masked and all(p.word_end == "exact" for p in judge.phrases) and not _broken_in_exception(text, judge.phrases):
        raise AssertionError(f"{text!a} holds nothing, but a choice was masked")


def _chunks(pieces: Sequence[bytes]) -> Iterator[str]:
    """What an engine shows token by token: complete characters as they come, the rest at the end."""
    done = 0
    for count in range(1, len(pieces) + 1):
        text, tail = oracle.decode(pieces[:count])
        yield text[done:]
        done = len(text)
        if count == len(pieces) and tail:
            yield "\N{REPLACEMENT CHARACTER}"


def _walk(rng: random.Random, bound: TokenProgram, segmenter: Segmenter, chosen: Case) -> None:
    """G1: an output of permitted ids holds no match, although it keeps trying to spell one."""
    vocabulary = bound.vocabulary
    steps = rng.randint(2, 12)
    session: TokenSession = bound.token_session(max_tokens=steps)
    plan: list[int] = []
    output: list[int] = []
    for _ in range(steps):
        masked = set(session.masked().tolist())
        if _is_dead_end(vocabulary, masked):
            return  # `exact` with no other permitted token: the one exception
        plan = plan or segmenter.random(rng.choice(("", " ", "s", "-")) + rng.choice(chosen.texts), rng) or []
        token = plan.pop(0) if plan else rng.randrange(vocabulary.size)
        if token in masked or vocabulary.tokens[token] is None:
            plan = []
            token = rng.choice([i for i, data in enumerate(vocabulary.tokens) if data is not None and i not in masked])
        if token in vocabulary.eos_token_ids:
            break
        session.advance(token)
        output.append(token)
    assert session.masked_choices == 0
    text = b"".join(vocabulary.tokens[i] or b"" for i in output).decode("utf-8", "replace")
    found = oracle.find(text, chosen.banned)
    assert not found, f"the permitted output {output}, {text!a}, holds {found}"
