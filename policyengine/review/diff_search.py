"""A shortest text in which one rule does what another does not, or the certainty that there is none.

The product of two searches, breadth first: of the first rule one match is followed, guessed where it begins; of the
second all that may still become one. A product state is therefore a track and a set of tracks. *Fewer tracks never
match more*, so a state whose set holds that of another with the same track can be left out: whatever text shows a
difference from it shows one from the other, which was reached by a text no longer. That keeps the sets from exploding
(`x.{30}` has two sets a place, not a billion), and the texts found remain shortest.

INVARIANT (fewer): without exceptions, from a smaller set of tracks no more matches end. Rules with exceptions are
compared by `diff_exceptions`.

Before the followed match begins only the join class of the last symbol matters, if some character of that class begins
no track: then reading it alone leaves the empty set, and by the invariant no other text of that class is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from policyengine.automata.phrases import JOINS
from policyengine.review.diff_letters import Letter, letters
from policyengine.review.diff_tracks import Tracks

# caught: the whole text holds a match. done: a match counts before the text has ended. waits: the token level refuses
# to leave the text there. covers, links: a character (two neighbours) lie inside one match. cut: where the first match
# to count begins; to be asked only where `done` shows no difference.
Question = Literal["caught", "done", "waits", "covers", "links", "cut"]

_BEGIN: Final = -1
_APART, _OPEN, _MARKED, _OVER = range(4)  # the match followed: not begun; begun; and the mark set; ended
MOST_STEPS: Final = 1_000_000  # some 10 s

_JOINS: list[list[bool]] = JOINS.tolist()

Thread = tuple[int, int, int]  # part, state, and 1 for one that began behind the mark
Threads = frozenset[Thread]


class TooFarError(Exception):
    """The search took more steps than it may."""


class Node(NamedTuple):
    """A state of the product. armed: by part, whether a symbol that counts was read (see `Question`)."""

    phase: int
    followed: tuple[int, int] | None  # part and state
    contexts: tuple[int, ...]
    armed: tuple[bool, ...]
    threads: Threads


@dataclass(slots=True)
class Budget:
    """Steps (characters read by one side) that searches may still take together."""

    left: int = MOST_STEPS

    def take(self) -> None:
        """One more."""
        self.left -= 1
        if self.left < 0:
            raise TooFarError


class Product:
    """Two rules to compare: `mine` is followed, `theirs` must not match."""

    def __init__(self, mine: Sequence[Tracks], theirs: Sequence[Tracks], *, simple: bool = False) -> None:
        """simple: only characters that stand for one symbol at most, so that texts are easy to read."""
        self._tracks = [*mine, *theirs]
        self._mine = range(len(mine))
        self._theirs = range(len(mine), len(self._tracks))
        self._letters = letters(self._tracks)
        if simple:
            self._letters = [one for one in self._letters if max(map(len, one.words)) <= 1]
        self._joins = [one.joins for one in self._tracks]
        self._first: list[dict[int, list[Letter]]] = [{} for _ in self._mine]
        self._dropped: list[list[Letter]] = [[] for _ in self._mine]
        for part in self._mine:
            for letter in self._letters:
                if letter.words[part]:
                    self._first[part].setdefault(letter.words[part][0], []).append(letter)
                else:
                    self._dropped[part].append(letter)
        self._beginning = [one for one in self._letters if any(self._may_begin(part, one) for part in self._mine)]
        self._between = self._per_class()
        self._again = [one for one in self._between if not (all(one.words) and self._quiet(one))]
        self._endings: dict[tuple[int, ...], list[Letter]] = {}
        self._contexts_of = [self._like_contexts(part) for part in range(len(self._tracks))]

    def _like_contexts(self, part: int) -> list[int]:
        """By context: the first one after which the same begins, whatever letter comes."""
        letters = [*self._beginning, *(one for one in self._letters if not self._quiet(one))]
        joins = sorted({self._joins[part][one.words[part][0]] for one in letters if one.words[part]})
        first: dict[tuple[bool, ...], int] = {}
        return [first.setdefault(tuple(map(row.__getitem__, joins)), at) for at, row in enumerate(_JOINS)]

    def _may_begin(self, part: int, letter: Letter) -> bool:
        begin = self._tracks[part].begin
        return any(
            begin(c, edge, first) for c in letter.words[part] for edge in (False, True) for first in (False, True)
        )

    def _quiet(self, letter: Letter) -> bool:
        """Whether it begins nothing of theirs."""
        return not any(self._may_begin(part, letter) for part in self._theirs)

    def _unnamed(self, letter: Letter) -> bool:
        """Whether it ends all of theirs; not where one drops it, which then goes on."""
        return all(letter.words[part] for part in self._theirs) and not any(
            self._tracks[part].named(c) for part in self._theirs for c in letter.words[part]
        )

    def _per_class(self) -> list[Letter]:
        """Of the letters whose last symbols join alike, a quiet one; where there is none, all."""
        groups: dict[tuple[int, ...], list[Letter]] = {}
        for letter in self._letters:
            joined = tuple(j[w[-1]] if w else -1 for j, w in zip(self._joins, letter.words, strict=True))
            groups.setdefault(joined, []).append(letter)
        return _chosen(groups.values(), self._quiet)

    def endings(self, contexts: tuple[int, ...]) -> list[Letter]:
        """The letters to go on with where all that is asked is that no match of theirs ends.

        One that ends all of their tracks is the best of those that have edges alike before them: nothing is left then.
        """
        known = self._endings.get(contexts)
        if known is None:
            groups: dict[tuple[bool | None, ...], list[Letter]] = {}
            for letter in self._letters:
                edges = tuple(
                    self._edge(part, context, word[0]) if word else None
                    for part, (context, word) in enumerate(zip(contexts, letter.words, strict=True))
                )
                groups.setdefault(edges, []).append(letter)
            known = self._endings[contexts] = _chosen(groups.values(), self._unnamed)
        return known

    # -- reading ---------------------------------------------------------------------------------------------------

    def _edge(self, part: int, context: int, column: int) -> bool:
        return context == _BEGIN or not _JOINS[context][self._joins[part][column]]

    def _read(self, node: Node, letter: Letter, begins: int | None, counts: bool) -> tuple[Threads, bool, bool]:
        """All of theirs. begins: how threads that begin here are marked; None: none do.

        Returns the threads, and whether one matched: of those marked 0, and of those marked 1.
        """
        kept: set[Thread] = set()
        done = [False, False]
        for part in self._theirs:
            track, context, armed = self._tracks[part], node.contexts[part], node.armed[part]
            mine = [(state, mark) for at, state, mark in node.threads if at == part]
            for column in letter.words[part]:
                edge = self._edge(part, context, column)
                join = self._joins[part][column]
                sure = track.needs_edges and join == 0
                after: dict[tuple[int, int], None] = {}
                for state, mark in mine:
                    if armed and track.before(state, edge):
                        done[mark] = True
                    found = track.next(state, column, edge)
                    if found >= 0:
                        done[mark] |= counts and (track.now(found) or (sure and track.before(found, True)))
                        if track.live(found):
                            after[found, mark] = None
                if begins is not None:
                    for found in track.begin(column, edge, context == _BEGIN):
                        done[begins] |= counts and (track.now(found) or (sure and track.before(found, True)))
                        if track.live(found):
                            after[found, begins] = None
                mine, context, armed = list(after), join if track.needs_edges else 0, armed or counts
            kept.update((part, state, mark) for state, mark in mine)
        fewest = frozenset(one for one in kept if not one[2] or (one[0], one[1], 0) not in kept)
        return fewest, done[0], done[1]

    def _go(self, node: Node, letter: Letter, part: int, start: int, counts: bool) -> Iterator[tuple[int, bool]]:
        """The match followed: its state after the letter (-1: none), and whether it ended.

        start: its state; -1: it begins with one of the letter's symbols, each of which is a way.
        """
        track, context, armed = self._tracks[part], node.contexts[part], node.armed[part]
        ways = [(start, False)] if start >= 0 else []
        for column in letter.words[part]:
            edge = self._edge(part, context, column)
            join = self._joins[part][column]
            sure = track.needs_edges and join == 0
            after = []
            for state, done in ways:
                done = done or (armed and state >= 0 and track.before(state, edge))
                found = track.next(state, column, edge) if state >= 0 else -1
                after.append((found, done))
            if start < 0:
                after += [(found, False) for found in track.begin(column, edge, context == _BEGIN)]
            ways = [
                (s, done or (s >= 0 and counts and (track.now(s) or (sure and track.before(s, True)))))
                for s, done in after
            ]
            context, armed = join if track.needs_edges else 0, armed or counts
        for state, done in ways:
            if done or (state >= 0 and track.live(state)):
                yield state, done

    def _contexts(self, node: Node, letter: Letter) -> tuple[int, ...]:
        return tuple(
            (self._joins[part][word[-1]] if self._tracks[part].needs_edges else 0) if word else context
            for part, (word, context) in enumerate(zip(letter.words, node.contexts, strict=True))
        )

    def alike(self, contexts: tuple[int, ...]) -> tuple[int, ...]:
        """Contexts that stand for these where nothing has begun."""
        return tuple(
            self._contexts_of[part][context] if context >= 0 else context for part, context in enumerate(contexts)
        )

    def _at_end(self, node: Node) -> bool:
        """Whether one of theirs matches at the end of the text (of those that began at or before the mark)."""
        return any(
            not mark and node.armed[part] and self._tracks[part].at_end(state) for part, state, mark in node.threads
        )

    def _wait(self, node: Node) -> bool:
        return any(self._tracks[part].waits(state) for part, state, _ in node.threads)

    # -- the search ------------------------------------------------------------------------------------------------

    def find(self, question: Question, budget: Budget) -> str | None:
        """A shortest text in which mine does what theirs does not; None: there is none. Raises TooFarError."""
        return _Search(self, question, budget).run()

    def find_all(self, budget: Budget) -> dict[Question, str | None]:
        """`find` for `caught`, `done` and `waits` in one search.

        Where `caught` shows a difference, the search ends there, and nothing is said of the other two.
        """
        search = _Search(self, "caught", budget)
        text = search.run()
        return {"caught": text} if text is not None else {"caught": None, "done": None, "waits": None, **search.beside}

    def following(self, part: int, state: int, contexts: tuple[int, ...]) -> Iterator[Letter]:
        """The letters that can go on with a match, or show that it has ended."""
        track = self._tracks[part]
        if track.before(state, True) or track.before(state, False):
            yield from self.endings(contexts)
        first = self._first[part]
        for column in track.leaving(state):
            yield from first.get(column, ())
        yield from self._dropped[part]


def _chosen(groups: Iterable[list[Letter]], best: Callable[[Letter], bool]) -> list[Letter]:
    """Of each group the first letter that is `best`; where there is none, all."""
    chosen: list[Letter] = []
    for group in groups:
        found = next(filter(best, group), None)
        chosen += [found] if found is not None else group
    return chosen


class _Search:
    def __init__(self, product: Product, question: Question, budget: Budget) -> None:
        self._product, self._question, self._budget = product, question, budget
        self._covering = question in ("covers", "links")
        self._known: dict[tuple[object, ...], list[Threads]] = {}
        self._nodes: list[tuple[Node, int, str]] = []  # with the place of the one before, and the character between
        self._found: tuple[int, str] | None = None
        self.beside: dict[Question, str] = {}  # what other questions than the one that is asked would have found

    def run(self) -> str | None:
        """See `Product.find`."""
        parts = len(self._product._tracks)
        self._add(Node(_APART, None, (_BEGIN,) * parts, (not self._covering,) * parts, frozenset()), -1, "")
        at = 0
        while at < len(self._nodes) and self._found is None:
            node = self._nodes[at][0]
            if self._current(node):
                self._expand(node, at)
            at += 1
        if self._found is None:
            return None
        return self._text(*self._found)

    def _text(self, at: int, text: str) -> str:
        """The text to a state, and what follows it."""
        while at >= 0:
            _, before, ch = self._nodes[at]
            text, at = ch + text, before
        return text

    def _key(self, node: Node) -> tuple[object, ...]:
        return node.phase, node.followed, node.contexts, node.armed

    def _current(self, node: Node) -> bool:
        """Whether no smaller set came up since the node was found."""
        return any(node.threads == one for one in self._known[self._key(node)])

    def _add(self, node: Node, before: int, ch: str) -> None:
        known = self._known.setdefault(self._key(node), [])
        if any(one <= node.threads for one in known):
            return
        known[:] = [one for one in known if not node.threads <= one]
        known.append(node.threads)
        self._nodes.append((node, before, ch))

    def _expand(self, node: Node, at: int) -> None:
        product = self._product
        if node.phase == _APART:
            # What a letter leaves that is dropped nowhere and begins nothing does not depend on what was before it.
            for letter in product._between if at == 0 else product._again:
                self._stay(node, at, letter)
            for letter in product._beginning:
                for part in product._mine:
                    self._follow(node, at, letter, part, -1)
        elif node.phase == _OVER:
            for letter in product.endings(node.contexts):
                self._stay(node, at, letter)
        else:
            assert node.followed is not None
            part, state = node.followed
            for letter in product.following(part, state, node.contexts):
                self._follow(node, at, letter, part, state)

    def _stay(self, node: Node, at: int, letter: Letter) -> None:
        """A letter before the match that is followed, or behind it."""
        self._budget.take()
        marked = node.phase == _OVER
        threads, before, after = self._product._read(
            node, letter, None if marked and self._covering else 0, marked or not self._covering
        )
        if (before or after) and (marked or not self._covering):
            return
        contexts = self._product._contexts(node, letter)
        if not marked and not threads:
            contexts = self._product.alike(contexts)
        armed = self._armed(node, letter) if marked else node.armed
        self._arrive(Node(node.phase, None, contexts, armed, threads), at, letter)

    def _armed(self, node: Node, letter: Letter, counts: bool = True) -> tuple[bool, ...]:
        return tuple(armed or (counts and bool(w)) for armed, w in zip(node.armed, letter.words, strict=True))

    def _follow(self, node: Node, at: int, letter: Letter, part: int, state: int) -> None:
        """A letter of the match that is followed."""
        product, question = self._product, self._question
        marked = node.phase == _MARKED
        if not self._covering:
            ways = list(product._go(node, letter, part, state, True))
            if not ways:
                return
            self._budget.take()
            begins = 1 if question == "cut" and state >= 0 else 0
            threads, first, second = product._read(node, letter, begins, True)
            if first:
                return
            contexts = product._contexts(node, letter)
            for after, done in ways:
                if done and question == "cut":
                    self._find(at, letter)
                elif not second:
                    phase = _OVER if done else _MARKED
                    followed = None if done else (part, after)
                    reached = Node(phase, followed, contexts, node.armed, threads)
                    if question == "caught":
                        self._note(reached, at, letter)
                    self._arrive(reached, at, letter)
            return
        for mark in (True,) if marked else (False, True):
            # Of a mark on two neighbours this letter is the first one, which alone shows nothing.
            counts = marked or (mark and question == "covers")
            ways = list(product._go(node, letter, part, state, counts))
            if not ways:
                continue
            self._budget.take()
            threads, first, _ = product._read(node, letter, None if marked else 0, counts)
            if first:
                continue
            armed = self._armed(node, letter, counts)
            contexts = product._contexts(node, letter)
            for after, done in ways:
                phase = _OVER if done else _MARKED if mark else _OPEN
                followed = None if done else (part, after)
                self._arrive(Node(phase, followed, contexts, armed, threads), at, letter)

    def _note(self, node: Node, at: int, letter: Letter) -> None:
        """What a state says of `done` and `waits`, while `caught` is asked; the first time is the shortest text."""
        if "done" not in self.beside and node.phase == _OVER:
            self.beside["done"] = self._text(at, letter.ch)
        if "waits" not in self.beside and not self._product._wait(node):
            waits = node.followed is None or self._product._tracks[node.followed[0]].waits(node.followed[1])
            if waits:
                self.beside["waits"] = self._text(at, letter.ch)

    def _find(self, at: int, letter: Letter) -> None:
        if self._found is None:
            self._found = at, letter.ch

    def _arrive(self, node: Node, at: int, letter: Letter) -> None:
        """A new state: a difference, or one to go on from."""
        if self._found is not None:
            return None
        product, question = self._product, self._question
        if node.phase == _OVER:
            if question == "done":
                return self._find(at, letter)
            if question == "waits":
                return self._find(at, letter) if not product._wait(node) else None
            if question != "cut" and not product._at_end(node):
                return self._find(at, letter)
        elif node.phase == _MARKED and question not in ("done", "waits"):
            assert node.followed is not None
            part, state = node.followed
            if node.armed[part] and product._tracks[part].at_end(state) and not product._at_end(node):
                return self._find(at, letter)
        elif node.phase == _MARKED and question == "waits":
            assert node.followed is not None
            part, state = node.followed
            if product._tracks[part].waits(state) and not product._wait(node):
                return self._find(at, letter)
        return self._add(node, at, letter.ch)


__all__ = ["MOST_STEPS", "Budget", "Product", "Question", "TooFarError"]
