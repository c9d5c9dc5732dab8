"""The questions a running output asks of an automaton of threads: what would complete a match, and where a token leads.

The same answers as `token_matcher.TokenMatcher` gives of an automaton of phrases. A position is (state, pending): the
context and the threads after the complete characters, and the bytes of one that is not complete yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from policyengine.automata import utf8
from policyengine.automata.column_trie import ColumnTrie
from policyengine.automata.kept import Kept
from policyengine.automata.phrases import Bools, Ints
from policyengine.automata.thread_masks import ThreadMasks, distinct_pairs, frozen, some
from policyengine.automata.threads import State, ThreadAutomaton
from policyengine.automata.vocabulary_trie import NO_SYMBOL, VocabularyTrie

_MOST_STEPS = 1 << 18

Position = tuple[State, bytes]


class ThreadMatcher:
    """One automaton on one vocabulary. Shared by all sessions; not thread-safe while caches fill."""

    START: Position = (ThreadAutomaton.START, b"")

    def __init__(self, automaton: ThreadAutomaton, trie: VocabularyTrie) -> None:
        if automaton.spec != trie.folding.spec:
            raise ValueError("the vocabulary was folded otherwise than the patterns")
        self.automaton, self.trie = automaton, trie
        self.columns = ColumnTrie(trie, automaton.anchored)
        self._broken = automaton.anchored.column(ord(utf8.REPLACEMENT))
        self._steps: dict[tuple[State, int], tuple[Position, bool]] = {}
        self._masks: Kept[tuple[State, bool], tuple[Ints, ...]] = Kept()
        self._open: Kept[tuple[State, bytes, bool], Ints] = Kept()
        self._of = ThreadMasks(automaton, self.columns)
        # Whether it can matter that the output ends.
        self.minds_the_end = self._of.minds_the_end

    # -- where a token leads ---------------------------------------------------------------------------------------

    def advance(self, position: Position, token: int) -> tuple[Position, bool]:
        """The position after a token, and whether the token completed a match. A padding id changes nothing."""
        state, pending = position
        if not pending:
            known = self._steps.get((state, token))
            if known is None:
                if len(self._steps) >= _MOST_STEPS:
                    self._steps.clear()
                node = int(self.trie.node_of[token])
                completed = node >= 0 and bool(self._at_node(state, self._node(node), False))
                known = self._steps[state, token] = self._follow(state, node), completed
            return known
        data = self.trie.tokens[token]
        if not data:
            return position, False
        completed = bool(self._open_token(state, pending, token, data, False))
        character, used = utf8.finish(pending, data)
        if not character:
            return (state, pending + data), completed
        return self._follow(self._of.read(state, self._run(character))[0], self._rest(token, used)), completed

    def _follow(self, state: State, node: int) -> Position:
        """Where the symbols and the tail of a node of the vocabulary's trie lead."""
        if node < 0:
            return state, b""
        tail, mine = int(self.trie.tail_index[node]), self._node(node)
        path = self.columns.path(mine if tail < 0 else int(self.columns.parent[mine]))
        return self._of.read(state, path)[0], b"" if tail < 0 else self.trie.tails[tail]

    def _node(self, node: int) -> int:
        return int(self.columns.node_of[node])

    def _rest(self, token: int, used: int) -> int:
        return self.trie.rests[token, used] if used else int(self.trie.node_of[token])

    def _run(self, character: str) -> tuple[int, ...]:
        """The columns that a character is read as."""
        column = self.automaton.anchored.column
        return tuple(column(symbol) for symbol in self.automaton.folding.table[character])

    def at_end(self, position: Position) -> tuple[int, ...]:
        """The patterns that are complete if the output ends here. An incomplete character shows as U+FFFD."""
        state, pending = position
        if not pending:
            return tuple(sorted(self.automaton.ends(state)))
        after, done = self._of.read(state, (self._broken,))
        return tuple(sorted(done | self.automaton.ends(after)))

    # -- one token -------------------------------------------------------------------------------------------------

    def completes(self, position: Position, token: int, *, last: bool = False) -> set[int]:
        """The patterns that one token completes; inside a character, those that each way to go on completes."""
        state, pending = position
        data = self.trie.tokens[token]
        if pending and data:
            return self._open_token(state, pending, token, data, last)
        node = int(self.trie.node_of[token])
        if node < 0:
            return set()
        if pending:
            return set(self.at_end(position)) if last else set()
        return self._at_node(state, self._node(node), last)

    def always_completes(self, token: int) -> set[int]:
        """The patterns that one token completes by itself, whatever stands before it; with exceptions, none."""
        node = int(self.trie.node_of[token])
        if self.automaton.anchored.has_exceptions or node < 0:
            return set()
        top = int(self.columns.top[self._node(node)])
        first = int(self.columns.join[self.columns.column[top]]) if top else NO_SYMBOL
        # A context that its first symbol joins to: the one that grants least.
        return self.completes(((first if first != NO_SYMBOL else 0, ()), b""), token)

    def _at_node(self, state: State, node: int, last: bool, *, opened: bool = False) -> set[int]:
        """The patterns that the symbols (and tail) of a node complete.

        opened: the token began inside a character, so that the text has only now come to where the state is.
        """
        tail = int(self.columns.tail[node])
        path = self.columns.path(node if tail < 0 else int(self.columns.parent[node]))
        state, done = self._of.read(state, path)
        if tail >= 0:
            return done | self._at_tail(state, tail, last, moved=bool(path) or opened)
        if path or opened:
            done.update(self.automaton.waiting(state))
        return done | self.automaton.ends(state) if last else done

    def _at_tail(self, state: State, tail: int, last: bool, *, moved: bool) -> set[int]:
        done = self._of.on_every_way(state, tail, moved=moved)
        return done.union(self.at_end((state, b"?"))) if last else done  # whatever is open

    def _open_token(self, state: State, pending: bytes, token: int, data: bytes, last: bool) -> set[int]:
        """As `_at_node`, of a token that comes after an incomplete character."""
        character, used = utf8.finish(pending, data)
        if not character:
            return self._at_tail(state, self.columns.tail_of(pending + data), last, moved=True)
        after, done = self._of.read(state, self._run(character))
        return done | self._at_node(after, self._node(self._rest(token, used)), last, opened=True)

    # -- all tokens ------------------------------------------------------------------------------------------------

    def masks(self, position: Position, *, last: bool = False) -> tuple[Ints, ...]:
        """Ids, int32, in parts (not sorted, may overlap): the tokens that complete any pattern from here.

        last: nothing can follow the token, so those count too that leave the output ending in a match.
        The same position gives the same array objects as long as they stay cached.
        """
        state, pending = position
        if pending:
            return some(self._open_mask(state, pending, last))
        known = self._masks.get((state, last))
        if known is None:
            known = self._of.parts(state, last)
            self._masks.keep((state, last), known, known)
        return known

    def completions(self, position: Position, *, last: bool = False) -> tuple[Ints, Ints]:
        """(ids, patterns), int32, pairs without repeats, by pattern: which token completes which. Not cached."""
        state, pending = position
        if pending:
            return self._open_pairs(state, pending, last)
        return self._of.pairs(state, last)

    # -- from inside a character -----------------------------------------------------------------------------------

    @cached_property
    def _silent(self) -> Bools:
        """bool [size]: ids without bytes."""
        return np.array([not t for t in self.trie.tokens], dtype=np.bool_)

    @cached_property
    def _says_nothing(self) -> Bools:
        """bool [size]: ids without bytes that stand for something."""
        return self._silent & (self.trie.node_of >= 0)

    @cached_property
    def _breaks(self) -> Bools:
        """bool [size]: ids that cannot go on with an open character, and turn it into U+FFFD."""
        breaks = ~self._silent
        breaks[self._goes_on] = False
        return breaks

    @cached_property
    def _goes_on(self) -> list[int]:
        """The ids whose first byte can go on with an open character."""
        return [i for i, t in enumerate(self.trie.tokens) if t and utf8.is_continuation(t[0])]

    def _open_mask(self, state: State, pending: bytes, last: bool) -> Ints:
        """`masks` where a character is open."""
        known = self._open.get((state, pending, last))
        if known is None:
            after, done = self._of.read(state, (self._broken,))
            masked = np.full(len(self._silent), bool(done))
            for part in self.masks((after, b""), last=last):
                masked[part] = True
            masked &= self._breaks
            for token, completed in self._going_on(state, pending, last):
                masked[token] = bool(completed)
            if last and self.at_end((state, pending)):
                masked |= self._says_nothing
            known = frozen(np.flatnonzero(masked))
            self._open.keep((state, pending, last), known, (known,))
        return known

    def _open_pairs(self, state: State, pending: bytes, last: bool) -> tuple[Ints, Ints]:
        """`completions` where a character is open."""
        after, done = self._of.read(state, (self._broken,))
        ids, patterns = self.completions((after, b""), last=last)
        keep = self._breaks[ids]
        found = [(ids[keep].astype(np.int64), patterns[keep].astype(np.int64))]
        every = [(self._breaks, done)]
        if last:
            every.append((self._says_nothing, set(self.at_end((state, pending)))))
        for chosen, ends in every:
            mine = np.flatnonzero(chosen)
            found += [(mine, np.full(len(mine), pattern)) for pattern in ends]
        pairs = [(token, p) for token, completed in self._going_on(state, pending, last) for p in completed]
        more = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return distinct_pairs([*found, (more[:, 0], more[:, 1])])

    def _going_on(self, state: State, pending: bytes, last: bool) -> Iterator[tuple[int, set[int]]]:
        """The ids whose first byte can go on with the character, and what they complete."""
        known: dict[tuple[tuple[int, ...], int], set[int]] = {}
        for token in self._goes_on:
            data = self.trie.tokens[token] or b""
            character, used = utf8.finish(pending, data)
            if character:
                what = self._run(character), self._node(self._rest(token, used))
            else:
                what = (), -1 - self.columns.tail_of(pending + data)
            if what not in known:
                known[what] = self._open_token(state, pending, token, data, last)
            yield token, known[what]

    def nbytes(self) -> int:
        """Bytes of the tables and of the cached answers."""
        kept = {id(part): part.nbytes for parts in self._masks.values() for part in parts}
        kept |= {id(part): part.nbytes for part in self._open.values()}
        return self._of.nbytes() + sum(kept.values())


__all__ = ["Position", "ThreadMatcher"]
