"""Policy tests: each is run in many ways, and what came out is held against what it says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from policyengine.language.policy_test import Case
from policyengine.review.testing_files import Compiled, Ready
from policyengine.review.testing_text import Seen, TextLevel
from policyengine.review.testing_tokens import TokenLevel, Wrong

if TYPE_CHECKING:
    from policyengine.automata.vocabulary import Vocabulary

Outcome = Literal["passed", "failed", "todo"]
What = Literal["verdict", "output", "rules", "chunks", "tokens", "todo"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One way in which a test failed.

    expected, actual: as a person reads them. pieces: the chunks or tokens with which it shows; None: with any.
    """

    what: What
    expected: str
    actual: str
    pieces: tuple[str | bytes, ...] | None = None
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one test.

    chunkings, segmentations: in how many ways it was run; surplus: segmentations of a text without a match that
    `word_end: eager` does not let the model write. unspelled: whether the tokens cannot spell the text at all.
    """

    ready: Ready
    outcome: Outcome
    seen: Seen
    problems: tuple[Problem, ...]
    chunkings: int = 1
    segmentations: int = 0
    surplus: int = 0
    unspelled: bool = False

    @property
    def todo(self) -> str | None:
        """Why the test does not hold yet."""
        return self.ready.test.case.todo


class Runner:
    """Runs tests; what the tests of one set of policies share is made once."""

    def __init__(self, vocabulary: Vocabulary | None = None) -> None:
        """vocabulary: also run on its tokens."""
        self._vocabulary = vocabulary
        self._levels: dict[int, tuple[Compiled, TextLevel, TokenLevel | None]] = {}

    def run(self, tests: Iterable[Ready]) -> Iterator[Result]:
        """The results, in the order of the tests."""
        return map(self.run_one, tests)

    def run_one(self, ready: Ready) -> Result:
        """Run one test in many ways."""
        text_level, token_level = self._levels_of(ready.compiled)
        case, chunks = ready.test.case, _chunks(ready.test.case)
        seen = text_level.run(chunks, ready.request)
        problems = list(_differences(case, seen))
        chunkings, segmentations, surplus, unspelled = 1, 0, 0, False
        if not problems:
            chunkings, different = text_level.every_way(chunks, ready.request, seen)
            if different is not None:
                problems.append(Problem("chunks", _told(seen), _told(different.seen), different.chunks))
        spelled = token_level.check("".join(chunks), ready.request) if token_level else None
        if spelled is not None:
            segmentations, surplus, unspelled = spelled.ways, spelled.surplus, not spelled.ways
            if spelled.wrong is not None:
                problems.append(_token_problem(spelled.wrong))
        outcome: Outcome = "failed" if problems else "passed"
        if case.todo is not None:
            outcome = "todo" if problems else "failed"
            problems = problems or [Problem("todo", f"to fail: {case.todo}", "it passes now: remove `todo`")]
        return Result(ready, outcome, seen, tuple(problems), chunkings, segmentations, surplus, unspelled)

    def _levels_of(self, compiled: Compiled) -> tuple[TextLevel, TokenLevel | None]:
        # The set is kept beside its levels, so that no other gets its id.
        known = self._levels.get(id(compiled))
        if known is None:
            tokens = None if self._vocabulary is None else TokenLevel(compiled.program, self._vocabulary)
            known = self._levels[id(compiled)] = compiled, TextLevel(compiled.program), tokens
        return known[1], known[2]


def _chunks(case: Case) -> Sequence[str]:
    return [case.text] if case.text is not None else case.chunks or [""]


def _differences(case: Case, seen: Seen) -> Iterator[Problem]:
    """Where what came out is not what the test says."""
    if seen.verdict != case.verdict:
        yield Problem("verdict", case.verdict, _decided(seen))
    if case.output is not None and seen.output != case.output:
        yield Problem("output", case.output, seen.output)
    if case.rules is not None and set(case.rules) != set(seen.rules):
        yield Problem("rules", ", ".join(sorted(set(case.rules))) or "none", ", ".join(seen.rules) or "none")


def _decided(seen: Seen) -> str:
    by = f" by {', '.join(seen.rules)}" if seen.rules else ""
    return f"{seen.verdict}{by}" + (f" ({seen.reason})" if seen.reason and not seen.rules else "")


def _told(seen: Seen) -> str:
    return f"{_decided(seen)}: {seen.output}" if seen.output else f"{_decided(seen)}, without text"


def _token_problem(wrong: Wrong) -> Problem:
    what = "the end of the output" if wrong.end else "the last token"
    should, does = ("may be chosen", "is masked") if wrong.masked else ("is masked", "may be chosen")
    why = "completes no match" if wrong.masked else "completes a match"
    return Problem("tokens", f"{what} {should}: it {why}", f"it {does}", wrong.pieces, wrong.ids)
