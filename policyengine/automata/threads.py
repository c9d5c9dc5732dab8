"""Anchored patterns looked for anywhere in a text, with exceptions: a list of threads in place of one state.

A *thread* is an anchored automaton's state for a match that began somewhere. The threads of a text are listed by where
they began, earliest first; one that comes to the state of an earlier one is dropped, since it would end wherever that
one ends, inside it. So the list is never longer than the anchored automaton has states, whatever the text, and nothing
is worked out ahead that could explode. What a list does with a symbol is remembered.

*Exceptions*: a match does not count inside an occurrence of an exception, and counts once no exception around it can
still complete. Until then it is a *pending* thread, which stands where its match began: the exceptions around it are
the threads before it. When one of those ends it is dropped; when all of them are gone it is reported.

INVARIANT (earliest): of matches of one pattern that end at one place, the earliest is reported, and it is held back by
no exception that does not hold back the others too: whatever began before it began before them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from policyengine.automata.anchored import Anchored
from policyengine.automata.folding import Folding, FoldSpec
from policyengine.automata.gap_phrases import GapPhrases, Gaps
from policyengine.automata.phrases import JOINS

BEGIN = -1  # the context before the first symbol; joins nothing
_MOST_READINGS = 1 << 18  # that are remembered, each counted as one and its threads

# How text is folded for expressions: not at all.
AS_IT_IS = FoldSpec(casefold=False, nfkc=False, invisible=False, marks=False, collapse=False)
_EXPRESSIONS: Final = "expressions"
_FORMS: Final[tuple[Gaps | Literal["expressions"], ...]] = ("literal", "spaces", "punctuation", "letters", _EXPRESSIONS)

State = tuple[int, tuple[int, ...]]  # the context, and the threads: a state of the anchored automaton, or ~pattern
NOW, BEFORE, PENDING = 0, 1, -1


class Hit(NamedTuple):
    """A pattern that counts from here on.

    thread: the place, in the list before the symbol, of the thread that it comes from; -1: one that began with it.
    end: `NOW`: it ends with the symbol; `BEFORE`: before it; `PENDING`: where the pending thread has it.
    """

    pattern: int
    thread: int
    end: int


class Kept(NamedTuple):
    """Where a thread of the new list comes from. `end`: as in `Hit`, for a match that has become pending."""

    thread: int
    end: int


class Reading(NamedTuple):
    """What a list of threads does with a symbol. `kept`: one entry a thread of the new state."""

    state: State
    kept: tuple[Kept, ...]
    hits: tuple[Hit, ...]


class ThreadAutomaton:
    """Searches with an anchored automaton. Shared by sessions; everything that changes is a cache."""

    START: State = (BEGIN, ())

    def __init__(self, spec: FoldSpec, anchored: Anchored) -> None:
        self.spec, self.anchored = spec, anchored
        self.folding = Folding(spec)
        self._readings: dict[tuple[State, int], Reading] = {}
        self._n_readings = 0
        self._exceptions = [anchored.is_exception(p) for p in range(anchored.n_patterns)]

    @classmethod
    def from_phrases(
        cls,
        spec: FoldSpec,
        phrases: Sequence[str],
        *,
        gaps: Gaps,
        left_edge: Sequence[bool],
        right_edge: Sequence[bool],
        eager: Sequence[bool],
        exceptions: Sequence[str] = (),
    ) -> ThreadAutomaton:
        """As `GapPhrases.build`. Pattern ids count the phrases, then the exceptions; only phrases are reported."""
        anchored = GapPhrases.build(
            spec,
            phrases,
            gaps=gaps,
            left_edge=left_edge,
            right_edge=right_edge,
            eager=eager,
            exceptions=exceptions,
        )
        return cls(spec, anchored)

    @classmethod
    def from_expressions(cls, patterns: Sequence[str]) -> ThreadAutomaton:
        """Search for regular expressions, in the text as it is; raises as `Expressions.compile`."""
        from policyengine.automata.regex_dfa import Expressions

        return cls(AS_IT_IS, Expressions.compile(patterns))

    @property
    def n_patterns(self) -> int:
        """How many patterns are looked for; exceptions are not."""
        return self._exceptions.count(False)

    @property
    def n_states(self) -> int:
        """The states of the anchored automaton."""
        return self.anchored.n_states

    def to_arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Those of the anchored automaton, and `form` uint8 [1]: which kind it is."""
        anchored = self.anchored
        form = _FORMS.index(anchored.gaps if isinstance(anchored, GapPhrases) else _EXPRESSIONS)
        return anchored.to_arrays() | {"form": np.array([form], dtype=np.uint8)}

    @classmethod
    def from_arrays(cls, spec: FoldSpec, arrays: dict[str, npt.NDArray[np.generic]]) -> ThreadAutomaton:
        """The inverse of `to_arrays`; raises ValueError where the arrays do not fit, KeyError where one is missing."""
        form = arrays["form"].tolist()
        if len(form) != 1 or not 0 <= form[0] < len(_FORMS):
            raise ValueError("an automaton of unknown form")
        rest = {name: array for name, array in arrays.items() if name != "form"}
        gaps = _FORMS[form[0]]
        if gaps == _EXPRESSIONS:
            from policyengine.automata.regex_dfa import Expressions

            return cls(spec, Expressions.from_arrays(rest))
        return cls(spec, GapPhrases(spec, gaps, rest))

    # -- reading ---------------------------------------------------------------------------------------------------

    def follow(self, state: State, text: str) -> tuple[State, set[int]]:
        """The state after a piece of text as it is written, and the patterns that come to count in it."""
        done: set[int] = set()
        table, column = self.folding.table, self.anchored.column
        for ch in text:
            for symbol in table[ch]:
                state, _, hits = self.read(state, column(symbol))
                done.update(hit.pattern for hit in hits)
        return state, done

    def ends(self, state: State) -> set[int]:
        """The patterns that count if the output ends here."""
        return {hit.pattern for hit in self.at_end(state)}

    def read(self, state: State, column: int) -> Reading:
        """Read one symbol, given by its column."""
        key = state, column
        known = self._readings.get(key)
        if known is None:
            known = self._read(state, column)
            self._n_readings += 1 + len(known.kept)
            if self._n_readings > _MOST_READINGS:
                self._readings.clear()
                self._n_readings = 1 + len(known.kept)
            self._readings[key] = known
        return known

    def _read(self, state: State, column: int) -> Reading:
        anchored, (context, threads) = self.anchored, state
        join = anchored.column_join[column]
        edge = context == BEGIN or not JOINS[context, join]
        # After a symbol that joins nothing there is an edge, whatever follows: nothing waits for it.
        was_sure, is_sure = anchored.needs_edges and context == 0, anchored.needs_edges and join == 0
        reader = _Reader(anchored, self._exceptions, is_sure)
        for place, thread in enumerate(threads):
            if thread < 0:
                reader.wait(place, ~thread)
            else:
                done = () if was_sure else anchored.before(thread, edge)
                reader.go(place, done, anchored.next(thread, column, edge))
        start = anchored.first if context == BEGIN else anchored.start
        reader.go(-1, (), anchored.next(start, column, edge))
        after = join if anchored.needs_edges else 0
        return Reading((after, tuple(reader.threads)), tuple(reader.kept), tuple(reader.hits))

    def at_end(self, state: State) -> tuple[Hit, ...]:
        """What counts if the output ends here. `BEFORE` there means: at the end."""
        inside, hits = False, []
        was_sure = self.anchored.needs_edges and state[0] == 0
        for place, thread in enumerate(state[1]):
            if thread < 0:
                if not inside:
                    hits.append(Hit(~thread, place, PENDING))
                continue
            done: Sequence[int] = self.anchored.at_end(thread)
            if was_sure:
                known = self.anchored.before(thread, True)
                done = [pattern for pattern in done if pattern not in known]
            inside = inside or any(self._exceptions[p] for p in done)
            if not inside:
                hits += [Hit(p, place, BEFORE) for p in done]
        return tuple(hits)

    def waiting(self, state: State) -> tuple[int, ...]:
        """The eager patterns that the text ends in and that wait for nothing but an edge."""
        anchored, found = self.anchored, []
        for thread in state[1]:
            if thread < 0:
                continue
            if anchored.live_exception(thread):
                break  # it stands around all that follow
            found += [p for p in anchored.before(thread, True) if anchored.eager(p)]
        return tuple(found)

    @staticmethod
    def slim(state: State) -> State:
        """The state without what makes no difference to when something counts next, for who asks only that.

        A pending match of a pattern counts no later than one that began after it, unless an exception ends the two.
        """
        context, threads = state
        if sum(thread < 0 for thread in threads) < 2:
            return state
        return context, tuple(t for i, t in enumerate(threads) if t >= 0 or t not in threads[:i])

    def is_live(self, thread: int) -> bool:
        """Whether a thread may still become a match that counts."""
        return thread < 0 or self.anchored.live(thread)


class _Reader:
    """One symbol read by a list of threads, from the earliest on."""

    def __init__(self, anchored: Anchored, exceptions: list[bool], is_sure: bool) -> None:
        """is_sure: whether an edge follows the symbol, whatever comes next."""
        self._anchored, self._exceptions, self._is_sure = anchored, exceptions, is_sure
        self.threads: list[int] = []
        self.kept: list[Kept] = []
        self.hits: list[Hit] = []
        # Of the exceptions that began no later than the thread looked at: whether one ended before the symbol, or
        # with it, and whether one can still end.
        self._ended_before = self._ended_now = self._open = False
        self._decided: set[tuple[int, int]] = set()  # pattern and end of the matches that this symbol brought

    def wait(self, place: int, pattern: int) -> None:
        """A match that has ended and waits for the exceptions around it."""
        if self._ended_before or self._ended_now:
            return
        self._decide(place, pattern, PENDING)

    def go(self, place: int, ended: Sequence[int], after: int) -> None:
        """A thread whose patterns `ended` before the symbol, and which is in the state `after` behind it."""
        anchored, exceptions = self._anchored, self._exceptions
        now = anchored.now(after) if after >= 0 else ()
        if self._is_sure and after >= 0:
            now = (*now, *anchored.before(after, True))
        if anchored.has_exceptions:
            self._ended_before = self._ended_before or any(exceptions[p] for p in ended)
            self._ended_now = self._ended_now or any(exceptions[p] for p in now)
            self._open = self._open or (after >= 0 and anchored.live_exception(after))
        goes_on = after >= 0 and (anchored.live(after) or anchored.live_exception(after))
        if goes_on and after not in self.threads:
            self.threads.append(after)
            self.kept.append(Kept(place, NOW))
        for pattern in ended:
            if not exceptions[pattern] and not self._ended_before and not self._ended_now:
                self._decide(place, pattern, BEFORE)
        for pattern in now:
            if not exceptions[pattern] and not self._ended_now:
                self._decide(place, pattern, NOW)

    def _decide(self, place: int, pattern: int, end: int) -> None:
        if end != PENDING:
            if (pattern, end) in self._decided:
                return  # inside one that began earlier and ends at the same place
            self._decided.add((pattern, end))
        if not self._open:
            self.hits.append(Hit(pattern, place, end))
        else:
            self.threads.append(~pattern)
            self.kept.append(Kept(place, end))


__all__ = ["BEFORE", "BEGIN", "NOW", "PENDING", "Hit", "Kept", "Reading", "State", "ThreadAutomaton"]
