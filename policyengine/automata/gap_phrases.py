"""Phrases with gaps, and exceptions to them, as an anchored automaton (see `anchored`).

A phrase is a list of elements: folded symbols, and `_GAP` where it has a run of white space. A gap matches one or more
gap characters: white space, and for the wider kinds punctuation and symbols too. With `letters` a run of gap characters
may also stand between any two elements. A gap character that a phrase writes out is a symbol like any other there, and
still fills the gaps around it; so a text can be at several places of a phrase at once, and a state is a set of places.

What it costs: one state for each place of the phrases (two with `letters`) where no gap character is written out; a
build in plain Python, some microseconds a state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from policyengine.automata import unicode_data
from policyengine.automata.folding import Folding, FoldSpec
from policyengine.automata.unicode_data import N_JOIN_CLASSES

Gaps = Literal["literal", "spaces", "punctuation", "letters"]
Places = frozenset[tuple[int, int]]  # of (node, how the text stands to it)

_GAP: Final = -1
_MOST_STATES: Final = 1 << 21

# How a text stands to a node: it has just read it; it has, by a gap character that is part of a word; it has read gap
# characters since, so that no pattern ends here any more.
_HERE, _HERE_IN_WORD, _AFTER = 0, 1, 2
# Kinds of columns: no gap character; one that is no part of a word; one that is (an underscore, for one).
_NO_GAP, _GAP_OUTSIDE, _GAP_IN_WORD = 0, 1, 2


class TooManyStatesError(ValueError):
    """The phrases need more states than an automaton may have."""


class GapPhrases:
    """An anchored automaton of phrases that are folded alike and have the same kind of gaps.

    keys: int64, ascending, state * n_columns + column; targets: int32, the next state of each.
    gap_next: int32 [states, 3], the next state by kind of column where `keys` says nothing; column 0 is -1.
    pattern_states: int32, ascending, with `pattern_ids` int32: which patterns stand at an end in which state, and
    pattern_now uint8: whether whatever follows (1) or only at an edge (0). All arrays are read-only.
    """

    needs_edges = True

    def __init__(self, spec: FoldSpec, gaps: Gaps, arrays: dict[str, npt.NDArray[np.generic]]) -> None:
        """From the arrays of `to_arrays`; raises ValueError where they do not fit each other."""
        self.spec, self.gaps = spec, gaps
        self._arrays = arrays
        self.literals = arrays["literals"].astype(np.int32)
        self.keys = arrays["keys"].astype(np.int64)
        self.targets = arrays["targets"].astype(np.int32)
        self.gap_next = arrays["gap_next"].astype(np.int32).reshape(-1, 3)
        self.pattern_states = arrays["pattern_states"].astype(np.int32)
        self.pattern_ids = arrays["pattern_ids"].astype(np.int32)
        self.pattern_now = arrays["pattern_now"].astype(np.uint8)
        self._flags = arrays["flags"].astype(np.uint8)
        self.n_states = len(self.gap_next)
        self.n_patterns = len(self._flags)
        self.n_columns = len(self.literals) + 2 * N_JOIN_CLASSES
        self.has_exceptions = bool((self._flags & 2).any())
        self.start = self.first = 0
        self._check()
        for array in (self.literals, self.keys, self.targets, self.gap_next, self.pattern_states, self.pattern_ids):
            array.flags.writeable = False

    def _check(self) -> None:
        same = len(self.keys) == len(self.targets) and len(self.pattern_states) == len(self.pattern_ids)
        same = same and len(self.pattern_ids) == len(self.pattern_now) and self.n_states >= 2
        inside = not len(self.targets) or (
            (int(self.targets.max()) < self.n_states and int(self.targets.min()) >= 0)
            and (int(self.keys.max()) < self.n_states * self.n_columns and bool((np.diff(self.keys) > 0).all()))
        )
        inside = inside and int(self.gap_next.max()) < self.n_states and int(self.gap_next.min()) >= -1
        ends = not len(self.pattern_ids) or (
            int(self.pattern_ids.max()) < self.n_patterns
            and int(self.pattern_ids.min()) >= 0
            and int(self.pattern_states.max()) < self.n_states
        )
        if not (same and inside and ends):
            raise ValueError("the arrays of an automaton do not fit each other")

    def to_arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Everything but the folding and the kind of gaps, for a bundle."""
        return dict(self._arrays)

    @classmethod
    def build(
        cls,
        spec: FoldSpec,
        phrases: Sequence[str],
        *,
        gaps: Gaps,
        left_edge: Sequence[bool],
        right_edge: Sequence[bool],
        eager: Sequence[bool],
        exceptions: Sequence[str] = (),
    ) -> GapPhrases:
        """Fold and build. The flags have one entry a phrase; exceptions have those of the first phrase.

        Raises ValueError for a phrase that is empty once folded, TooManyStatesError (one too) for too many states.
        """
        if spec.collapse:
            raise ValueError("gaps are no matter of folding here: `collapse` must be off")
        builder = _Builder(Folding(spec), gaps)
        flags = []
        for index, phrase in enumerate([*phrases, *exceptions]):
            mine = index if index < len(phrases) else 0
            builder.add(phrase, left_edge[mine], right_edge[mine])
            flags.append((right_edge[mine] and eager[mine]) | (index >= len(phrases)) << 1)
        return cls(spec, gaps, builder.arrays() | {"flags": np.array(flags, dtype=np.uint8)})

    # -- what `threads` asks ---------------------------------------------------------------------------------------

    @cached_property
    def column_join(self) -> list[int]:
        """The join class of each column."""
        join = unicode_data.tables().join
        return [join[s] for s in self.literals.tolist()] + [i // 2 for i in range(2 * N_JOIN_CLASSES)]

    @cached_property
    def column_kind(self) -> list[int]:
        """By column: no gap character (0), one that is no part of a word (1), or one that is (2)."""
        literal = [is_gap(s, self.gaps) for s in self.literals.tolist()]
        gap = literal + [bool(i % 2) for i in range(2 * N_JOIN_CLASSES)]
        return [
            (_GAP_IN_WORD if j else _GAP_OUTSIDE) if g else _NO_GAP for g, j in zip(gap, self.column_join, strict=True)
        ]

    @cached_property
    def _kinds(self) -> npt.NDArray[np.int64]:
        return np.array(self.column_kind, dtype=np.int64)

    @cached_property
    def _column_of(self) -> dict[int, int]:
        return {symbol: column for column, symbol in enumerate(self.literals.tolist())}

    def column(self, symbol: int) -> int:
        """The column of a folded symbol."""
        known = self._column_of.get(symbol)
        if known is None:
            join = unicode_data.tables().join[symbol]
            known = len(self.literals) + 2 * join + is_gap(symbol, self.gaps)
            if len(self._column_of) < 1 << 17:
                self._column_of[symbol] = known
        return known

    def columns_of(self, symbols: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """The column of each symbol."""
        tables = unicode_data.tables()
        wanted = _gap_flags(self.gaps)
        gap = (np.frombuffer(tables.flags, dtype=np.uint8)[symbols] & wanted) != 0
        join = np.frombuffer(tables.join, dtype=np.uint8)[symbols].astype(np.int64)
        found: npt.NDArray[np.int64] = len(self.literals) + 2 * join + gap
        place = np.minimum(np.searchsorted(self.literals, symbols), max(len(self.literals) - 1, 0))
        if len(self.literals):
            found = np.where(self.literals[place] == symbols, place, found)
        return found

    def next_many(
        self, states: npt.NDArray[np.integer], columns: npt.NDArray[np.integer], edge: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.int32]:
        """`next` of many at once; states of -1 stay it."""
        states = np.where((states == 0) & edge, 1, states).astype(np.int64)
        wanted = states * self.n_columns + columns
        kind = self._kinds[columns]
        found = np.where(states < 0, -1, self.gap_next[states, kind])
        if len(self.keys):
            place = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
            found = np.where((self.keys[place] == wanted) & (states >= 0), self.targets[place], found)
        return found.astype(np.int32)

    @cached_property
    def _table(self) -> dict[int, int]:
        return dict(zip(self.keys.tolist(), self.targets.tolist(), strict=True))

    @cached_property
    def _gap_next(self) -> list[list[int]]:
        nexts: list[list[int]] = self.gap_next.tolist()
        return nexts

    def next(self, state: int, column: int, edge: bool) -> int:
        """The state after a symbol; -1: none. Only what begins asks for an edge: state 0 is then state 1."""
        if state == 0 and edge:
            state = 1
        found = self._table.get(state * self.n_columns + column)
        return self._gap_next[state][self.column_kind[column]] if found is None else found

    @cached_property
    def _ends(self) -> tuple[dict[int, tuple[int, ...]], dict[int, tuple[int, ...]]]:
        now: dict[int, tuple[int, ...]] = {}
        waiting: dict[int, tuple[int, ...]] = {}
        rows = zip(self.pattern_states.tolist(), self.pattern_ids.tolist(), self.pattern_now.tolist(), strict=True)
        for state, pattern, at_once in rows:
            table = now if at_once else waiting
            table[state] = (*table.get(state, ()), pattern)
        return now, waiting

    def now(self, state: int) -> tuple[int, ...]:
        """The patterns that end in this state whatever follows."""
        return self._ends[0].get(state, ())

    def before(self, state: int, edge: bool) -> tuple[int, ...]:
        """The patterns that end in this state if an edge follows."""
        return self._ends[1].get(state, ()) if edge else ()

    def at_end(self, state: int) -> tuple[int, ...]:
        """The patterns that only wait for an edge, which the end of the output is."""
        return self._ends[1].get(state, ())

    def eager(self, pattern: int) -> bool:
        """Whether the token level already refuses to leave the text ending in this pattern."""
        return bool(self._flags[pattern] & 1)

    def is_exception(self, pattern: int) -> bool:
        """Whether the pattern is an exception."""
        return bool(self._flags[pattern] & 2)

    @cached_property
    def _alive(self) -> tuple[Sequence[bool], Sequence[bool]]:
        """By state: whether a phrase, and whether an exception, can still end."""
        exceptions = self._flags & 2 != 0
        return self.reached(np.flatnonzero(~exceptions).tolist()), self.reached(np.flatnonzero(exceptions).tolist())

    def moves(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(states, targets): every state with each state that a symbol may lead to, some more than once."""
        states = np.concatenate((self.keys // self.n_columns, np.repeat(np.arange(self.n_states), 2)))
        targets = np.concatenate((self.targets, self.gap_next[:, 1:].ravel())).astype(np.int64)
        keep = targets >= 0
        return states[keep], targets[keep]

    def reached(self, patterns: Collection[int]) -> Sequence[bool]:
        """By state: whether one of these patterns can still end; waiting for an edge counts."""
        mine = np.isin(self.pattern_ids, list(patterns))
        waits = self.pattern_now == 0
        sources, targets = self.moves()
        alive = np.zeros(self.n_states, dtype=bool)
        alive[self.pattern_states[mine & waits]] = True
        ends = np.zeros(self.n_states, dtype=bool)
        ends[self.pattern_states[mine]] = True
        count = -1
        while count != (count := int(alive.sum())):
            alive[sources[(alive | ends)[targets]]] = True
        found: list[bool] = alive.tolist()
        return found

    def live(self, state: int) -> bool:
        """Whether a phrase can still end."""
        return self._alive[0][state]

    def live_exception(self, state: int) -> bool:
        """Whether an exception can still end."""
        return self._alive[1][state]


def is_gap(symbol: int, gaps: Gaps) -> bool:
    """Whether a symbol may stand in a gap of this kind."""
    return bool(unicode_data.tables().flags[symbol] & _gap_flags(gaps))


def _gap_flags(gaps: Gaps) -> int:
    if gaps == "literal":
        return 0
    return unicode_data.WHITE_SPACE | (gaps != "spaces") * unicode_data.PUNCTUATION_OR_SYMBOL


class _Builder:
    """A trie of elements, and from it the states: sets of (node, how the text stands to it)."""

    def __init__(self, folding: Folding, gaps: Gaps) -> None:
        self._folding, self._gaps = folding, gaps
        self._children: list[dict[int, int]] = [{}, {}]  # of the roots: below 0 anywhere, below 1 after an edge
        self._by_gap = [False, False]
        self._ends: list[list[tuple[int, bool]]] = [[], []]  # by node: patterns, and whether they need an edge after
        self._count = 0

    def add(self, phrase: str, left_edge: bool, right_edge: bool) -> None:
        elements = self._elements(phrase)
        if not elements:
            raise ValueError(f"phrase {phrase!r} is empty once folded")
        node = int(left_edge)
        for element in elements:
            below = self._children[node].get(element)
            if below is None:
                below = self._children[node][element] = len(self._children)
                self._children.append({})
                self._by_gap.append(element == _GAP)
                self._ends.append([])
            node = below
        needs = right_edge and (elements[-1] == _GAP or self._folding.join_class(elements[-1]) != 0)
        self._ends[node].append((self._count, needs))
        self._count += 1

    def _elements(self, phrase: str) -> list[int]:
        symbols = self._folding.fold(phrase)
        if self._gaps == "literal":
            return symbols
        spaced = [_GAP if unicode_data.is_white_space(s) else s for s in symbols]
        return [e for i, e in enumerate(spaced) if e != _GAP or i == 0 or spaced[i - 1] != _GAP]

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Everything but the flags; see `GapPhrases`."""
        literals = sorted({e for children in self._children for e in children if e != _GAP})
        column_of = {symbol: column for column, symbol in enumerate(literals)}
        n_columns = len(literals) + 2 * N_JOIN_CLASSES
        join = self._folding.join_class
        written = {s: (_GAP_IN_WORD if join(s) else _GAP_OUTSIDE) for s in literals if is_gap(s, self._gaps)}

        anywhere: Places = frozenset({(0, _AFTER)})
        numbers: dict[Places, int] = {anywhere: 0, anywhere | {(1, _AFTER)}: 1}
        order = list(numbers)
        keys: list[int] = []
        targets: list[int] = []
        gap_next: list[tuple[int, int, int]] = []

        def number(places: Places) -> int:
            if not places:
                return -1
            known = numbers.get(places)
            if known is None:
                if len(order) >= _MOST_STATES:
                    raise TooManyStatesError(f"the phrases need more than {_MOST_STATES:,} states")
                known = numbers[places] = len(order)
                order.append(places)
            return known

        at = 0
        while at < len(order):
            places = order[at]
            by_kind = {kind: self._through_gap(places, kind) for kind in (_GAP_OUTSIDE, _GAP_IN_WORD)}
            gap_next.append((-1, number(by_kind[_GAP_OUTSIDE]), number(by_kind[_GAP_IN_WORD])))
            symbols = {e for node, _ in places for e in self._children[node] if e != _GAP}
            for symbol in sorted(symbols):
                below = frozenset(
                    (self._children[node][symbol], _HERE) for node, _ in places if symbol in self._children[node]
                )
                if symbol in written:
                    below |= by_kind[written[symbol]]
                keys.append(at * n_columns + column_of[symbol])
                targets.append(number(below))
            at += 1
        ends = self._all_ends(order)
        ascending = np.argsort(np.array(keys, dtype=np.int64), kind="stable")
        return {
            "literals": np.array(literals, dtype=np.int32),
            "keys": np.array(keys, dtype=np.int64)[ascending],
            "targets": np.array(targets, dtype=np.int32)[ascending],
            "gap_next": np.array(gap_next, dtype=np.int32).ravel(),
            "pattern_states": np.array([s for s, _, _ in ends], dtype=np.int32),
            "pattern_ids": np.array([p for _, p, _ in ends], dtype=np.int32),
            "pattern_now": np.array([now for _, _, now in ends], dtype=np.uint8),
        }

    def _through_gap(self, places: Places, kind: int) -> Places:
        """Where a gap character leads that no element names."""
        if self._gaps == "literal":
            return frozenset()
        here = _HERE_IN_WORD if kind == _GAP_IN_WORD else _HERE
        found = set()
        for node, _ in places:
            below = self._children[node].get(_GAP)
            if below is not None:
                found.add((below, here))
            if self._by_gap[node]:
                found.add((node, here))
            elif self._gaps == "letters" and node > 1 and self._children[node]:
                found.add((node, _AFTER))
        return frozenset(found)

    def _all_ends(self, order: Iterable[Places]) -> list[tuple[int, int, bool]]:
        """(state, pattern, whether it ends whatever follows)."""
        found = set()
        for state, places in enumerate(order):
            for node, how in places:
                if how == _AFTER:
                    continue
                for pattern, needs in self._ends[node]:
                    # After a gap character that is no part of a word there is an edge in any case.
                    now = not needs or (self._by_gap[node] and how == _HERE)
                    found.add((state, pattern, now))
        return sorted(found)
