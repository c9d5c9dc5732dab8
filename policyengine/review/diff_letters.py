"""Finitely many characters that stand for all: what a search for differences reads in place of Unicode.

An automaton sees of a character only its *word*: the columns of the symbols that folding makes of it (none, if it is
dropped). Take two characters whose words are the same for every automaton of both sides. Then any text may hold the one
in place of the other, and every automaton is in the same state after every character of it, with the same matches at
the same places. So one character for each tuple of words (a *letter*) is enough: whatever some text shows, a text of
letters of the same length shows, place for place. This holds whatever the foldings are, since each side brings its own.

How all tuples are found without looking at a million characters: the column of a symbol that no pattern of phrases
names depends only on the symbol's join class and on whether it is white space, punctuation or a symbol (its *sort*).
So characters fall into classes by the sorts of what every folding makes of them, and of each class one is enough of
which no pattern names a symbol; each of those that hold a named symbol is looked at by itself. For expressions, columns
are stretches of code points: the first of each stretch of each expression is looked at too, and in mixed company every
code point.

*Characters of several symbols* (ligatures, precomposed letters) can be left out where all automata fold alike: put for
each a character for each of its symbols, if there are such, and all automata read the same symbols. What matched then
matches still, and covers at least the characters that stand for what it covered, so that a difference remains one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice

import numpy as np

from policyengine.automata import unicode_data
from policyengine.automata.folding import Folding, FoldSpec
from policyengine.automata.regex_dfa import Expressions
from policyengine.automata.unicode_data import N_CODE_POINTS
from policyengine.review.diff_tracks import AnchoredTracks, Tracks

Word = tuple[int, ...]
Members = tuple[Iterable[int], ...]  # code points in parts, the easiest to read first

_SURROGATES = range(0xD800, 0xE000)  # no text holds them
# Characters that people read easily, the first choice of each class.
_NICE = "xzkqvjwabcdefghilmnoprstuy XZKQVJWABCDEFGHILMNOPRSTUY.-,!_0123456789\u0301\u200b"
_RANK = {ord(ch): rank for rank, ch in enumerate(_NICE)}


@dataclass(frozen=True, slots=True)
class Letter:
    """A character, and its word for each automaton."""

    ch: str
    words: tuple[Word, ...]


def letters(tracks: Sequence[Tracks]) -> list[Letter]:
    """One character for each tuple of words that a character has; those that all automata drop are left out."""
    specs = tuple(dict.fromkeys(one.spec for one in tracks))
    place = [specs.index(one.spec) for one in tracks]
    tables = [Folding(spec).table for spec in specs]
    found: dict[tuple[Word, ...], int] = {}
    for cp in sorted(_candidates(tracks, specs), key=_rank):
        folded = [table[chr(cp)] for table in tables]
        words = tuple(tuple(map(one.column, folded[at])) for one, at in zip(tracks, place, strict=True))
        if any(words):
            found.setdefault(words, cp)
    result = [Letter(chr(cp), words) for words, cp in found.items()]
    return _single(result) if len(specs) == 1 else result


def _rank(cp: int) -> tuple[int, bool, int]:
    return _RANK.get(cp, len(_RANK)), not chr(cp).isprintable(), cp


def _single(found: list[Letter]) -> list[Letter]:
    """Without those of several symbols, each of which another letter is."""
    alone = {tuple(word[0] for word in one.words) for one in found if len(one.words[0]) == 1}
    return [
        one
        for one in found
        if len(one.words[0]) == 1 or any(symbol not in alone for symbol in zip(*one.words, strict=True))
    ]


def _candidates(tracks: Sequence[Tracks], specs: tuple[FoldSpec, ...]) -> Iterable[int]:
    expressions = [
        one.anchored for one in tracks if isinstance(one, AnchoredTracks) and isinstance(one.anchored, Expressions)
    ]
    starts = {cp for one in expressions for cp in one.columns.starts.tolist()}
    if starts and len(expressions) < len(tracks):
        return _everything(tracks, starts)
    if starts:
        # All read the text as it is. A stretch that begins among the surrogates may go on behind them.
        return {*starts - set(_SURROGATES), *_RANK, _SURROGATES.stop}
    classes, holding = _classes(specs)
    named = {symbol for one in tracks for symbol in getattr(one, "literals", ())}
    special = {cp for symbol in named for cp in holding.get(symbol, ())} | named - set(_SURROGATES)
    return special | {cp for parts in classes if (cp := _first(parts, special)) is not None}


def _first(parts: Members, special: set[int]) -> int | None:
    """A member that is not special, and one that shows if there is any among the first; None: all are special."""
    others = (cp for part in parts for cp in map(int, part) if cp not in special)
    first = next(others, None)
    if first is None or chr(first).isprintable():
        return first
    return next((cp for cp in islice(others, 64) if chr(cp).isprintable()), first)


@cache
def _classes(specs: tuple[FoldSpec, ...]) -> tuple[list[Members], dict[int, list[int]]]:
    """Code points by the sorts of what the foldings make of them, the easiest to read first; and by those symbols.

    The second holds only code points that some folding changes: of the others the symbol is the code point itself.
    """
    folded = [_folded(spec) for spec in specs]
    sorted_ = [_sorted_words(spec) for spec in specs]
    classes: dict[tuple[Word, ...], list[int]] = {}
    holding: dict[int, list[int]] = {}
    for cp, words, key in zip(_changed(), zip(*folded, strict=True), zip(*sorted_, strict=True), strict=True):
        classes.setdefault(key, []).append(cp)
        for symbol in {symbol for word in words for symbol in word}:
            holding.setdefault(symbol, []).append(cp)
    members: list[Members] = [(part, classes.pop(((sort,),) * len(specs), [])) for sort, part in _plain()]
    return [*members, *((one,) for one in classes.values())], holding


@cache
def _changed() -> list[int]:
    """The code points that some folding changes or drops."""
    return [cp for cp in unicode_data.changed_code_points() if cp not in _SURROGATES]


@cache
def _folded(spec: FoldSpec) -> list[Word]:
    """What a folding makes of each of them."""
    table = Folding(spec).table
    return [table[chr(cp)] for cp in _changed()]


@cache
def _sorted_words(spec: FoldSpec) -> list[Word]:
    """The sorts of that."""
    words = _folded(spec)
    flat = iter(_sorts()[[symbol for word in words for symbol in word]].tolist())
    return [tuple(islice(flat, len(word))) for word in words]


@cache
def _plain() -> list[tuple[int, np.ndarray]]:
    """All other code points by their sort, the easiest to read first."""
    sorts = _sorts()
    same = np.ones(N_CODE_POINTS, dtype=bool)
    same[_changed()] = False
    same[_SURROGATES.start : _SURROGATES.stop] = False
    points = np.concatenate((list(filter(same.__getitem__, _RANK)), np.flatnonzero(same)))
    points = points[np.argsort(sorts[points], kind="stable")]
    bounds = np.flatnonzero(np.diff(sorts[points])) + 1
    return [(int(sorts[part[0]]), part) for part in np.split(points, bounds)]


@cache
def _sorts() -> np.ndarray:
    """int32 by code point: the join class, white space, and punctuation or symbol, in one number."""
    tables = unicode_data.tables()
    flags = np.frombuffer(tables.flags, dtype=np.uint8).astype(np.int32)
    wanted = flags & (unicode_data.WHITE_SPACE | unicode_data.PUNCTUATION_OR_SYMBOL)
    return unicode_data.join_classes().astype(np.int32) << 8 | wanted


def _everything(tracks: Sequence[Tracks], starts: set[int]) -> Iterable[int]:
    """Of all code points that no folding changes, one for each tuple of columns; and all that one changes."""
    named = np.array(sorted({s for one in tracks for s in getattr(one, "literals", ())}), dtype=np.int64)
    points = np.arange(N_CODE_POINTS)
    stretch = np.searchsorted(np.array(sorted(starts)), points, side="right")
    literal = np.isin(points, named) * (points + 1)
    key = (stretch.astype(np.int64) << 42) | (literal.astype(np.int64) << 21) | _sorts()
    _, first = np.unique(key, return_index=True)
    return ({*first.tolist(), *_RANK, *unicode_data.changed_code_points()} | {_SURROGATES.stop}) - set(_SURROGATES)


__all__ = ["Letter", "Word", "letters"]
