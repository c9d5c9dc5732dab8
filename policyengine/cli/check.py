"""`policyengine check`: everything that is wrong with policies."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from policyengine.cli import exits, options
from policyengine.cli.exits import fail

if TYPE_CHECKING:
    from policyengine.automata.vocabulary import Vocabulary


class Format(StrEnum):
    """How findings are written."""

    TEXT = "text"
    CONCISE = "concise"


class Level(StrEnum):
    """How grave a finding is."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


def run(
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Policy files, or folders of them.")],
    form: Annotated[Format, typer.Option("--format", help="How findings are written.")] = Format.TEXT,
    fail_level: Annotated[Level, typer.Option(help="Exit 1 for findings that are at least this grave.")] = Level.ERROR,
    select: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CODE|NAME,...", help="Report only these; may be repeated. What cannot be loaded always is."
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="CODE|NAME,...", help="Do not report these; may be repeated.")
    ] = None,
    variables: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A variable for the policies; may be repeated."),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Also bind to this model: its tokenizer.json or tekken.json, or its folder."),
    ] = None,
) -> None:
    """Check policies for what compiling them for the project's targets would refuse, and more."""
    options.refuse_empty(tokenizer=tokenizer)
    selected = None if select is None else _names(select)
    ignored = _names(ignore or [])
    values = options.pairs(variables or [])

    from policyengine.lint.formats import FORMATS
    from policyengine.lint.run import check
    from policyengine.runtime.errors import BindError

    vocabulary = None if tokenizer is None else _vocabulary(tokenizer)
    try:
        result = check(paths, variables=values, vocabulary=vocabulary).selected(selected, ignored)
    except BindError as error:
        fail(str(error))
    typer.echo(FORMATS[form.value](result), nl=False)
    if result.unread:
        raise typer.Exit(exits.FAILED)
    if not result.files:
        raise typer.Exit(exits.NOTHING)
    if result.reaches(fail_level.value):
        raise typer.Exit(exits.FINDINGS)


def _vocabulary(path: str) -> Vocabulary:
    from policyengine.automata.vocabulary import Vocabulary

    try:
        return Vocabulary.from_path(path)
    except ValueError as error:
        fail(str(error))


def _names(given: list[str]) -> frozenset[str]:
    """The names of the codes of an option."""
    return frozenset(options.code(text).name for part in given for text in part.split(","))
