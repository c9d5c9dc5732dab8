"""The results of policy tests as a person reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile

from policyengine.language.diagnostics import visible
from policyengine.lint.formats.markdown import code
from policyengine.review.testing import Outcome, Problem, Result
from policyengine.review.testing_coverage import Coverage

_WIDE = 56  # characters of a text that a line shows
_BEFORE = 20  # of them before the place where two texts part
_PIECES = 8  # pieces that are shown, the last ones

_COLOURS: Mapping[str, int] = {"FAIL": 31, "todo": 33, "ok": 32}
TAGS: Mapping[Outcome, str] = {"failed": "FAIL", "todo": "todo", "passed": "ok"}


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that was run. coverage: None where it was not asked for; threshold: percent of it that are asked for.

    tokens: whether tests were run on the tokens of a model too. verbose: people are told of each test. colour: on a
    terminal that shows it.
    """

    results: tuple[Result, ...]
    coverage: Coverage | None = None
    threshold: float | None = None
    tokens: bool = False
    verbose: bool = False
    colour: bool = False

    def count(self, outcome: Outcome) -> int:
        """How many tests ended so."""
        return sum(1 for result in self.results if result.outcome == outcome)

    @property
    def is_below(self) -> bool:
        """Whether fewer rules are covered than were asked for."""
        return self.coverage is not None and self.threshold is not None and self.coverage.percent < self.threshold

    @property
    def is_bad(self) -> bool:
        """Whether a test failed, or too few rules are covered."""
        return self.is_below or self.count("failed") > 0


def text(run: Run) -> str:
    """What failed and what is to do, then a summary."""
    lines: list[str] = []
    for result in run.results:
        if run.verbose or result.outcome != "passed":
            block = _block(result, run)
            # A blank line around what has several lines.
            lines += [""] * ("\n" in block and bool(lines) and bool(lines[-1]))
            lines += [block, ""] if "\n" in block else [block]
    lines += [""] * (bool(lines) and bool(lines[-1]))
    return "\n".join([*lines, *summary(run)]) + "\n"


def _block(result: Result, run: Run) -> str:
    tag = TAGS[result.outcome]
    shown = f"\x1b[{_COLOURS[tag]}m{tag:<4}\x1b[0m" if run.colour else f"{tag:<4}"
    head = f"{shown} {result.ready.place} {result.ready.test.id}"
    if result.outcome == "todo":
        return f"{head}: {visible(result.todo or '')}"
    if result.outcome == "passed":
        ways = _plural(result.surplus, "way", "ways")
        return f"{head} (eager forbids {ways} to write it)" if result.surplus else head
    return "\n".join([head, *(f"  {line}" for line in details(result))])


def details(result: Result) -> Iterator[str]:
    """What is wrong with a test, line by line."""
    for problem in result.problems:
        name = f"{problem.what:<8}"
        if problem.pieces is not None:
            yield f"{name}{pieces(problem)}"
            name = " " * 8
        expected, actual = both(problem)
        yield f"{name}expected {expected}"
        yield f"{' ' * 8}got      {actual}"
    yield f"text    {code(_cut(visible(_text(result)), 0))}"


def summary(run: Run) -> Iterator[str]:
    """How many tests there were and how they ended, and what else was found."""
    files = len({result.ready.file for result in run.results})
    counts = [f"{run.count('passed'):,} passed", f"{run.count('failed'):,} failed" if run.count("failed") else ""]
    counts.append(f"{run.count('todo'):,} todo" if run.count("todo") else "")
    tests = f"{_plural(len(run.results), 'test', 'tests')} in {_plural(files, 'file', 'files')}"
    yield f"{tests}: {', '.join(filter(None, counts))}"
    ways = _plural(sum(result.chunkings for result in run.results), "chunking", "chunkings")
    if run.tokens:
        ways += f" and {_plural(sum(one.segmentations for one in run.results), 'segmentation', 'segmentations')}"
    yield f"run in {ways}"
    surplus = sum(1 for result in run.results if result.surplus)
    if surplus:
        what = "passing text" if surplus == 1 else "passing texts"
        yield f"`word_end: eager` forbids some ways to write {surplus:,} {what} (--verbose)"
    unspelled = sum(result.unspelled for result in run.results)
    if unspelled:
        yield f"the tokens cannot spell {_plural(unspelled, 'text', 'texts')}"
    if run.coverage is not None:
        yield from _covered(run, run.coverage)


def _covered(run: Run, coverage: Coverage) -> Iterator[str]:
    below = f", below the {run.threshold:g} % asked for" if run.is_below else ""
    yield f"coverage: {coverage.covered:,} of {_plural(coverage.rules, 'rule', 'rules')} ({_percent(coverage)}){below}"
    for one in coverage.uncovered:
        yield f"  {one.span.file}:{one.span.line}:{one.span.column} {one.rule}: no test makes it act"
    if coverage.unseen:
        rules = _plural(coverage.unseen, "more rule", "more rules")
        yield f"  no text can show {rules}: they steer tokens, need an engine, or only watch"


def _percent(coverage: Coverage) -> str:
    return f"{int(coverage.percent * 10) / 10:g} %"  # never rounded up to what was asked for


def both(problem: Problem) -> tuple[str, str]:
    """Expected and actual; of texts the part where they part."""
    if problem.what != "output":
        return _cut(visible(problem.expected), 0), _cut(visible(problem.actual), 0)
    shown = visible(problem.expected), visible(problem.actual)
    at = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*shown, strict=False)))
    expected, actual = (code(_cut(one, at)) if one else "nothing" for one in shown)
    return expected, actual


def _cut(shown: str, at: int) -> str:
    """As much of a text as fits a line, around a place in it."""
    if len(shown) <= _WIDE:
        return shown
    low = max(0, min(at - _BEFORE, len(shown) - _WIDE + 1))
    high = low + _WIDE - (low > 0) - 1
    return ("…" if low else "") + shown[low:high] + ("…" if high < len(shown) else "")


def pieces(problem: Problem) -> str:
    """The last chunks or tokens with which a problem shows."""
    parts = [code(_cut(visible(piece_text(piece)), 0)) for piece in problem.pieces or ()]
    ids = [str(i) for i in problem.ids]
    left_out = len(parts) - _PIECES
    head = f"… {left_out} before, " if left_out > 0 else ""
    shown = head + " ".join(parts[-_PIECES:])
    return shown + (f" (ids {', '.join(ids[-_PIECES:])})" if ids else "")


def piece_text(piece: str | bytes) -> str:
    """A chunk or token as text; bytes that are no character by themselves as escapes."""
    return piece if isinstance(piece, str) else piece.decode("utf-8", "backslashreplace")


def _text(result: Result) -> str:
    case = result.ready.test.case
    return case.text if case.text is not None else "".join(case.chunks or ())


def _plural(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
