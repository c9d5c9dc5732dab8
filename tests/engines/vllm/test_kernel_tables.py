"""A program's lists on the device: sent once, kept within a bound, and right whatever had to go."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from policyengine.engines.vllm import edits as edits_module
from policyengine.engines.vllm import kernel_tables
from policyengine.engines.vllm.edits import Edits, PartCache
from policyengine.engines.vllm.kernel_tables import Tables
from policyengine.engines.vllm.memo import Mask
from tests.engines.vllm.kernel_cases import CPU, Lists, equal, gather, modelled, random_logits, random_step

NONE = np.zeros(0, dtype=np.int64)


def ids(first: int, count: int) -> np.ndarray:
    """So many ids from one on, int32."""
    return np.arange(first, first + count, dtype=np.int32)


def words_sent(tables: Tables, *masks: Mask) -> int:
    """How many words a step of these masks sends beside its plan."""
    tables.begin()
    for mask in masks:
        tables.place_mask(mask)
    tables.send()
    return tables._used


@pytest.fixture
def device_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logits of a host go the way of a device."""
    monkeypatch.setattr(edits_module, "_on_host", lambda _logits: False)


def test_long_lists_are_sent_once_and_short_ones_twice() -> None:
    """A long part is shared by identity; short parts are kept with their mask once it was seen again."""
    tables = Tables(CPU, short=100)
    shared, short = ids(0, 500), ids(0, 20)
    one, two = Mask((shared, short)), Mask((shared,))
    assert words_sent(tables, one, one, two) == 520, "both once"
    assert words_sent(tables, one, two) == 20, "the short one, which now is kept"
    assert words_sent(tables, one, two) == 0
    assert words_sent(tables, Mask((ids(0, 500), short))) == 520, "other arrays, though they hold the same"


def test_the_arena_grows_to_its_bound_and_then_starts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fits is kept while it grows; when it is full at its bound, all goes and what is asked for comes back."""
    monkeypatch.setattr(kernel_tables, "_FIRST_WORDS", 100)
    tables = Tables(CPU, short=10, most_words=400)
    masks = [Mask((ids(100 * i, 90),)) for i in range(5)]
    assert words_sent(tables, *masks[:4]) == 360, "one is kept, the others found no room"
    assert words_sent(tables, *masks[:4]) == 270, "in a larger arena"
    assert words_sent(tables, *masks[:4]) == 0
    assert tables.arena.numel() <= 400
    assert words_sent(tables, masks[4]) == 90, "sent along"
    assert words_sent(tables, masks[4]) == 90, "and kept in an arena that began anew"
    assert words_sent(tables, masks[4]) == 0
    assert words_sent(tables, masks[0]) == 90
    assert tables.arena.numel() <= 400
    assert words_sent(tables, *masks, Mask((ids(0, 401),))) >= 401, "a list beyond the bound is sent each time"


@pytest.mark.parametrize("most", [0, 20, 60, 1 << 12])
@pytest.mark.usefixtures("device_way")
def test_steps_are_right_whatever_finds_room(most: int) -> None:
    """Also where the lists of one step are more than the arena may hold."""
    rng, lists = random.Random(most), Lists()
    cache = PartCache(CPU)
    cache._tables = Tables(CPU, short=4, most_words=most)
    steps = [random_step(rng, 4, 30, wild=True) for _ in range(6)]
    for _ in range(40):
        step, logits = rng.choice(steps), random_logits(rng, 4, 30)
        wanted, ended = modelled(logits, step)
        found = gather(step, cache, lists).apply(logits, np.array(step.padding, dtype=np.int64))
        assert equal(logits, wanted)
        assert (found or 0) == ended


@pytest.mark.usefixtures("device_way")
def test_a_mask_that_two_programs_share() -> None:
    """What one has placed is not looked for in the tables of the other."""
    mask = Mask((ids(2, 3), ids(10, 200)))
    caches = [PartCache(CPU), PartCache(CPU)]
    for cache in (*caches, *caches, *caches):
        logits = torch.zeros(2, 300)
        edits = Edits(cache)
        edits.mask(1, mask)
        edits.apply(logits, NONE)
        assert torch.nonzero(logits[1] == -torch.inf).flatten().tolist() == [2, 3, 4, *range(10, 210)]
        assert not logits[0].any()


def test_a_list_stays_itself_while_it_is_kept() -> None:
    """The identity of an array that nobody else holds is not taken by another one."""
    tables = Tables(CPU, short=4)
    places = set()
    for first in range(50):
        tables.begin()
        place = tables.place(ids(first, 8))
        tables.send()
        assert tables.arena[place : place + 8].tolist() == list(range(first, first + 8))
        places.add(place)
    assert len(places) == 50


def test_a_step_larger_than_any_before() -> None:
    """The buffers grow with what is put there, and keep what was put before."""
    tables = Tables(CPU, short=1 << 30)
    for count in (10, 100_000, 10):
        tables.begin()
        first, second = tables.place(ids(7, 5)), tables.place(ids(3, count))
        tables.send()
        assert tables.step[-1 - first :][:5].tolist() == [7, 8, 9, 10, 11]
        assert tables.step[-1 - second :][:count].tolist() == list(range(3, 3 + count))


def test_a_buffer_on_its_way_is_not_written() -> None:
    """While the device has not read one, another takes its turn; then it is used again."""

    class Event:
        passed = False

        def query(self) -> bool:
            return self.passed

        def record(self) -> None: ...

    tables = Tables(CPU, short=4)
    tables.begin()
    busy = tables._buffers[-1]
    busy.sent = Event()
    for _ in range(3):
        tables.begin()
        assert tables._buffers[-1] is not busy
    assert len(tables._buffers) == 2
    tables._buffers[-1].sent = Event()
    busy.sent.passed = True
    tables.begin()
    assert tables._buffers[-1] is busy


@pytest.mark.usefixtures("device_way")
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float64])
def test_logits_of_another_type(kind: torch.dtype) -> None:
    """They keep their type and what is not changed."""
    logits = torch.randn(2, 40).to(kind)
    before = logits.clone()
    edits = Edits(PartCache(CPU))
    edits.mask(1, Mask((ids(3, 4),)))
    edits.force(0, 5, 9)
    assert edits.apply(logits, NONE) == 0
    assert logits.dtype == kind
    assert torch.nonzero(logits[0] > -torch.inf).flatten().tolist() == [5]
    assert torch.nonzero(logits[1] == -torch.inf).flatten().tolist() == [3, 4, 5, 6]
    assert torch.equal(logits[1, 7:].float(), before[1, 7:].float())
