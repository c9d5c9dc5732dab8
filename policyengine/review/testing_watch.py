"""Running something again when files change, which are looked at now and then: no dependency, any file system."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence

from policyengine.language.files import StrPath

INTERVAL = 0.5  # seconds between two looks

_ENDINGS = (".yaml", ".yml")

State = dict[str, tuple[int, int] | None]  # a path: when it was written (ns) and its size; None: it is not there


def look(roots: Sequence[StrPath], files: Iterable[str]) -> State:
    """The state of these files, and of all YAML below the roots, so that a new file is noticed."""
    found: State = {}
    for root in roots:
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            found.update(
                (path, _state(path)) for name in names if (path := os.path.join(folder, name)).endswith(_ENDINGS)
            )
    found.update((path, _state(path)) for path in map(str, (*roots, *files)) if not os.path.isdir(path))
    return found


def _state(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size


def watch(
    once: Callable[[], tuple[int, Iterable[str]]],
    roots: Sequence[StrPath],
    *,
    wait: Callable[[], None] = lambda: time.sleep(INTERVAL),
) -> int:
    """Call `once`, then again after each change, until Ctrl-C; the last code.

    once: gives a code, and the files that it read. wait: called between two looks.
    """
    files: set[str] = set()
    code = 0
    try:
        while True:
            before = look(roots, files)
            code, read = once()
            files = set(read)
            # What was read for the first time counts from now on; all else from before it was read.
            before = {**look(roots, files), **{path: before[path] for path in before if path in files}}
            while look(roots, files) == before:
                wait()
    except KeyboardInterrupt:
        return code
