"""`policyengine scan`: what a client would see of a text, and why."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, NoReturn, TextIO

import typer

from policyengine.cli import exits, options
from policyengine.cli.exits import fail

if TYPE_CHECKING:
    from policyengine.review.inputs import Decoder, Record
    from policyengine.review.scan import Scanner

EXAMPLE = "Example: policyengine scan policies answers.jsonl --format json"

_JSON_LINES = (".jsonl", ".ndjson")
_POLICIES = (".yaml", ".yml")
_INTERVAL = 0.5  # seconds between two signs of progress


class Format(StrEnum):
    """How results are written."""

    TEXT = "text"
    JSON = "json"


def run(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH... [FILE|-]",
            help="Policy files, or folders of them; then the text, `-` or nothing for standard input.",
        ),
    ],
    request: Annotated[
        str | None, typer.Option(metavar="JSON", help="What a request passes, as in vllm_xargs: policies, parameters.")
    ] = None,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="The input is JSON lines, a text in each. So are .jsonl and .ndjson files.")
    ] = False,
    field: Annotated[
        str | None, typer.Option(metavar="PATH", help="Where the text of a JSON line is, as in choices.0.text.")
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="How results are written.")] = Format.TEXT,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Write there what a client would see.")
    ] = None,
    variables: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A variable for the policies; may be repeated."),
    ] = None,
) -> None:
    """Show what a client would see of a text, and which rules decided that. Exit 1 if one stepped in."""
    options.refuse_empty(request=request, field=field, output=output)
    policies, name = _split(paths)
    lines = jsonl or field is not None or name.endswith(_JSON_LINES)
    if lines and output is not None:
        fail("--output is for one text; with JSON lines use --format json")
    scanner = _scanner(policies, request, options.pairs(variables or []))
    label = "<stdin>" if name == "-" else name

    from policyengine.review.inputs import Decoder, records

    decoder = Decoder()
    with ExitStack() as stack:
        stream = _opened(name, stack)
        sink = None if output is None else _created(output, stack)
        try:
            if lines:
                code = _scan_lines(scanner, label, records(stream, field, decoder), form)
            else:
                code = _scan_text(scanner, label, stream, decoder, form, sink)
        except BrokenPipeError:
            raise
        except OSError as error:
            _cannot(label, error)
    if decoder.invalid:
        where = "" if lines else f", the first at byte {decoder.first:,}"
        typer.echo(f"{label}: invalid UTF-8, read as {decoder.invalid:,} U+FFFD{where}", err=True)
    raise typer.Exit(code)


def _split(paths: list[str]) -> tuple[list[str], str]:
    """The policies, and the input: the last argument, unless it is the only one, a folder, or YAML."""
    last = paths[-1]
    if len(paths) > 1 and (last == "-" or not (last.endswith(_POLICIES) or Path(last).is_dir())):
        return paths[:-1], last
    if last == "-":
        fail("name the policies before the text")
    return paths, "-"


def _scanner(paths: list[str], request: str | None, variables: dict[str, str]) -> Scanner:
    from policyengine.compiler.pipeline import compile_policies
    from policyengine.language import NoPoliciesFound, PolicyError, load
    from policyengine.review.scan import Scanner
    from policyengine.runtime.errors import RequestError

    try:
        values = None if request is None else json.loads(request)
    except (ValueError, RecursionError) as error:
        fail(f"--request is not JSON: {error}")
    try:
        return Scanner(compile_policies(load(paths, variables=variables)), values)
    except PolicyError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(exits.NOTHING if isinstance(error, NoPoliciesFound) else exits.FAILED) from None
    except RequestError as error:
        fail(f"--request: {error}")


def _opened(name: str, stack: ExitStack) -> BinaryIO:
    if name == "-":
        if sys.stdin.isatty():
            typer.echo("reading standard input; Ctrl-D ends it", err=True)
        return sys.stdin.buffer
    try:
        return stack.enter_context(Path(name).open("rb"))
    except (OSError, ValueError) as error:
        _cannot(name, error)


def _created(name: str, stack: ExitStack) -> TextIO:
    if name == "-":
        return sys.stdout
    try:
        return stack.enter_context(Path(name).open("w", encoding="utf-8", errors="backslashreplace", newline=""))
    except (OSError, ValueError) as error:
        _cannot(name, error)


def _cannot(name: str, error: Exception) -> NoReturn:
    fail(f"{name}: {getattr(error, 'strerror', None) or error}")


def _scan_text(
    scanner: Scanner, label: str, stream: BinaryIO, decoder: Decoder, form: Format, sink: TextIO | None
) -> int:
    from policyengine.review.inputs import pieces
    from policyengine.review.scan_output import as_json, for_people

    progress = _Progress()
    text = progress.count(pieces(stream, decoder))
    out = sys.stderr if sink is sys.stdout else sys.stdout  # the text itself has standard output to itself
    if form is Format.JSON:
        outcome = as_json({"input": label}, scanner, text, out, sink)
    else:
        outcome = for_people(label, scanner, text, out, sink)
    progress.done()
    return exits.FINDINGS if outcome.is_finding else exits.CLEAN


def _scan_lines(scanner: Scanner, label: str, lines: Iterator[Record], form: Format) -> int:
    from policyengine.review.scan_output import as_json, one_line

    counts: Counter[str] = Counter()
    failed = found = False
    for record in lines:
        if record.text is None:
            failed = True
            typer.echo(f"error: {label}:{record.line}: {record.problem}", err=True)
            continue
        if form is Format.JSON:
            head = {"input": label, "input_line": record.line}
            outcome = as_json(head, scanner, [record.text], sys.stdout, None)
        else:
            outcome = one_line(f"{label}:{record.line}", scanner, record.text, sys.stdout)
        counts[outcome.action] += 1
        found = found or outcome.is_finding
    if form is Format.TEXT:
        total = sum(counts.values())
        parts = ", ".join(f"{count:,} {action}" for action, count in sorted(counts.items()))
        typer.echo(f"{total:,} {'text' if total == 1 else 'texts'}" + (f": {parts}" if parts else ""))
    return exits.FAILED if failed else exits.FINDINGS if found else exits.CLEAN


class _Progress:
    """Tells on a terminal how far a text was read, once that takes a while."""

    def __init__(self) -> None:
        self._read = 0
        self._next = time.monotonic() + _INTERVAL
        self._told = False

    def count(self, text: Iterator[str]) -> Iterator[str]:
        """The text, as it is read."""
        if not sys.stderr.isatty():
            return text
        return self._counted(text)

    def _counted(self, text: Iterator[str]) -> Iterator[str]:
        for piece in text:
            self._read += len(piece)
            if time.monotonic() >= self._next:
                self._next = time.monotonic() + _INTERVAL
                self._told = True
                sys.stderr.write(f"\r{self._read:,} characters read")
                sys.stderr.flush()
            yield piece

    def done(self) -> None:
        """Leave no half line behind."""
        if self._told:
            sys.stderr.write("\n")
