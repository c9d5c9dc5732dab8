"""The results of a scan, written as they become certain: for people, or as JSON, one object on a line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, TextIO

from policyengine.language.diagnostics import quoted, visible
from policyengine.review.scan import Finding, Outcome, Scanner

_SHOWN = 2_000  # code points up to which a text is shown whole
_LINE = 100  # and the text of a JSON line
_NAMED = 3  # findings that a line names
_LISTED = 1_000  # findings that a JSON result lists


def for_people(label: str, scanner: Scanner, text: Iterable[str], out: TextIO, sink: TextIO | None) -> Outcome:
    """Write a line for each finding and a summary. What a client sees goes to `sink`; None: to `out` if it is short."""
    head: list[str] = []
    kept = 0

    def show(piece: str) -> None:
        nonlocal kept
        if sink is not None:
            sink.write(piece)
        elif kept <= _SHOWN:
            head.append(piece)
            kept += len(piece)

    def find(one: Finding) -> None:
        did = f"shadow, {one.action}" if one.shadow else one.action
        out.write(f"{label}:{one.first}: {did} by {one.rule}: {quoted(one.text)}\n")

    outcome = scanner.scan(text, show=show, find=find)
    out.write(_summary(outcome) + "\n")
    if sink is None and outcome.shown > _SHOWN:
        out.write("\n`--output FILE` writes what a client sees\n")
    elif sink is None:
        out.write(f"\na client sees:\n{''.join(head)}\n" if outcome.shown else "\na client sees nothing\n")
    return outcome


def _summary(outcome: Outcome) -> str:
    matches = f"{outcome.matches:,} {'match' if outcome.matches == 1 else 'matches'}"
    reason = f" ({outcome.reason})" if outcome.reason else ""
    if outcome.shadowed:
        matches += f", and {outcome.shadowed:,} in shadow, which changed nothing"
    return f"{outcome.action}{reason}: {matches}; {outcome.read:,} characters read, {outcome.shown:,} shown"


def one_line(label: str, scanner: Scanner, text: str, out: TextIO) -> Outcome:
    """Write a text's result on one line: the verdict, who decided, and what a client sees where it is not the same."""
    why: list[str] = []
    shown: list[str] = []
    watched: list[str] = []

    def find(one: Finding) -> None:
        (watched if one.shadow else why).append(f"{one.rule} at {one.first}")

    outcome = scanner.scan([text], show=shown.append, find=find)
    by = (f" by {_some(why)}" if why else "") + (f" (in shadow: {_some(watched)})" if watched else "")
    seen = visible("".join(shown))
    seen = seen if len(seen) <= _LINE else seen[: _LINE - 1] + "…"
    out.write(f"{label}: {outcome.action}{by}" + (f": {seen}\n" if outcome.action != "pass" else "\n"))
    return outcome


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def as_json(head: dict[str, Any], scanner: Scanner, text: Iterable[str], out: TextIO, sink: TextIO | None) -> Outcome:
    """Write one object: `head`, then `output` (as it leaves, so that it may be long; with a sink it goes there), then
    `verdict`, `reason`, `matches` and, of rules in shadow, `shadow_matches`."""
    found: list[dict[str, Any]] = []
    watched: list[dict[str, Any]] = []

    def show(piece: str) -> None:
        if sink is not None:
            sink.write(piece)
        else:
            out.write(_json(piece)[1:-1])

    def find(one: Finding) -> None:
        listed = watched if one.shadow else found
        if len(listed) < _LISTED:
            place = {"start": one.start, "end": one.end, "line": one.first.line, "column": one.first.column}
            listed.append({"rule": one.rule, "action": one.action, **place, "text": one.text})

    out.write(_json(head)[:-1] + (', "output": "' if sink is None else ""))
    outcome = scanner.scan(text, show=show, find=find)
    out.write('"' if sink is None else "")
    rest: dict[str, Any] = {"verdict": outcome.action, "reason": outcome.reason, "matches": found}
    if outcome.matches > len(found):
        rest["matches_left_out"] = outcome.matches - len(found)
    if watched:
        rest["shadow_matches"] = watched
        if outcome.shadowed > len(watched):
            rest["shadow_matches_left_out"] = outcome.shadowed - len(watched)
    out.write(f", {_json(rest)[1:]}\n")
    return outcome


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
