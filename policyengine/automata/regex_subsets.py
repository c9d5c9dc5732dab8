"""From a nondeterministic to a deterministic, minimal automaton: subsets of items, then merging of equal states.

A row of a state says what each column does, for symbols without and with a word edge before them. It is kept as pairs
(mask, target), where a *mask* is a set of columns that go the same way: one pair for most states, whatever the number
of columns. States where no word edge is asked for, which is nearly all, have one row for both cases.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from policyengine.automata.regex_columns import Bools, Columns
from policyengine.automata.regex_errors import EmptyMatchError, TooLargeError
from policyengine.automata.regex_nfa import TOO_LARGE, Budget, Items, Nfa, Situation

Longs = npt.NDArray[np.int64]
Row = tuple[tuple[int, int], ...]
Outputs = tuple[tuple[int, ...], ...]  # now; before a symbol without an edge; with one; at the end (see `anchored`)

_BOTH: Final = 2  # a row for symbols without and with an edge before them
_NO_OUTPUTS: Final[Outputs] = ((), (), (), ())
_SITUATIONS: Final = (
    Situation(edge=False),
    Situation(edge=True),
    Situation(edge=True, end=True),
    Situation(edge=True, first=True),
    Situation(edge=True, first=True, end=True),
)


@dataclass
class Dfa:
    """A deterministic automaton. `rows[state]`: one row, or one for no edge and one for an edge."""

    rows: list[tuple[Row, ...]]
    outputs: list[Outputs]
    masks: Bools  # [masks, columns]
    start: int
    first: int


class _Masks:
    """The distinct sets of columns, and how sets of code points split the columns."""

    def __init__(self, members: Bools) -> None:
        self._members = members
        self._ids: dict[bytes, int] = {}
        self.masks: list[Bools] = []
        self._splits: dict[tuple[int, ...], list[tuple[int, tuple[int, ...]]]] = {}

    def split(self, sets: tuple[int, ...]) -> list[tuple[int, tuple[int, ...]]]:
        """The columns that are in any of the sets, by which of them they are in: (mask, those sets)."""
        known = self._splits.get(sets)
        if known is None:
            known = self._splits[sets] = [(self._id(mask), inside) for mask, inside in self._split(sets)]
        return known

    def _split(self, sets: tuple[int, ...]) -> list[tuple[Bools, tuple[int, ...]]]:
        rows = self._members[list(sets)]
        if len(sets) == 1:
            return [(rows[0], sets)] if rows[0].any() else []
        columns = np.flatnonzero(rows.any(axis=0))
        keys = np.ascontiguousarray(np.packbits(rows[:, columns], axis=0).T)
        groups: dict[bytes, list[int]] = {}
        for column, key in zip(columns.tolist(), keys, strict=True):
            groups.setdefault(key.tobytes(), []).append(column)
        result = []
        for group in groups.values():
            mask = np.zeros(rows.shape[1], dtype=bool)
            mask[group] = True
            result.append((mask, tuple(sets[i] for i in np.flatnonzero(rows[:, group[0]]).tolist())))
        return result

    def parts(self, mask: int, columns: Bools) -> tuple[int | None, int | None]:
        """The parts of a mask outside and inside a set of columns; None: nothing is."""
        parts = (self.masks[mask] & ~columns, self.masks[mask] & columns)
        outside, inside = (self._id(part) if part.any() else None for part in parts)
        return outside, inside

    def _id(self, mask: Bools) -> int:
        key = np.packbits(mask).tobytes()
        known = self._ids.setdefault(key, len(self.masks))
        if known == len(self.masks):
            self.masks.append(mask)
        return known


def determinise(nfa: Nfa, columns: Columns, budget: Budget, max_states: int) -> Dfa:
    """Subset construction, breadth first; states from which nothing ends are left out.

    Raises EmptyMatchError for a pattern that matches the empty text, TooLargeError beyond `max_states` or the budget;
    their `pattern` is the one to blame.
    """
    masks = _Masks(columns.members(nfa.sets))
    keys: dict[Items, int] = {}
    todo: list[Items] = []
    rows: list[tuple[Row, ...]] = []
    outputs: list[Outputs] = []
    for situation in _SITUATIONS:
        for pattern in nfa.accepted(nfa.asserting(nfa.start, situation)):
            empty = EmptyMatchError("the expression matches the empty text", 0, "it would match everywhere")
            empty.pattern = pattern
            raise empty

    def state_of(items: Items) -> int:
        known = keys.setdefault(items, len(todo))
        if known == len(todo):
            if known >= max_states:
                raise TooLargeError(
                    f"the automaton of the expression needs more than {max_states} states", 0, TOO_LARGE
                )
            todo.append(items)
        return known

    def row(items: Items) -> Row:
        by_set = nfa.by_set(items)
        result = []
        for mask, sets in masks.split(tuple(sorted(by_set))):
            follows = [items for s in sets for items in by_set[s]]
            target = follows[0] if len(follows) == 1 else frozenset().union(*follows)
            budget.spend(1 + len(target))
            result.append((mask, state_of(target)))
        return tuple(result)

    def read(items: Items, *, first: bool) -> None:
        if len(items) == 1 and (only := nfa.single(items)):  # most states of long expressions
            char_set, target = only
            budget.spend(1 + len(target))
            rows.append((tuple((mask, state_of(target)) for mask, _ in masks.split((char_set,))),))
            outputs.append(_NO_OUTPUTS)
            return
        now = nfa.accepted(items)
        if not nfa.asserts(items):
            rows.append((row(items),))
            outputs.append((now, (), (), ()) if now else _NO_OUTPUTS)
            return
        found = [nfa.asserting(items, Situation(edge=edge, first=first)) for edge in (False, True)]
        found.append(nfa.asserting(items, Situation(edge=True, first=first, end=True)))
        rows.append(_once((row(found[0]), row(found[1]))))
        outputs.append((now, *(tuple(p for p in nfa.accepted(f) if p not in now) for f in found)))

    at = 0
    try:
        state_of(nfa.start)
        while at < len(todo):
            read(todo[at], first=False)
            at += 1
        first = 0
        if nfa.asserting(nfa.start, Situation(edge=True, first=True)) != nfa.asserting(nfa.start, Situation(edge=True)):
            first = len(rows)
            todo.append(frozenset())  # its items may be those of another state, which do not begin an output
            read(nfa.start, first=True)
            at += 1
            while at < len(todo):
                read(todo[at], first=False)
                at += 1
    except TooLargeError as error:
        error.pattern = nfa.heaviest(todo[min(at, len(todo) - 1)])
        raise
    if nfa.needs_missing_edges:  # without such, what may come behind no edge may come behind one, too
        rows = _possible(rows, outputs, masks, np.array(columns.joins(), dtype=np.int64) != 0)
    dfa = Dfa(rows, outputs, np.array(masks.masks, dtype=bool).reshape(-1, columns.n_columns), 0, first)
    return _trimmed(dfa, all_reached=not nfa.needs_missing_edges)


def _possible(
    rows: Sequence[tuple[Row, ...]], outputs: Sequence[Outputs], masks: _Masks, joining: Bools
) -> list[tuple[Row, ...]]:
    """The rows without what no text does: an edge is missing only between two symbols that join.

    joining: bool [columns]. Behind a symbol that joins nothing, a state that waits for a missing edge is a dead one.
    """
    parts = [masks.parts(mask, joining) for mask in range(len(masks.masks))]
    sources: dict[tuple[int, bool], list[tuple[int, bool]]] = {}  # a state behind a symbol that joins, or does not
    for state, ways in enumerate(rows):
        for edge, way in enumerate(ways):
            missing = len(ways) == _BOTH and not edge
            for mask, target in way:
                for joins in (True,) if missing else (False, True):
                    if parts[mask][joins] is not None:
                        befores = (True,) if missing else (False, True)
                        sources.setdefault((target, joins), []).extend((state, before) for before in befores)
    todo = [
        (state, before)
        for state, (now, no_edge, with_edge, at_end) in enumerate(outputs)
        for before in (False, True)
        if now or with_edge or at_end or (before and no_edge)
    ]
    alive = set(todo)
    while todo:
        more = [source for source in sources.get(todo.pop(), ()) if source not in alive]
        alive.update(more)
        todo += more

    def kept(way: Row, *, missing: bool) -> Iterator[tuple[int, int]]:
        for mask, target in way:
            if not missing and (target, False) in alive and (target, True) in alive:
                yield mask, target
                continue
            for joins in (True,) if missing else (False, True):
                part = parts[mask][joins]
                if part is not None and (target, joins) in alive:
                    yield part, target

    return [
        tuple(tuple(kept(way, missing=len(ways) == _BOTH and not edge)) for edge, way in enumerate(ways))
        for ways in rows
    ]


def _trimmed(dfa: Dfa, *, all_reached: bool) -> Dfa:
    """Without the states from which nothing ends, but for where it starts, and those that nothing leads to.

    Numbered breadth first. all_reached: there are none of the latter.
    """
    sources: list[list[int]] = [[] for _ in dfa.rows]
    for state, rows in enumerate(dfa.rows):
        for target in {target for row in rows for _, target in row}:
            sources[target].append(state)
    alive = [any(out) for out in dfa.outputs]
    todo = [state for state, lives in enumerate(alive) if lives]
    while todo:
        for source in sources[todo.pop()]:
            if not alive[source]:
                alive[source] = True
                todo.append(source)
    if all_reached and all(alive):
        return dfa
    names: dict[int, int] = {dfa.start: 0}
    order = [dfa.start]
    if dfa.first != dfa.start:
        names[dfa.first] = 1
        order.append(dfa.first)
    kept = []
    for state in order:  # grows while it is read
        ways = [[(mask, target) for mask, target in row if alive[target]] for row in dfa.rows[state]]
        for way in ways:
            for _, target in way:
                if names.setdefault(target, len(order)) == len(order):
                    order.append(target)
        kept.append(tuple(_joined(way, names) for way in ways))
    return Dfa(kept, [dfa.outputs[state] for state in order], dfa.masks, 0, names[dfa.first])


def _distances(dfa: Dfa) -> Longs:
    """int64 [states, 2]: the symbols to the nearest end, and to the farthest (-1: no limit).

    States that behave alike have the same; so long chains are told apart at once, not one state a round.
    """
    n = len(dfa.rows)
    targets = [sorted({target for row in rows for _, target in row}) for rows in dfa.rows]
    sources: list[list[int]] = [[] for _ in range(n)]
    for state, those in enumerate(targets):
        for target in those:
            sources[target].append(state)
    nearest = [0 if any(out) else n for out in dfa.outputs]
    todo = [state for state in range(n) if nearest[state] == 0]
    for state in todo:  # grows while it is read
        for source in sources[state]:
            if nearest[source] == n:
                nearest[source] = nearest[state] + 1
                todo.append(source)
    farthest, open_targets = [-1] * n, [len(those) for those in targets]
    todo = [state for state in range(n) if not targets[state]]
    for state in todo:
        farthest[state] = max((farthest[t] + 1 for t in targets[state]), default=0)
        for source in sources[state]:
            open_targets[source] -= 1
            if not open_targets[source]:
                todo.append(source)
    return np.array([nearest, farthest], dtype=np.int64).T


def minimise(dfa: Dfa) -> Dfa:
    """Merge states that behave alike (Moore's refinement over hashes of rows, then checked row by row)."""
    flat = [
        (state, edge if len(rows) == 2 else _BOTH, mask, target)
        for state, rows in enumerate(dfa.rows)
        for edge, row in enumerate(rows)
        for mask, target in row
    ]
    pairs = np.array(flat, dtype=np.int64).reshape(-1, 4)
    ids: dict[Outputs, int] = {}
    kinds = np.array([ids.setdefault(out, len(ids)) for out in dfa.outputs], dtype=np.int64)
    first_classes = _renumber(np.concatenate((kinds[:, None], _distances(dfa)), axis=1))
    salt = 0
    while True:
        classes = _refine(first_classes, pairs, dfa.masks, salt)
        if _agree(dfa, classes):
            break
        salt += 1  # two different rows had one hash
    if int(classes.max()) + 1 == len(classes):
        return dfa
    _, chosen = np.unique(classes, return_index=True)
    names = classes.tolist()
    rows = [_once(tuple(_joined(row, names) for row in dfa.rows[state])) for state in chosen.tolist()]
    outputs = [dfa.outputs[state] for state in chosen.tolist()]
    return Dfa(rows, outputs, dfa.masks, names[dfa.start], names[dfa.first])


def _once(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Rows without and with an edge, as one where they are the same."""
    return rows[:1] if rows[0] == rows[-1] else rows


def _joined(row: Iterable[tuple[int, int]], names: Mapping[int, int] | Sequence[int]) -> Row:
    """The row of a state, its targets renamed."""
    return tuple((mask, names[target]) for mask, target in row)


def _renumber(rows: npt.NDArray[np.generic]) -> Longs:
    """Equal rows get equal numbers, from 0 in order of appearance."""
    seen: dict[bytes, int] = {}
    return np.array([seen.setdefault(row.tobytes(), len(seen)) for row in np.ascontiguousarray(rows)], dtype=np.int64)


def _mixed(values: npt.NDArray[np.integer], salt: int) -> npt.NDArray[np.uint64]:
    """A hash of each value (splitmix64)."""
    with np.errstate(over="ignore"):
        x = (values.astype(np.uint64) + np.uint64(salt + 1)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def _refine(classes: Longs, pairs: Longs, masks: Bools, salt: int) -> Longs:
    """Split classes until the states of each go to the same classes.

    pairs: int64 [pairs, 4]: state, row (no edge, edge, `_BOTH`), mask, target. Rows are compared by a hash, the sum of
    one for each column, so how the columns are put together in masks makes no difference.
    """
    columns = _mixed(np.arange(masks.shape[1]), salt) | np.uint64(1)
    weights = np.array([columns[m].sum(dtype=np.uint64) for m in masks], dtype=np.uint64)
    state, row, mask, target = pairs.T
    one, other = (_mixed(np.arange(2), salt + 7) | np.uint64(1)).tolist()
    of_row = np.array([one, other, (one + other) % 2**64], dtype=np.uint64)
    weight = weights[mask] * of_row[row] if len(mask) else np.zeros(0, dtype=np.uint64)
    count = int(classes.max()) + 1
    while True:
        sums = _mixed(classes, salt + 5)
        np.add.at(sums, state, weight * _mixed(classes[target], salt + 13))
        _, index, inverse = np.unique(sums, return_index=True, return_inverse=True)
        order = np.empty(len(index), dtype=np.int64)
        order[np.argsort(index)] = np.arange(len(index))
        classes = order[inverse]
        if len(index) <= count:
            return classes
        count = len(index)


def _agree(dfa: Dfa, classes: Longs) -> bool:
    """Whether the states of each class have the same outputs and go to the same classes, column by column."""
    names = classes.tolist()
    leaders: dict[int, int] = {}
    known: dict[int, list[bytes]] = {}

    def dense(state: int) -> list[bytes]:
        result = []
        for row in (dfa.rows[state][0], dfa.rows[state][-1]):
            line = np.full(dfa.masks.shape[1], -1, dtype=np.int32)
            for mask, target in row:
                line[dfa.masks[mask]] = names[target]
            result.append(line.tobytes())
        return result

    for state, name in enumerate(names):
        leader = leaders.setdefault(name, state)
        if leader == state:
            continue
        if dfa.outputs[leader] != dfa.outputs[state]:
            return False
        if tuple(_joined(r, names) for r in dfa.rows[leader]) == tuple(_joined(r, names) for r in dfa.rows[state]):
            continue
        if leader not in known:
            known[leader] = dense(leader)
        if known[leader] != dense(state):
            return False
    return True
