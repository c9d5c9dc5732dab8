"""The commands by name. Each is imported when the command line is read, its work only when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from policyengine.cli import check, code, explain, scan, schema, test
from policyengine.cli import compile as compile_command

app = typer.Typer(
    help="Policies for LLM output: YAML in, what vLLM and TensorRT-LLM load out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command(name="check", cls=check.Command)(check.run)
app.command(name="code")(code.run)
app.command(name="compile")(compile_command.run)
app.command(name="explain")(explain.run)
app.command(name="scan")(scan.run)
app.command(name="schema")(schema.run)
app.command(name="test", epilog=test.EXAMPLE)(test.run)


def _version(wanted: bool) -> None:
    if wanted:
        import policyengine

        typer.echo(f"policyengine {policyengine.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """What holds for every command."""
