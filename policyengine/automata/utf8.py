"""UTF-8 that arrives in pieces: which character a few leading bytes are, and what is still open.

Invalid bytes are U+FFFD per maximal subpart, as Python, the WHATWG and the engines' detokenizers decode.
"""

from __future__ import annotations

import codecs

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def decode(data: bytes) -> tuple[str, bytes]:
    """The characters of `data`, and the bytes at its end that begin a character which is not complete yet."""
    text, used = codecs.utf_8_decode(data, "replace", False)
    if len(data) - used == 2 and data[used] == 0xED and data[used + 1] >= 0xA0:
        # Python waits here, although only surrogates would follow, which UTF-8 does not have.
        return text + 2 * REPLACEMENT, b""
    return text, data[used:]


def is_continuation(byte: int) -> bool:
    """Whether a byte can only stand inside a character."""
    return 0x80 <= byte <= 0xBF


def finish(pending: bytes, data: bytes) -> tuple[str, int]:
    """Go on with an incomplete character.

    `pending` is a proper, valid prefix of a character, not empty. Returns the character (U+FFFD where `data` cannot go
    on with it) and how many bytes of `data` belong to it; an empty character: `data` leaves it incomplete.
    """
    for used in range(len(data) + 1):
        text, rest = decode(pending + data[:used])
        if text:
            # A byte that does not fit gives U+FFFD for what came before it, and then something of its own.
            return (text, used) if len(text) == 1 and not rest else (REPLACEMENT, used - 1)
    return "", len(data)


def completions(pending: bytes) -> range:
    """The code points whose encoding starts with these bytes (a proper, valid prefix, not empty); contiguous."""
    lead = pending[0]
    length = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    missing = length - len(pending)
    value = lead & (0x7F >> length)
    for byte in pending[1:]:
        value = value << 6 | byte & 0x3F
    low, high = value << 6 * missing, (value + 1) << 6 * missing
    smallest = {2: 0x80, 3: 0x800, 4: 0x10000}[length]
    return range(max(low, smallest), min(high, 0x110000))
