"""What a start costs: the index of the vocabulary, and binding by number of phrases, each in a process of its own.

Cold: nothing is cached. Warm: the cache holds what the cold process left there; all of it is read and checked again.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from itertools import pairwise

from benchmarks import common
from policyengine.automata.phrases import PhraseAutomaton
from policyengine.runtime import table_cache
from policyengine.runtime.program import Program

COUNTS = (100, 1_000, 10_000, 100_000)
FIELDS = ("automaton", "index", "bind", "first", "states", "bytes", "peak")


def measure(count: int) -> dict[str, float]:
    """One start in this process: seconds by part, and the size of it all.

    automaton: phrases to automaton, which a compiled bundle pays too; index, bind: as their names say; first: the first
    mask that is asked for; states of the automaton; bytes of the bound tables; peak: MB of memory of the process.
    """
    vocabulary = common.vocabulary()
    banned = common.phrases(count)
    times = [time.perf_counter()]
    program: Program = common.program(banned)
    automaton = program.components[0].automaton
    assert isinstance(automaton, PhraseAutomaton)
    times.append(time.perf_counter())
    vocabulary.digest  # noqa: B018 - part of what the cache costs
    trie = table_cache.index(vocabulary, automaton.spec)
    times.append(time.perf_counter())
    tables = table_cache.tables(automaton, trie)
    times.append(time.perf_counter())
    bound = program.bind(vocabulary)
    bound.token_session().mask_parts()
    times.append(time.perf_counter())
    parts = [after - before for before, after in pairwise(times)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return dict(zip(FIELDS, [*parts, automaton.n_states, tables.nbytes(), peak], strict=True))


def rows(counts: tuple[int, ...] = COUNTS, rounds: int = 3) -> list[dict[str, float]]:
    """One row a number of phrases: `measure` cold, and `warm_index`, `warm_bind`; medians of as many processes."""
    found = []
    for count in counts:
        cold, warm = [], []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as cache:
                cold.append(_in_process(count, cache))
                warm.append(_in_process(count, cache))
        row = {field: _median([run[field] for run in cold]) for field in FIELDS}
        more = {f"warm_{field}": _median([run[field] for run in warm]) for field in ("index", "bind", "peak")}
        found.append({"phrases": count, **row, **more})
    return found


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def _in_process(count: int, cache: str) -> dict[str, float]:
    code = f"import json; from benchmarks.binding import measure; print(json.dumps(measure({count})))"
    env = os.environ | {table_cache.VARIABLE: cache, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, check=True, stdout=subprocess.PIPE)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def show(rounds: int = 3) -> None:
    """Print the table."""
    print(f"{'phrases':>9} {'compile s':>10} {'index s':>8} {'warm':>6} {'bind s':>7} {'warm':>6}", end=" ")
    print(f"{'states':>9} {'tables MB':>10} {'peak MB':>8} {'warm':>6}")
    for row in rows(rounds=rounds):
        line = f"{row['phrases']:>9,.0f} {row['automaton']:>10.2f} {row['index']:>8.2f} {row['warm_index']:>6.3f}"
        line += f" {row['bind']:>7.2f} {row['warm_bind']:>6.3f} {row['states']:>9,.0f} {row['bytes'] / 1e6:>10.1f}"
        print(f"{line} {row['peak']:>8.0f} {row['warm_peak']:>6.0f}")


if __name__ == "__main__":
    show()
