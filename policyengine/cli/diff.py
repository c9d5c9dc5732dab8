"""`policyengine diff`: what behaviour changed between two sets of policies."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from policyengine.cli import exits, options
from policyengine.cli.exits import fail

if TYPE_CHECKING:
    from policyengine.review.diff import Side
    from policyengine.review.diff_corpus import Replay


EXAMPLE = "Example: policyengine diff git:main policies --fail-on weaker"


class Format(StrEnum):
    """How the comparison is written."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"
    GITHUB = "github"


class Gate(StrEnum):
    """Which differences make the command exit with 1."""

    WEAKER = "weaker"
    ANY = "any"


def run(
    base: Annotated[
        str, typer.Argument(metavar="BASE", help="What was: a folder, a policy file, a bundle, or git:REV[:PATH].")
    ],
    head: Annotated[str, typer.Argument(metavar="HEAD", help="What is now, in the same forms.")],
    form: Annotated[Format, typer.Option("--format", help="How the comparison is written.")] = Format.TEXT,
    fail_on: Annotated[
        Gate | None, typer.Option(help="Exit 1 if a rule is, or may be, weaker; or if anything changed.")
    ] = None,
    corpus: Annotated[
        str | None, typer.Option(metavar="FILE", help="JSON lines of real answers: what would have changed in them.")
    ] = None,
    field: Annotated[
        str | None, typer.Option(metavar="PATH", help="Where the text of a JSON line is, as in choices.0.text.")
    ] = None,
    variables: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A variable for the policies; may be repeated."),
    ] = None,
) -> None:
    """Show which rules became stronger or weaker, each with a shortest text that only one side catches."""
    options.refuse_empty(corpus=corpus, field=field)
    values = options.pairs(variables or [])
    sides = _side(base, head, values), _side(head, base, values)

    from policyengine.review.diff import compare
    from policyengine.review.diff_output import FORMATS

    found = compare(*sides)
    replay = _replay(corpus, field, *sides) if corpus is not None else None
    typer.echo(FORMATS[form](found, replay), nl=False)
    if replay is not None and replay.unreadable:
        raise typer.Exit(exits.FAILED)
    gated = (fail_on is Gate.WEAKER and found.is_weaker) or (fail_on is Gate.ANY and found.is_changed)
    raise typer.Exit(exits.FINDINGS if gated else exits.CLEAN)


def _side(name: str, other: str, variables: dict[str, str]) -> Side:
    from policyengine.language import NoPoliciesFound, PolicyError
    from policyengine.review.diff_sides import SideError, open_side
    from policyengine.runtime.errors import BundleError

    try:
        return open_side(name, other, variables)
    except PolicyError as error:
        typer.echo(f"{name}:\n{error}", err=True)
        raise typer.Exit(exits.NOTHING if isinstance(error, NoPoliciesFound) else exits.FAILED) from None
    except (SideError, BundleError) as error:
        fail(str(error))


def _replay(corpus: str, field: str | None, base: Side, head: Side) -> Replay:
    from policyengine.review.diff_corpus import replay
    from policyengine.review.inputs import Decoder, Record, records

    def tell(record: Record) -> None:
        typer.echo(f"error: {corpus}:{record.line}: {record.problem}", err=True)

    decoder = Decoder()
    try:
        with Path(corpus).open("rb") as stream:
            found = replay(base.program, head.program, records(stream, field, decoder), tell)
    except (OSError, ValueError) as error:
        fail(f"{corpus}: {getattr(error, 'strerror', None) or error}")
    if decoder.invalid:
        typer.echo(f"{corpus}: invalid UTF-8, read as {decoder.invalid:,} U+FFFD", err=True)
    return found
