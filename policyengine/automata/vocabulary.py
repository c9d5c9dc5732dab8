"""A vocabulary: what each token id adds to the text a client sees, as bytes.

Nothing here needs a tokenizer library. `encode`, which only forced texts need, uses one if it is installed.
"""

from __future__ import annotations

import hashlib
import operator
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

Encode = Callable[[str], list[int]]


class Vocabulary:
    """The tokens of one model. Immutable; compared by identity, `digest` tells equal ones.

    Attributes:
        tokens: one entry an id: its bytes, `b""` for a token without visible text (special tokens), None for an id
            that stands for nothing (padding of the logits).
        eos_token_ids: the ids that end an output, the engine's own first; distinct, at least one.
        encode: text to ids as the model's tokenizer does it, without special tokens; None where that is not known.
        drops_leading_space: whether the tokenizer's decoder removes a space at the start of a text (SentencePiece
            families, WordPiece).
        special: tokens without text by the name that the tokenizer gives them, as far as it tells. The digest leaves
            them out.
    """

    def __init__(
        self,
        tokens: Sequence[bytes | None],
        eos_token_ids: Iterable[int],
        *,
        encode: Encode | None = None,
        drops_leading_space: bool = False,
        special: Mapping[str, int] | None = None,
    ) -> None:
        """Raises ValueError for an empty vocabulary, a token that is not bytes, and EOS ids outside it."""
        self.tokens: list[bytes | None] = list(tokens)
        if not self.tokens:
            raise ValueError("a vocabulary needs at least one token")
        for token_id, token in enumerate(self.tokens):
            if token is not None and not isinstance(token, bytes):
                raise ValueError(f"token {token_id} is {type(token).__name__}; give bytes, or None for a padding id")
        self.eos_token_ids = tuple(dict.fromkeys(_index(token_id) for token_id in eos_token_ids))
        if not self.eos_token_ids:
            raise ValueError("a vocabulary needs at least one EOS token id; give `eos_token_ids`")
        for token_id in self.eos_token_ids:
            if not 0 <= token_id < self.size:
                raise ValueError(f"EOS token id {token_id} is outside the vocabulary of {self.size} ids")
        self.encode = encode
        self.drops_leading_space = drops_leading_space
        self.special = {name: i for name, i in (special or {}).items() if i < self.size and self.tokens[i] == b""}

    @property
    def size(self) -> int:
        """How many ids there are; the width of the logits."""
        return len(self.tokens)

    @cached_property
    def digest(self) -> str:
        """sha256, hex, over the tokens, the EOS ids and `drops_leading_space`."""
        parts = [b"policyengine vocabulary 1\n"]
        for token in self.tokens:
            parts.append(struct.pack("<i", -1 if token is None else len(token)))
            parts.append(token or b"")
        parts.append(struct.pack(f"<i{len(self.eos_token_ids)}i?", -2, *self.eos_token_ids, self.drops_leading_space))
        return hashlib.sha256(b"".join(parts)).hexdigest()

    @cached_property
    def unknown_ids(self) -> tuple[int, ...]:
        """Ids among the tokens that stand for nothing the tokenizer knows, so that what they would show is unknown.

        The padding behind the last token is not among them: no model was trained to choose it.
        """
        last = max((i for i, token in enumerate(self.tokens) if token is not None), default=-1)
        return tuple(i for i in range(last) if self.tokens[i] is None)

    def describe(self) -> str:
        """One line for a log: what was read, and what is not known of it."""
        shown = sum(1 for token in self.tokens if token)
        silent, padding = self.tokens.count(b""), self.tokens.count(None)
        parts = [f"{self.size:,} ids", f"{shown:,} with text", f"{silent:,} without", f"{padding:,} padding"]
        line = ", ".join(parts) + f"; ends: {', '.join(map(str, self.eos_token_ids))}"
        if self.drops_leading_space:
            line += "; a space at the start may be dropped"
        if self.unknown_ids:
            some = ", ".join(map(str, self.unknown_ids[:5])) + (", ..." if len(self.unknown_ids) > 5 else "")
            line += f"; unknown to the tokenizer, taken to show nothing: {some}"
        return line

    def __repr__(self) -> str:
        return f"Vocabulary({self.size} ids, eos {list(self.eos_token_ids)}, {self.digest[:12]})"

    def resized(self, size: int) -> Vocabulary:
        """The vocabulary as wide as a model's logits: more ids are padding, ids that no logit belongs to are cut."""
        if size == self.size:
            return self
        padding: list[bytes | None] = [None] * (size - self.size)
        return Vocabulary(
            self.tokens[:size] + padding,
            self.eos_token_ids,
            encode=self.encode,
            drops_leading_space=self.drops_leading_space,
            special=self.special,
        )

    @classmethod
    def from_bytes(
        cls,
        tokens: Sequence[bytes | None],
        eos_token_ids: Iterable[int],
        encode: Encode | None = None,
        *,
        drops_leading_space: bool = False,
    ) -> Vocabulary:
        """From each id's bytes: `b""` is a token without text, None an id that stands for nothing."""
        return cls(tokens, eos_token_ids, encode=encode, drops_leading_space=drops_leading_space)

    @classmethod
    def from_tokenizer_json(cls, path: str | Path, eos_token_ids: Iterable[int] | None = None) -> Vocabulary:
        """From a `tokenizer.json` (Hugging Face), or the model folder that holds one.

        eos_token_ids: None takes them from the files beside it (tokenizer_config.json, generation_config.json,
        config.json). Raises ValueError for a decoder that is not known, and where no EOS id is found.
        """
        from policyengine.automata import vocab_huggingface

        return vocab_huggingface.from_file(Path(path), eos_token_ids)

    @classmethod
    def from_tekken(cls, path: str | Path) -> Vocabulary:
        """From a `tekken.json` (Mistral). Raises ValueError where the file is none."""
        from policyengine.automata import vocab_tekken

        return vocab_tekken.from_file(Path(path))

    @classmethod
    def from_path(cls, path: str | Path, eos_token_ids: Iterable[int] | None = None) -> Vocabulary:
        """From whichever of the known files this is, or this folder holds; a `tokenizer.json` is preferred."""
        path = Path(path)
        if path.is_dir() and not (path / "tokenizer.json").exists():
            path = next(iter(sorted(path.glob("tekken*.json"))), path)
        if path.name.startswith("tekken"):
            return cls.from_tekken(path)
        return cls.from_tokenizer_json(path, eos_token_ids)

    @classmethod
    def from_transformers(
        cls, tokenizer: Any, size: int | None = None, eos_token_ids: Iterable[int] | None = None
    ) -> Vocabulary:
        """From a live tokenizer, as an engine holds it.

        size: the width of the model's logits; None: as many ids as the tokenizer has. eos_token_ids: None takes the
        tokenizer's own. Raises ValueError for a tokenizer whose decoding cannot be read.
        """
        from policyengine.automata import vocab_huggingface

        vocabulary = vocab_huggingface.from_live(tokenizer, size, eos_token_ids)
        return vocabulary if size is None else vocabulary.resized(size)


def _index(value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError(f"an EOS token id is an integer, not {value!r}") from None
