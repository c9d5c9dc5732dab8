"""`policyengine code`: what a diagnostic means."""

from __future__ import annotations

from typing import Annotated

import typer

from policyengine.cli import options

EXAMPLE = "Example: policyengine code forced-contains-banned"


def run(
    code: Annotated[
        str | None, typer.Argument(metavar="CODE|NAME", help="For instance PE103 or forced-contains-banned.")
    ] = None,
) -> None:
    """Print the page of a diagnostic; without one, list all of them."""
    if code is not None:
        typer.echo(options.code(code).page, nl=False)
        return

    from policyengine.lint.registry import every_code

    known = every_code()
    width = max(len(one.name) for one in known)
    for one in known:
        typer.echo(f"{one.code}  {one.name:<{width}}  {one.severity:<7}  {one.summary}")
