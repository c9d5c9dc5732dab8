"""What a lint is and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Literal

from policyengine.language.codes import Code
from policyengine.language.diagnostics import Diagnostic, Label, Severity
from policyengine.language.policyset import Span
from policyengine.lint.pages import code_of

if TYPE_CHECKING:
    from policyengine.lint.checked import Checked

Needs = Literal["", "vocabulary"]
Mended = Literal["", "safe", "unsafe"]

_FIXES: dict[Mended, str] = {
    "": "",
    "safe": "`--fix` mends it where that changes nothing that is caught.",
    "unsafe": "`--fix=unsafe` mends it, which changes what is caught.",
}
_NOTES = {True: "`--fix` does it", False: "`--fix=unsafe` does it: what is caught changes"}


@dataclass(frozen=True, slots=True)
class Edit:
    """Code points `start` to before `end` of a file's text become `text`."""

    file: str
    start: int
    end: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class Fix:
    """How a finding is mended.

    done: what was done, for the log. safe: what is caught stays what it was.
    """

    done: str
    edits: tuple[Edit, ...]
    safe: bool


@dataclass(frozen=True, slots=True)
class Finding:
    """What a lint says about one place; the rest of a diagnostic is the lint's own."""

    message: str
    span: Span
    hint: str = ""
    label: str = ""
    labels: tuple[Label, ...] = ()
    fix: Fix | None = None


@dataclass(frozen=True)
class Lint:
    """One kind of advice: a line of the registry. Its module, named like it, holds its page and its `findings`.

    Attributes:
        code, name, severity: as of a `Code`.
        fix: whether `--fix` can mend it: "safe": some of it without being asked for unsafe fixes.
        needs: what it cannot work without.
    """

    code: str
    name: str
    severity: Severity
    fix: Mended = ""
    needs: Needs = ""

    @property
    def findings(self) -> Callable[[Checked], Iterator[Finding]]:
        """What it finds in policies."""
        found: Callable[[Checked], Iterator[Finding]] = import_module(self._module).findings
        return found

    @cached_property
    def page(self) -> Code:
        """Its page: the docstring of its module."""
        page = code_of(self.code, self.name, self.severity, import_module(self._module).__doc__ or "")
        return replace(page, why=f"{page.why.rstrip()} {_FIXES[self.fix]}")

    @property
    def _module(self) -> str:
        return f"policyengine.lint.{self.name.replace('-', '_')}"

    def diagnostic(self, found: Finding) -> Diagnostic:
        """A finding as people are shown it."""
        note = _NOTES[found.fix.safe] if found.fix else ""
        hint = "\n".join(filter(None, (found.hint, note))) or None
        return Diagnostic(
            self.code, self.name, self.severity, found.message, found.span, hint, found.label, found.labels
        )
