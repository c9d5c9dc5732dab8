"""Vocabularies for tests: the toy one of `tests/cases`, a small one of each family, and a real one of 131,072 ids."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import random
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
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


def _made(name: str, make: Callable[[Path], None], *libraries: str) -> Path:
    """A file that is made once a machine. `make` writes it; it depends on nothing but Python and these libraries."""
    versions = f"3 {sys.version} {[version(library) for library in libraries]}"
    key = hashlib.sha256(versions.encode()).hexdigest()[:16]
    root = Path(tempfile.gettempdir()) / f"policyengine-tests-{os.getuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    path = root / f"{name}-{key}.json"
    if not path.exists():
        making = path.with_suffix(f".{os.getpid()}")
        make(making)
        making.rename(path)
    return path


def _corpus() -> list[str]:
    return [str(s) for s in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))]


@functools.cache
def small_path() -> Path:
    """A byte-level BPE of 4,096 ids trained on the standard library's sources."""

    def make(path: Path) -> None:
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
        tokenizer.train(_corpus(), trainer)
        tokenizer.save(str(path))

    return _made("small", make, "tokenizers")


@functools.cache
def small() -> Vocabulary:
    """4,096 ids: byte-level BPE, with two EOS ids."""
    return Vocabulary.from_tokenizer_json(small_path(), eos_token_ids=[0, 1])


def mistral_file(name: str) -> Path:
    """A tokenizer file of a real model that the package mistral_common brings."""
    return Path(str(files("mistral_common") / "data" / name))


@functools.cache
def tekken_path() -> Path:
    """The `tekken.json` of Mistral NeMo."""
    return mistral_file("tekken_240911.json")


@functools.cache
def real() -> Vocabulary:
    """131,072 ids: 1,000 special ones first, then the 130,072 tokens of Mistral NeMo in order of rank."""
    return Vocabulary.from_tekken(tekken_path())


@functools.cache
def small_tekken_path() -> Path:
    """The first 4,076 tokens of the real file, behind 20 special ones."""

    def make(path: Path) -> None:
        data = json.loads(tekken_path().read_text(encoding="utf-8"))
        data["config"] |= {"default_num_special_tokens": 20, "default_vocab_size": SMALL_SIZE}
        data["vocab"] = data["vocab"][: SMALL_SIZE - 20]
        data["special_tokens"] = (data.get("special_tokens") or [])[:20] or None
        path.write_text(json.dumps(data), encoding="utf-8")

    return _made("tekken", make, "mistral_common")


@functools.cache
def small_tekken() -> Vocabulary:
    """4,096 ids of a Tekken (tiktoken) vocabulary."""
    return Vocabulary.from_tekken(small_tekken_path())


@functools.cache
def sentencepiece_path() -> Path:
    """The SentencePiece model of Mistral 7B, 32,000 ids with byte fallback, as transformers makes a tokenizer.json."""

    def make(path: Path) -> None:
        from transformers import LlamaTokenizer

        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(mistral_file("tokenizer.model.v1"), Path(folder) / "tokenizer.model")
            LlamaTokenizer.from_pretrained(folder).backend_tokenizer.save(str(path))

    return _made("sentencepiece", make, "mistral_common", "transformers", "tokenizers")


@functools.cache
def small_sentencepiece_path() -> Path:
    """What the first 3,000 pieces of the real model spell, and every eighth of its single characters."""

    def make(path: Path) -> None:
        data = json.loads(sentencepiece_path().read_text(encoding="utf-8"))
        ids: dict[str, int] = data["model"]["vocab"]
        kept = [
            piece
            for piece, i in ids.items()
            if i < 3000 or (len(piece) == 1 and (i % 8 == 0 or piece < "\u0500" or piece == "▁"))
        ]
        kept.sort(key=ids.__getitem__)
        data["model"]["vocab"] = vocab = {piece: i for i, piece in enumerate(kept)}
        pairs = (merge if isinstance(merge, list) else merge.split(" ") for merge in data["model"]["merges"])
        data["model"]["merges"] = [[a, b] for a, b in pairs if a in vocab and b in vocab and a + b in vocab]
        path.write_text(json.dumps(data), encoding="utf-8")

    return _made("sentencepiece-small", make, "mistral_common", "transformers", "tokenizers")


@functools.cache
def small_sentencepiece() -> Vocabulary:
    """A SentencePiece vocabulary with byte fallback, whose decoder drops the first space; EOS is id 2."""
    return Vocabulary.from_tokenizer_json(small_sentencepiece_path(), eos_token_ids=[2])


@functools.cache
def word_piece_path() -> Path:
    """A WordPiece vocabulary trained on the standard library's sources, with an alphabet of many scripts."""

    def make(path: Path) -> None:
        from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

        tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]", max_input_chars_per_word=100))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=True)
        letters = (
            "".join(chr(c) for c in range(0x21, 0x530))
            + "אבגשابتـकखगिाกขคำ中国字用かがキーゞ가나한글ᏣᎳꭰ"
            + "".join(WORD_PIECE_ODD)
        )
        trainer = trainers.WordPieceTrainer(
            vocab_size=SMALL_SIZE,
            special_tokens=["[UNK]", "[SEP]", "[CLS]", "[PAD]"],
            initial_alphabet=sorted(set(letters)),
            limit_alphabet=3000,
            show_progress=False,
        )
        tokenizer.train(_corpus(), trainer)
        tokenizer.save(str(path))

    return _made("wordpiece", make, "tokenizers")


WORD_PIECE_ODD = (
    "ẞ",
    "\u212a",
    "ﬁ",
    "ﬃ",
    "№",
    "㎏",
    "ﷺ",
    "ｔ",
    "Ａ",
    "①",
    "\u20e3",
    "🙂",
    "👩",
    "💻",
    "🇩",
    "\ufffd",
    "𝐀",
)


@functools.cache
def word_piece() -> Vocabulary:
    """4,096 ids of WordPiece with `##` and clean-up; two EOS ids, and no way to spell bytes."""
    return Vocabulary.from_tokenizer_json(word_piece_path(), eos_token_ids=[1, 3])


# One small real vocabulary of each family of tokenizers.
FAMILIES: dict[str, Callable[[], Vocabulary]] = {
    "byte-level": small,
    "sentencepiece": small_sentencepiece,
    "tekken": small_tekken,
    "wordpiece": word_piece,
}


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
