"""The model behind a logits processor: its vocabulary, told in a form that crosses processes, and programs bound on it.

The engine pickles a request's processor and unpickles it in its workers, for every request. So a processor carries no
vocabulary if it can help it, and what a process has bound it keeps.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from policyengine.automata.vocabulary import Vocabulary
from policyengine.bundles import open_bundle
from policyengine.runtime.counts import RuleCounts, RuleLog
from policyengine.runtime.errors import BindError
from policyengine.runtime.program import ForcePlan, Program

if TYPE_CHECKING:
    from policyengine.runtime.token_program import TokenProgram

TARGET = "trtllm-llm"
_KEPT = 8  # bound programs and vocabularies of a process

logger = logging.getLogger(__name__)
_lock = threading.RLock()


# -- the vocabulary ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Folder:
    """The vocabulary of a model's folder, or of its tokenizer's file. Workers must see it under the same path."""

    path: str
    eos: tuple[int, ...] | None

    @property
    def key(self) -> Hashable:
        """Equal for equal vocabularies."""
        return self

    def open(self) -> Vocabulary:
        """Raises ValueError where it cannot be read."""
        return Vocabulary.from_path(self.path, self.eos)


@dataclass(frozen=True, slots=True)
class Packed:
    """A vocabulary itself. data: the tokens one after the other; lengths: int32, -1 for padding.

    texts: what the tokenizer makes of the texts that may be forced; nothing else can be encoded in another process.
    special: the names of tokens without text.
    """

    digest: str
    data: bytes
    lengths: bytes
    eos: tuple[int, ...]
    drops_leading_space: bool
    texts: tuple[tuple[str, tuple[int, ...]], ...]
    special: tuple[tuple[str, int], ...]

    @property
    def key(self) -> Hashable:
        """Equal for equal vocabularies."""
        return self.digest, self.special

    def open(self) -> Vocabulary:
        """The vocabulary, which can encode the texts that this process has been told of."""
        tokens: list[bytes | None] = []
        at = 0
        for length in np.frombuffer(self.lengths, dtype=np.int32).tolist():
            tokens.append(None if length < 0 else self.data[at : at + length])
            at += max(length, 0)
        encode = _Texts(self.digest)
        return Vocabulary(
            tokens,
            self.eos,
            encode=encode,
            drops_leading_space=self.drops_leading_space,
            special=dict(self.special),
        )


Ref = Folder | Packed


class _Texts:
    """Encodes texts that were encoded elsewhere."""

    known: ClassVar[OrderedDict[tuple[str, str], tuple[int, ...]]] = OrderedDict()
    most: ClassVar[int] = 1 << 14

    def __init__(self, digest: str) -> None:
        self._digest = digest

    @classmethod
    def learn(cls, ref: Packed) -> None:
        for text, ids in ref.texts:
            cls.known[ref.digest, text] = ids
            cls.known.move_to_end((ref.digest, text))
        while len(cls.known) > cls.most:
            cls.known.popitem(last=False)

    def __call__(self, text: str) -> list[int]:
        return list(self.known[self._digest, text])


def pack(vocabulary: Vocabulary, texts: Iterable[str]) -> Packed:
    """A vocabulary as it travels."""
    lengths = np.array([-1 if token is None else len(token) for token in vocabulary.tokens], dtype=np.int32)
    encode = vocabulary.encode
    encoded = tuple((text, tuple(encode(text))) for text in dict.fromkeys(texts)) if encode is not None else ()
    return Packed(
        vocabulary.digest,
        b"".join(token or b"" for token in vocabulary.tokens),
        lengths.tobytes(),
        vocabulary.eos_token_ids,
        vocabulary.drops_leading_space,
        encoded,
        tuple(sorted(vocabulary.special.items())),
    )


def forced_texts(program: Program, given: Iterable[Any]) -> list[str]:
    """The texts that a tokenizer may be asked for: those of forces, and what a request passes for them."""
    texts = [rule.body.text for rule in program.rules if isinstance(rule.body, ForcePlan)]
    return [text for text in (*texts, *given) if isinstance(text, str)]


def vocabulary_of(model: Any, eos_token_ids: Iterable[int] | None) -> tuple[Vocabulary, Folder | None]:
    """The vocabulary of what a user has at hand, and its folder if it was read from one.

    model: a `Vocabulary`, a folder or file, an `LLM`, or a tokenizer. Raises BindError where it cannot be read.
    """
    eos = None if eos_token_ids is None else tuple(eos_token_ids)
    if isinstance(model, Vocabulary):
        return model, None
    folder = model if isinstance(model, str | Path) else _folder_of(model)
    try:
        if folder is not None:
            ref = Folder(str(folder), eos)
            return _opened(ref), ref
        tokenizer = unwrapped(getattr(model, "tokenizer", None) if is_llm(model) else model)
        return Vocabulary.from_transformers(tokenizer, None, eos or _ends(tokenizer)), None
    except ValueError as error:
        hint = "" if folder is None or Path(folder).exists() else "; give the LLM, its tokenizer, or a local folder"
        raise BindError(f"the model's vocabulary cannot be read: {error}{hint}") from error


def is_llm(model: Any) -> bool:
    """Whether this is TensorRT-LLM's `LLM`, as far as it is used here."""
    return hasattr(model, "args") and hasattr(model, "generate")


def unwrapped(tokenizer: Any) -> Any:
    """The tokenizer inside the engine's own wrapper."""
    inner = getattr(tokenizer, "tokenizer", None)
    return tokenizer if inner is None or hasattr(tokenizer, "backend_tokenizer") else inner


def _folder_of(model: Any) -> Path | None:
    """Where an `LLM` has its tokenizer from, if that can be read again."""
    if not is_llm(model):
        return None
    named = getattr(model.args, "tokenizer", None)
    places = [named] if named is not None else [getattr(model, "_hf_model_dir", None), getattr(model.args, "model", "")]
    for place in places:
        if isinstance(place, str | Path) and place and (Path(place) / "tokenizer.json").is_file():
            return Path(place)
    return None


def _ends(tokenizer: Any) -> list[int] | None:
    """The ids that end an output: the tokenizer's own, and those of the generation configuration beside it."""
    own = getattr(tokenizer, "eos_token_id", None)
    found = list(own) if isinstance(own, list | tuple) else [] if own is None else [own]
    path = Path(str(getattr(tokenizer, "name_or_path", "") or "")) / "generation_config.json"
    try:
        more = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
    except (OSError, ValueError, AttributeError):
        more = None
    found += more if isinstance(more, list) else [] if more is None else [more]
    return found or None


# -- what a process keeps --------------------------------------------------------------------------------------------


class Bound:
    """A program bound on a vocabulary, with what its requests share in one process.

    counters: "refused" and "failed" requests (both get nothing but the end), "stale" ones (the engine did not tell the
    last token), "lost" ones (their state had been dropped), "overruled" choices (a masked token was chosen),
    "dead_ends" (nothing was left but the end).
    rules: what is counted by rule, in shadow or not; log says it.
    """

    def __init__(self, program: TokenProgram) -> None:
        self.program = program
        self.counters: Counter[str] = Counter()
        self.rules = RuleCounts(program.program)
        self.log = RuleLog(self.rules, program.program.digest, logger.info)
        self.real = int(program.is_real.sum())
        self.eos = program.vocabulary.eos_token_ids[0]
        self._padding = np.flatnonzero(~program.is_real)
        self._caches: dict[str, Any] = {}
        self._dead_ends: dict[str, Any] = {}

    def padding(self, width: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The ids of logits of this width that stand for no token, int64."""
        return np.concatenate((self._padding, np.arange(self.program.vocabulary.size, width)))

    def cache(self, device: Any) -> Any:
        """The `PartCache` of a device."""
        key = str(device)
        if key not in self._caches:
            from policyengine.engines.vllm.edits import PartCache

            self._caches[key] = PartCache(device)
        return self._caches[key]

    def dead_ends(self, device: Any) -> Any:
        """How many rows had nothing left, an int64 scalar on a device: steps add to it there, and nobody waits."""
        key = str(device)
        if key not in self._dead_ends:
            import torch

            self._dead_ends[key] = torch.zeros((), dtype=torch.int64, device=device)
        return self._dead_ends[key]

    def snapshot(self) -> dict[str, int]:
        """All counters. Waits for the devices."""
        names = ("refused", "failed", "stale", "lost", "overruled")
        dead = sum(int(count.item()) for count in self._dead_ends.values())
        return {**{name: self.counters[name] for name in names}, "dead_ends": dead}


_vocabularies: OrderedDict[Hashable, Vocabulary] = OrderedDict()
_programs: OrderedDict[str, tuple[str, Program]] = OrderedDict()
_bound: OrderedDict[Hashable, Bound] = OrderedDict()


def program_at(directory: Path) -> Program:
    """The bundle in a directory, read again only if its manifest changed; raises BundleError."""
    try:
        stamp = hashlib.sha256((directory / "manifest.json").read_bytes()).hexdigest()
    except OSError:
        stamp = ""
    with _lock:
        known = _programs.get(str(directory))
        if known is None or known[0] != stamp:
            known = stamp, open_bundle(directory)
            _keep(_programs, str(directory), known)
        return known[1]


def bound(program: Program, ref: Ref, *, device: str, model: str | None, width: int | None = None) -> Bound:
    """The program on a vocabulary, bound once a process. width: of the logits; None: as many as the tokenizer has.

    Raises BindError, and ValueError for logits that have no place for an end-of-sequence token.
    """
    with _lock:
        vocabulary = _opened(ref)
        # Wider logits are padding, which needs no tables of its own.
        size = vocabulary.size if width is None else min(width, vocabulary.size)
        when = tuple(value for rule in program.rules for value in (rule.when.model, rule.when.device))
        facts = (device, model) if any(when) else ()
        key = program.digest, ref.key, size, facts
        known = _bound.get(key)
        if known is None:
            logger.info("binding policies, bundle digest %s, on %s", program.digest, vocabulary.describe())
            made = program.bind(vocabulary.resized(size), device=device, model=model, target=TARGET)
            known = Bound(made)
        _keep(_bound, key, known)
        return known


def remember(ref: Ref, vocabulary: Vocabulary) -> None:
    """Let this process use a vocabulary that is at hand under its reference."""
    with _lock:
        _keep(_vocabularies, ref.key, vocabulary)


def _opened(ref: Ref) -> Vocabulary:
    with _lock:
        if isinstance(ref, Packed):
            _Texts.learn(ref)
        known = _vocabularies.get(ref.key)
        if known is None:
            known = ref.open()
        _keep(_vocabularies, ref.key, known)
        return known


def _keep(kept: OrderedDict[Any, Any], key: Hashable, value: Any, most: int = _KEPT) -> None:
    kept[key] = value
    kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)
