"""Which patterns match in a text, and which certainly do inside every match of a phrase, asked of the automata.

A phrase's own text, read where it may stand by its own edges, is what every match of it is to an automaton that folds
at least as much. What completes within it completes within every match.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from policyengine.automata.folding import Folding
from policyengine.automata.phrases import JOINS, N_BASES, PhraseAutomaton
from policyengine.automata.threads import ThreadAutomaton
from policyengine.automata.unicode_data import join_class
from policyengine.language.policyset import PhraseOptions
from policyengine.runtime.irregular import Irregular
from policyengine.runtime.program import Automaton

_JOINS_TO_ALL = 1  # the join class that grants no edge to what follows


class Inner(NamedTuple):
    """A pattern that completes.

    known: how many characters of the phrase have been read when it is certain; one more than all where it takes what
    follows. exactly: whether it is all that was read. open: it only waits for an edge, which the end of the match
    around it brings.
    """

    pattern: int
    known: int
    exactly: bool
    open: bool


@dataclass(frozen=True, slots=True)
class Outer:
    """A phrase as its own automaton reads it, and which edges its matches have."""

    text: str
    options: PhraseOptions

    @property
    def left_edge(self) -> bool:
        """Whether every match begins at an edge, if its first character can be inside a word."""
        return self.options.match != "substring"

    @property
    def right_edge(self) -> bool:
        """Whether every match ends at an edge."""
        return self.options.match == "word"


def comparable(options: PhraseOptions) -> Folding:
    """Folds phrases so that two of one rule that mean the same are equal."""
    from policyengine.language.phrases import fold_spec

    return Folding(replace(fold_spec(options), collapse=options.gaps != "literal"))


def inside(outer: Outer, automaton: Automaton) -> Iterator[Inner]:
    """The patterns that complete within every match of a phrase, its own among them, by where they complete.

    The automaton must fold at least as much as the phrase's options do.
    """
    if isinstance(automaton, PhraseAutomaton):
        yield from _in_phrases(outer, automaton)
    elif isinstance(automaton, ThreadAutomaton):
        yield from _in_threads(outer, automaton)


def folds_as_much(automaton: Automaton, options: PhraseOptions, *, regular: bool) -> bool:
    """Whether what two texts have in common under these options, the automaton does not tell apart either.

    regular: whether the automaton is of expressions, which read text as it is.
    """
    if regular or not isinstance(automaton, PhraseAutomaton | ThreadAutomaton):
        return False
    from policyengine.language.phrases import fold_spec

    theirs, ours = automaton.spec, fold_spec(options)
    gapped = isinstance(automaton, ThreadAutomaton)
    if options.gaps in ("punctuation", "letters") and not gapped:
        return False
    if not gapped and ours.collapse and not theirs.collapse:
        return False
    same = replace(theirs, casefold=ours.casefold, collapse=ours.collapse) == ours
    return same and (theirs.casefold or not ours.casefold)


def _in_phrases(outer: Outer, automaton: PhraseAutomaton) -> Iterator[Inner]:
    table, length = automaton.folding.table, automaton.pattern_length
    state = automaton.START if outer.left_edge else _JOINS_TO_ALL
    read = 0
    for known, ch in enumerate(outer.text, start=1):
        for symbol in table[ch]:
            if automaton.is_repeat(state, symbol):
                continue
            state, before, now = automaton.step(state, symbol)
            # A pattern longer than what was read began before the phrase.
            yield from (Inner(one, known, False, False) for one in before if length(one) <= read)
            read += 1
            yield from (Inner(one, known, length(one) == read, False) for one in now if length(one) <= read)
    if outer.right_edge:
        for one in automaton.at_end(state):
            if length(one) <= read:
                yield Inner(one, len(outer.text) + 1, length(one) == read, True)


def _in_threads(outer: Outer, automaton: ThreadAutomaton) -> Iterator[Inner]:
    """Where a match began is not told, so that none is said to be exactly the phrase."""
    if automaton.anchored.has_exceptions:
        return
    state = automaton.START
    if not outer.left_edge:
        state = (_JOINS_TO_ALL if automaton.anchored.needs_edges else 0, ())
    for known, ch in enumerate(outer.text, start=1):
        state, done = automaton.follow(state, ch)
        yield from (Inner(pattern, known, False, False) for pattern in sorted(done))
    if outer.right_edge:
        for pattern in sorted(automaton.ends(state)):
            yield Inner(pattern, len(outer.text) + 1, False, True)


def matching(automaton: Automaton, text: str) -> set[int]:
    """The patterns that match somewhere in a text."""
    if isinstance(automaton, PhraseAutomaton):
        state, done = automaton.follow(automaton.START, text)
        return done | set(automaton.at_end(state))
    if isinstance(automaton, ThreadAutomaton):
        threads, done = automaton.follow(automaton.START, text)
        return done | automaton.ends(threads)
    return _irregular(automaton, text)


def _irregular(automaton: Irregular, text: str) -> set[int]:
    import regex

    return {number for number, source in enumerate(automaton.sources) if regex.search(source, text)}


def holding(automaton: PhraseAutomaton) -> np.ndarray:
    """Pattern ids, int64, ascending: those that may hold another pattern, or be the same. The others need no look."""
    n_nodes = automaton.n_states - N_BASES
    if not n_nodes:
        return np.zeros(0, dtype=np.int64)
    parents = (automaton.keys >> 21) - 2  # below 0: the node hangs at the root
    symbols = automaton.keys & ((1 << 21) - 1)
    classes = np.fromiter((join_class(int(s)) for s in symbols.tolist()), dtype=np.int64, count=n_nodes)
    below = parents >= 0
    hit = automaton.has_now[N_BASES:].copy()
    up = np.where(below, parents, 0)
    edge = ~JOINS[automaton.context[N_BASES:][up], classes]
    hit |= below & edge & automaton.has_waiting[N_BASES:][up]
    # Down the trie: nodes are numbered by level, so that a parent is settled before its children.
    inherited = hit.copy()
    for depth in range(2, int(automaton.depth.max()) + 1):
        level = np.flatnonzero(automaton.depth[N_BASES:] == depth)
        inherited[level] |= inherited[up[level]]
    above = below & inherited[up]
    ends = np.empty(len(automaton.patterns), dtype=np.int64)
    ends[automaton.now_patterns] = automaton.now_states - N_BASES
    ends[automaton.waiting_patterns] = automaton.waiting_states - N_BASES
    fails = automaton.fail[N_BASES:].astype(np.int64) - N_BASES
    shorter = np.where(fails >= 0, (automaton.has_now | automaton.has_waiting)[N_BASES:][np.maximum(fails, 0)], False)
    count = np.bincount(ends, minlength=n_nodes)
    crosses = below & edge & automaton.has_waiting[N_BASES:][up]
    wanted = above[ends] | shorter[ends] | (count[ends] > 1) | crosses[ends]
    return np.flatnonzero(wanted)
