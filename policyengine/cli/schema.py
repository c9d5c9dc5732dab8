"""`policyengine schema`: JSON Schemas for editors, and of what requests may pass."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from policyengine.cli import exits, options
from policyengine.cli.exits import fail

EXAMPLE = "Example: policyengine schema schemas --check"


def run(
    directory: Annotated[
        str | None, typer.Argument(metavar="DIR", help="Where the schemas go.", show_default="schemas")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 if DIR does not hold what would be written.")
    ] = False,
    bundle: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Print instead what requests may pass to this compiled package."),
    ] = None,
) -> None:
    """Write the JSON Schemas of policies, project files and policy tests."""
    options.refuse_empty(bundle=bundle)
    if directory == "":
        fail("the folder is empty")
    if bundle is not None:
        if check or directory is not None:
            fail("--bundle prints a schema: it takes neither a folder nor --check")
        typer.echo(_request_schema(bundle), nl=False)
        return

    from policyengine.language.schema import files

    folder = Path(directory or "schemas")
    try:
        stale = {name: text for name, text in files().items() if _read(folder / name) != text.encode()}
        if check:
            _report_check(list(stale), folder)
            return
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in stale.items():
            (folder / name).write_bytes(text.encode())
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}")
    typer.echo("\n".join(f"wrote {folder / name}" for name in stale) or f"{folder} is up to date")


def _request_schema(bundle: str) -> str:
    from policyengine.bundles import open_bundle
    from policyengine.language.schema import text
    from policyengine.requests import request_schema
    from policyengine.runtime.errors import BundleError

    try:
        return text(request_schema(open_bundle(bundle).policies))
    except BundleError as error:
        fail(str(error))


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _report_check(stale: list[str], folder: Path) -> None:
    if not stale:
        typer.echo(f"{folder} is up to date")
        return
    for name in stale:
        typer.echo(f"not up to date: {folder / name}")
    raise typer.Exit(exits.FINDINGS)
