"""Rules with exceptions compared: the product of both searches as they run, state by state.

An exception makes matches fewer, so that more may follow from less and nothing can be left out as `diff_search` does.
What bounds the search is its budget alone; small rules stay far below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from policyengine.automata.phrases import PhraseAutomaton
from policyengine.review.diff_letters import Letter, letters
from policyengine.review.diff_patterns import Part
from policyengine.review.diff_search import Budget
from policyengine.review.diff_tracks import Tracks
from policyengine.runtime.irregular import Irregular


class Told(NamedTuple):
    """What a side says of a text: whether it catches it, whether that is certain before it ends, whether it waits."""

    caught: bool
    done: bool
    waits: bool


class Exact:
    """All automata of one side, read by letters. `done` is for good, and the state then no longer matters."""

    DONE: tuple[Any, ...] = ()

    def __init__(self, parts: Sequence[Part], offset: int) -> None:
        self._automata = [one for part in parts if not isinstance(one := part.automaton, Irregular)]
        self._wanted = [frozenset(part.patterns) for part in parts]
        self._offset = offset
        self.start: tuple[Any, ...] = tuple(automaton.START for automaton in self._automata)
        self._steps: dict[tuple[int, Any, tuple[int, ...]], tuple[Any, bool]] = {}

    def read(self, state: tuple[Any, ...], letter: Letter) -> tuple[tuple[Any, ...], bool]:
        """The state after a letter, and whether a match counts by then."""
        result = []
        for at, one in enumerate(state):
            key = at, one, letter.words[self._offset + at]
            known = self._steps.get(key)
            if known is None:
                known = self._steps[key] = self._step(at, one, letter)
            if known[1]:
                return self.DONE, True
            result.append(known[0])
        return tuple(result), False

    def _step(self, at: int, state: Any, letter: Letter) -> tuple[Any, bool]:
        automaton, wanted = self._automata[at], self._wanted[at]
        if isinstance(automaton, PhraseAutomaton):
            state, done = automaton.follow(state, letter.ch)
            return state, bool(wanted & done)
        state, done = automaton.follow(state, letter.ch)
        return automaton.slim(state), bool(wanted & done)

    def tell(self, state: tuple[Any, ...]) -> Told:
        """What it says where no match counts yet."""
        caught = waits = False
        for automaton, wanted, one in zip(self._automata, self._wanted, state, strict=True):
            if isinstance(automaton, PhraseAutomaton):
                caught = caught or bool(wanted.intersection(automaton.at_end(one)))
            else:
                caught = caught or bool(wanted & automaton.ends(one))
            waits = waits or bool(wanted.intersection(automaton.waiting(one)))
        return Told(caught, False, waits)


class ExactProduct:
    """Two rules, of which either may have exceptions."""

    def __init__(self, mine: Sequence[Part], theirs: Sequence[Part]) -> None:
        tracks: list[Tracks] = [t for part in (*mine, *theirs) if (t := part.tracks()) is not None]
        self._letters = letters(tracks)
        self._mine, self._theirs = Exact(mine, 0), Exact(theirs, len(mine))

    def find(self, question: str, budget: Budget) -> str | None:
        """A shortest text in which mine does what theirs does not (`caught`, `done` or `waits`); None: there is none.

        Raises TooFarError.
        """
        mine, theirs = self._mine, self._theirs
        nodes = [(mine.start, theirs.start, False, -1, "")]
        seen = {(mine.start, theirs.start, False)}
        at = 0
        while at < len(nodes):
            a, b, over, _, _ = nodes[at]
            for letter in self._letters:
                budget.take()
                after, done = (a, True) if over else mine.read(a, letter)
                other, undone = theirs.read(b, letter)
                if undone:
                    continue  # for good: what mine does from here on, theirs does too
                if done and question == "done":
                    return _text(nodes, at) + letter.ch
                said, told = Told(True, True, True) if done else mine.tell(after), theirs.tell(other)
                if question == "caught" and said.caught and not told.caught:
                    return _text(nodes, at) + letter.ch
                if question == "waits" and said.waits and not told.waits:
                    return _text(nodes, at) + letter.ch
                if done and question != "caught":
                    continue  # they differ at no later place, since nothing is written after a match
                key = (mine.DONE if done else after, other, done)
                if key not in seen:
                    seen.add(key)
                    nodes.append((*key, at, letter.ch))
            at += 1
        return None


def _text(nodes: Sequence[tuple[Any, Any, bool, int, str]], at: int) -> str:
    text = ""
    while at >= 0:
        text, at = nodes[at][4] + text, nodes[at][3]
    return text


__all__ = ["ExactProduct"]
