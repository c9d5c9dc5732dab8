"""Where one output may end: the ids that end it, and how long it may become."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policyengine.automata.phrases import Ints


@dataclass(frozen=True, slots=True)
class Ends:
    """What ends one output.

    all: the ids that end it, and EOS even where `ignore_eos` makes it no end. all_ids: the same as an array. ids: those
    that do end it. Arrays are int32, ascending, read-only and shared.
    silent: those of `all` that add no text. shown: the client's own, whose text an engine may show.
    closing: what ends the output behind a forced text. max_tokens: the longest that it may become, None: no limit.
    key: equal for equal ids, and short, however many a client names.
    """

    all: frozenset[int]
    all_ids: Ints
    ids: Ints
    silent: frozenset[int]
    shown: Ints
    closing: int
    max_tokens: int | None
    key: bytes
