"""`policyengine explain`: which rule did what at which character or token, and why not another."""

from __future__ import annotations

import json
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from policyengine.cli import exits, options
from policyengine.cli.exits import fail

if TYPE_CHECKING:
    from policyengine.automata.vocabulary import Vocabulary
    from policyengine.language import PolicySet

EXAMPLE = 'Example: policyengine explain policies --text "We call it Project Titan."'


class Format(StrEnum):
    """How explanations are written."""

    TEXT = "text"
    JSON = "json"


def run(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH... [-]", help="Policy files, or folders of them; then `-` for standard input."),
    ],
    text: Annotated[str | None, typer.Option("--text", metavar="TEXT", help="What the model writes.")] = None,
    file: Annotated[
        str | None, typer.Option("--file", metavar="FILE", help="A file that holds it; `-`: standard input.")
    ] = None,
    tokens: Annotated[
        str | None,
        typer.Option("--tokens", metavar="ID,...", help="Its tokens, with --tokenizer, in place of a text."),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="Also explain tokens: a model's tokenizer.json or tekken.json, or its folder."
        ),
    ] = None,
    request: Annotated[
        str | None, typer.Option(metavar="JSON", help="What a request passes, as in vllm_xargs: policies, parameters.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(metavar="NAME", help="The device that rules with `when` see: cuda, cpu.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="The name of the served model, for rules with `when`.")
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="How the explanation is written.")] = Format.TEXT,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Tell also of matches that came to nothing early.")
    ] = False,
    variables: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A variable for the policies; may be repeated."),
    ] = None,
) -> None:
    """Explain what policies did with an output: which rule at which character or token, and why not another."""
    options.refuse_empty(file=file, tokens=tokens, tokenizer=tokenizer, request=request)
    if len(paths) > 1 and paths[-1] == "-":
        if file is not None:
            fail("`-` and --file both name the text")
        paths, file = paths[:-1], "-"
    if sum(one is not None for one in (text, file, tokens)) != 1:
        fail("give what the model writes, once: --text, --file, `-` after the policies, or --tokens")
    if tokens is not None and tokenizer is None:
        fail("--tokens needs --tokenizer")
    ids = None if tokens is None else _ids(tokens)
    asked = _request(request)
    policies = _policies(paths, options.pairs(variables or []))
    output: str | list[int] = ids if ids is not None else _read(file) if text is None else text
    vocabulary = None if tokenizer is None else _vocabulary(tokenizer)

    from policyengine.language import PolicyError
    from policyengine.review.explain import explain
    from policyengine.runtime.errors import BindError, RequestError
    from policyengine.runtime.search_time import SearchTimeoutError

    try:
        told = explain(policies, output, asked, vocabulary=vocabulary, device=device, model=model)
    except PolicyError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(exits.FAILED) from None
    except RequestError as error:
        fail(f"--request: {error}")
    except SearchTimeoutError:
        fail("an expression takes too long on this text; a server would end the output (regex_timeout)")
    except (BindError, ValueError) as error:
        fail(str(error))
    if form is Format.JSON:
        from policyengine.review.explain_json import as_json

        typer.echo(as_json(told), nl=False)
    else:
        from policyengine.review.explain_output import text as for_people

        typer.echo(for_people(told, verbose=verbose, colour=_is_coloured()), nl=False, color=True)


def _ids(given: str) -> list[int]:
    try:
        return [int(part) for part in given.replace(",", " ").split()]
    except ValueError:
        fail(f"--tokens takes ids with commas, not `{given}`")


def _request(given: str | None) -> Any:
    try:
        return None if given is None else json.loads(given)
    except (ValueError, RecursionError) as error:
        fail(f"--request is not JSON: {error}")


def _policies(paths: list[str], variables: dict[str, str]) -> PolicySet:
    from policyengine.language import NoPoliciesFound, PolicyError, load

    try:
        return load(paths, variables=variables)
    except PolicyError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(exits.NOTHING if isinstance(error, NoPoliciesFound) else exits.FAILED) from None


def _read(name: str | None) -> str:
    from policyengine.review.inputs import Decoder, pieces

    assert name is not None
    try:
        if name == "-":
            return "".join(pieces(sys.stdin.buffer, Decoder()))
        with Path(name).open("rb") as stream:
            return "".join(pieces(stream, Decoder()))
    except (OSError, ValueError) as error:
        fail(f"{name}: {getattr(error, 'strerror', None) or error}")


def _vocabulary(path: str) -> Vocabulary:
    from policyengine.automata.vocabulary import Vocabulary

    try:
        return Vocabulary.from_path(path)
    except ValueError as error:
        fail(str(error))


def _is_coloured() -> bool:
    """Whether a terminal shows the text, and its user has not asked for plain text (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
