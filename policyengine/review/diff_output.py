"""A comparison as text, Markdown, JSON or annotations of GitHub. What is worst comes first in all of them."""

from __future__ import annotations

import json
import textwrap
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from policyengine.automata.unicode_data import is_invisible
from policyengine.language.diagnostics import visible
from policyengine.lint.formats.markdown import cell, code
from policyengine.review.diff_corpus import Replay, Seen
from policyengine.review.diff_model import CHANGES, Change, Comparison, Detail, Difference, Example

_WIDTH = 80
_OPEN = 5  # rules of Markdown that are not folded
_FOLDED = 100  # and those that are; a comment of GitHub has 65,536 characters
_WITNESS = 60  # code points of a text that are shown to people
_WORDS: dict[Change, str] = {"weaker": "weaker", "both": "changed", "stronger": "stronger", "same": "the same"}
_SIGNS: dict[Change, str] = {"weaker": "🔓", "both": "⚠️", "stronger": "🔒", "same": ""}


def headline(found: Comparison) -> str:
    """The counts, worst first."""
    counts = [(change, found.count(change)) for change in CHANGES]
    return ", ".join(f"{count:,} {_WORDS[change]}" for change, count in counts if count) or "no rules on either side"


def text(found: Comparison, replay: Replay | None) -> str:
    """For a terminal."""
    lines = [line for one in found.ranked() if _is_shown(one) for line in _block(one)]
    lines.append(f"{headline(found)} ({found.base} → {found.head})")
    if found.edited:
        lines += _wrapped(f"edited, and changes nothing: {'; '.join(found.edited)}", "", "  ")
    if replay is not None:
        lines += ["", *_replay_lines(replay)]
    return "\n".join(lines) + "\n"


def _is_shown(one: Difference) -> bool:
    return one.change != "same" or one.was is not None


def _block(one: Difference) -> Iterator[str]:
    what = f"{one.what} " if one.what == "policy" else ""
    place = one.head or one.base
    word = "renamed" if one.change == "same" else _WORDS[one.change]
    yield f"{word}: {what}{one.name}" + (f" ({place})" if place else "")
    if one.was is not None:
        yield f"  was {one.was}; does the same, under a new name in reasons and counters"
    for detail in one.details:
        yield from _wrapped(_sentence(detail), "  ", "    ")
        if detail.example is not None and detail.example.elsewhere:
            yield from _wrapped(_elsewhere(detail, detail.example), "    ", "    ")
    for direction in one.unproven:
        yield from _wrapped(_unproven(direction), "  ", "    ")
    for note in one.notes:
        yield from _wrapped(f"({note})", "  ", "    ")
    yield ""


def _sentence(detail: Detail) -> str:
    if detail.example is None:
        return detail.text
    joint = {"added": "; it catches ", "removed": "; it caught "}.get(detail.kind, ": ")
    return f"{detail.text}{joint}{witness(detail.example.text)}"


def _elsewhere(detail: Detail, example: Example) -> str:
    names = ", ".join(example.elsewhere[:3]) + (" and others" if len(example.elsewhere) > 3 else "")
    verb = "still caught by" if detail.direction == "weaker" else "was caught before by"
    return f"{verb} {names}"


def _unproven(direction: str) -> str:
    return f"whether it is also {direction} was not decided: the search reached its limit"


def _wrapped(line: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        line,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )


def witness(of: str) -> str:
    """A text in backticks, to the character: marks that would sit on others, and what does not show, as escapes."""
    cut = of if len(of) <= _WITNESS else of[: _WITNESS - 1] + "…"
    plain = "".join(f"\\u{ord(ch):04x}" if _would_not_show(ch) else ch for ch in cut)
    return f"`{visible(plain)}`"


def _would_not_show(ch: str) -> bool:
    """Whether it is a mark, or one of the letters that take no place (U+115F, U+3164), by itself."""
    return unicodedata.category(ch).startswith("M") or (ch.isprintable() and is_invisible(ord(ch)))


def _replay_lines(replay: Replay) -> Iterator[str]:
    yield f"{replay.changed:,} of {replay.answers:,} answers would have been another"
    for name, tally in sorted(replay.rules.items()):
        counts = [f"{n:,} {word}" for n, word in ((tally.no_longer, "no longer"), (tally.newly, "newly")) if n]
        yield f"  {name}: {', '.join(counts)}"
        yield from (f"    {_seen(one)}" for one in tally.examples)
    if replay.examples:
        yield "  the same rules, another result:"
        yield from (f"    {_seen(one)}" for one in replay.examples)


def _seen(one: Seen) -> str:
    return f"line {one.line}: {witness(one.text)} ({one.base} → {one.head})"


# -- Markdown ------------------------------------------------------------------------------------------------------


def markdown(found: Comparison, replay: Replay | None) -> str:
    """For a pull request: a table, the worst five rows of it open."""
    shown = [list(_rows(one)) for one in found.ranked() if _is_shown(one)]
    parts = [f"### Policy change: {headline(found)}"]
    if shown:
        parts.append(_table([row for rows in shown[:_OPEN] for row in rows]))
    if shown[_OPEN:]:
        table = _table([row for rows in shown[_OPEN : _OPEN + _FOLDED] for row in rows])
        left = len(shown) - _OPEN - _FOLDED
        parts.append(_folded(f"{len(shown) - _OPEN:,} more", table + (f"\n\nand {left:,} more" if left > 0 else "")))
    same = [one.name for one in found.differences if one.change == "same" and one.was is None]
    if same:
        count = f"{len(same):,} {'rule' if len(same) == 1 else 'rules'}"
        verb = "does" if len(same) == 1 else "do"
        names = ", ".join(f"`{name}`" for name in same[:_FOLDED]) + (" and others" if len(same) > _FOLDED else "")
        parts.append(_folded(f"{count} that {verb} the same, proven", names))
    if found.edited:
        parts.append(_folded("Edited, and changes nothing", "\n".join(f"- {cell(one)}" for one in found.edited)))
    if replay is not None:
        parts.append(_corpus(replay))
    parts.append(f"<sub>{cell(found.base)} → {cell(found.head)}</sub>")
    return "\n\n".join(parts) + "\n"


def _rows(one: Difference) -> Iterator[tuple[str, str, str, str]]:
    place = one.head or one.base
    name = f"`{one.name}`" + (f"<br>{cell(str(place))}" if place else "")
    first = f"{_SIGNS[one.change]} {_WORDS[one.change]}" if one.change != "same" else "renamed"
    cells: list[tuple[str, str]] = []
    if one.was is not None:
        cells.append((f"was `{one.was}`; does the same", ""))
    for detail in one.details:
        said = cell(detail.text)
        example = detail.example
        if example is not None and example.elsewhere:
            said += f"<br>{cell(_elsewhere(detail, example))}"
        cells.append((said, _code(example.text) if example is not None else ""))
    cells += [(_unproven(direction), "") for direction in one.unproven]
    if one.notes:
        said, shown = cells[-1]
        cells[-1] = f"{said}<br><sub>{cell('; '.join(one.notes))}</sub>", shown
    for at, (said, shown) in enumerate(cells):
        yield (first, name, said, shown) if at == 0 else ("", "", said, shown)


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    head = ["| | rule | what changed | shortest text |", "|---|---|---|---|"]
    return "\n".join([*head, *(f"| {' | '.join(row)} |" for row in rows)])


def _folded(summary: str, body: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def _code(of: str) -> str:
    return cell(code(witness(of)[1:-1]))


def _corpus(replay: Replay) -> str:
    said = f"**Real answers:** {replay.changed:,} of {replay.answers:,} would have been another."
    if not replay.changed:
        return said
    rows = [
        f"| `{name}` | {tally.no_longer:,} | {tally.newly:,} | {'<br>'.join(_example(one) for one in tally.examples)} |"
        for name, tally in sorted(replay.rules.items())
    ]
    if replay.examples:
        rows.append(f"| the same rules, another result | | | {'<br>'.join(map(_example, replay.examples))} |")
    return "\n".join([said, "", "| rule | no longer | newly | for one |", "|---|---|---|---|", *rows])


def _example(one: Seen) -> str:
    return f"line {one.line}: {_code(one.text)} ({one.base} → {one.head})"


# -- for machines --------------------------------------------------------------------------------------------------


def as_json(found: Comparison, replay: Replay | None) -> str:
    """One object; `version` grows when a key changes its meaning."""
    result: dict[str, Any] = {
        "version": 1,
        "base": found.base,
        "head": found.head,
        "summary": {change: found.count(change) for change in CHANGES},
        "differences": [_object(one) for one in found.ranked()],
        "edited": list(found.edited),
    }
    if replay is not None:
        result["corpus"] = asdict(replay)
    return json.dumps(result, ensure_ascii=False, indent=2) + "\n"


def _object(one: Difference) -> dict[str, Any]:
    return {
        "name": one.name,
        "what": one.what,
        "change": one.change,
        "was": one.was,
        "base": asdict(one.base) if one.base else None,
        "head": asdict(one.head) if one.head else None,
        "details": [asdict(detail) for detail in one.details],
        "unproven": list(one.unproven),
        "notes": list(one.notes),
    }


def github(found: Comparison, replay: Replay | None) -> str:
    """Annotations: a warning where something is or may be weaker, else a notice."""
    lines = []
    for one in found.ranked():
        if not _is_shown(one):
            continue
        level = "warning" if one.may_be_weaker else "notice"
        word = "renamed" if one.change == "same" else _WORDS[one.change]
        where = f"file={_property(one.head.file)},line={max(one.head.line, 1)}," if one.head else ""
        said = [_sentence(detail) for detail in one.details] + [_unproven(direction) for direction in one.unproven]
        if one.was is not None:
            said.append(f"was {one.was}")
        title = _property(f"policy {word}")
        lines.append(f"::{level} {where}title={title}::{_message(f'{one.name}: ' + '; '.join(said))}")
    lines.append(f"::notice title=policy diff::{_message(headline(found))}")
    if replay is not None:
        count = f"{replay.changed:,} of {replay.answers:,} answers would have been another"
        lines.append(f"::notice title=policy diff, real answers::{_message(count)}")
    return "\n".join(lines) + "\n"


def _message(said: str) -> str:
    return said.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(said: str) -> str:
    return _message(said).replace(":", "%3A").replace(",", "%2C")


FORMATS: dict[str, Callable[[Comparison, Replay | None], str]] = {
    "text": text,
    "markdown": markdown,
    "json": as_json,
    "github": github,
}

__all__ = ["FORMATS", "as_json", "github", "headline", "markdown", "text", "witness"]
