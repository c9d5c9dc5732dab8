"""Folding: how text is made comparable before it is matched (design 3.1).

Per code point and in this order: compatibility decomposition, full case folding, confusables (`unicode_data` says
which), dropping of marks, dropping of invisible characters, white space to SPACE. Each step is optional. Nothing is
reordered or composed and no character looks at its neighbours, so text can be folded as it streams and every folded
symbol knows the character it came from.

Word edges are judged on folded text. With confusables a Cyrillic word is therefore partly Latin, with an edge wherever
its letters change script: `ом` is found as a word in `дом`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Any, Final

from policyengine.automata import unicode_data

SPACE: Final = 0x20

# Text may hold any of a million code points; the cache of one spec keeps the first of them.
_CACHE_LIMIT = 1 << 16


@dataclass(frozen=True, slots=True)
class FoldSpec:
    """Which steps of folding are on. `collapse`: a run of white space counts as one SPACE (`gaps: spaces`)."""

    casefold: bool = True
    nfkc: bool = True
    invisible: bool = True
    marks: bool = False
    collapse: bool = True
    confusables: bool = False

    def to_json(self) -> dict[str, bool]:
        """The steps as a plain dict."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FoldSpec:
        """The inverse of `to_json`. Raises ValueError for missing or unknown steps and for other values than bools."""
        names = {field.name for field in fields(cls)}
        if set(data) != names or not all(isinstance(value, bool) for value in data.values()):
            raise ValueError(f"a fold spec has {sorted(names)}, each true or false; got {dict(data)!r}")
        return cls(**data)


class FoldTable(dict[str, tuple[int, ...]]):
    """Character to folded symbols, filled as characters come up; `table[ch]` costs one dict look-up."""

    __slots__ = ("_spec",)

    def __init__(self, spec: FoldSpec) -> None:
        super().__init__()
        self._spec = spec

    def __missing__(self, ch: str) -> tuple[int, ...]:
        symbols = _fold_one(self._spec, ord(ch))
        if len(self) < _CACHE_LIMIT:
            self[ch] = symbols
        return symbols


def _fold_one(spec: FoldSpec, cp: int) -> tuple[int, ...]:
    flags = unicode_data.tables().flags
    dropped = unicode_data.DROPPED_MARK * spec.marks | unicode_data.INVISIBLE * spec.invisible
    return tuple(
        SPACE if spec.collapse and flags[part] & unicode_data.WHITE_SPACE else part
        for part in unicode_data.fold(cp, spec.nfkc, spec.casefold, spec.confusables)
        if not flags[part] & dropped
    )


@cache
def _table(spec: FoldSpec) -> FoldTable:
    return FoldTable(spec)


class Folding:
    """Folds characters as one `FoldSpec` says. Cheap to make; foldings of equal specs share their table.

    Attributes:
        table: a character's folded code points, `()` if it is dropped. Read it, never write to it.
        join_class: a folded symbol's join class, as `unicode_data.join_class`.
    """

    __slots__ = ("join_class", "spec", "table")

    def __init__(self, spec: FoldSpec) -> None:
        self.spec = spec
        self.table: FoldTable = _table(spec)
        self.join_class: Callable[[int], int] = unicode_data.tables().join.__getitem__

    def __reduce__(self) -> tuple[type[Folding], tuple[FoldSpec]]:
        return Folding, (self.spec,)

    def symbols(self, ch: str) -> tuple[int, ...]:
        """The folded code points of one character; `()` if it is dropped."""
        return self.table[ch]

    def fold(self, text: str) -> list[int]:
        """The folded code points of a whole text, each run of SPACE as one where `spec.collapse`."""
        table = self.table
        folded = [symbol for ch in text for symbol in table[ch]]
        if not self.spec.collapse:
            return folded
        return [symbol for i, symbol in enumerate(folded) if symbol != SPACE or i == 0 or folded[i - 1] != SPACE]
