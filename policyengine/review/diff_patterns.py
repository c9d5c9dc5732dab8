"""The patterns of one rule of a program, in forms that can be compared."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from policyengine.automata import unicode_data
from policyengine.automata.folding import SPACE, FoldSpec
from policyengine.automata.gap_phrases import GapPhrases
from policyengine.automata.phrases import PhraseAutomaton
from policyengine.automata.threads import ThreadAutomaton
from policyengine.review.diff_tracks import AnchoredTracks, PhraseTracks, Tracks
from policyengine.runtime.irregular import Irregular
from policyengine.runtime.program import Automaton, Component, Program, Use

_GAP = -1


class Plain(NamedTuple):
    """A phrase as it is compared: folded symbols (-1: a gap), the edges that it asks for, and whether it is eager."""

    symbols: tuple[int, ...]
    left: bool
    right: bool
    eager: bool

    def wider(self) -> tuple[Plain, ...]:
        """Those that match wherever this one does; `eager` as it is."""
        left = (False, True) if self.left else (False,)
        right = (False, True) if self.right else (False,)
        return tuple(Plain(self.symbols, a, b, b and self.eager) for a in left for b in right)


class Family(NamedTuple):
    """How phrases are read: only those of one family can be compared one by one."""

    spec: FoldSpec  # `collapse` apart, which is a matter of gaps
    gaps: str  # as in the language


@dataclass(frozen=True)
class Part:
    """One automaton, and which of its patterns are the rule's."""

    automaton: Automaton
    patterns: tuple[int, ...]
    texts: tuple[str, ...]  # as written
    whole: bool  # all of the automaton's are

    @property
    def excepts(self) -> bool:
        """Whether there are exceptions."""
        return isinstance(self.automaton, ThreadAutomaton) and self.automaton.anchored.has_exceptions

    @cached_property
    def family(self) -> Family | None:
        """None: no phrases. With its first exception a rule gets another kind of automaton, and keeps its family."""
        if isinstance(self.automaton, PhraseAutomaton):
            spec = self.automaton.spec
            return Family(replace(spec, collapse=False), "spaces" if spec.collapse else "literal")
        if isinstance(self.automaton, ThreadAutomaton) and isinstance(self.automaton.anchored, GapPhrases):
            return Family(self.automaton.spec, self.automaton.anchored.gaps)
        return None

    @cached_property
    def plain(self) -> dict[Plain, str]:
        """The phrases, exceptions apart, with how they were written; empty for expressions."""
        if self.family is None:
            return {}
        forms = self._forms
        return {forms[p]: text for p, text in zip(self.patterns, self.texts, strict=True)}

    @cached_property
    def exceptions(self) -> frozenset[Plain]:
        """Those of the rule."""
        if not self.excepts or self.family is None:
            return frozenset()
        assert isinstance(self.automaton, ThreadAutomaton)
        anchored = self.automaton.anchored
        return frozenset(one for p, one in self._forms.items() if anchored.is_exception(p))

    @cached_property
    def _forms(self) -> dict[int, Plain]:
        """The phrases by pattern."""
        automaton = self.automaton
        if not isinstance(automaton, PhraseAutomaton):
            return self._gapped
        found = {}
        for p in self.patterns:
            one = automaton.patterns[p]
            symbols = one.symbols
            if automaton.spec.collapse:
                symbols = tuple(_GAP if symbol == SPACE else symbol for symbol in symbols)
            found[p] = Plain(symbols, one.left_edge, one.right_edge, one.eager)
        return found

    @cached_property
    def _gapped(self) -> dict[int, Plain]:
        """Every pattern of an automaton with gaps, read off its states.

        The shortest ways to a state where a pattern ends are its elements, in place of each gap perhaps a gap character
        that another pattern writes out; the first of them in an order where gaps come first are the elements.
        """
        assert isinstance(self.automaton, ThreadAutomaton)
        anchored = self.automaton.anchored
        assert isinstance(anchored, GapPhrases)
        join = unicode_data.tables().join
        ends: dict[int, list[int]] = {}
        for state, pattern in zip(anchored.pattern_states.tolist(), anchored.pattern_ids.tolist(), strict=True):
            ends.setdefault(state, []).append(pattern)
        waiting = set(anchored.pattern_ids[anchored.pattern_now == 0].tolist())
        found: dict[int, Plain] = {}
        for root in (0, 1):
            for state, path in _paths(anchored, root):
                for pattern in ends.get(state, ()):
                    if pattern not in found:
                        # Before a symbol that joins nothing there is an edge in any case.
                        left = bool(root) and (path[0] == _GAP or join[path[0]] != 0)
                        right = pattern in waiting
                        found[pattern] = Plain(path, left, right, right and anchored.eager(pattern))
        return found

    def same_as(self, other: Part) -> bool:
        """Whether both are the same patterns to the letter: what one does, the other does."""
        if isinstance(self.automaton, Irregular) or isinstance(other.automaton, Irregular):
            both = isinstance(self.automaton, Irregular) and isinstance(other.automaton, Irregular)
            return both and set(self.texts) == set(other.texts)
        if self.family is not None and self.family == other.family:
            return self.plain.keys() == other.plain.keys() and self.exceptions == other.exceptions
        if self.family or other.family or len(self.patterns) != len(other.patterns):
            return False
        mine, theirs = self.automaton.to_arrays(), other.automaton.to_arrays()
        if not (self.whole and other.whole) and self.patterns != other.patterns:
            return False
        return mine.keys() == theirs.keys() and all(np.array_equal(mine[name], theirs[name]) for name in mine)

    def tracks(self, without: Collection[Plain] = ()) -> Tracks | None:
        """What a search follows, less some phrases; None where nothing is left, or for what no automaton reads."""
        automaton = self.automaton
        if isinstance(automaton, PhraseAutomaton):
            chosen = [automaton.patterns[p] for p in self.patterns if not without or self._forms[p] not in without]
            return PhraseTracks(automaton.spec, chosen) if chosen else None
        if isinstance(automaton, Irregular):
            return None
        kept: Collection[int] = self.patterns
        if without and self.family is not None:
            kept = [p for p in self.patterns if self._forms[p] not in without]
        return AnchoredTracks(automaton.spec, automaton.anchored, kept) if kept else None


def _paths(anchored: GapPhrases, root: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Every state that can be reached, with the first of the shortest ways to it, gaps before symbols."""
    symbols, count = anchored.literals.tolist(), anchored.n_columns
    bounds = np.searchsorted(anchored.keys, np.arange(anchored.n_states + 1) * count).tolist()
    keys, targets = anchored.keys.tolist(), anchored.targets.tolist()
    gaps = anchored.gap_next[:, 1].tolist()
    way: dict[int, tuple[int, ...]] = {root: ()}
    order = [root]
    for state in order:
        here = way[state]
        if state != root:
            yield state, here
        if gaps[state] >= 0 and gaps[state] not in way:
            way[gaps[state]] = (*here, _GAP)
            order.append(gaps[state])
        for at in range(bounds[state], bounds[state + 1]):
            if targets[at] not in way:
                way[targets[at]] = (*here, symbols[keys[at] - state * count])
                order.append(targets[at])


def spelled(phrase: Plain) -> str:
    """A phrase as its folded text, a space for each gap."""
    return "".join(" " if symbol == _GAP else chr(symbol) for symbol in phrase.symbols)


def parts_of(program: Program, rule: int, uses: Collection[Use]) -> tuple[Part, ...]:
    """The automata of a rule that are for one of these uses."""
    return tuple(_part(component, rule) for component in _with(program, rule, uses))


def _with(program: Program, rule: int, uses: Collection[Use]) -> Iterator[Component]:
    return (one for one in program.components if one.use in uses and rule in one.rules)


def _part(component: Component, rule: int) -> Part:
    mine = tuple(p for p, owner in enumerate(component.rules) if owner == rule)
    texts = tuple(component.phrases[p] for p in mine)
    return Part(component.automaton, mine, texts, len(mine) == len(component.rules))


__all__ = ["Family", "Part", "Plain", "parts_of", "spelled"]
