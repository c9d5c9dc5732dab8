"""`policyengine check`: everything that is wrong with policies, and advice on the rest."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from policyengine.cli import exits, options
from policyengine.cli.exits import fail

if TYPE_CHECKING:
    from policyengine.automata.vocabulary import Vocabulary
    from policyengine.lint.fixing import Mended
    from policyengine.lint.run import Result

EXAMPLE = "Example: policyengine check policies --fail-level warning --ignore governance"


class Format(StrEnum):
    """How findings are written."""

    TEXT = "text"
    CONCISE = "concise"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"
    JUNIT = "junit"
    MARKDOWN = "markdown"


class Level(StrEnum):
    """How grave a finding is."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Mend(StrEnum):
    """Which fixes are made."""

    SAFE = "safe"
    UNSAFE = "unsafe"


class Command(TyperCommand):
    """`--fix` alone means `--fix=safe`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line."""
        end = args.index("--") if "--" in args else len(args)
        return super().parse_args(ctx, ["--fix=safe" if one == "--fix" else one for one in args[:end]] + args[end:])


def run(
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Policy files, or folders of them.")],
    form: Annotated[Format, typer.Option("--format", help="How findings are written.")] = Format.TEXT,
    fail_level: Annotated[
        Level | None,
        typer.Option(help="Exit 1 for findings at least this grave.", show_default="the project's, else error"),
    ] = None,
    select: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CODE|NAME|FAMILY,...",
            help="Report only these; may be repeated. A family is PE1xx or its word: file, logic, target, governance, "
            "tests. What cannot be loaded always is reported.",
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="CODE|NAME|FAMILY,...", help="Do not report these; may be repeated."),
    ] = None,
    mend: Annotated[
        Mend | None,
        typer.Option(
            "--fix",
            metavar="[=safe|unsafe]",
            help="Mend what can be mended: safe (default) changes nothing that is caught, unsafe does.",
        ),
    ] = None,
    no_ignores: Annotated[
        bool, typer.Option("--no-ignores", help="Report also what comments in the files ignore.")
    ] = False,
    variables: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A variable for the policies; may be repeated."),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Also bind to this model: its tokenizer.json or tekken.json, or its folder."),
    ] = None,
) -> None:
    """Check policies for what the project's targets would refuse, and for what looks like a mistake."""
    options.refuse_empty(tokenizer=tokenizer)
    selected = None if select is None else options.names(select)
    ignored = options.names(ignore or [])
    values = options.pairs(variables or [])

    from policyengine.lint.fixing import fix_all
    from policyengine.lint.formats import write
    from policyengine.lint.run import check
    from policyengine.runtime.errors import BindError

    vocabulary = None if tokenizer is None else _vocabulary(tokenizer)

    def checked() -> Result:
        result = check(paths, variables=values, vocabulary=vocabulary, ignores=not no_ignores)
        return result.selected(selected, ignored)

    failed: list[str] = []
    try:
        if mend is None:
            result = checked()
        else:
            mended = fix_all(checked, unsafe=mend is Mend.UNSAFE)
            result, failed = mended.result, mended.failed
            _tell(mended)
    except BindError as error:
        fail(str(error))
    level = fail_level.value if fail_level else result.options.fail_level or "error"
    text = write(form.value, result, level)
    if form is Format.TEXT and _is_coloured():
        from policyengine.lint.formats.text import painted

        text = painted(text)
    typer.echo(text, nl=False)
    if result.unread or failed:
        raise typer.Exit(exits.FAILED)
    if not result.files:
        raise typer.Exit(exits.NOTHING)
    if result.reaches(level):
        raise typer.Exit(exits.FINDINGS)


def _tell(mended: Mended) -> None:
    """What was mended, and what could not be, on stderr."""
    for one in mended.done:
        at = one.span
        typer.echo(f"fixed {at.file}:{at.line}:{at.column}: {one.code} {one.name}: {one.done}", err=True)
    for problem in mended.failed:
        typer.echo(f"error: {problem}", err=True)


def _is_coloured() -> bool:
    """Whether a terminal shows the text, and its user has not asked for plain text (no-color.org)."""
    if sys.stdout is None:  # closed by who started the command
        return False
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _vocabulary(path: str) -> Vocabulary:
    from policyengine.automata.vocabulary import Vocabulary

    try:
        return Vocabulary.from_path(path)
    except ValueError as error:
        fail(str(error))
