"""Vocabularies from Hugging Face's `tokenizer.json`, from a file or from a live tokenizer."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from policyengine.automata.vocab_decoders import Decoder
from policyengine.automata.vocabulary import Encode, Vocabulary

_UNKNOWN_PIECE = " \u2047 ".encode()  # how SentencePiece itself shows `<unk>`


def from_file(path: Path, eos_token_ids: Iterable[int] | None) -> Vocabulary:
    """See `Vocabulary.from_tokenizer_json`."""
    if path.is_dir():
        path = path / "tokenizer.json"
    data = _read_json(path)
    if eos_token_ids is None:
        eos_token_ids = _eos_beside(path, data)
    return from_data(data, eos_token_ids, encode=_encoder(path))


def from_live(tokenizer: Any, size: int | None, eos_token_ids: Iterable[int] | None) -> Vocabulary:
    """See `Vocabulary.from_transformers`, which also sets the size."""
    if eos_token_ids is None:
        own = getattr(tokenizer, "eos_token_id", None)
        eos_token_ids = own if isinstance(own, list | tuple) else [] if own is None else [own]

    def encode(text: str) -> list[int]:
        return list(tokenizer.encode(text, add_special_tokens=False))

    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None and hasattr(backend, "to_str"):
        return from_data(json.loads(backend.to_str()), eos_token_ids, encode=encode, size=size)
    # mistral_common's tokenizers, bare or as an engine wraps them.
    inner = _mistral(tokenizer)
    if inner is not None and hasattr(inner, "id_to_byte_piece"):
        tokens: list[bytes | None] = [inner.id_to_byte_piece(token_id) for token_id in range(inner.n_words)]
        special = {inner.id_to_piece(i): i for i, token in enumerate(tokens) if token == b""}
        return Vocabulary(tokens, eos_token_ids, encode=encode, special=special)
    if inner is not None:
        special = {inner.id_to_piece(i): i for i in inner.special_ids}
        tokens = _sentencepiece(inner)
        return Vocabulary(tokens, eos_token_ids, encode=encode, drops_leading_space=True, special=special)
    raise ValueError(
        f"the text of {type(tokenizer).__name__}'s tokens cannot be read: it has no `backend_tokenizer`. "
        "Use the fast tokenizer of this model, or give the vocabulary with `Vocabulary.from_bytes`"
    )


def from_data(
    data: Mapping[str, Any], eos_token_ids: Iterable[int], *, encode: Encode | None = None, size: int | None = None
) -> Vocabulary:
    """From the content of a `tokenizer.json`. Ids that have no token are padding.

    size: the width of the logits; EOS ids that no logit belongs to can never be chosen and are left out.
    """
    decoder = Decoder.from_json(data.get("decoder"))
    pieces = dict(_pieces(data))
    hidden = set()
    for added in data.get("added_tokens") or ():
        pieces[added["id"]] = added["content"]
        if added.get("special"):
            hidden.add(added["id"])
    if not pieces:
        raise ValueError("tokenizer.json holds no tokens")
    tokens: list[bytes | None] = [None] * (max(pieces) + 1)
    for token_id, piece in pieces.items():
        tokens[token_id] = b"" if token_id in hidden else decoder.token_bytes(piece)
    if size is not None:
        eos_token_ids = [token_id for token_id in eos_token_ids if token_id < size]
    return Vocabulary(
        tokens,
        eos_token_ids,
        encode=encode,
        drops_leading_space=decoder.drops_leading_space,
        special={pieces[token_id]: token_id for token_id in hidden},
    )


def _pieces(data: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """The ids and pieces of the model itself, without added tokens."""
    model = data.get("model")
    vocab = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocab, dict):  # BPE, WordPiece, WordLevel
        for piece, token_id in vocab.items():
            yield token_id, piece
    elif isinstance(vocab, list):  # Unigram: [piece, score], the id is its place
        for token_id, entry in enumerate(vocab):
            yield token_id, entry[0]
    else:
        raise ValueError("this is no tokenizer.json: `model.vocab` is missing; a tekken.json needs `from_tekken`")


def _mistral(tokenizer: Any) -> Any | None:
    for _ in range(3):
        if hasattr(tokenizer, "id_to_piece") and hasattr(tokenizer, "n_words"):
            return tokenizer
        tokenizer = getattr(tokenizer, "tokenizer", None)
    return None


def _sentencepiece(tokenizer: Any) -> list[bytes | None]:
    """The bytes of each id of mistral_common's `SentencePieceTokenizer`."""
    decoder = Decoder((lambda piece: piece.replace("▁", " "),), str.encode, byte_tokens=True, drops_leading_space=True)
    tokens: list[bytes | None] = [decoder.token_bytes(tokenizer.id_to_piece(i)) for i in range(tokenizer.n_words)]
    for token_id in tokenizer.special_ids:
        tokens[token_id] = b""
    tokens[tokenizer.unk_id] = _UNKNOWN_PIECE
    return tokens


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist; give a tokenizer.json or the folder of a model") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not a readable tokenizer.json: {error}") from None
    if not isinstance(data, dict):
        raise ValueError(f"{path} is not a tokenizer.json: it holds no JSON object")
    return data


def _eos_beside(path: Path, data: Mapping[str, Any]) -> list[int]:
    """All EOS ids that the files of a model name. The tokenizer's own comes first: it is the one engines choose."""
    found: list[int] = []
    settings = _optional_json(path.with_name("tokenizer_config.json"))
    name = settings.get("eos_token")
    if isinstance(name, dict):
        name = name.get("content")
    if isinstance(name, str):
        by_piece = {piece: token_id for token_id, piece in _pieces(data)}
        by_piece |= {added["content"]: added["id"] for added in data.get("added_tokens") or ()}
        if name in by_piece:
            found.append(by_piece[name])
    for file in ("generation_config.json", "config.json"):
        ids = _optional_json(path.with_name(file)).get("eos_token_id")
        found += ids if isinstance(ids, list) else [] if ids is None else [ids]
    if not found:
        raise ValueError(f"no EOS token is named beside {path}; give `eos_token_ids`")
    return found


def _optional_json(path: Path) -> dict[str, Any]:
    return _read_json(path) if path.exists() else {}


def _encoder(path: Path) -> Encode | None:
    if importlib.util.find_spec("tokenizers") is None:
        return None
    loaded: list[Any] = []

    def encode(text: str) -> list[int]:
        if not loaded:
            from tokenizers import Tokenizer

            loaded.append(Tokenizer.from_file(str(path)))
        return list(loaded[0].encode(text, add_special_tokens=False).ids)

    return encode
