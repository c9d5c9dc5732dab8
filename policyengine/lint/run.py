"""Everything that can be said of policies at once: what loading, compiling and binding refuse, and what lints advise.

A policy that something is wrong with is left out of what comes after, so that no mistake is reported as two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from policyengine.compiler.levels import findings, levels_of
from policyengine.compiler.pipeline import analyse, assemble
from policyengine.language.diagnostics import Diagnostic, NoPoliciesFound, Severity
from policyengine.language.loader import Loaded, collect
from policyengine.language.policyset import LintOptions, PolicySet
from policyengine.language.source import top
from policyengine.lint import selection
from policyengine.lint.checked import Checked
from policyengine.lint.ignores import read_ignores
from policyengine.lint.registry import LINTS, lint

if TYPE_CHECKING:
    import os

    from policyengine.automata.vocabulary import Vocabulary
    from policyengine.lint.ignores import Ignore
    from policyengine.lint.model import Fix, Lint

NO_OPTIONS = LintOptions()
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")  # the gravest first

_ABOUT_IGNORES = ("ignore-without-reason", "unused-ignore")  # they come last: they ask what was ignored


@dataclass(frozen=True, slots=True)
class Result:
    """What was looked at, and what was found.

    Attributes:
        files, rules: how many policy files there are, and how many rules they hold.
        shadows: how many of the rules that could be read are in shadow.
        refused: what loading refuses, in order. No selection hides it: what cannot be loaded was not checked.
        found: everything else, in order.
        sources: the text of every file that a diagnostic points into.
        unread: whether a file or folder could not be read at all. (A list of phrases that a policy names and that is
            not there is a mistake of the policy.)
        ignored: how many findings a selection or a comment left out.
        fixes: how findings are mended, of those that can be.
        options: what the project file says of findings.
    """

    files: int
    rules: int
    refused: tuple[Diagnostic, ...]
    found: tuple[Diagnostic, ...]
    sources: Mapping[str, str]
    unread: bool = False
    ignored: int = 0
    fixes: Mapping[Diagnostic, Fix] = field(default_factory=dict)
    options: LintOptions = NO_OPTIONS
    shadows: int = 0

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All of it, by file, line and column."""
        return _in_order((*self.refused, *self.found))

    def reaches(self, level: Severity) -> bool:
        """Whether something is as grave as this, or graver."""
        grave = SEVERITIES[: SEVERITIES.index(level) + 1]
        return any(one.severity in grave for one in self.diagnostics)

    def selected(self, select: Iterable[str] | None = None, ignore: Iterable[str] = ()) -> Result:
        """Only the findings of these names (None: those of the project file), without those that are not wanted."""
        wanted, unwanted = selection.resolved(self.options, select, ignore)
        kept = [one for one in self.found if (wanted is None or one.name in wanted) and one.name not in unwanted]
        return replace(self, found=tuple(kept), ignored=self.ignored + len(self.found) - len(kept))


def check(
    paths: Sequence[str | os.PathLike[str]],
    *,
    variables: Mapping[str, str] | None = None,
    vocabulary: Vocabulary | None = None,
    ignores: bool = True,
) -> Result:
    """Check policies as `compile` would for the project's targets, and ask every lint.

    vocabulary: also bind on it, as an engine does when it starts. ignores: whether comments that ignore findings hold.

    Raises ValueError for a variable that no text can use, and BindError where the vocabulary cannot encode a text that
    is forced.
    """
    try:
        loaded = collect(paths, variables)
    except NoPoliciesFound as error:
        return Result(0, 0, error.diagnostics, (), error.sources)
    options = loaded.project.lint if loaded.project is not None else NO_OPTIONS
    refused = _in_order((*loaded.report.diagnostics, *selection.unknown(options)))
    result = Result(
        files=loaded.files,
        rules=loaded.rules,
        refused=refused,
        found=(),
        sources=loaded.report.sources,
        unread=any(one.name == "unreadable-file" and one.span == top(one.span.file) for one in refused),
        options=options,
        shadows=sum(rule.mode == "shadow" for policy in loaded.policies for rule in policy.rules),
    )
    return _compiled(result, loaded, paths, vocabulary, ignores)


def _compiled(
    result: Result,
    loaded: Loaded,
    paths: Sequence[str | os.PathLike[str]],
    vocabulary: Vocabulary | None,
    ignores: bool,
) -> Result:
    """What compiling the sound policies finds, for the project's targets, and what lints say of them."""
    wrong = {one.span.file for one in loaded.report.diagnostics}
    sound = tuple(policy for policy in loaded.policies if policy.file not in wrong)
    if loaded.project is None or not sound:
        return result
    policies = PolicySet(sound, loaded.project, loaded.report.sources)
    work = analyse(policies)
    program = assemble(work)
    found = [*work.diagnostics]
    found += findings(program, levels_of(program, loaded.project.targets), policies, allow_unenforced=False)
    if vocabulary is not None and not work.diagnostics:
        from policyengine.lint.binding import refusals

        found += refusals(program, policies, vocabulary)
    checked = Checked(
        policies,
        work,
        program,
        paths=paths,
        project_file=loaded.project_file,
        vocabulary=vocabulary,
        left_out=frozenset(wrong),
    )
    if ignores:
        checked.ignores = read_ignores(checked)
    fixes: dict[Diagnostic, Fix] = {}
    if not work.diagnostics:
        found += _advice(checked, fixes, (one for one in LINTS if one.name not in _ABOUT_IGNORES))
    kept = [one for one in found if not _ignored(one, checked.ignores)]
    ignored = len(found) - len(kept)
    if checked.ignores and not work.diagnostics:
        kept += _advice(checked, fixes, map(lint, _ABOUT_IGNORES))
    return replace(result, found=_in_order(kept), ignored=ignored, fixes=fixes)


def _advice(checked: Checked, fixes: dict[Diagnostic, Fix], lints: Iterable[Lint]) -> list[Diagnostic]:
    """What these lints find; how it is mended goes into `fixes`."""
    found = []
    for one in lints:
        if one.needs == "vocabulary" and checked.vocabulary is None:
            continue
        for finding in one.findings(checked):
            diagnostic = one.diagnostic(finding)
            found.append(diagnostic)
            if finding.fix:
                fixes[diagnostic] = finding.fix
    return found


def _ignored(found: Diagnostic, ignores: Sequence[Ignore]) -> bool:
    """Whether a comment says so. All are asked, so that each notes what it was used for."""
    return True in [ignore.covers(found) for ignore in ignores]


def _in_order(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    return tuple(sorted(set(diagnostics), key=lambda one: one.sort_key))
