"""The command `policyengine`: one thin file a command; what it does lives in the layers below."""

from __future__ import annotations

import os
import sys
import traceback


def main() -> None:
    """Run the command line. Results go to stdout, logs to stderr; exit codes as in `cli.exits`."""
    from policyengine.cli.app import app
    from policyengine.cli.exits import FAILED

    if "numpy" not in sys.modules:  # it starts a thread a core for products of matrices, of which there are none here
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that lacks a character shows an escape, the command goes on
            stream.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="policyengine")
    except Exception:
        # 1 would read as "findings": an error of ours is none.
        traceback.print_exc()
        sys.exit(FAILED)
