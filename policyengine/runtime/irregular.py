"""Expressions that no automaton can read (back-references, look-around): for text actions only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policyengine.automata.folding import FoldSpec

# Expressions read the text as it is.
AS_IT_IS = FoldSpec(casefold=False, nfkc=False, invisible=False, marks=False, collapse=False)


@dataclass(frozen=True, slots=True)
class Irregular:
    """Expressions that no automaton can read: they are searched in text by the `regex` package. Text actions only.

    sources: one a pattern, checked when they were compiled.
    """

    sources: tuple[str, ...]

    @property
    def spec(self) -> FoldSpec:
        """How text is folded before it is searched: not at all."""
        return AS_IT_IS

    @property
    def n_states(self) -> int:
        """None: nothing is built ahead."""
        return 0

    @property
    def n_patterns(self) -> int:
        """How many expressions there are."""
        return len(self.sources)

    def to_arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """For a bundle: `source_bytes` uint8 (UTF-8, one after the other) and `source_lengths` int32 (bytes)."""
        parts = [source.encode("utf-8", "surrogatepass") for source in self.sources]
        return {
            "source_bytes": np.frombuffer(b"".join(parts), dtype=np.uint8),
            "source_lengths": np.array([len(part) for part in parts], dtype=np.int32),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[np.generic]]) -> Irregular:
        """The inverse of `to_arrays`; raises ValueError where the arrays do not fit each other."""
        data, lengths = arrays["source_bytes"].tobytes(), arrays["source_lengths"].tolist()
        if sum(lengths) != len(data) or any(length < 0 for length in lengths):
            raise ValueError("the arrays of expressions do not fit each other")
        sources, at = [], 0
        for length in lengths:
            sources.append(data[at : at + length].decode("utf-8", "surrogatepass"))
            at += length
        return cls(tuple(sources))
