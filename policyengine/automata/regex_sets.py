"""Sets of code points, as expressions write them.

A set is a tuple of runs (first, last), both included, ascending, with a gap between any two: hashable, small for what
people write, and quick to turn into columns. `ANY` is every code point, surrogates included.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from policyengine.automata import unicode_properties
from policyengine.automata.unicode_data import N_CODE_POINTS

Runs = tuple[tuple[int, int], ...]

ANY: Final[Runs] = ((0, N_CODE_POINTS - 1),)
NOTHING: Final[Runs] = ()
NO_LINE_END: Final[Runs] = ((0, 0x09), (0x0B, N_CODE_POINTS - 1))

_ASCII: Final[dict[str, Runs]] = {
    "d": ((0x30, 0x39),),
    "s": ((0x09, 0x0D), (0x20, 0x20)),
    "w": ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
}
_ASCII_LETTERS: Final = (*range(0x41, 0x5B), *range(0x61, 0x7B))
_FLAGS: Final = {"s": unicode_properties.RE_SPACE, "w": unicode_properties.RE_WORD}

# Up to so many code points are looked at one by one for their other cases.
_FEW = 64


def single(cp: int) -> Runs:
    """The set of one code point."""
    return ((cp, cp),)


def union(parts: Iterable[Runs]) -> Runs:
    """What any of the sets holds."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(run for part in parts for run in part):
        if merged and first <= merged[-1][1] + 1:
            if last > merged[-1][1]:
                merged[-1] = merged[-1][0], last
        else:
            merged.append((first, last))
    return tuple(merged)


def complement(runs: Runs) -> Runs:
    """What the set does not hold."""
    result, at = [], 0
    for first, last in runs:
        if first > at:
            result.append((at, first - 1))
        at = last + 1
    if at < N_CODE_POINTS:
        result.append((at, N_CODE_POINTS - 1))
    return tuple(result)


@cache
def by_letter(letter: str, ascii_only: bool) -> Runs:
    """`\\d`, `\\s`, `\\w` and their complements `\\D`, `\\S`, `\\W`, as Python's `re` has them for str."""
    if letter.isupper():
        return complement(by_letter(letter.lower(), ascii_only))
    if ascii_only:
        return _ASCII[letter]
    if letter == "d":
        return _runs(unicode_properties.category_runs("Nd"))
    return _runs(unicode_properties.re_runs(_FLAGS[letter]))


def by_property(name: str) -> Runs | None:
    """The set of `\\p{name}`: a category, a script, or `Script=...`, `General_Category=...`; None: no such property."""
    key, equals, value = name.partition("=")
    kind = "".join(ch for ch in key.lower() if ch not in " -_")
    if equals and kind not in ("script", "sc", "generalcategory", "gc"):
        return None
    wanted = value if equals else name
    if kind not in ("script", "sc") or not equals:
        categories = unicode_properties.category_names(wanted)
        if categories is not None:
            return _runs(unicode_properties.category_runs(*categories))
    if kind in ("script", "sc") or not equals:
        script = unicode_properties.script_name(wanted)
        if script is not None:
            return _runs(unicode_properties.script_runs(script))
    return None


def _runs(array: npt.NDArray[np.int32]) -> Runs:
    return tuple((first, last) for first, last in array.tolist())


@lru_cache(maxsize=1 << 12)
def any_case(runs: Runs, ascii_only: bool) -> Runs:
    """The set, and every code point that `re.IGNORECASE` takes for one of it."""
    if ascii_only:
        swapped = [ord(chr(cp).swapcase()) for cp in _ASCII_LETTERS if contains(runs, cp)]
        return union([runs, tuple((cp, cp) for cp in swapped)])
    if sum(last - first + 1 for first, last in runs) <= _FEW:
        cps = [cp for first, last in runs for cp in range(first, last + 1)]
    else:
        firsts, lasts = np.array(runs, dtype=np.int64).T
        cased = _cased()
        place = np.searchsorted(firsts, cased, side="right") - 1
        cps = cased[(place >= 0) & (cased <= lasts[place])].tolist()
    groups = unicode_properties.caseless_groups()
    return union([runs, tuple((other, other) for cp in cps for other in groups.get(cp, ()))])


@cache
def _cased() -> npt.NDArray[np.int64]:
    return np.array(sorted(unicode_properties.caseless_groups()), dtype=np.int64)


def contains(runs: Runs, cp: int) -> bool:
    """Whether the set holds the code point."""
    return any(first <= cp <= last for first, last in runs)
