"""The first files of a repository of policies, written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path

from policyengine.language.schema import files as schemas

# Where each file of `first_files` goes.
_PLACES = {
    "policyengine.yaml": "policyengine.yaml",
    "unreleased-names.yaml": "policies/unreleased-names.yaml",
    "unreleased-names.test.yaml": "policies/unreleased-names.test.yaml",
    "pre-commit.yaml": ".pre-commit-config.yaml",
    "workflow.yml": ".github/workflows/policies.yml",
}


def first_files(version: str) -> dict[str, str]:
    """Text by path below the folder, in order. version: of this package, which hooks and workflow install."""
    given = files("policyengine.review") / "first_files"
    found = {
        place: (given / name).read_text(encoding="utf-8").replace("@VERSION@", version)
        for name, place in _PLACES.items()
    }
    found |= {f"schemas/{name}": text for name, text in schemas().items()}
    return dict(sorted(found.items()))


def in_the_way(folder: Path, wanted: Mapping[str, str]) -> list[str]:
    """What exists of these files, and files where they need a folder; paths below the folder, in order."""
    found: set[str] = set()
    for place in wanted:
        path = Path(place)
        if os.path.lexists(folder / path):
            found.add(place)
        found.update(
            parent.as_posix()
            for parent in path.parents
            if os.path.lexists(folder / parent) and not (folder / parent).is_dir()
        )
    return sorted(found)


def write(folder: Path, wanted: Mapping[str, str]) -> None:
    """Write files that do not exist below a folder that may not exist either.

    Raises OSError, FileExistsError for a file that has come into being meanwhile among them, with nothing left behind.
    """
    made: list[Path] = []
    try:
        _make_folder(folder.parent, made)
        with _staging(folder if folder.is_dir() else folder.parent) as staging:
            for place, text in wanted.items():
                path = staging / "new" / place
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text.encode())
            if not os.path.lexists(folder):
                (staging / "new").rename(folder)
                return
            for place in wanted:
                _make_folder((folder / place).parent, made)
                _move(staging / "new" / place, folder / place, made)
    except BaseException:
        for path in reversed(made):
            with contextlib.suppress(OSError):
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        raise


@contextlib.contextmanager
def _staging(beside: Path) -> Iterator[Path]:
    """A folder on the same file system, gone afterwards."""
    path = Path(tempfile.mkdtemp(prefix=".policyengine-", dir=beside))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _make_folder(folder: Path, made: list[Path]) -> None:
    """Make a folder and those above it that are missing."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for path in reversed(missing):
        path.mkdir()
        made.append(path)


def _move(source: Path, target: Path, made: list[Path]) -> None:
    """Move a file to where there is none. Raises FileExistsError where there is one."""
    try:
        os.link(source, target)  # unlike a rename, this replaces nothing
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        with target.open("xb") as stream:
            made.append(target)
            stream.write(source.read_bytes())
        return
    made.append(target)


__all__ = ["first_files", "in_the_way", "write"]
