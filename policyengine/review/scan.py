"""The text level over a text: what a client would see of it, and which rule decided that where.

Memory does not grow with the text: it is read, and leaves, a piece at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from policyengine.review.places import Place, Trail
from policyengine.runtime.program import BanPlan, Program, RewritePlan
from policyengine.runtime.text_session import Match, TextSession, Verdict

Action = Literal["pass", "rewrite", "redact", "block", "terminate"]

_PIECE = 4_096  # code points read at once, or as many as may be held
_EXCERPT = 200  # code points of a match that are kept for people


@dataclass(frozen=True, slots=True)
class Finding:
    """A match that decided something, or, in shadow, would have.

    start, end: code points of the text, with their places.
    """

    rule: str  # policy/rule
    action: Action
    start: int
    end: int
    first: Place
    last: Place  # just behind the match
    text: str  # its first code points, as they were read
    shadow: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a text. read, shown: code points that came in, and that a client sees.

    matches: that decided something; shadowed: of rules in shadow.
    """

    action: Action
    reason: str | None
    matches: int
    read: int
    shown: int
    shadowed: int = 0

    @property
    def is_finding(self) -> bool:
        """Whether some rule stepped in. A rewrite does so for every text, and is none."""
        return self.action not in ("pass", "rewrite")


class Scanner:
    """Scans texts under one request; raises `RequestError` for one that the policies do not allow.

    request: as in `extra_args`; None: the `always` policies.
    """

    def __init__(self, program: Program, request: Mapping[str, Any] | None = None) -> None:
        self._program = program
        self._request = program.parse_request(request)
        self._actions: dict[str, Action] = {}
        self._rewrites = False
        for rule in program.rules:
            name = f"{program.policies[rule.policy].name}/{rule.id}"
            if isinstance(rule.body, BanPlan):
                self._actions[name] = rule.body.text_action.kind
            elif (
                rule.mode == "enforce" and isinstance(rule.body, RewritePlan) and rule.policy in self._request.policies
            ):
                self._rewrites = True

    def scan(
        self,
        text: Iterable[str],
        *,
        show: Callable[[str], object] = lambda piece: None,
        find: Callable[[Finding], object] = lambda finding: None,
    ) -> Outcome:
        """Scan one text, given in pieces. `show` gets what leaves and `find` each finding, as soon as they are certain.

        The rest of the text is not read once a rule ended it.
        """
        session = TextSession(self._program, self._request)
        size = max(self._program.max_hold, _PIECE)
        trail = Trail(2 * size)
        read = shown = matches = shadowed = 0
        action: Action = "rewrite" if self._rewrites else "pass"
        reason = None
        for piece in _small(text, size):
            trail.add(piece)
            read += len(piece)
            verdict = session.feed(piece)
            matches += len(verdict.matches)
            shadowed += len(verdict.shadowed)
            action = self._tell(verdict, trail, find, action)
            if verdict.text:
                shown += len(verdict.text)
                show(verdict.text)
            if verdict.action == "terminate":
                return Outcome(self._ended(verdict.matches), verdict.reason, matches, read, shown, shadowed)
        verdict = session.finish()
        matches += len(verdict.matches)
        shadowed += len(verdict.shadowed)
        action = self._tell(verdict, trail, find, action)
        if verdict.text:
            shown += len(verdict.text)
            show(verdict.text)
        if verdict.action == "terminate":
            action, reason = self._ended(verdict.matches), verdict.reason
        return Outcome(action, reason, matches, read, shown, shadowed)

    def _tell(self, verdict: Verdict, trail: Trail, find: Callable[[Finding], object], action: Action) -> Action:
        found = [(match, False) for match in verdict.matches] + [(match, True) for match in verdict.shadowed]
        for match, shadow in sorted(found, key=lambda one: (one[0].end, one[0].start)) if verdict.shadowed else found:
            rule = f"{match.policy}/{match.rule}"
            excerpt = trail.excerpt(match.start, min(match.end, match.start + _EXCERPT))
            places = trail.place(match.start), trail.place(match.end)
            find(Finding(rule, self._actions[rule], match.start, match.end, *places, excerpt, shadow))
            action = action if shadow else "redact"
        return action

    def _ended(self, matches: tuple[Match, ...]) -> Action:
        """What ended a text: the rule of the last match, or the limit on what may be held."""
        kinds = [self._actions[f"{match.policy}/{match.rule}"] for match in matches]
        return "block" if kinds and kinds[-1] == "block" else "terminate"


def _small(text: Iterable[str], size: int) -> Iterable[str]:
    """Pieces of at most this many code points, so that what is kept of the text holds the matches of the last one."""
    for piece in text:
        for at in range(0, len(piece), size):
            yield piece[at : at + size]
