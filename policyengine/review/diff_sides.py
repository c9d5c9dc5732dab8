"""A side of a comparison: a directory of policies, a bundle, or `git:REV[:path]`.

A revision is unpacked into a temporary folder with the path as it is in the repository, so that the project file beside
or above the policies counts as it did then. Nothing is fetched.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from policyengine.bundles import open_bundle
from policyengine.compiler.pipeline import compile_policies
from policyengine.language import load
from policyengine.language.project import FILE_NAME
from policyengine.review.diff import Side
from policyengine.runtime.bundle import ARRAYS, MANIFEST
from policyengine.runtime.program import Program

_GIT = "git:"
_NEEDED = (".yaml", ".yml", MANIFEST, ARRAYS)
# Where a policy names a list of phrases; the list may lie anywhere in the repository.
_LIST = re.compile(rb"""["']?phrases_from["']?[ \t]*:[ \t]*["']?([^"'\r\n#,}]*[^"'\r\n#,} \t])""")
_PATIENCE = 60  # seconds that git may take


class SideError(ValueError):
    """A side that cannot be read, in words for a person."""


def is_revision(name: str) -> bool:
    """Whether a side is a revision of a repository."""
    return name.startswith(_GIT)


def open_side(name: str, other: str, variables: Mapping[str, str]) -> Side:
    """Open a side. other: the other one, whose path is the default of a revision.

    Raises SideError, BundleError, or PolicyError where the policies are wrong.
    """
    if is_revision(name):
        return _revision(name, other, variables)
    if not name:
        raise SideError("an empty path names nothing")
    path = Path(name)
    program, bundled = _program(path, variables)
    folder = path if path.is_dir() else path.parent
    return Side(name, program, "" if bundled else folder.as_posix())


def _program(path: Path, variables: Mapping[str, str]) -> tuple[Program, bool]:
    """The program, and whether it comes from a bundle, whose policies lie elsewhere."""
    if path.is_dir():
        # A bundle, or the folder that a compile wrote with a bundle in it.
        found = [one.parent for one in (path / MANIFEST, *sorted(path.glob(f"*/{MANIFEST}"))) if one.is_file()]
        if len(found) == 1:
            return open_bundle(found[0]), True
        if len(found) > 1:
            raise SideError(f"{path}: holds several bundles; name one of them")
    return compile_policies(load(path, variables=variables)), False


def _revision(name: str, other: str, variables: Mapping[str, str]) -> Side:
    revision, _, inside = name.removeprefix(_GIT).partition(":")
    if not revision or revision.startswith("-"):
        raise SideError(f"{name}: write git:REVISION or git:REVISION:path")
    given = Path(other) if not is_revision(other) else Path()
    top = Path(_git(["rev-parse", "--show-toplevel"], _folder(given)).decode().rstrip("\n"))
    if not inside:
        if is_revision(other):
            inside = other.removeprefix(_GIT).partition(":")[2] or "."
        else:
            inside = _inside(given, top)
    clean = PurePosixPath(inside)
    if clean.is_absolute() or ".." in clean.parts:
        raise SideError(f"{name}: the path must lie inside the repository")
    commit = _git(["rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"], top, name)
    tree = _tree(commit.decode().strip(), top, name)
    path = str(clean)
    if path != "." and not any(one == path or one.startswith(f"{path}/") for one in tree):
        raise SideError(f"{name}: there is no `{path}` in that revision")
    with tempfile.TemporaryDirectory(prefix="policyengine-diff-") as temporary:
        _unpack(path, tree, top, Path(temporary))
        before = os.getcwd()
        os.chdir(temporary)  # so that files are called as they are in the repository
        try:
            program, bundled = _program(Path(clean), variables)
        finally:
            os.chdir(before)
    folder = path if path not in tree else str(clean.parent)
    return Side(name, program, "" if bundled else folder)


def _tree(commit: str, top: Path, name: str) -> dict[str, str]:
    """The files of a commit, with the names of their contents. A link to a file of the commit is that file."""
    rows = _git(["ls-tree", "-r", "-z", "--full-tree", commit], top, name).split(b"\0")
    found, links = {}, {}
    for row in filter(None, rows):
        head, _, path = row.partition(b"\t")
        mode, _, blob = head.decode().split(" ")
        if mode.startswith("100"):
            found[os.fsdecode(path)] = blob
        elif mode == "120000":
            links[os.fsdecode(path)] = blob
    for link, target in _contents(sorted(links), links, top).items():
        meant = os.path.normpath(os.path.join(os.path.dirname(link), os.fsdecode(target)))
        if meant in found:
            found[link] = found[meant]
    return found


def _unpack(path: str, tree: Mapping[str, str], top: Path, folder: Path) -> None:
    """Write what may be needed: YAML and bundles at or below the path, project files above, and lists they name."""
    above = {str(parent / FILE_NAME) for parent in PurePosixPath(path).parents}
    below = {one for one in tree if path in (".", one) or one.startswith(f"{path}/")}
    wanted = {one for one in below if one.endswith(_NEEDED)} | (above & tree.keys()) | ({path} & tree.keys())
    contents = _contents(sorted(wanted), tree, top)
    lists = {
        os.path.normpath(os.path.join(os.path.dirname(one), os.fsdecode(match[1])))
        for one, data in contents.items()
        for match in _LIST.finditer(data)
    }
    contents |= _contents(sorted((lists & tree.keys()) - wanted), tree, top)
    for one, data in contents.items():
        target = folder / one
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    if path not in tree:
        (folder / path).mkdir(parents=True, exist_ok=True)


def _contents(names: Sequence[str], tree: Mapping[str, str], top: Path) -> dict[str, bytes]:
    data = _git(["cat-file", "--batch"], top, given="".join(f"{tree[one]}\n" for one in names).encode())
    found, at = {}, 0
    for one in names:
        end = data.index(b"\n", at)
        said = data[at:end].split(b" ")
        if len(said) != 3:
            raise SideError(f"{one}: its content is not in this clone, and nothing is fetched")
        size = int(said[2])
        found[one] = data[end + 1 : end + 1 + size]
        at = end + 2 + size
    return found


def _inside(path: Path, top: Path) -> str:
    real = Path(os.path.realpath(path))
    try:
        return real.relative_to(os.path.realpath(top)).as_posix()
    except ValueError:
        raise SideError(f"{path}: is not inside the repository {top}; write git:REVISION:path") from None


def _folder(path: Path) -> Path:
    """The nearest folder at or above a path, where git is asked."""
    here = Path(os.path.abspath(path))
    return next((one for one in (here, *here.parents) if one.is_dir()), Path.cwd())


def _git(arguments: Sequence[str], folder: Path, name: str = "", given: bytes = b"") -> bytes:
    settings = {**os.environ, "LC_ALL": "C", "GIT_NO_LAZY_FETCH": "1"}
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, input=given, capture_output=True, timeout=_PATIENCE, env=settings
        )
    except FileNotFoundError:
        raise SideError("git is not installed") from None
    except subprocess.TimeoutExpired:
        raise SideError(f"git {arguments[0]} took too long") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        if arguments[0] == "rev-parse" and "--verify" in arguments:
            raise SideError(f"{name}: there is no such revision")
        raise SideError(f"{name or 'git'}: {said[-1] if said else 'git failed'}")
    return done.stdout


__all__ = ["SideError", "is_revision", "open_side"]
