"""`policyengine test`: what the tests beside policies say."""

from __future__ import annotations

import os
import re
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from policyengine.cli import exits, options
from policyengine.cli.exits import fail

if TYPE_CHECKING:
    from policyengine.automata.vocabulary import Vocabulary

EXAMPLE = "Example: policyengine test policies --coverage --threshold 90"


class Format(StrEnum):
    """How results are written."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    GITHUB = "github"
    MARKDOWN = "markdown"


def run(
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH", help="Test files (*.test.yaml), or folders of them; this folder if none is given."
        ),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="Also run on tokens: a model's tokenizer.json or tekken.json, or its folder."
        ),
    ] = None,
    select: Annotated[
        str | None,
        typer.Option("--run", metavar="REGEX", help="Run only tests in whose `file::id` this is found."),
    ] = None,
    coverage: Annotated[bool, typer.Option("--coverage", help="Name the rules that no test makes act.")] = False,
    threshold: Annotated[
        float | None,
        typer.Option(metavar="N", min=0, max=100, help="Exit 1 if less than N percent of the rules are covered."),
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="How results are written.")] = Format.TEXT,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Name the tests that pass, too.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Run again when a file changes, until Ctrl-C.")] = False,
    variables: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A variable for the policies; may be repeated."),
    ] = None,
) -> None:
    """Run the tests of policies: each text in many chunkings, and in many segmentations of a model's tokens."""
    options.refuse_empty(tokenizer=tokenizer, run=select)
    if select is not None:
        try:
            re.compile(select)
        except re.error as error:
            fail(f"--run is no regular expression: {error}")
    values = options.pairs(variables or [])
    vocabulary = None if tokenizer is None else _vocabulary(tokenizer)
    where = paths or ["."]

    def once() -> tuple[int, tuple[str, ...]]:
        return _once(where, values, vocabulary, select, coverage, threshold, form, verbose)

    if watch:
        from policyengine.review.testing_watch import watch as watch_files

        typer.echo("running again when a file changes; Ctrl-C ends", err=True)
        raise typer.Exit(watch_files(once, where))
    raise typer.Exit(once()[0])


def _once(
    paths: list[str],
    variables: dict[str, str],
    vocabulary: Vocabulary | None,
    select: str | None,
    with_coverage: bool,
    threshold: float | None,
    form: Format,
    verbose: bool,
) -> tuple[int, tuple[str, ...]]:
    """Run the tests and write the results; the exit code, and the files that were read."""
    from policyengine.language import PolicyError
    from policyengine.review.testing import Runner
    from policyengine.review.testing_coverage import coverage
    from policyengine.review.testing_files import load_tests, selected
    from policyengine.review.testing_formats import FORMATS
    from policyengine.review.testing_output import Run

    try:
        suite = load_tests(paths, variables)
        chosen = suite if select is None else selected(suite, select)
        if not chosen.tests:
            where = ", ".join(f"`{path}`" for path in paths)
            what = f"in no `file::id` is `{select}` found" if suite.tests else f"no `*.test.yaml` in {where}"
            typer.echo(f"no tests: {what}", err=True)
            return exits.NOTHING, suite.read
        results = tuple(Runner(vocabulary).run(chosen.tests))
        covered = coverage(results, paths, variables) if with_coverage or threshold is not None else None
    except PolicyError as error:
        typer.echo(str(error), err=True)
        return exits.FAILED, tuple(error.sources)
    made = Run(results, covered, threshold, vocabulary is not None, verbose, _is_colourful())
    typer.echo(FORMATS[form.value](made), nl=False, color=True)
    return (exits.FINDINGS if made.is_bad else exits.CLEAN), suite.read


def _is_colourful() -> bool:
    """Whether colours show, and are wanted (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _vocabulary(path: str) -> Vocabulary:
    from policyengine.automata.vocabulary import Vocabulary

    try:
        return Vocabulary.from_path(path)
    except ValueError as error:
        fail(str(error))
