"""The cache of answers: bounded in number and in memory, whoever shares the arrays."""

from __future__ import annotations

import random

import numpy as np

from policyengine.automata.kept import Kept
from tests.oracle import Phrase
from tests.programs import program
from tests.vocabularies import real


def test_entries_are_bounded() -> None:
    kept: Kept[int, int] = Kept(most_entries=3)
    for i in range(10):
        assert kept.keep(i, i) == i
        assert kept[i] == i
        assert len(kept) <= 3


def test_bytes_are_bounded_and_shared_arrays_count_once() -> None:
    kept: Kept[int, tuple[np.ndarray, ...]] = Kept(most_bytes=1000)
    shared = np.zeros(500, dtype=np.uint8)
    for i in range(5):
        kept.keep(i, (shared, own := np.zeros(90, dtype=np.uint8)), (shared, own))
    assert len(kept) == 5
    kept.keep(5, (shared, own := np.zeros(90, dtype=np.uint8)), (shared, own))
    assert set(kept) == {5}
    large = np.zeros(5000, dtype=np.uint8)
    kept.keep(6, (large,), (large,))
    assert set(kept) == {6}


def test_what_is_held_beside_arrays_counts() -> None:
    kept: Kept[int, str] = Kept(most_bytes=1000)
    for i in range(9):
        kept.keep(i, "", nbytes=300)
        assert len(kept) <= 3
    kept.keep(9, "", nbytes=5000)
    assert set(kept) == {9}


def test_masks_as_long_as_the_vocabulary_do_not_fill_the_memory() -> None:
    """Inside each exception nearly all tokens are masked, and every place of it has a mask of its own."""
    rng = random.Random(1)

    def word() -> str:
        return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=6))

    names = [word() for _ in range(60)]
    exceptions = tuple(f"{name} {word()} {word()}" for name in names)
    phrases = [Phrase(name, exceptions=exceptions) for name in names]
    vocabulary = real()
    bound = program(bans=phrases).bind(vocabulary)
    single = {token: i for i, token in enumerate(vocabulary.tokens) if token and len(token) == 1}
    held, largest = {}, 0
    for text in exceptions:
        session = bound.token_session()
        for byte in f" {text}".encode():
            for part in session.mask_parts():
                held[id(part)] = part
            largest = max(largest, bound.nbytes())
            session.advance(single[bytes([byte])])
    assert sum(part.nbytes for part in held.values()) > 1 << 28  # what is kept here, and was kept there
    assert largest < 1 << 28
