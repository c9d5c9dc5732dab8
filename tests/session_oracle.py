"""A slow, obvious oracle for one output under any mixture of rules, by the definitions of the token level.

It shares no code with policyengine: every question is answered from the whole history, by decoding and searching.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tests.oracle import Phrase, TokenOracle, decode

History = tuple[int, ...]


@dataclass(frozen=True)
class Asked:
    """The rules of one output. Forced texts are given as ids. `at`: by position. `after`: (phrase, ids), in order."""

    bans: tuple[Phrase, ...] = ()
    ban_ids: frozenset[int] = frozenset()
    least: int = 0
    choices: frozenset[str] | None = None
    only: frozenset[int] | None = None
    every: int | None = None
    at: tuple[tuple[int, int], ...] = ()
    after: tuple[tuple[Phrase, History], ...] = ()
    end: History = ()


@dataclass
class _Forced:
    """What forces have begun."""

    run: list[int] = field(default_factory=list)
    waiting: list[History] = field(default_factory=list)
    fired: set[int] = field(default_factory=set)
    closing: bool = False


class Output:
    """One output, so far: `history`."""

    def __init__(
        self,
        tokens: Sequence[bytes | None],
        eos: Sequence[int],
        asked: Asked,
        stop: Iterable[int] = (),
        max_tokens: int | None = None,
        ignore_eos: bool = False,
    ) -> None:
        self.tokens = [b"" if i in eos else token for i, token in enumerate(tokens)]
        self.eos, self.asked, self.max_tokens = tuple(eos), asked, max_tokens
        self.stop = frozenset(stop) - set(eos)
        self.ends = frozenset(stop) if ignore_eos else self.stop | set(eos)
        self.bans = TokenOracle(tokens, eos, asked.bans)
        self._finishes: dict[tuple[bytes, int], bool] = {}

    @cached_property
    def size(self) -> int:
        return len(self.tokens)

    def text(self, history: History) -> bytes:
        return b"".join(self.tokens[i] or b"" for i in history)

    # -- masks, whatever is forced or allowed ----------------------------------------------------------------------

    def is_banned(self, history: History, token: int) -> bool:
        """By bans alone; that an id ends the output counts where it does."""
        last = self.max_tokens is not None and len(history) + 1 == self.max_tokens
        stop = self.ends - set(self.eos)
        if token in self.asked.ban_ids:
            return True
        if token in self.eos and token not in self.ends:
            before = decode(self.tokens[i] for i in history)
            return last and bool(self.bans.complete_at_end(*before) - self.bans.complete(before[0]))
        return self.bans.is_masked(history, token, stop_token_ids=stop, last=last)

    def is_masked(self, history: History, token: int) -> bool:
        return self.is_banned(history, token) or (
            len(history) < self.asked.least and (token in self.stop or token in self.eos)
        )

    # -- choices ---------------------------------------------------------------------------------------------------

    @cached_property
    def choices(self) -> frozenset[bytes]:
        """Those without a ban."""
        assert self.asked.choices is not None
        return frozenset(c.encode() for c in self.asked.choices if not self.bans.complete_at_end(c, b""))

    def finishes(self, text: bytes, left: int) -> bool:
        """Whether some permitted tokens, no more than `left`, make the text a whole choice."""
        if text in self.choices:
            return True
        if left <= 0 or not any(choice.startswith(text) for choice in self.choices):
            return False
        key = text, left
        if key not in self._finishes:
            self._finishes[key] = any(self._goes_on(text, token, left) for token in range(self.size))
        return self._finishes[key]

    def _goes_on(self, text: bytes, token: int, left: int) -> bool:
        data = self.tokens[token]
        if not data or token in self.asked.ban_ids or token in self.stop:
            return False
        if self.asked.only is not None and token not in self.asked.only:
            return False
        if not any(choice.startswith(text + data) for choice in self.choices):
            return False
        before, after = decode([text]), decode([text + data])
        return not self.bans.would_match(before, after) and self.finishes(text + data, left - 1)

    def is_in_choices(self, history: History, token: int) -> bool:
        text, data = self.text(history), self.tokens[token]
        left = 99 if self.max_tokens is None else self.max_tokens - len(history)
        if token in self.eos or (token in self.stop and data == b""):
            return text in self.choices
        if token in self.stop:
            return text in self.choices and text + (data or b"") in self.choices
        return self._goes_on(text, token, left)

    def is_allowed(self, history: History, token: int) -> bool:
        """By all allows."""
        if self.asked.choices is not None and not self.is_in_choices(history, token):
            return False
        silent = token in self.eos or (token in self.stop and self.tokens[token] == b"")
        return self.asked.only is None or token in self.asked.only or silent

    # -- forces ----------------------------------------------------------------------------------------------------

    def scheduled(self, place: int) -> int | None:
        return dict(self.asked.at).get(place, self.asked.every)

    def _stands_for_the_end(self, history: History, forced: _Forced) -> bool:
        """Whether the first token of the text at the end stands for the end here."""
        if not self.asked.end or forced.closing or forced.run or self.scheduled(len(history)) is not None:
            return False
        before = decode(self.tokens[i] for i in history)
        ends_in_match = bool(self.bans.complete_at_end(*before) - self.bans.complete(before[0]))
        whole = self.asked.choices is None or self.text(history) in self.choices
        return bool(self.ends) and len(history) >= self.asked.least and not ends_in_match and whole

    def forced(self, history: History) -> _Forced:
        """What has begun, told token by token."""
        now = _Forced()
        for i, token in enumerate(history):
            before, behind = history[:i], history[: i + 1]
            if self._stands_for_the_end(before, now) and token == self.asked.end[0]:
                first = self.eos[0] if self.eos[0] in self.ends else min(self.ends)
                now = _Forced([*self.asked.end[1:], first], [], now.fired, True)
                continue
            now.run = now.run[1:]
            if not now.closing:
                now.waiting += self._completed(before, behind, now)
            if now.waiting and not now.run and self.scheduled(i + 1) is None:
                now.run = list(now.waiting.pop(0))
        return now

    def _completed(self, before: History, behind: History, now: _Forced) -> list[History]:
        """The texts whose phrase the last token completed for the first time; of two that agree, the longer."""
        found: list[History] = []
        for rank, (phrase, ids) in enumerate(self.asked.after):
            search = TokenOracle(self.tokens, (), [phrase])
            texts = [decode(self.tokens[i] for i in h)[0] for h in (before, behind)]
            if rank not in now.fired and search.complete(texts[1]) - search.complete(texts[0]):
                now.fired.add(rank)
                found.append(ids)
        kept: list[History] = []
        for i, ids in enumerate(found):
            longer = any(other[: len(ids)] == ids and len(other) > len(ids) for other in found)
            if not longer and ids not in found[:i]:
                kept.append(ids)
        return kept

    # -- together --------------------------------------------------------------------------------------------------

    def permitted(self, history: History, allowed: Iterable[int] | None = None) -> set[int]:
        """The ids that may be chosen; `allowed`: what the engine permits. EOS alone where nothing is left."""
        mine = set(range(self.size)) if allowed is None else set(allowed)
        free = self.free(history, mine)
        return {self.eos[0]} if self.is_dead_end(free, mine) else free

    def is_dead_end(self, free: set[int], mine: set[int]) -> bool:
        """Whether nothing is left; padding is nothing."""
        return not any(self.tokens[i] is not None for i in free & mine)

    def free(self, history: History, mine: set[int]) -> set[int]:
        """What the rules leave."""
        now = self.forced(history)
        token = now.run[0] if now.run else self.scheduled(len(history))
        free = {i for i in range(self.size) if not self.is_masked(history, i) and self.is_allowed(history, i)}
        if token is not None:
            return free & {token}  # masks and allows win over forces
        if self._stands_for_the_end(history, now):
            first = self.asked.end[0]
            stands = first in free and bool(free & mine & self.ends)
            return free - self.ends - {first} | ({first} if stands else set())
        return free

    def stands_for(self, history: History) -> set[int]:
        """The ends whose place the first token of the text at the end takes here."""
        if not self._stands_for_the_end(history, self.forced(history)):
            return set()
        return {i for i in self.ends if not self.is_masked(history, i) and self.is_allowed(history, i)}
