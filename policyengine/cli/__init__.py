"""The command `policyengine`: one thin file a command; what it does lives in the layers below."""

from __future__ import annotations

import os
import sys
import traceback


def main() -> None:
    """Run the command line. Results go to stdout, logs to stderr; exit codes as in `cli.exits`."""
    from policyengine.cli.app import app
    from policyengine.cli.exits import FAILED

    _start_light()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that lacks a character shows an escape, the command goes on
            stream.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="policyengine")
    except OSError as error:  # a full disk behind stdout; what files commands cannot read or write, they say themselves
        import typer

        about = f": {error.filename}" if error.filename else ""
        typer.echo(f"error: {error.strerror or error}{about}", err=True)
        sys.exit(FAILED)
    except Exception:
        # 1 would read as "findings": an error of ours is none.
        traceback.print_exc()
        sys.exit(FAILED)


def _start_light() -> None:
    """Keep libraries from doing at start what no command needs. It would take longer than checking policies does."""
    if "numpy" not in sys.modules:  # a thread a core, for products of matrices
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if "pydantic" not in sys.modules:  # a look at every installed package for plugins, which might log what is read
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
