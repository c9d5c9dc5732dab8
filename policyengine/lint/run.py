"""Everything that is wrong with policies, at once: what loading refuses, what compiling refuses, what binding refuses.

A policy that something is wrong with is left out of what comes after, so that no mistake is reported as two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from policyengine.compiler.levels import findings, levels_of
from policyengine.compiler.pipeline import analyse, assemble
from policyengine.language.diagnostics import Diagnostic, NoPoliciesFound, Severity
from policyengine.language.loader import Loaded, collect
from policyengine.language.policyset import PolicySet
from policyengine.language.source import top
from policyengine.lint import parsers

if TYPE_CHECKING:
    import os

    from policyengine.automata.vocabulary import Vocabulary

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")  # the gravest first


@dataclass(frozen=True, slots=True)
class Result:
    """What was looked at, and what was found.

    Attributes:
        files, rules: how many policy files there are, and how many rules they hold.
        refused: what loading refuses, in order. No selection hides it: what cannot be loaded was not checked.
        found: everything else, in order.
        sources: the text of every file that a diagnostic points into.
        unread: whether a file or folder could not be read at all. (A list of phrases that a policy names and that is
            not there is a mistake of the policy.)
        ignored: how many findings a selection left out.
    """

    files: int
    rules: int
    refused: tuple[Diagnostic, ...]
    found: tuple[Diagnostic, ...]
    sources: Mapping[str, str]
    unread: bool = False
    ignored: int = 0

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All of it, by file, line and column."""
        return _in_order((*self.refused, *self.found))

    def reaches(self, level: Severity) -> bool:
        """Whether something is as grave as this, or graver."""
        grave = SEVERITIES[: SEVERITIES.index(level) + 1]
        return any(one.severity in grave for one in self.diagnostics)

    def selected(self, select: Iterable[str] | None, ignore: Iterable[str]) -> Result:
        """Only the findings of these names (None: of all), without those of other names."""
        wanted, unwanted = None if select is None else set(select), set(ignore)
        kept = [one for one in self.found if (wanted is None or one.name in wanted) and one.name not in unwanted]
        return replace(self, found=tuple(kept), ignored=self.ignored + len(self.found) - len(kept))


def check(
    paths: Sequence[str | os.PathLike[str]],
    *,
    variables: Mapping[str, str] | None = None,
    vocabulary: Vocabulary | None = None,
) -> Result:
    """Check policies as `compile` would for the project's targets.

    vocabulary: also bind on it, as an engine does when it starts.

    Raises ValueError for a variable that no text can use, and BindError where the vocabulary cannot encode a text that
    is forced.
    """
    try:
        loaded = collect(paths, variables)
    except NoPoliciesFound as error:
        return Result(0, 0, error.diagnostics, (), error.sources)
    refused = _in_order(loaded.report.diagnostics)
    return Result(
        files=loaded.files,
        rules=loaded.rules,
        refused=refused,
        found=_in_order(_compiled(loaded, vocabulary)),
        sources=loaded.report.sources,
        unread=any(one.name == "unreadable-file" and one.span == top(one.span.file) for one in refused),
    )


def _compiled(loaded: Loaded, vocabulary: Vocabulary | None) -> list[Diagnostic]:
    """What compiling the sound policies finds, for the project's targets."""
    wrong = {one.span.file for one in loaded.report.diagnostics}
    sound = tuple(policy for policy in loaded.policies if policy.file not in wrong)
    if loaded.project is None or not sound:
        return []
    policies = PolicySet(sound, loaded.project, loaded.report.sources)
    work = analyse(policies)
    program = assemble(work)
    found = [*work.diagnostics]
    found += findings(program, levels_of(program, loaded.project.targets), policies, allow_unenforced=False)
    if not work.diagnostics:
        found += parsers.findings(program, policies)
    if vocabulary is not None and not work.diagnostics:
        from policyengine.lint.binding import refusals

        found += refusals(program, policies, vocabulary)
    return found


def _in_order(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    return tuple(sorted(set(diagnostics), key=lambda one: one.sort_key))
