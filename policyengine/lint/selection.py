"""Which findings are reported: what the project file says, and over it the command line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from policyengine.language.diagnostics import Diagnostic, diagnostic, quoted
from policyengine.language.policyset import LintOptions, Phrase
from policyengine.lint.registry import matching, names


def near(text: str) -> str:
    """What a person may have meant by the name of a diagnostic that there is not."""
    import difflib

    known = {name.lower(): name for pair in names().items() for name in pair}
    found = difflib.get_close_matches(text.lower(), known, n=1)
    return f"did you mean `{known[found[0]]}`?" if found else "`policyengine code` lists all of them"


def unknown(options: LintOptions) -> list[Diagnostic]:
    """The names in a project file under which there is nothing."""
    return [
        diagnostic("invalid-value", f"there is no diagnostic {quoted(one.text)}", one.span, hint=near(one.text))
        for one in (*(options.select or ()), *options.ignore)
        if not matching(one.text)
    ]


def resolved(
    options: LintOptions, select: Iterable[str] | None, ignore: Iterable[str]
) -> tuple[frozenset[str] | None, frozenset[str]]:
    """The names that are wanted (None: all) and those that are not; `select` and `ignore` are of the command line."""
    wanted = frozenset(select) if select is not None else None if options.select is None else _names(options.select)
    return wanted, frozenset(ignore) | _names(options.ignore)


def _names(written: Sequence[Phrase]) -> frozenset[str]:
    return frozenset(name for one in written for name in matching(one.text))
