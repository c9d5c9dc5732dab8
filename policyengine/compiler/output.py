"""The output folder: what is in it, and replacing it as a whole without ever losing what is not ours."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Set
from pathlib import Path, PurePosixPath

from policyengine.compiler.artifacts import CONFIGS, REPORT, Tree

# Seconds until a folder that a compile made for itself counts as left behind: it is in use for a few at most.
_LEFT_BEHIND = 3600


class OutputError(Exception):
    """The folder cannot be written; the text says why."""


def differences(tree: Tree, directory: Path) -> list[str]:
    """Paths, sorted, in which a folder differs from what would be written: missing, other content, or not of it."""
    folders = set(_parents(tree)) | set(_parents(_recorded(directory)))
    present = {path for path in _entries(directory, folders) if not _is_cache(path)}
    changed = {path for path, content in tree.items() if path not in present or _read(directory / path) != content}
    return sorted(changed | (present - set(tree)))


def write(tree: Tree, directory: Path) -> None:
    """Make the folder hold exactly this build.

    The files are written and flushed to a new folder beside it, which then takes its name: an interruption leaves the
    old build as it was. (A process killed between the two renames at the end leaves it under a name that ends in
    `.old`, which the next compile replaces.) An older build is replaced whole. Raises `OutputError` if the folder holds
    anything that no build wrote, is reached through a link to nothing, or cannot be written.
    """
    _refuse_link_to_nothing(directory)
    target = directory.resolve()
    foreign = _foreign(target)
    if foreign:
        more = f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""
        raise OutputError(
            f"{directory} holds `{foreign[0]}`{more}, which policyengine did not write; choose another folder, or move "
            "it away"
        )
    # With no build in place, one that was moved aside is of no more use once the new one is there.
    replaced = [] if target.exists() else [path for path in _leftovers(target) if path.suffix == ".old"]
    mark = uuid.uuid4().hex[:12]
    fresh, old = (target.with_name(f".{target.name}.{mark}.{state}") for state in ("new", "old"))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            _write_files(tree, fresh)
            _swap(fresh, target, old)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError as error:
        raise OutputError(f"{directory} cannot be written: {error.strerror or error}") from error
    for path in (old, *replaced):
        shutil.rmtree(path, ignore_errors=True)


def clean(directory: Path) -> None:
    """Remove what compiles to this folder left beside it when they were killed, once it is old enough not to be in use.

    Nothing is raised: what cannot be removed stays.
    """
    with contextlib.suppress(OSError):
        for path in _leftovers(directory.resolve()):
            made = path.stat()
            if time.time() - max(made.st_mtime, made.st_ctime) > _LEFT_BEHIND:  # a rename counts: it sets only ctime
                shutil.rmtree(path, ignore_errors=True)


def _leftovers(target: Path) -> list[Path]:
    """The folders beside this one with the names that `write` gives; none where they cannot be listed."""
    ours = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{12}}\.(new|old)")
    try:
        with os.scandir(target.parent) as beside:
            return [Path(one) for one in beside if ours.fullmatch(one.name) and one.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _refuse_link_to_nothing(directory: Path) -> None:
    """Following such a link would make a folder somewhere that nobody named."""
    for path in (directory, *directory.parents):
        if path.is_symlink() and not path.exists():
            raise OutputError(f"{path} is a link to nothing: remove it, or make the folder it leads to")


def _swap(fresh: Path, target: Path, old: Path) -> None:
    if not target.exists():
        fresh.rename(target)
        return
    shutil.copymode(target, fresh)
    try:
        target.rename(old)
        fresh.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        raise


def _write_files(tree: Tree, folder: Path) -> None:
    folder.mkdir()
    for path, content in tree.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    with contextlib.suppress(OSError):  # not every system lets a folder be flushed
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _foreign(target: Path) -> list[str]:
    """Paths below a folder that none of our builds can have written, sorted."""
    if target.exists() and not target.is_dir():
        return [target.name]
    ours = _recorded(target)
    found = _entries(target, set(_parents(ours)))
    return sorted(path for path in found if path not in ours and not _is_cache(path))


def _recorded(target: Path) -> set[str]:
    """The files of the build that lies in a folder, by its own RECORD; empty where there is none."""
    ours: set[str] = set()
    for listing in target.glob("*.dist-info/RECORD"):
        distribution = listing.parent.name.removesuffix(".dist-info")
        package, _, version = distribution.rpartition("-")
        paths = {line.rsplit(",", 2)[0] for line in _read(listing).decode("utf-8", "replace").splitlines()}
        if f"{package}/manifest.json" in paths and version.startswith("0+"):
            ours |= paths
            ours |= {REPORT, f"dist/{distribution}-py3-none-any.whl", *(name for name, _ in CONFIGS.values())}
    return ours


def _parents(paths: Iterable[str]) -> Iterator[str]:
    """The folders that hold these files, and where Python keeps what it made of their modules."""
    for path in paths:
        for parent in PurePosixPath(path).parents:
            yield str(parent)
            yield str(parent / "__pycache__")


def _is_cache(path: str) -> bool:
    """What Python writes when modules of a build are imported from where they lie."""
    parts = PurePosixPath(path).parts
    return len(parts) == 3 and parts[1] == "__pycache__" and parts[2].endswith(".pyc")


def _entries(directory: Path, known: Set[str]) -> Iterator[str]:
    """Posix paths of the files and links below a folder, and of folders that are not known, which are not entered."""
    for here, names, files in os.walk(directory):
        base = Path(here).relative_to(directory)
        for name in files:
            yield (base / name).as_posix()
        entered = []
        for name in names:
            path = (base / name).as_posix()
            if path in known and not (directory / path).is_symlink():
                entered.append(name)
            else:
                yield f"{path}/"
        names[:] = entered


def _read(path: Path) -> bytes:
    return b"" if path.is_symlink() else path.read_bytes()
