"""Which rules the tests make act, and which ones no test touches."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from policyengine.language import PolicyError, load
from policyengine.language.files import StrPath
from policyengine.language.files import find as find_policies
from policyengine.language.policyset import Ban, Policy, Rewrite, Rule, Span
from policyengine.language.source import Report
from policyengine.review.testing import Result


@dataclass(frozen=True, slots=True)
class Uncovered:
    """A rule that no test makes act, and its place in its file."""

    rule: str
    span: Span


@dataclass(frozen=True, slots=True)
class Coverage:
    """Of the rules that a text can make act: how many a test does make act, how many there are, and the others.

    unseen: how many rules no text can make act (they steer tokens, need an engine, or only watch).
    """

    covered: int
    rules: int
    uncovered: tuple[Uncovered, ...]
    unseen: int

    @property
    def percent(self) -> float:
        """Of the rules, those that are covered; 100 where there is none."""
        return 100 * self.covered / self.rules if self.rules else 100.0


def coverage(results: Iterable[Result], paths: Sequence[StrPath], variables: Mapping[str, str] | None) -> Coverage:
    """The coverage of the rules of all policies that the tests name, and of those in the folders among the paths.

    A test that fails or is a todo covers nothing. Raises `PolicyError` for policies that cannot be loaded.
    """
    policies: dict[str, Policy] = {}
    touched: set[tuple[str, str]] = set()
    for result in results:
        here = {policy.name: os.path.realpath(policy.file) for policy in result.ready.compiled.policies.policies}
        for policy in result.ready.compiled.policies.policies:
            policies.setdefault(here[policy.name], policy)
        if result.outcome == "passed":
            names = (rule.partition("/") for rule in result.seen.rules)
            touched.update((here[policy], rule) for policy, _, rule in names)
    for policy in _others(paths, variables, policies):
        policies.setdefault(os.path.realpath(policy.file), policy)
    uncovered, rules, unseen = [], 0, 0
    for file, policy in sorted(policies.items(), key=lambda item: item[1].file):
        for rule in policy.rules:
            if not acts_on_text(rule):
                unseen += 1
                continue
            rules += 1
            if (file, rule.id) not in touched:
                uncovered.append(Uncovered(f"{policy.name}/{rule.id}", rule.span))
    uncovered.sort(key=lambda one: (one.span.file, one.span.line, one.rule))
    return Coverage(rules - len(uncovered), rules, tuple(uncovered), unseen)


def acts_on_text(rule: Rule) -> bool:
    """Whether a text can make the rule act: it looks at texts, asks for no facts of an engine and is not in shadow."""
    looks = isinstance(rule.body, Rewrite) or (isinstance(rule.body, Ban) and not rule.body.token_ids)
    return looks and rule.mode == "enforce" and not (rule.when.device or rule.when.model or rule.when.vocabulary)


def _others(paths: Sequence[StrPath], variables: Mapping[str, str] | None, known: Mapping[str, Policy]) -> list[Policy]:
    """The policies that no test names, each loaded by itself.

    Looked for where those lie that some test does name, and below: the folders given may hold YAML of any kind.
    """
    report = Report()
    places = {os.path.dirname(file) for file in known}
    policies: list[Policy] = []
    for file in find_policies([path for path in paths if Path(path).is_dir()], report):
        real = os.path.realpath(file.path)
        if real in known or not any(real.startswith(place + os.sep) for place in places):
            continue
        try:
            policies += load(file.path, variables=variables).policies
        except PolicyError as error:
            report.diagnostics += error.diagnostics
            report.sources.update(error.sources)
    if report.diagnostics:
        raise PolicyError(report.diagnostics, report.sources)
    return policies
