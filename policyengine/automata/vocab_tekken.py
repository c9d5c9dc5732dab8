"""Vocabularies from Mistral's `tekken.json`.

Special tokens come first: id r is the special token of rank r, and id `default_num_special_tokens` + r the text token
of rank r. The file may hold more text tokens than the model uses; `default_vocab_size` counts ids of both kinds.
"""

from __future__ import annotations

import base64
import importlib.util
import json
from pathlib import Path
from typing import Any

from policyengine.automata.vocabulary import Encode, Vocabulary

# Older files name no special tokens: there `</s>` is the one of rank 2.
_OLD_EOS = 2


def from_file(path: Path) -> Vocabulary:
    """See `Vocabulary.from_tekken`."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        config = data["config"]
        special = int(config["default_num_special_tokens"])
        count = int(config["default_vocab_size"]) - special
        text = {entry["rank"]: base64.b64decode(entry["token_bytes"]) for entry in data["vocab"][:count]}
        named = {entry["token_str"]: int(entry["rank"]) for entry in data.get("special_tokens") or ()}
    except (OSError, UnicodeDecodeError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a readable tekken.json: {error!r}") from None
    if set(text) != set(range(count)):
        raise ValueError(f"{path}: the first {count} tokens do not have the ranks 0 to {count - 1}")
    eos = named.get("</s>") if named else _OLD_EOS
    if eos is None:
        raise ValueError(f"{path} names no `</s>` among its special tokens")
    tokens: list[bytes | None] = [b""] * special
    tokens += [text[rank] for rank in range(count)]
    return Vocabulary(tokens, [eos], encode=_encoder(path, config["pattern"], text, special), special=named)


def _encoder(path: Path, pattern: str, text: dict[int, bytes], special: int) -> Encode | None:
    if importlib.util.find_spec("tiktoken") is None:
        return None
    loaded: list[Any] = []

    def encode(string: str) -> list[int]:
        if not loaded:
            import tiktoken

            ranks = {token: rank for rank, token in text.items()}
            encoding = tiktoken.Encoding(path.stem, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
            loaded.append(encoding)
        return [special + token for token in loaded[0].encode(string, allowed_special=set(), disallowed_special=())]

    return encode
