"""Steps for kernels: random ones, and what each must do to the logits, by a model that uses neither numpy nor torch."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from hypothesis import strategies as st

from policyengine.engines.vllm.edits import Edits, PartCache
from policyengine.engines.vllm.memo import Mask
from policyengine.engines.vllm.steering import Steering

NEVER = -math.inf
CPU = torch.device("cpu")
Line = dict[int, float]


@dataclass
class Step:
    """A step in plain lists. Ids and rows may be out of range."""

    masks: list[tuple[int, list[list[int]]]] = field(default_factory=list)
    biases: list[tuple[int, dict[int, float]]] = field(default_factory=list)
    only: dict[int, tuple[list[int], int | None]] = field(default_factory=dict)
    stand_ins: dict[int, tuple[int, list[int]]] = field(default_factory=dict)
    forces: dict[int, tuple[int, int]] = field(default_factory=dict)
    checks: dict[int, int] = field(default_factory=dict)
    padding: list[int] = field(default_factory=list)


# -- the model -------------------------------------------------------------------------------------------------------


def float32(value: float) -> float:
    """The nearest float32."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


def edited(lines: list[Line], step: Step) -> int:
    """Change rows, each a dictionary from id to logit, as `Edits.apply` says; how many rows got EOS in a dead end."""
    return sum(_edited(lines[row], row, step) for row in range(len(lines)))


def _edited(line: Line, row: int, step: Step) -> int:
    ended = 0
    for where, weights in step.biases:
        if where == row:
            for token, value in weights.items():
                if token in line:
                    line[token] = float32(line[token] + float32(value))
    before = dict(line)
    only, eos = step.only.get(row, (None, None))
    for token in line:
        if only is not None and token not in only:
            line[token] = NEVER
        if any(where == row and token in part for where, parts in step.masks for part in parts):
            line[token] = NEVER
    if row in step.stand_ins:
        token, sources = step.stand_ins[row]
        masked = line.get(token) == NEVER
        best = NEVER
        for source in sources:
            if line.get(source, NEVER) > best:
                best = line[source]
        for source in sources:
            if source in line:
                line[source] = NEVER
        if token in line:
            line[token] = NEVER if masked else best + 0.0
    if row in step.forces:
        token, eos = step.forces[row]
        logit = line.get(token, NEVER)
        possible = logit > NEVER
        line.update(dict.fromkeys(line, NEVER))
        if possible:
            line[token] = logit
        else:
            ended += _end(line, before, eos)
    if row in step.checks:
        eos = step.checks[row]
    asked = row in step.checks or step.only.get(row, ((), None))[1] is not None
    if asked and eos in line and not any(line[token] > NEVER for token in line.keys() - set(step.padding)):
        line.update(dict.fromkeys(line, NEVER))
        ended += _end(line, before, eos)
    return ended


def _end(line: Line, before: Line, eos: int | None) -> int:
    if eos in line:
        line[eos] = before[eos] if math.isfinite(before[eos]) else 0.0
    return 1


# -- the same through `Edits` ----------------------------------------------------------------------------------------


class Lists:
    """Arrays by what they hold, as long-lived as a program's: equal lists are one object."""

    def __init__(self) -> None:
        self._arrays: dict[tuple[int, ...], np.ndarray] = {}
        self._masks: dict[tuple[tuple[int, ...], ...], Mask] = {}
        self._weights: dict[tuple[tuple[int, float], ...], np.ndarray] = {}

    def array(self, ids: list[int]) -> np.ndarray:
        return self._arrays.setdefault(tuple(ids), np.array(ids, dtype=np.int32))

    def mask(self, parts: list[list[int]]) -> Mask:
        key = tuple(map(tuple, parts))
        return self._masks.setdefault(key, Mask(tuple(self.array(part) for part in parts)))

    def weights(self, weights: dict[int, float]) -> np.ndarray:
        return self._weights.setdefault(tuple(weights.items()), np.array(list(weights.values()), dtype=np.float64))


def gather(step: Step, cache: PartCache, lists: Lists) -> Edits:
    """The step as the rows of a batch ask for it."""
    edits = Edits(cache)
    for row, parts in step.masks:
        edits.mask(row, lists.mask(parts))
    for row, weights in step.biases:
        edits.bias(row, lists.array(list(weights)), lists.weights(weights))
    if step.only or step.stand_ins:
        edits.steering = Steering()
        for row, (ids, eos) in step.only.items():
            edits.steering.only(row, lists.array(ids), eos)
        for row, (token, sources) in step.stand_ins.items():
            edits.steering.stand_in(row, token, lists.array(sources))
    for row, (token, eos) in step.forces.items():
        edits.force(row, token, eos)
    for row, eos in step.checks.items():
        edits.check(row, eos)
    return edits


def modelled(logits: torch.Tensor, step: Step) -> tuple[torch.Tensor, int]:
    """What the model makes of logits, and its count."""
    lines: list[Line] = [dict(enumerate(row)) for row in logits.tolist()]
    ended = edited(lines, step)
    return torch.tensor([list(line.values()) for line in lines], dtype=torch.float32).reshape(logits.shape), ended


def equal(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Bit for bit, whatever NaN it is."""
    both_nan = found.isnan() & wanted.isnan()
    return bool(((found.view(torch.int32) == wanted.view(torch.int32)) | both_nan).all())


# -- random steps ----------------------------------------------------------------------------------------------------

ODD = [NEVER, math.inf, math.nan, 0.0, -0.0, 3.4e38, -3.4e38, 1e-45]


def random_step(rng: random.Random, rows: int, width: int, *, wild: bool) -> Step:
    """wild: also rows and ids out of range."""
    step = Step()
    eos = rng.randrange(width)
    step.padding = rng.sample(range(width), rng.choice([0, 0, 1, width // 3]))
    step.padding = [token for token in step.padding if token != eos]
    everywhere = range(-2, rows + 3) if wild else range(rows)
    long = list(range(width))

    def token() -> int:
        return (
            rng.choice([-1, width, width + 7, 1 << 31, -(1 << 40)])
            if wild and rng.random() < 0.2
            else rng.randrange(width)
        )

    def ids(most: int) -> list[int]:
        if rng.random() < 0.2:
            return rng.sample(long, rng.choice([width, max(0, width - 1), width // 2]))
        some = [rng.randrange(width) for _ in range(rng.randrange(most))]  # some of them twice
        if wild:
            some += rng.sample([-1, -width, width, width + 1, 2**31 - 1, -(2**31)], rng.randrange(4))
        return some

    shared = [[ids(12) for _ in range(rng.randrange(1, 4))] for _ in range(3)]
    for row in everywhere:
        for _ in range(rng.choice([0, 1, 1, 1, 2])):
            step.masks.append((row, rng.choice([*shared, [ids(6)]])))
        for _ in range(rng.choice([0, 0, 1, 2])):
            weights = {t: rng.choice([1.5, -100.0, 0.1, 1e-3, rng.uniform(-100, 100)]) for t in ids(8)}
            step.biases.append((row, weights))
        if rng.random() < 0.3:
            step.only[row] = ids(8), rng.choice([None, eos])
        if rng.random() < 0.3:
            step.stand_ins[row] = token(), ids(5)
        if rng.random() < 0.2:
            step.forces[row] = token(), eos
        if rng.random() < 0.4:
            step.checks[row] = eos
    return step


def random_logits(rng: random.Random, rows: int, width: int) -> torch.Tensor:
    """Float32 [rows, width], some of them odd, in some rows most of them -inf; not contiguous."""
    store = torch.randn(rows + 1, 2 * width + 3, generator=torch.Generator().manual_seed(rng.randrange(1 << 30)))
    logits = store[:rows, : 2 * width : 2] if rng.random() < 0.3 else store[:rows, 1 : width + 1]
    for row in range(rows):
        if rng.random() < 0.4:
            logits[row] = NEVER
        for _ in range(rng.randrange(6)):
            logits[row, rng.randrange(width)] = rng.choice(ODD)
    return logits


SIZES = st.tuples(st.integers(1, 5), st.integers(1, 40))


def rare() -> tuple[torch.Tensor, Step]:
    """What random steps seldom are: a row each, float32 [9, 12], and a step over all of them."""
    logits = torch.arange(108, dtype=torch.float32).reshape(9, 12)
    logits[1, 3] = logits[2, 1] = math.nan
    logits[2, 3] = NEVER
    logits[3] = math.nan
    logits[4, 1], logits[4, 3] = math.inf, NEVER
    logits[5, [3, 4]] = torch.tensor([0.0, -0.0])
    logits[6, [3, 4, 5]] = torch.tensor([math.nan, -2.0, NEVER])
    logits[8] = NEVER
    logits[8, [1, 10]] = torch.tensor([-7.0, 3.0])
    step = Step(
        # The order of additions decides: beside the large ones the others are lost, one by one.
        biases=[(0, {1: 3e7}), (0, {2: 1.0, 1: 0.9, 4: -1.0}), (0, {1: -3e7})],
        forces={1: (3, 1), 2: (3, 1), 4: (3, 1)},  # NaN, and dead ends whose EOS is NaN or infinite
        checks={3: 1, 8: 1},  # nothing but NaN; nothing but padding and EOS
        stand_ins={5: (7, [4, 3]), 6: (7, [5, 3, 4])},
        only={7: ([2], 1)},
        masks=[(7, [[2]]), (8, [[1]])],
        padding=[10, 11],
    )
    return logits, step


def random_steps(
    rng: random.Random, size: tuple[int, int], *, wild: bool
) -> Iterator[tuple[Step, torch.Tensor, torch.Tensor, int]]:
    """Two steps, each twice: the step, logits for it, and what the model makes of them, with its count."""
    rows, width = size
    steps = [random_step(rng, rows, width, wild=wild) for _ in range(2)]
    for step in (*steps, *steps):
        logits = random_logits(rng, rows, width)
        yield step, logits, *modelled(logits, step)
