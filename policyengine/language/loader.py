"""Paths in, a `PolicySet` out, or a `PolicyError` with everything that is wrong."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from policyengine.language import checks, files, variables
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


def load(path_or_paths: StrPath | Sequence[StrPath], given: Mapping[str, str] | None) -> PolicySet:
    """See `policyengine.language.load`."""
    values = variables.checked(given)
    paths = [path_or_paths] if isinstance(path_or_paths, str | os.PathLike) else list(path_or_paths)
    report = Report()
    found = files.find(paths, report)
    if not found and not report.diagnostics:
        where = ", ".join(f"`{files.shown(Path(path))}`" for path in paths)
        hint = "a directory means its *.yaml and *.yml, except *.test.yaml, policyengine.yaml and hidden ones"
        raise NoPoliciesFound([diagnostic("no-policies", f"no policies in {where}", top(_first(paths)), hint=hint)])
    project = _project(found, report)
    lists = PhraseLists()
    replaced = Variables({**project.variables, **values})
    policies = [policy for file in found if (policy := _policy(file, replaced, lists, report))]
    checks.check_together(policies, report)
    if report.diagnostics:
        raise PolicyError(report.diagnostics, report.sources)
    return PolicySet(tuple(policies), replace(project, variables={**project.variables, **values}), report.sources)


def _first(paths: Sequence[StrPath]) -> str:
    return files.shown(Path(paths[0])) if paths else ""


def _project(found: Sequence[PolicyFile], report: Report) -> Project:
    file = files.project_file(found, report)
    source = read(file.path, file.name, report) if file else None
    root = compose(source, report) if source else None
    if source is None or root is None:
        return Project()
    return read_project(root, Reading(source, report, Variables({}))) or Project()


def _policy(file: PolicyFile, replaced: Variables, lists: PhraseLists, report: Report) -> Policy | None:
    source = read(file.path, file.name, report)
    root = compose(source, report) if source else None
    if source is None or root is None:
        return None
    return read_policy(root, Reading(source, report, replaced), lists, file.relative)
