"""General categories, scripts, and what Python's `re` calls a word character, white space or the same letter; frozen.

The tables lie in `unicode-15.0.0-properties.bin` beside this file, written by `tools/freeze_unicode.py`. They are read
on first use (under 2 ms; some 200 kB of memory) and hold runs of equal code points, not one entry a code point.

A set of code points is an int32 array [n, 2] of runs, first and last included, ascending, with a gap between any two.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from policyengine.automata.unicode_data import N_CODE_POINTS, UNICODE_VERSION

Ints = npt.NDArray[np.int32]

# Bits of the runs' third column.
RE_SPACE: Final = 1
RE_WORD: Final = 2

_FILE = Path(__file__).with_name(f"unicode-{UNICODE_VERSION}-properties.bin")
_MAGIC = f"policyengine unicode properties {UNICODE_VERSION} 1\n".encode()


@dataclass(frozen=True, slots=True)
class Properties:
    """What the frozen file holds. All arrays are read-only and have one entry a run."""

    starts: Ints  # the first code point of each run
    ends: Ints  # the last one
    category: npt.NDArray[np.uint8]  # index into `categories`
    script: npt.NDArray[np.uint8]  # index into `scripts`
    re_flags: npt.NDArray[np.uint8]
    categories: tuple[str, ...]  # two letters, as `Lu`
    scripts: tuple[str, ...]  # long names, as `Han`
    category_by_name: Mapping[str, tuple[str, ...]]  # loose name to the categories that it covers
    script_by_name: Mapping[str, str]  # loose name or alias to the long name
    script_aliases: Mapping[str, str]  # long name to the four letters
    caseless: Mapping[int, int]  # code point to the one that stands for all that are the same but for case


@cache
def properties() -> Properties:
    """Read the frozen file. Raises ValueError where it is damaged or of another version."""
    with _FILE.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise ValueError(f"{_FILE} is not the frozen Unicode {UNICODE_VERSION} table; reinstall policyengine-llm")
        starts, category, script, flags, text, keys, values = (np.load(file, allow_pickle=False) for _ in range(7))
    starts = starts.astype(np.int32)
    ends = np.append(starts[1:], N_CODE_POINTS).astype(np.int32) - 1
    for array in (starts, ends, category, script, flags):
        array.flags.writeable = False
    names = json.loads(text.tobytes())
    single = tuple(names["categories"])
    return Properties(
        starts,
        ends,
        category,
        script,
        flags,
        single,
        tuple(names["scripts"]),
        {_loose(n): _covered(ns[0], single) for ns in names["category_names"] for n in ns},
        {_loose(n): ns[0] for ns in names["script_names"] for n in ns},
        {ns[0]: next((n for n in ns[1:] if len(n) == 4), ns[0]) for ns in names["script_names"]},
        dict(zip(keys.tolist(), values.tolist(), strict=True)),
    )


def _covered(short: str, single: tuple[str, ...]) -> tuple[str, ...]:
    if short == "LC":
        return ("Ll", "Lt", "Lu")
    return tuple(name for name in single if name.startswith(short))


def _loose(name: str) -> str:
    """Names are compared without case, spaces, hyphens and underscores (UAX #44, LM3)."""
    return "".join(ch for ch in name.lower() if ch not in " -_")


def general_category(cp: int) -> str:
    """The general category of a code point, two letters; `Cn` where it is not assigned."""
    known = properties()
    return known.categories[int(known.category[_run(cp)])]


def script(cp: int) -> str:
    """The long name of the script of a code point; `Unknown` where it has none."""
    known = properties()
    return known.scripts[int(known.script[_run(cp)])]


def _run(cp: int) -> int:
    return int(np.searchsorted(properties().starts, cp, side="right")) - 1


def script_name(name: str) -> str | None:
    """The long name of a script, by its long name or four letters, in any case; None: no such script."""
    return properties().script_by_name.get(_loose(name))


def script_names() -> Mapping[str, str]:
    """Every script that characters have, long name to four letters (`Han` to `Hani`)."""
    return properties().script_aliases


def category_names(name: str) -> tuple[str, ...] | None:
    """The two-letter categories that a name covers (`L`, `Letter`, `Lu`, `Uppercase_Letter`); None: no such name."""
    return properties().category_by_name.get(_loose(name))


def script_runs(*names: str) -> Ints:
    """The code points of these scripts (long names), as runs."""
    known = properties()
    wanted = [known.scripts.index(name) for name in names]
    return _runs(np.isin(known.script, wanted))


def category_runs(*names: str) -> Ints:
    """The code points of these categories (two letters), as runs."""
    known = properties()
    wanted = [known.categories.index(name) for name in names]
    return _runs(np.isin(known.category, wanted))


def re_runs(flag: int) -> Ints:
    """The code points that Python's `re` takes for white space (`RE_SPACE`) or word characters (`RE_WORD`), as runs."""
    return _runs((properties().re_flags & flag) != 0)


def _runs(chosen: npt.NDArray[np.bool_]) -> Ints:
    """Runs of the table, neighbours joined."""
    known = properties()
    before = np.append(False, chosen[:-1])
    after = np.append(chosen[1:], False)
    return np.stack((known.starts[chosen & ~before], known.ends[chosen & ~after]), axis=1)


@cache
def caseless_groups() -> Mapping[int, tuple[int, ...]]:
    """Each code point that `re.IGNORECASE` takes for another one, to all of its kind, itself among them, ascending."""
    groups: dict[int, set[int]] = {}
    for cp, first in properties().caseless.items():
        groups.setdefault(first, {first}).add(cp)
    ordered = {first: tuple(sorted(group)) for first, group in groups.items()}
    return {cp: ordered[first] for first, group in groups.items() for cp in group}


__all__ = [
    *("RE_SPACE", "RE_WORD", "Properties", "properties"),
    *("general_category", "category_names", "category_runs"),
    *("script", "script_name", "script_names", "script_runs"),
    *("caseless_groups", "re_runs"),
]
