"""Findings as data: what is wrong, where, and what to do about it.

Everything that reads policies (the language, the compiler, later the lints) makes `Diagnostic`s; `render` turns them
into text. Messages are lower case without a final period, and what the user wrote stands in backticks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from policyengine.language import codes
from policyengine.language.policyset import Span

Severity = Literal["error", "warning", "info"]

_SHOWN = 60  # code points of a user's text that a message repeats


@dataclass(frozen=True, slots=True)
class Label:
    """A second place that a diagnostic talks about, and what to say there."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. `label` is said under the caret; `labels` are the other places."""

    code: str  # "PE003"; stable, never reused
    name: str  # "duplicate-key"
    severity: Severity
    message: str
    span: Span
    help: str | None = None
    label: str = ""
    labels: tuple[Label, ...] = ()

    @property
    def sort_key(self) -> tuple[Any, ...]:
        """Orders diagnostics by place, then by what they say, so that output never depends on how they were found."""
        at = self.span
        return at.file, at.line, at.column, self.code, self.message, at.end_line, at.end_column


def diagnostic(
    name: str,
    message: str,
    span: Span,
    *,
    hint: str | None = None,
    label: str = "",
    labels: Iterable[Label] = (),
    severity: Severity | None = None,
) -> Diagnostic:
    """A diagnostic by its registered name (KeyError for others). `severity` None: the one of the registry."""
    code = codes.by_name(name)
    return Diagnostic(code.code, name, severity or code.severity, message, span, hint, label, tuple(labels))


class PolicyError(Exception):
    """Policies that cannot be used. `str()` shows every diagnostic with its source line.

    Attributes:
        diagnostics: what was found, in a stable order (file, line, column).
        sources: the text of every file that a span may point into, for people who render the diagnostics themselves.
    """

    def __init__(self, diagnostics: Iterable[Diagnostic], sources: Mapping[str, str] | None = None) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(sorted(set(diagnostics), key=lambda d: d.sort_key))
        self.sources: Mapping[str, str] = dict(sources or {})
        super().__init__(self.diagnostics, self.sources)

    def __str__(self) -> str:
        from policyengine.language.render import render

        return render(self.diagnostics, self.sources)


class NoPoliciesFound(PolicyError):  # noqa: N818  it says what happened; "error" would say no more
    """The paths are readable and hold no policy. The command line exits with 3 for it, and with 2 for other errors."""


def quoted(text: str) -> str:
    """What a user wrote, in backticks: cut where it is long, characters that would not show as escapes.

    So are its own backticks: in Markdown they would end it, and the rest would be markup.
    """
    cut = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    return "`" + visible(cut).replace("`", "\\x60") + "`"


def visible(text: str) -> str:
    """Text with every character that does not show (controls, format characters, surrogates) as an escape."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(ch if ch.isprintable() else _escape(ch) for ch in text)


def _escape(ch: str) -> str:
    short = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b"}.get(ch)
    if short:
        return short
    return f"\\x{ord(ch):02x}" if ord(ch) < 0x100 else f"\\u{ord(ch):04x}" if ord(ch) < 0x10000 else f"\\U{ord(ch):08x}"


def listed(names: Sequence[str], *, most: int = 12) -> str:
    """Names in backticks, for "one of …"."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(quoted(name) for name in names[:most]) + more
