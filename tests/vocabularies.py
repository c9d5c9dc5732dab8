"""Vocabularies for tests: the toy one of `tests/cases`, a small byte-level BPE, and a real one of 131,072 ids."""

from __future__ import annotations

import functools
import hashlib
import os
import random
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from policyengine.automata.vocabulary import Vocabulary

# Logits are 24 wide; ids 17 to 23 are padding without text.
TOY_TOKENS: list[bytes | None] = [
    *(b"", b"the", b" the", b"rice", b" rice", b"r", b" r", b"i", b"ce", b"ic", b"e", b"c"),
    *(b"Rice", b" Rice", b" ", b"RI", b"CE"),
    *([None] * 7),
]


@functools.cache
def toy() -> Vocabulary:
    """24 ids; 0 is EOS. Its `encode` knows only what the cases force."""

    def encode(text: str) -> list[int]:
        return spell(TOY_TOKENS, text)

    return Vocabulary.from_bytes(TOY_TOKENS, [0], encode)


SMALL_SIZE = 4096
SMALL_SPECIAL = ("<eos>", "<end>", "<bos>", "<pad>")  # ids 0 to 3; the first two end an output


@functools.cache
def small_path() -> Path:
    """A byte-level BPE of 4,096 ids trained on the standard library's sources; made once a machine."""
    key = hashlib.sha256(f"1 {sys.version} {version('tokenizers')}".encode()).hexdigest()[:16]
    root = Path(tempfile.gettempdir()) / f"policyengine-tests-{os.getuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    path = root / f"small-{key}.json"
    if not path.exists():
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=SMALL_SIZE,
            special_tokens=list(SMALL_SPECIAL),
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        tokenizer.train([str(s) for s in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))], trainer)
        making = path.with_suffix(f".{os.getpid()}")
        tokenizer.save(str(making))
        making.rename(path)
    return path


@functools.cache
def small() -> Vocabulary:
    """4,096 ids: byte-level BPE, with two EOS ids."""
    return Vocabulary.from_tokenizer_json(small_path(), eos_token_ids=[0, 1])


@functools.cache
def tekken_path() -> Path:
    """The tokenizer file of a real model that the package mistral_common brings."""
    return Path(str(files("mistral_common") / "data" / "tekken_240911.json"))


@functools.cache
def real() -> Vocabulary:
    """131,072 ids: 1,000 special ones first, then the 130,072 tokens of Mistral NeMo in order of rank."""
    return Vocabulary.from_tekken(tekken_path())


def spell(tokens: Sequence[bytes | None], text: str) -> list[int]:
    """The text in longest tokens first. Raises ValueError where no token fits."""
    by_bytes = {token: i for i, token in reversed(list(enumerate(tokens))) if token}
    longest = max(map(len, by_bytes))
    data, ids = text.encode(), []
    while data:
        size = next((n for n in range(longest, 0, -1) if data[:n] in by_bytes), 0)
        if not size:
            raise ValueError(f"no token starts {data!r}")
        ids.append(by_bytes[data[:size]])
        data = data[size:]
    return ids


class Segmenter:
    """Random ways to spell a text in the tokens of one vocabulary, cuts inside characters included."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.ids: dict[bytes, list[int]] = {}
        for token_id, token in enumerate(vocabulary.tokens):
            if token:
                self.ids.setdefault(token, []).append(token_id)
        self.longest = max(map(len, self.ids))
        self.silent = [i for i, t in enumerate(vocabulary.tokens) if t == b"" and i not in vocabulary.eos_token_ids]

    def random(self, text: str, rng: random.Random) -> list[int] | None:
        """One segmentation, now and then with a token without text between; None where there is none."""
        data = text.encode()
        can_end = [False] * len(data) + [True]  # from which bytes on the rest can be spelled
        for at in range(len(data) - 1, -1, -1):
            can_end[at] = any(data[at:end] in self.ids for end in self._ends(data, at, can_end))
        if not can_end[0]:
            return None
        at, ids = 0, []
        while at < len(data):
            if self.silent and rng.random() < 0.05:
                ids.append(rng.choice(self.silent))
            ends = [end for end in self._ends(data, at, can_end) if data[at:end] in self.ids]
            end = rng.choice(ends)
            ids.append(rng.choice(self.ids[data[at:end]]))
            at = end
        return ids

    def _ends(self, data: bytes, at: int, can_end: list[bool]) -> list[int]:
        return [end for end in range(at + 1, min(at + self.longest, len(data)) + 1) if can_end[end]]
