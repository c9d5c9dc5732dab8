"""Which files are policies, what they are called, and which project file is theirs.

A directory means every `*.yaml` and `*.yml` below it except `*.test.yaml`, `policyengine.yaml`, hidden files and
folders, and what a compile wrote there. A file is reported as the path that was given joined with what lies below it,
and ordered by the latter, so that the order depends neither on the file system nor on where the policies lie.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from policyengine.language import limits
from policyengine.language.diagnostics import Label, visible
from policyengine.language.project import FILE_NAME
from policyengine.language.source import Report, top

StrPath = str | os.PathLike[str]

_ENDINGS = (".yaml", ".yml")
TEST_ENDING = ".test.yaml"


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A policy file: where it is, what people call it, and its name below the path that was given."""

    path: Path
    name: str
    relative: str

    @property
    def order(self) -> tuple[str, str]:
        """The key that policies are ordered by."""
        return self.relative, self.name


def find(paths: Sequence[StrPath], report: Report) -> list[PolicyFile]:
    """The policy files of these paths, each once, in order."""
    found: dict[Path, PolicyFile] = {}
    for given in paths:
        if not os.fspath(given):  # an unset variable of a shell, which must not mean the working directory
            report.add("unreadable-file", "an empty path names nothing", top(""))
            continue
        for file in _below(Path(given), report):
            found.setdefault(Path(os.path.realpath(file.path)), file)
            if len(found) > limits.FILES.default:
                message = f"more than {limits.FILES.default:,} {limits.FILES.unit}"
                report.add("over-limit", message, top(shown(Path(given))), hint=limits.FILES.reason)
                return []
    return sorted(found.values(), key=lambda file: file.order)


def _below(given: Path, report: Report) -> Iterator[PolicyFile]:
    try:
        is_directory = given.is_dir()
        there = is_directory or os.path.lexists(given)
    except (OSError, ValueError):
        is_directory = there = False
    if is_directory:
        for path in _walk(given, report):
            yield PolicyFile(path, shown(path), shown(path.relative_to(given)))
    elif not there:
        report.add("unreadable-file", f"`{shown(given)}` does not exist", top(shown(given)))
    elif given.name == FILE_NAME or given.name.endswith(TEST_ENDING):
        what = "a project file" if given.name == FILE_NAME else "a test file"
        hint = "name the policies, or the directory that holds them"
        report.add("unreadable-file", f"`{shown(given)}` is {what}, not a policy", top(shown(given)), hint=hint)
    else:
        yield PolicyFile(given, shown(given), shown(Path(given.name)))


def tests_in(folders: Iterable[Path]) -> Iterator[Path]:
    """The test files in these folders themselves (not in folders inside them), each once, in order."""
    seen: set[str] = set()
    for folder in folders:
        try:
            names = sorted(name for name in os.listdir(folder) if name.endswith(TEST_ENDING) and name[0] != ".")
        except OSError:
            continue
        for path in (folder / name for name in names):
            real = os.path.realpath(path)
            if real not in seen:
                seen.add(real)
                yield path


def _walk(root: Path, report: Report) -> Iterator[Path]:
    def failed(error: OSError) -> None:
        name = shown(Path(error.filename)) if isinstance(error.filename, str) else shown(root)
        report.add("unreadable-file", f"cannot read `{name}`: {(error.strerror or str(error)).lower()}", top(name))

    for folder, folders, files in os.walk(root, onerror=failed):
        if any(name.endswith(".dist-info") for name in folders):  # a build: its YAML is for engines
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            other = name.startswith(".") or name.endswith(TEST_ENDING) or name == FILE_NAME
            if name.endswith(_ENDINGS) and not other:
                yield Path(folder, name)


def shown(path: PurePath) -> str:
    """A path as people see it: posix, and fit to print whatever bytes its name holds."""
    return visible(os.fsencode(path.as_posix()).decode("utf-8", errors="replace"))


def project_file(files: Iterable[PolicyFile], report: Report) -> PolicyFile | None:
    """The project file of the policies: for each the nearest one beside it or above, and it must be one for all."""
    cache: dict[Path, Path | None] = {}
    of: dict[Path | None, PolicyFile] = {}
    for file in files:
        of.setdefault(_nearest(Path(os.path.abspath(file.path)).parent, cache), file)
    if len(of) > 1:
        _conflict(of, report)
        return None
    path = next(iter(of), None)
    return PolicyFile(path, _project_name(path, next(iter(of.values()))), FILE_NAME) if path else None


def _nearest(folder: Path, cache: dict[Path, Path | None]) -> Path | None:
    if folder not in cache:
        path = folder / FILE_NAME
        if os.path.lexists(path):
            cache[folder] = path
        else:
            cache[folder] = _nearest(folder.parent, cache) if folder.parent != folder else None
    return cache[folder]


def _project_name(path: Path, policy: PolicyFile) -> str:
    """The project file as people see it: relative where the policies were given so."""
    return shown(path) if policy.path.is_absolute() else shown(Path(os.path.relpath(path)))


def _conflict(of: dict[Path | None, PolicyFile], report: Report) -> None:
    (first, first_policy), (second, second_policy) = list(of.items())[:2]
    names = [_project_name(path, policy) if path else None for path, policy in of.items()][:2]
    where = top(names[1] or names[0] or "")
    if first and second:
        message = f"`{second_policy.name}` belongs to this project file, and `{first_policy.name}` to `{names[0]}`"
    else:
        inside, outside = (first_policy, second_policy) if first else (second_policy, first_policy)
        message = f"this project file applies to `{inside.name}`, and not to `{outside.name}`"
    hint = "load them separately, or keep one project file above them all"
    labels = [Label(top(names[0]), "the other one")] if names[0] and names[1] else []
    report.add("project-conflict", message, where, hint=hint, labels=labels)
