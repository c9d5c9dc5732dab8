"""A set of regular expressions as one anchored, minimal deterministic automaton (see `anchored`).

What it costs: one state a distinct remainder of the expressions: 500 patterns of API keys have some 20,000 states, and
take about a second to compile. The table has one int32 a row and column, and is made when it is first asked for; at
most `MOST_CELLS` of them (64 MiB). Bundles keep rows as pairs of a set of columns and a target, a few bytes a state.

Where an expression asks for a word edge (`\\b`, `\\B`), a symbol is a column and whether an edge stands before it, and
columns also differ by join class; where none does, `needs_edges` is false and edges never matter.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from policyengine.automata import regex_syntax
from policyengine.automata.regex_columns import Bools, Columns, Ints
from policyengine.automata.regex_errors import EmptyMatchError, ExpressionError, TooLargeError
from policyengine.automata.regex_nfa import Budget, Nfa
from policyengine.automata.regex_subsets import Dfa, determinise, minimise

MOST_STATES: Final = 50_000
MOST_CELLS: Final = 1 << 24

NOW, BEFORE_NO_EDGE, BEFORE_EDGE, AT_END = range(4)


class Expressions:
    """The automaton of one or more expressions. Immutable but for caches, safe to share.

    All arrays are read-only. `output_kinds` uint8, `output_states` and `output_patterns` int32, ordered by kind, then
    state: which patterns end where (`NOW`, `BEFORE_NO_EDGE`, `BEFORE_EDGE`, `AT_END`; those of `NOW` are not repeated).
    row_of: int32 [states, 2], the row of `table` for symbols without and with an edge before them.
    live_states: bool [states], whether anything can still end behind a state.
    """

    has_exceptions = False

    def __init__(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """From the arrays of `to_arrays`. Raises KeyError where one is missing, ValueError where they do not fit."""
        self._arrays = dict(arrays)
        shape = [int(value) for value in arrays["shape"].astype(np.int64).tolist()]
        if len(shape) != 6:
            raise ValueError("the shape of an automaton has six numbers")
        self.n_states, self.n_patterns, self.n_columns, self.start, self.first, edges = shape
        self.needs_edges = bool(edges)
        self.columns = Columns(arrays["starts"].astype(np.int32), arrays["ids"].astype(np.int32))
        bits = np.unpackbits(arrays["masks"].astype(np.uint8), axis=-1)[..., : self.n_columns]
        self._masks: Bools = np.array(bits, dtype=np.bool_)
        self.row_of: Ints = arrays["row_of"].astype(np.int32)
        self._rows, self._row_masks = arrays["rows"].astype(np.int32), arrays["row_masks"].astype(np.int32)
        self._row_targets = arrays["row_targets"].astype(np.int32)
        self.output_kinds = arrays["output_kinds"].astype(np.uint8)
        self.output_states = arrays["output_states"].astype(np.int32)
        self.output_patterns = arrays["output_patterns"].astype(np.int32)
        self._check()
        leads = np.diff(self._rows) > 0
        self.live_states: Bools = leads[self.row_of[:, 0]] | leads[self.row_of[:, 1]]
        self.live_states[self.output_states[self.output_kinds != NOW]] = True
        for array in (self.row_of, self.live_states, self.output_kinds, self.output_states, self.output_patterns):
            array.flags.writeable = False

    def _check(self) -> None:
        def within(array: npt.NDArray[np.generic], limit: int) -> bool:
            return not array.size or (int(array.min()) >= 0 and int(array.max()) < limit)

        n_rows = len(self._rows) - 1
        fits = (
            0 <= self.start < self.n_states
            and 0 <= self.first < self.n_states
            and self.n_columns == self.columns.n_columns
            and n_rows * self.n_columns <= MOST_CELLS
            and self._masks.ndim == 2
            and self._masks.shape[1] == self.n_columns
            and self.row_of.shape == (self.n_states, 2)
            and within(self.row_of, n_rows)
            and int(self._rows[0]) == 0
            and bool((np.diff(self._rows) >= 0).all())
            and int(self._rows[-1]) == len(self._row_masks) == len(self._row_targets)
            and within(self._row_masks, len(self._masks))
            and within(self._row_targets, self.n_states)
            and len(self.output_kinds) == len(self.output_states) == len(self.output_patterns)
            and within(self.output_kinds, 4)
            and within(self.output_states, self.n_states)
            and within(self.output_patterns, self.n_patterns)
        )
        if not fits:
            raise ValueError("the arrays of an automaton do not fit each other")

    @classmethod
    def compile(cls, patterns: Sequence[str], max_states: int = MOST_STATES) -> Expressions:
        """One automaton of all the patterns.

        Raises ExpressionError, NotRegularError, EmptyMatchError (a pattern that matches the empty text, or none) or
        TooLargeError; `pattern` of the error is the index of the pattern that it is about.
        """
        trees = []
        for index, pattern in enumerate(patterns):
            try:
                trees.append(regex_syntax.parse(pattern))
            except ExpressionError as error:
                error.pattern = index
                raise
        budget = Budget()
        nfa = Nfa(trees, budget)
        columns = Columns.of(nfa.sets, joins=nfa.needs_edges)
        dfa = minimise(determinise(nfa, columns, budget, max_states))
        cells = sum(map(len, dfa.rows)) * columns.n_columns
        if cells > MOST_CELLS:
            raise TooLargeError(f"the table of the automaton needs {cells} cells, more than {MOST_CELLS}", 0)
        ending = {pattern for outputs in dfa.outputs for kind in outputs for pattern in kind}
        for index in range(nfa.n_patterns):
            if index not in ending:
                nothing = EmptyMatchError(
                    "the expression matches no text at all", 0, "what it asks for excludes itself"
                )
                nothing.pattern = index
                raise nothing
        return cls(_arrays(dfa, columns, nfa))

    def to_arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Everything, for a bundle."""
        return dict(self._arrays)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[np.generic]]) -> Expressions:
        """The inverse of `to_arrays`; raises as the constructor."""
        return cls(arrays)

    # -- what `threads` asks ---------------------------------------------------------------------------------------

    @cached_property
    def column_join(self) -> Sequence[int]:
        """The join class of each column; all zero where edges do not matter."""
        return self.columns.joins() if self.needs_edges else [0] * self.n_columns

    def column(self, symbol: int) -> int:
        """The column of a code point."""
        return self.columns.column(symbol)

    def next(self, state: int, column: int, edge: bool) -> int:
        """The state after a symbol; -1: none. `edge`: whether a word edge stands before it."""
        return int(self.table.item(self._row_list[2 * state + edge], column))

    def now(self, state: int) -> Sequence[int]:
        """The patterns that end in this state whatever follows."""
        return self._outputs[NOW].get(state, ())

    def before(self, state: int, edge: bool) -> Sequence[int]:
        """The patterns that end in this state if the next symbol has an edge, or none, before it."""
        return self._outputs[BEFORE_EDGE if edge else BEFORE_NO_EDGE].get(state, ())

    def at_end(self, state: int) -> Sequence[int]:
        """The patterns that end in this state if the output ends here, those of `now` not repeated."""
        return self._outputs[AT_END].get(state, ())

    def eager(self, pattern: int) -> bool:
        """False: an expression says itself where an edge must be."""
        return False

    def is_exception(self, pattern: int) -> bool:
        """False: expressions have none."""
        return False

    def live(self, state: int) -> bool:
        """Whether something can still end; waiting for an edge or the end counts."""
        return bool(self.live_states.item(state))

    def live_exception(self, state: int) -> bool:
        """False: expressions have none."""
        return False

    def reached(self, patterns: Collection[int]) -> Sequence[bool]:
        """By state: whether one of these patterns can still end; waiting for an edge or the end counts."""
        mine = np.isin(self.output_patterns, list(patterns))
        ends, alive = np.zeros((2, self.n_states), dtype=bool)
        ends[self.output_states[mine]] = True
        alive[self.output_states[mine & (self.output_kinds != NOW)]] = True
        rows = np.repeat(np.arange(len(self._rows) - 1), np.diff(self._rows))
        count = -1
        while count != (count := int(alive.sum())):
            leads = np.zeros(len(self._rows) - 1, dtype=bool)
            leads[rows[(ends | alive)[self._row_targets]]] = True
            alive |= leads[self.row_of].any(axis=1)
        found: list[bool] = alive.tolist()
        return found

    @cached_property
    def _row_list(self) -> list[int]:
        rows: list[int] = self.row_of.reshape(-1).tolist()
        return rows

    @cached_property
    def _outputs(self) -> tuple[dict[int, tuple[int, ...]], ...]:
        found: tuple[dict[int, tuple[int, ...]], ...] = ({}, {}, {}, {})
        triples = zip(
            self.output_kinds.tolist(), self.output_states.tolist(), self.output_patterns.tolist(), strict=True
        )
        for kind, state, pattern in triples:
            found[kind][state] = (*found[kind].get(state, ()), pattern)
        return found

    # -- many at once (binding) ------------------------------------------------------------------------------------

    @cached_property
    def table(self) -> Ints:
        """int32 [rows, columns], read-only: the state after a symbol of that column, -1: none. Rows as in `row_of`."""
        table = np.full((len(self._rows) - 1, self.n_columns), -1, dtype=np.int32)
        rows = np.repeat(np.arange(len(table)), np.diff(self._rows))
        order = np.argsort(self._row_masks, kind="stable")
        bounds = np.searchsorted(self._row_masks[order], np.arange(len(self._masks) + 1))
        for mask, lo, hi in zip(self._masks, bounds, bounds[1:], strict=False):
            mine = order[lo:hi]
            table[np.ix_(rows[mine], np.flatnonzero(mask))] = self._row_targets[mine, None]
        table.flags.writeable = False
        return table

    def moves(self) -> tuple[Ints, Ints]:
        """(states, targets), int32: every state with each state that a symbol may lead to, some more than once."""
        lengths = np.diff(self._rows)
        rows = np.concatenate((self.row_of[:, 0], self.row_of[:, 1]))
        states = np.repeat(np.tile(np.arange(self.n_states, dtype=np.int32), 2), lengths[rows])
        place = np.arange(len(states)) + np.repeat(
            self._rows[rows] - (np.cumsum(lengths[rows]) - lengths[rows]), lengths[rows]
        )
        return states, self._row_targets[place]

    def columns_of(self, symbols: npt.NDArray[np.integer]) -> Ints:
        """int32, the shape of `symbols`: the columns of many code points."""
        return self.columns.columns_of(symbols)


def _arrays(dfa: Dfa, columns: Columns, nfa: Nfa) -> dict[str, npt.NDArray[np.generic]]:
    """What `Expressions` is made from."""
    rows = [row for rows in dfa.rows for row in rows]
    last = np.cumsum([len(rows) for rows in dfa.rows], dtype=np.int32) - 1
    row_of = np.stack((last - [len(rows) - 1 for rows in dfa.rows], last), axis=1)
    pairs = np.array([pair for row in rows for pair in row], dtype=np.int32).reshape(-1, 2)
    ends = [
        (kind, state, pattern)
        for kind in (NOW, BEFORE_NO_EDGE, BEFORE_EDGE, AT_END)
        for state, outputs in enumerate(dfa.outputs)
        for pattern in outputs[kind]
    ]
    kinds, states, patterns = np.array(ends, dtype=np.int32).reshape(-1, 3).T
    shape = (len(dfa.rows), nfa.n_patterns, columns.n_columns, dfa.start, dfa.first, nfa.needs_edges)
    return {
        "shape": np.array(shape, dtype=np.int32),
        "starts": columns.starts,
        "ids": columns.ids,
        "masks": np.packbits(dfa.masks, axis=-1),
        "row_of": row_of.astype(np.int32),
        "rows": np.concatenate(([0], np.cumsum([len(row) for row in rows]))).astype(np.int32),
        "row_masks": np.ascontiguousarray(pairs[:, 0]),
        "row_targets": np.ascontiguousarray(pairs[:, 1]),
        "output_kinds": kinds.astype(np.uint8),
        "output_states": np.ascontiguousarray(states),
        "output_patterns": np.ascontiguousarray(patterns),
    }


__all__ = [
    *("AT_END", "BEFORE_EDGE", "BEFORE_NO_EDGE", "NOW"),
    *("MOST_CELLS", "MOST_STATES", "Expressions"),
]
