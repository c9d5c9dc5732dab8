"""`--fix`: what findings offer is spliced into the files, and nothing else in them moves.

Fixes of one round do not overlap; what is left is found again and mended in the next. A file is replaced whole or not
at all. One that a round leaves with a mistake which it had not before is put back, and its fixes are left out.
"""

from __future__ import annotations

import os
import tempfile
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from policyengine.language.diagnostics import Diagnostic
from policyengine.language.policyset import Span
from policyengine.lint.model import Edit, Fix
from policyengine.lint.run import Result

_ROUNDS = 20  # each mends something; what is left after so many only goes round in circles
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Done:
    """One fix that was made. `span`: where the finding was, in the file as it was in its round."""

    code: str
    name: str
    span: Span
    done: str


@dataclass(frozen=True, slots=True)
class Mended:
    """result: of the last check. done: what was done. failed: why files were left alone, which could not be written."""

    result: Result
    done: list[Done]
    failed: list[str]


class ChangedError(Exception):
    """A file is not what was checked, or cannot be written."""


def fix_all(check: Callable[[], Result], *, unsafe: bool) -> Mended:
    """Mend what can be mended.

    check: looks at the files anew. unsafe: whether also fixes that change what is caught. A file that changed in
    between or cannot be written is left alone; the others are mended all the same.
    """
    done: list[Done] = []
    failed: list[str] = []
    left_out: set[tuple[str, str]] = set()  # name of the finding, file: a fix that did harm, or cannot be written
    result = check()
    for _ in range(_ROUNDS):
        chosen = _chosen(result, unsafe, left_out)
        if not chosen:
            break
        before: dict[str, bytes] = {}
        for file, edits in _by_file(chosen).items():
            try:
                before[file] = _apply(file, edits, result.sources[file])
            except ChangedError as error:
                failed.append(str(error))
        after = check()
        harmed = {one.span.file for one in after.refused} - {one.span.file for one in result.refused}
        elsewhere = harmed - set(before)
        for file in before if elsewhere else harmed & set(before):
            try:
                _write(file, before[file])
            except ChangedError as error:
                failed.append(f"{error}; a fix of it did harm and could not be taken back")
        if elsewhere:
            return Mended(check(), done, failed)
        for one, fix in chosen:
            file = fix.edits[0].file
            if file in before and file not in harmed:
                done.append(Done(one.code, one.name, one.span, fix.done))
            else:
                left_out.add((one.name, file))
        result = check() if harmed else after
    return Mended(result, done, failed)


def _chosen(result: Result, unsafe: bool, left_out: set[tuple[str, str]]) -> list[tuple[Diagnostic, Fix]]:
    """Fixes that do not overlap, the first findings first."""
    chosen: list[tuple[Diagnostic, Fix]] = []
    taken: dict[str, list[tuple[int, int]]] = {}  # ascending
    for one in result.found:
        fix = result.fixes.get(one)
        if fix is None or not (fix.safe or unsafe):
            continue
        if any((one.name, edit.file) in left_out or _overlaps(edit, taken.get(edit.file, [])) for edit in fix.edits):
            continue
        chosen.append((one, fix))
        for edit in fix.edits:
            insort(taken.setdefault(edit.file, []), (edit.start, edit.end))
    return chosen


def _overlaps(edit: Edit, taken: list[tuple[int, int]]) -> bool:
    """Whether it touches one of these places, which do not touch each other; what only meets at a border counts too."""
    place = bisect_right(taken, (edit.start, edit.end))
    around = taken[max(0, place - 1) : place + 1]
    return any(edit.start <= end and start <= edit.end for start, end in around)


def _by_file(chosen: Iterable[tuple[Diagnostic, Fix]]) -> dict[str, list[Edit]]:
    files: dict[str, list[Edit]] = {}
    for _, fix in chosen:
        for edit in fix.edits:
            files.setdefault(edit.file, []).append(edit)
    return files


def _apply(file: str, edits: Iterable[Edit], text: str) -> bytes:
    """Splice edits into a file; what it held before."""
    try:
        before = Path(file).read_bytes()
    except OSError as error:
        raise ChangedError(f"cannot read `{file}`: {error.strerror}") from None
    mark = _BOM if before.startswith(_BOM) else b""
    if before[len(mark) :] != text.encode():
        raise ChangedError(f"`{file}` changed while it was checked: nothing was fixed in it")
    for edit in sorted(edits, key=lambda one: one.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    _write(file, mark + text.encode())
    return before


def _write(file: str, data: bytes) -> None:
    """Put a file in place whole, with its mode; a link stays a link."""
    path = Path(os.path.realpath(file))
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        os.chmod(temporary, path.stat().st_mode & 0o7777)
        os.replace(temporary, path)
    except OSError as error:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)
        raise ChangedError(f"cannot write `{file}`: {error.strerror}") from None
