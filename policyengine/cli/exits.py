"""Exit codes, the same for every command and format, and the way out of a command that cannot go on."""

from __future__ import annotations

from typing import NoReturn

CLEAN = 0
FINDINGS = 1  # findings, failed tests, a gated difference
FAILED = 2  # could not do the job: usage, unreadable or invalid input
NOTHING = 3  # no policies or no tests found


def fail(message: str) -> NoReturn:
    """Say on stderr why the job cannot be done, and exit with `FAILED`."""
    import typer

    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(FAILED)
