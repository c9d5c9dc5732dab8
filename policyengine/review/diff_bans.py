"""Two rules that look for text: what the one catches and the other does not, proven both ways.

Phrases that both sides have are left out first, so that what is searched is what was changed. Every text that is
reported was confirmed by the automata of both sides; what was neither found nor ruled out is said.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from policyengine.review.diff_evidence import Evidence, evidence
from policyengine.review.diff_exceptions import ExactProduct
from policyengine.review.diff_model import Detail, Direction, Example
from policyengine.review.diff_patterns import Part, Plain, spelled
from policyengine.review.diff_search import Budget, Product, Question, TooFarError
from policyengine.runtime.irregular import Irregular
from policyengine.runtime.program import BanPlan

_MANY = 500  # phrases beside exceptions from which on texts are tried before all are searched
_CANDIDATES = 20_000  # phrases that are tried as they are written, where a search went too far

# By question: what a text shows of it; and how a difference is put, more and less.
_SHOWS: dict[Question, Callable[[Evidence, Evidence], bool]] = {
    "caught": lambda a, b: a.caught and not b.caught,
    "done": lambda a, b: a.done and not b.done,
    "waits": lambda a, b: (a.waits or a.done) and not (b.waits or b.done),
    "covers": lambda a, b: bool(a.covered - b.covered),
    "links": lambda a, b: bool(a.links - b.links),
    "cut": lambda a, b: a.cut < b.cut,
}
_KINDS: dict[Question, str] = {
    "caught": "catches",
    "done": "counts",
    "waits": "word_end",
    "covers": "covers",
    "links": "joins",
    "cut": "covers",
}
_MORE: dict[Question, str] = {
    "caught": "newly catches",
    "done": "counts earlier, before the output goes on",
    "waits": "masks earlier: no token may leave the text like this any more",
    "covers": "covers more where it matches",
    "links": "covers in one match what were several",
    "cut": "ends the text at an earlier place",
}
_LESS: dict[Question, str] = {
    "caught": "no longer catches",
    "done": "counts later, once the output goes on or ends",
    "waits": "masks later: a token may leave the text like this",
    "covers": "covers less where it matches",
    "links": "covers in several matches what was one",
    "cut": "ends the text at a later place, and shows more of it",
}


@dataclass(slots=True)
class Findings:
    """What a comparison of two rules found. unproven: directions that were not ruled out."""

    details: list[Detail] = field(default_factory=list)
    unproven: list[Direction] = field(default_factory=list)


def compare(base: Sequence[Part], head: Sequence[Part], old: BanPlan | None, new: BanPlan | None) -> Findings:
    """Compare what two bans match. None: the side has no such rule, and nothing matches there."""
    found = Findings()
    mine = [part for part in base if not any(part.same_as(other) for other in head)]
    theirs = [part for part in head if not any(part.same_as(other) for other in base)]
    if not mine and not theirs:
        return found
    sides = _Side(mine, head, "weaker"), _Side(theirs, base, "stronger")
    budget = Budget()
    for questions in _questions(old, new):
        for side in sides:
            for question in questions:
                if side.open and (question != "cut" or not any(one.differs for one in sides)):
                    side.ask(question, found, budget)
        for side in sides:
            side.differs = side.differs or not side.open
    for side in sides:
        if side.unsure and side.open:
            found.unproven.append(side.direction)
    return found


def _questions(old: BanPlan | None, new: BanPlan | None) -> list[tuple[Question, ...]]:
    """What to ask of rules that act like this, in order; of a tuple each side is asked until it shows a difference."""
    plans = [plan for plan in (old, new) if plan is not None]
    asked: list[tuple[Question, ...]] = [("caught",)]
    if len(plans) < 2:
        return asked
    if any(plan.avoid for plan in plans):
        asked.append(("done", "waits"))
    elif any(plan.text_action.kind == "terminate" for plan in plans):
        asked.append(("done",))
    if all(plan.text_action.kind == "redact" for plan in plans):
        asked.append(("covers", "links"))
    if all(plan.text_action.kind == "terminate" for plan in plans):
        asked.append(("cut",))
    return asked


@dataclass(slots=True)
class _Side:
    """One direction: what `mine` does and `theirs` does not."""

    mine: list[Part]
    theirs: Sequence[Part]
    direction: Direction
    open: bool = True  # no difference was found yet
    differs: bool = False
    unsure: bool = False
    known: dict[Question, str | None] = field(default_factory=dict)  # answers that one search gave together

    def ask(self, question: Question, found: Findings, budget: Budget) -> None:
        """Look for a text; note what comes of it."""
        try:
            text, shortest = self._search(question, budget)
        except TooFarError:
            text, shortest = self._tried(question), False
            self.unsure = self.unsure or text is None
        if text is None:
            if any(isinstance(part.automaton, Irregular) for part in self.mine):
                self.unsure = True
            return
        if not self._shows(question, text):
            self.unsure = True  # an expression that is not regular catches it
            return
        composed = unicodedata.normalize("NFC", text)  # the search reads `é` as two symbols; people write one character
        if composed != text and self._shows(question, composed):
            text = composed
        self.open = False
        words = (_LESS if self.direction == "weaker" else _MORE)[question]
        # That two matches became one is neither more nor less.
        direction: Direction = "changed" if question in ("links", "done") else self.direction
        found.details.append(Detail(_KINDS[question], direction, words, Example(text, shortest)))

    def _shows(self, question: Question, text: str) -> bool:
        try:
            return _SHOWS[question](evidence(self.mine, text), evidence(self.theirs, text))
        except TimeoutError:  # an expression that is not regular takes too long
            return False

    def _search(self, question: Question, budget: Budget) -> tuple[str | None, bool]:
        """A text that shows a difference, and whether there is no shorter one; None: there is none at all."""
        regular = [part for part in self.mine if not isinstance(part.automaton, Irregular)]
        theirs = [part for part in self.theirs if not isinstance(part.automaton, Irregular)]
        if any(part.excepts for part in (*regular, *theirs)):
            left = [part for part in regular if not any(_includes(other, part, question) for other in theirs)]
            if not left:
                return None, False
            if question in ("covers", "links", "cut"):
                raise TooFarError
            tried = self._tried(question) if sum(len(part.patterns) for part in (*left, *theirs)) > _MANY else None
            return (tried, False) if tried else (ExactProduct(left, theirs).find(question, budget), True)
        tracks = [found for part in regular if (found := part.tracks(_held(part, theirs, question))) is not None]
        if not tracks:
            return None, False
        others = [found for part in theirs if (found := part.tracks()) is not None]
        if question == "caught":
            self.known = Product(tracks, others).find_all(budget)
            if any(_held(part, theirs, "waits") != _held(part, theirs, question) for part in regular):
                self.known.pop("waits", None)
        text = self.known[question] if question in self.known else Product(tracks, others).find(question, budget)
        if text is not None and len({one.spec for one in (*tracks, *others)}) > 1:
            # It may be of ligatures and the like; what is easy to read is worth a few characters more.
            text = Product(tracks, others, simple=True).find(question, budget) or text
        return text, True

    def _tried(self, question: Question) -> str | None:
        """The shortest of the phrases and exceptions, as they are written, that shows a difference."""
        return next((text for text in self._texts() if self._shows(question, text)), None)

    def _texts(self) -> Iterator[str]:
        known = {text for part in self.theirs for text in part.texts}
        texts = {text for part in self.mine if part.family for text in part.texts} - known
        for part in (*self.mine, *self.theirs):
            texts.update(spelled(one) for one in part.exceptions)
        yield from sorted(texts, key=lambda text: (len(text), text))[:_CANDIDATES]


def _held(part: Part, others: Sequence[Part], question: Question) -> Collection[Plain]:
    """The phrases that match nowhere where one of the others does not, as they do."""
    held: set[Plain] = set()
    for other in others:
        if part.family is None or other.family != part.family or other.excepts:
            continue
        theirs = _eagerness(other.plain) if question == "waits" else {one._replace(eager=False) for one in other.plain}
        for one in part.plain:
            asked = one if question == "waits" else one._replace(eager=False)
            if any(wider in theirs for wider in asked.wider()):
                held.add(one)
    return held


def _eagerness(forms: Collection[Plain]) -> set[Plain]:
    """With each eager phrase, the same one that is not: it masks no later."""
    return {*forms, *(one._replace(eager=False) for one in forms)}


def _includes(other: Part, part: Part, question: Question) -> bool:
    """Whether the other has all phrases of the part, and no exception that the part has not."""
    if (
        part.family is None
        or other.family != part.family
        or len(_held(part, [_bare(other)], question)) < len(part.plain)
    ):
        return False
    return all(any(wider in part.exceptions for wider in one.wider()) for one in other.exceptions)


class _Bare(Part):
    """A part whose exceptions are looked at elsewhere."""

    @property
    def excepts(self) -> bool:
        """None."""
        return False


def _bare(part: Part) -> Part:
    return _Bare(part.automaton, part.patterns, part.texts, part.whole)


def shortest_caught(parts: Sequence[Part]) -> Example | None:
    """A shortest text that a rule catches; None where none was found."""
    plan = _Side(list(parts), (), "stronger")
    found = Findings()
    plan.ask("caught", found, Budget())
    return found.details[0].example if found.details else None


def others_that_catch(parts_by_name: dict[str, tuple[Part, ...]], text: str) -> tuple[str, ...]:
    """The rules among these that catch a text."""
    found = []
    for name, parts in parts_by_name.items():
        with suppress(TimeoutError):  # an expression that is not regular took too long
            if evidence(parts, text).caught:
                found.append(name)
    return tuple(found)


__all__ = ["Findings", "compare", "others_that_catch", "shortest_caught"]
