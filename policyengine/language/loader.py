"""Paths in, a `PolicySet` out, or a `PolicyError` with everything that is wrong."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from policyengine.language import checks, files, nodes, variables
from policyengine.language.diagnostics import NoPoliciesFound, PolicyError, diagnostic
from policyengine.language.files import PolicyFile, StrPath
from policyengine.language.nodes import compose
from policyengine.language.phrase_lists import PhraseLists
from policyengine.language.policy import read_policy
from policyengine.language.policyset import Policy, PolicySet, Project
from policyengine.language.project import read_project
from policyengine.language.reading import Reading
from policyengine.language.source import Report, read, top
from policyengine.language.variables import Variables


@dataclass(frozen=True, slots=True)
class Loaded:
    """Everything that some paths gave, and what is wrong with it.

    Attributes:
        policies: what could be read, in the order of a `PolicySet`. Of a file that something is wrong with, one may
            be here without what is wrong.
        project: None where it is wrong.
        project_file: what people call the project file; empty where there is none.
        report: what is wrong, and the sources.
        files, rules: how many policy files there are, and how many rules they hold.
    """

    policies: tuple[Policy, ...]
    project: Project | None
    project_file: str
    report: Report
    files: int
    rules: int


def load(path_or_paths: StrPath | Sequence[StrPath], given: Mapping[str, str] | None) -> PolicySet:
    """See `policyengine.language.load`."""
    loaded = collect(path_or_paths, given)
    if loaded.report.diagnostics or loaded.project is None:
        raise PolicyError(loaded.report.diagnostics, loaded.report.sources)
    return PolicySet(loaded.policies, loaded.project, loaded.report.sources)


def collect(path_or_paths: StrPath | Sequence[StrPath], given: Mapping[str, str] | None) -> Loaded:
    """As `load`, but what is wrong with the policies comes back beside them; only NoPoliciesFound is raised."""
    values = variables.checked(given)
    paths = [path_or_paths] if isinstance(path_or_paths, str | os.PathLike) else list(path_or_paths)
    report = Report()
    found = files.find(paths, report)
    if not found and not report.diagnostics:
        where = ", ".join(f"`{files.shown(Path(path))}`" for path in paths)
        hint = "a directory means its *.yaml and *.yml, except *.test.yaml, policyengine.yaml and hidden ones"
        raise NoPoliciesFound([diagnostic("no-policies", f"no policies in {where}", top(_first(paths)), hint=hint)])
    before = len(report.diagnostics)
    project, project_file = _project(found, report)
    broken = len(report.diagnostics) > before
    project = replace(project, variables={**project.variables, **values})
    replaced, lists = Variables(project.variables), PhraseLists()
    policies, rules = [], 0
    for file in found:
        policy, count = _policy(file, replaced, lists, report)
        policies += [policy] if policy else []
        rules += count
    checks.check_together(policies, report)
    return Loaded(tuple(policies), None if broken else project, project_file, report, len(found), rules)


def _first(paths: Sequence[StrPath]) -> str:
    return files.shown(Path(paths[0])) if paths else ""


def _project(found: Sequence[PolicyFile], report: Report) -> tuple[Project, str]:
    """The project and the name of its file; the defaults where there is none, or a wrong one."""
    file = files.project_file(found, report)
    name = file.name if file else ""
    source = read(file.path, file.name, report) if file else None
    root = compose(source, report) if source else None
    if source is None or root is None:
        return Project(), name
    return read_project(root, Reading(source, report, Variables({}))) or Project(), name


def _policy(file: PolicyFile, replaced: Variables, lists: PhraseLists, report: Report) -> tuple[Policy | None, int]:
    """The policy of a file, if it can be read, and how many rules the file holds."""
    source = read(file.path, file.name, report)
    root = compose(source, report) if source else None
    if source is None or root is None:
        return None, 0
    rules = root.value("rules")
    count = len(rules.entries) if isinstance(rules, nodes.Mapping) else 0
    return read_policy(root, Reading(source, report, replaced), lists, file.relative), count
