"""The one check command: `python -m tools.check` runs everything that must pass before a change lands.

    python -m tools.check                 all steps, in order
    python -m tools.check format lint     only these
    python -m tools.check tests -- -k phrases    arguments after `--` go to pytest

Every step runs even if an earlier one failed; the exit code is 1 if any failed. The tests come last, so that their
summary closes the output.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHON = sys.executable

# Step: what is run, from the repository's root.
STEPS: dict[str, list[str]] = {
    "format": [PYTHON, "-m", "ruff", "format", "--check", "."],
    "lint": [PYTHON, "-m", "ruff", "check", "."],
    "types": [PYTHON, "-m", "mypy"],
    "imports": [PYTHON, "-c", "from importlinter.cli import lint_imports_command as main; main()"],
    "generated": [PYTHON, "-m", "policyengine", "schema", "--check", "schemas"],
    "tests": [PYTHON, "-m", "pytest"],
}


def main(arguments: list[str]) -> int:
    """Run the named steps (all of them if none is named); 0 if all passed, 1 if not, 2 for an unknown step."""
    split = arguments.index("--") if "--" in arguments else len(arguments)
    names, extra = arguments[:split] or list(STEPS), arguments[split + 1 :]
    unknown = [name for name in names if name not in STEPS]
    if unknown:
        print(f"unknown step {unknown[0]!r}: the steps are {', '.join(STEPS)}", file=sys.stderr)
        return 2
    failed = []
    for name in names:
        command = STEPS[name] + (extra if name == "tests" else [])
        print(f"== {name}", flush=True)
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
