"""How the decoders of a `tokenizer.json` turn one token into text, without running them.

Only decoders are known that give every token the same bytes wherever it stands, but for a space at the start of the
text. For every other one the answer is an error: a wrong guess would let banned text through.

What decoders do to whole outputs is modelled as a stream shows it, where an output goes on from a prompt and what has
been shown stays. Decoded alone and at once, two things look otherwise. WordPiece shows the `##` of a token that starts
the output; here it is left out, which changes no edge. And byte tokens that are no valid UTF-8 together are shown as
one U+FFFD each, those that would be letters on their own (`<0x72>`) included; here those are letters, and what is
invalid is one U+FFFD a maximal subpart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Step = Callable[[str], str]

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>\Z")


@dataclass(frozen=True, slots=True)
class Decoder:
    """What a chain of decoders does: `steps` on the piece, then `finish` to bytes."""

    steps: tuple[Step, ...]
    finish: Callable[[str], bytes]
    byte_tokens: bool
    drops_leading_space: bool

    def token_bytes(self, piece: str) -> bytes:
        """The bytes that one token adds to the text."""
        for step in self.steps:
            piece = step(piece)
        if self.byte_tokens and (found := _BYTE_TOKEN.match(piece)):
            return bytes([int(found[1], 16)])
        return self.finish(piece)

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | None) -> Decoder:
        """From the `decoder` of a tokenizer.json. Raises ValueError for one that is not known."""
        if data is None:  # pieces are then joined by spaces
            return cls((lambda piece: " " + piece,), str.encode, False, True)
        steps: list[Step] = []
        finish: Callable[[str], bytes] = str.encode
        byte_tokens, drops, fused = False, False, False
        for part in _flat(data):
            kind = part.get("type")
            if kind == "Fuse":
                fused = True
            elif fused and kind == "Strip" and part["content"] == " " and part["start"] <= 1 and part["stop"] == 0:
                drops = drops or part["start"] == 1
            elif fused or byte_tokens:
                raise _unknown(kind, "after the tokens were joined")
            elif kind == "ByteLevel":
                finish, fused = byte_level, True
            elif kind == "ByteFallback":
                byte_tokens = True
            elif kind == "Replace":
                steps.append(_replace(part))
            elif kind == "Strip":
                steps.append(_strip(part["content"], part["start"], part["stop"]))
            elif kind == "Metaspace":
                steps.append(_replacer(part.get("replacement", "▁"), " "))
                drops = drops or part.get("prepend_scheme", "always") != "never"
            elif kind == "WordPiece":
                steps.append(_word_piece(part.get("prefix", "##"), part.get("cleanup", True)))
                drops = True
            else:
                raise _unknown(kind, "in a tokenizer.json")
        return cls(tuple(steps), finish, byte_tokens, drops)


def _flat(data: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if data.get("type") == "Sequence":
        for part in data["decoders"]:
            yield from _flat(part)
    else:
        yield data


def _unknown(kind: object, where: str) -> ValueError:
    return ValueError(
        f"the decoder `{kind}` {where} is not known, so the text of its tokens cannot be told; "
        "give the vocabulary with `Vocabulary.from_bytes`"
    )


# -- single decoders -----------------------------------------------------------------------------------------------


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-ins for bytes: printable Latin-1 stands for itself, the rest follows from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    alphabet = {chr(byte): byte for byte in printable}
    alphabet |= {chr(0x100 + i): byte for i, byte in enumerate(b for b in range(256) if b not in printable)}
    return alphabet


_BYTE_OF = _byte_alphabet()


def byte_level(piece: str) -> bytes:
    """The bytes of a byte-level piece; a piece with a character outside the alphabet (an added token) is plain text."""
    try:
        return bytes([_BYTE_OF[ch] for ch in piece])
    except KeyError:
        return piece.encode()


def _replacer(old: str, new: str) -> Step:
    return lambda piece: piece.replace(old, new)


def _replace(part: Mapping[str, Any]) -> Step:
    pattern = part["pattern"]
    if not isinstance(pattern, dict) or "String" not in pattern:
        raise _unknown("Replace", "with a regular expression")
    return _replacer(pattern["String"], part["content"])


def _strip(content: str, start: int, stop: int) -> Step:
    def strip(piece: str) -> str:
        left = len(piece) - len(piece.lstrip(content))
        piece = piece[min(left, start) :]
        right = len(piece) - len(piece.rstrip(content))
        return piece[: len(piece) - min(right, stop)]

    return strip


# What WordPiece's clean-up does inside one token with its leading space.
_CLEANUP: tuple[tuple[str, str], ...] = (
    *((" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"), (" 'm", "'m")),
    *((" do not", " don't"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re")),
)


def _word_piece(prefix: str, cleanup: bool) -> Step:
    def word_piece(piece: str) -> str:
        piece = piece.removeprefix(prefix) if piece.startswith(prefix) else " " + piece
        if cleanup:
            for old, new in _CLEANUP:
                piece = piece.replace(old, new)
        return piece

    return word_piece
