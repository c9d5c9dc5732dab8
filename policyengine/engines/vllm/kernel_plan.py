"""A step's changes as flat int32 arrays: what a kernel reads, whichever kernel it is.

A *record* is a row and what is to be done to it, `FIELDS` words; a row has one record. A *segment* is the place and the
length of a list (`kernel_tables`); a record's masks are consecutive segments, and so are its biases, in the order in
which they are added.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from policyengine.engines.vllm.kernel_tables import Tables

if TYPE_CHECKING:
    from policyengine.engines.vllm.edits import Edits
    from policyengine.engines.vllm.memo import Ids

# The fields of a record. A row or token that is out of range is any number that is.
ROW: Final = 0
FLAGS: Final = 1
END: Final = 2  # the row's EOS
MASKS: Final = 3  # the first segment of its masks
MASK_COUNT: Final = 4
BIASES: Final = 5  # the first segment of its biases; behind the ids are the bits of as many float32 values
BIAS_COUNT: Final = 6
ONLY: Final = 7  # the place of the ids that it keeps
ONLY_COUNT: Final = 8
SCRATCH: Final = 9  # where their logits may lie meanwhile
STAND_IN: Final = 10  # the token that gets the largest logit of the sources
SOURCES: Final = 11  # their place
SOURCE_COUNT: Final = 12
FORCED: Final = 13  # the token
FIELDS: Final = 16  # 64 bytes, what a device reads at once

# Flags.
KEEPS_ONLY: Final = 1
STANDS_IN: Final = 2
FORCES: Final = 4
CHECKS: Final = 8

_NO_SEGMENTS: Final = np.zeros((0, 2), dtype=np.int32)
_OUT_OF_RANGE: Final = -1


class Plan(NamedTuple):
    """A step. Host arrays are views of what travels, and valid until the next step begins.

    records: int32 [rows, FIELDS]; segments: int32 [segments, 2]; on the device both lie in the step area, from
    `records_at` and `segments_at` on. padding: the place and length of the ids that stand for no token.
    """

    records: Ids
    segments: Ids
    records_at: int
    segments_at: int
    padding: tuple[int, int]


def make(edits: Edits, tables: Tables, padding: npt.NDArray[np.int64]) -> Plan:
    """Begin a step and write its plan to the step area."""
    tables.begin()
    steering = edits.steering
    kept, standing = ((), ()) if steering is None else (steering.kept, steering.standing)
    ends = {row: eos for row, _, eos in kept if eos is not None}
    checked = edits.checked | ends if ends else edits.checked

    rows = {row for row, _ in edits.masked}
    rows.update(edits.forced, checked, *([entry[0] for entry in some] for some in (edits.biased, kept, standing)))
    named = sorted(rows)
    index = {row: i for i, row in enumerate(named)}
    records = np.zeros((len(named), FIELDS), dtype=np.int32)
    records[:, ROW] = [_word(row) for row in named]

    segments = _masks(edits, tables, records, index)
    if edits.biased:
        segments = np.concatenate((segments, _biases(edits, tables, records, index, len(segments))))
    scratch = 0
    for row, ids, _ in kept:
        record = records[index[row]]
        record[FLAGS] |= KEEPS_ONLY
        record[[ONLY, ONLY_COUNT, SCRATCH]] = tables.place(ids), len(ids), scratch
        scratch += len(ids)
    for row, token, sources in standing:
        record = records[index[row]]
        record[FLAGS] |= STANDS_IN
        record[[STAND_IN, SOURCES, SOURCE_COUNT]] = _word(token), tables.place(sources), len(sources)
    for row, eos in checked.items():
        record = records[index[row]]
        record[FLAGS] |= CHECKS
        record[END] = _word(eos)
    for row, (token, eos) in edits.forced.items():
        record = records[index[row]]
        record[FLAGS] |= FORCES
        record[[FORCED, END]] = _word(token), _word(eos)

    tables.scratch_for(scratch)
    none_left = tables.place_padding(padding) if checked else (0, 0)
    return Plan(records, segments, tables.put(records, align=FIELDS), tables.put(segments), none_left)


def _masks(edits: Edits, tables: Tables, records: Ids, index: dict[int, int]) -> Ids:
    """Fill the records' masks; the segments."""
    if not edits.masked:
        return _NO_SEGMENTS
    masked = sorted(edits.masked, key=itemgetter(0))  # a row's masks together; nearly always they are in order
    epochs = tables.epoch, tables.step_epoch
    segments = [
        placed.segments
        if (placed := mask.placed) is not None and placed.epoch in epochs
        else tables.place_mask(mask).segments
        for _, mask in masked
    ]
    counts = [len(some) for some in segments]
    places = [index[row] for row, _ in masked]
    _fill(records, places, counts, MASKS, 0)
    return np.concatenate(segments)


def _biases(edits: Edits, tables: Tables, records: Ids, index: dict[int, int], first: int) -> Ids:
    """Fill the records' biases; their segments, which stand behind `first` others."""
    biased = sorted(edits.biased, key=itemgetter(0))  # stable: a row's biases stay in their order
    segments = [(tables.place_weights(ids, values), len(ids)) for _, ids, values in biased]
    _fill(records, [index[row] for row, _, _ in biased], [1] * len(biased), BIASES, first)
    return np.array(segments, dtype=np.int32)


def _fill(records: Ids, places: list[int], counts: list[int], field: int, first: int) -> None:
    """Write where the segments of ascending records begin, and their count behind it."""
    at = np.array(places)
    ends = first + np.cumsum(counts)
    # Where a record comes several times, the first start and the sum count.
    records[at[::-1], field] = (ends - counts)[::-1]
    records[at, field + 1] = ends
    records[at, field + 1] -= records[at, field]


def _word(value: int) -> int:
    """A row or token as int32; one that is no such number is out of range all the same."""
    return value if 0 <= value < 1 << 31 else _OUT_OF_RANGE
