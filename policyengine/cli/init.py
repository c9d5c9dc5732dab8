"""`policyengine init`: a first policy, with what it takes to review changes of it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from policyengine.cli.exits import fail

EXAMPLE = "Example: policyengine init my-policies"


def run(
    directory: Annotated[
        str, typer.Argument(metavar="[DIR]", help="Where the files go: the top of a repository.", show_default=False)
    ] = ".",
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave files that exist as they are, and write the others.")
    ] = False,
) -> None:
    """Write a first policy, its test, a project file, schemas for editors, a pre-commit hook and a GitHub workflow.

    Nothing is ever overwritten: what exists is listed, and nothing is written then.
    """
    if not directory:
        fail("the folder is empty")

    from policyengine import __version__
    from policyengine.review.first import first_files, in_the_way, write

    folder = Path(directory)
    try:
        if folder.exists() and not folder.is_dir():
            fail(f"{directory} is a file")
        files = first_files(__version__)
        existing = in_the_way(folder, files)
        if existing and not (keep and all(one in files for one in existing)):
            hint = "" if not all(one in files for one in existing) else "; --keep writes the others"
            fail(f"nothing was written: {', '.join(str(folder / one) for one in existing)} exist{hint}")
        wanted = {place: text for place, text in files.items() if place not in existing}
        write(folder, wanted)
    except (OSError, ValueError) as error:
        fail(f"nothing was written: {getattr(error, 'filename', None) or directory}: {_reason(error)}")
    for place in existing:
        typer.echo(f"kept {folder / place}")
    for place in wanted:
        typer.echo(f"wrote {folder / place}")
    typer.echo(_next(folder))


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def _next(folder: Path) -> str:
    steps = ["policyengine check policies", "policyengine test policies", "policyengine compile policies -o build"]
    if folder != Path("."):
        steps.insert(0, f"cd {shlex.quote(str(folder))}")
    lines = ["", "next:", *(f"  {step}" for step in steps), "  pre-commit install"]
    top = _repository(folder)
    if top is not None and top != folder.resolve():
        lines += ["", f"{top} is the top of the repository: only there do .github and .pre-commit-config.yaml act"]
    return "\n".join(lines)


def _repository(folder: Path) -> Path | None:
    """The top of the repository that a folder is in."""
    here = folder.resolve()
    return next((one for one in (here, *here.parents) if (one / ".git").exists()), None)
