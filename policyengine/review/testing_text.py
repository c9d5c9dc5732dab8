"""The text level of one test: what the client gets of the text, however it is cut into chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from policyengine.language.policy_test import Verdict
from policyengine.review.testing_pieces import chunkings, cut, fewest
from policyengine.runtime.program import BanPlan, Program, Request, RewritePlan
from policyengine.runtime.text_session import Match, TextSession


@dataclass(frozen=True, slots=True)
class Seen:
    """What became of a text.

    verdict, output: as a test states them. rules: who decided, each as policy/rule, sorted. reason: why it ended; None:
    it did not.
    """

    verdict: Verdict
    output: str
    rules: tuple[str, ...]
    reason: str | None
    matches: tuple[Match, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """A way to cut the text that gives something else than the text as the test has it."""

    chunks: tuple[str, ...]
    seen: Seen


class TextLevel:
    """The text level of one program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._kinds: dict[tuple[str, str], Verdict] = {}
        self._rewrites: dict[str, int] = {}
        for rule in program.rules:
            policy = program.policies[rule.policy].name
            if isinstance(rule.body, BanPlan):
                self._kinds[policy, rule.id] = rule.body.text_action.kind
            elif isinstance(rule.body, RewritePlan) and rule.when.always and rule.mode == "enforce":
                self._rewrites[f"{policy}/{rule.id}"] = rule.policy

    def run(self, chunks: Sequence[str], request: Request) -> Seen:
        """What a client gets of these chunks."""
        session = TextSession(self._program, request)
        verdicts = [*map(session.feed, chunks), session.finish()]
        output = "".join([verdict.text for verdict in verdicts])
        matches = tuple([match for verdict in verdicts for match in verdict.matches])
        rules = sorted({f"{match.policy}/{match.rule}" for match in matches})
        end = next((verdict for verdict in verdicts if verdict.action == "terminate"), None)
        if end is not None:
            # Without a match the limit on what may be held, or on an expression's time, ended it.
            last = end.matches[-1] if end.matches else None
            blocked = last is not None and self._kinds[last.policy, last.rule] == "block"
            return Seen("block" if blocked else "terminate", output, tuple(rules), end.reason, matches)
        if matches:
            return Seen("redact", output, tuple(rules), None, matches)
        rewrites = tuple(sorted(name for name, policy in self._rewrites.items() if policy in request.policies))
        return Seen("rewrite" if rewrites else "pass", output, rewrites, None)

    def every_way(self, chunks: Sequence[str], request: Request, expected: Seen) -> tuple[int, Difference | None]:
        """Cut the text in many ways: how many were tried, and the first that differs, with as few cuts as it takes."""
        text, count = "".join(chunks), 0
        for count, way in enumerate(chunkings(text), 1):
            if self.run(way, request) != expected:
                return count, self._smallest(way, request, expected)
        return count, None

    def _smallest(self, way: Sequence[str], request: Request, expected: Seen) -> Difference:
        text = "".join(way)
        places = sorted({place for place in accumulate(map(len, way)) if 0 < place < len(text)})

        def fails(some: list[int]) -> bool:
            return self.run(cut(text, some), request) != expected

        if fails(places):  # it may have been the empty chunks
            way = cut(text, fewest(places, fails))
        return Difference(tuple(way), self.run(way, request))
