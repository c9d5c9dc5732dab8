"""The trials of `tests/properties/trials.py` by the million: `python -m tests.long_run --trials 1000000 --seed 1`.

Each looks at less than those of every day do (`trials.LIGHT`): there are more policies and segmentations instead.

Progress goes to stderr. A trial that fails prints the case, and the
command that runs it again; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from typing import TextIO

from tests.properties import trials

os.environ["POLICYENGINE_CACHE_DIR"] = "off"  # in the workers too: random vocabularies are not worth keeping
_CASES_A_REPORT = 250


def _say(line: str, stream: TextIO | None = None) -> None:
    stream = stream or sys.stdout
    stream.write(line + "\n")
    stream.flush()


def _run(seed: str) -> tuple[str, int, str | None]:
    """One case: its seed, how many trials it was, and what went wrong."""
    chosen = trials.case(seed, effort=trials.LIGHT)
    try:
        return seed, trials.run_case(chosen, trials.LIGHT), None
    except Exception as error:
        shown = str(error) if isinstance(error, trials.FailedError) else f"{chosen}\n{type(error).__name__}: {error}"
        return seed, 0, shown


def main(arguments: list[str] | None = None) -> int:
    """Run it; 0 if every trial passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.long_run", description=__doc__)
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--case", help="run this one case only, as printed by a failing trial")
    options = parser.parse_args(arguments)
    if options.case is not None:
        _, done, wrong = _run(options.case)
        _say(wrong or f"case {options.case}: {done} trials passed")
        return int(wrong is not None)
    cases = -(-options.trials // trials.LIGHT.trials_a_case)
    seeds = [f"{options.seed}/{index}" for index in range(cases)]
    start, done, failed = time.monotonic(), 0, 0
    with multiprocessing.get_context("spawn").Pool(options.jobs, maxtasksperchild=1000) as pool:
        for finished, (seed, count, wrong) in enumerate(pool.imap_unordered(_run, seeds), start=1):
            done += count
            if wrong is not None:
                failed += 1
                _say(f"{wrong}\nagain: python -m tests.long_run --case {seed}\n")
            if finished % _CASES_A_REPORT == 0 or finished == cases:
                minutes = (time.monotonic() - start) / 60
                _say(f"{done:,} trials, {finished:,} cases, {minutes:.1f} min, {failed} failed", sys.stderr)
    _say(f"seed {options.seed}: {done:,} trials passed, of {cases:,} policies with a vocabulary; {failed} cases failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
