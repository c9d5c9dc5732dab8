"""The commands by name. Each is imported when the command line is read, its work only when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from policyengine.cli import check, code, diff, doctor, explain, init, scan, schema, test
from policyengine.cli import compile as compile_command
from policyengine.cli.environment import Commands

app = typer.Typer(
    cls=Commands,
    help="Policies for LLM output: YAML in, what vLLM and TensorRT-LLM load out.",
    epilog="Options may also be given in the environment: POLICYENGINE_CHECK_FORMAT=github is check --format github.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command(name="check", cls=check.Command, epilog=check.EXAMPLE)(check.run)
app.command(name="code", epilog=code.EXAMPLE)(code.run)
app.command(name="compile", epilog=compile_command.EXAMPLE)(compile_command.run)
app.command(name="diff", epilog=diff.EXAMPLE)(diff.run)
app.command(name="doctor", epilog=doctor.EXAMPLE)(doctor.run)
app.command(name="explain", epilog=explain.EXAMPLE)(explain.run)
app.command(name="init", epilog=init.EXAMPLE)(init.run)
app.command(name="scan", epilog=scan.EXAMPLE)(scan.run)
app.command(name="schema", epilog=schema.EXAMPLE)(schema.run)
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
