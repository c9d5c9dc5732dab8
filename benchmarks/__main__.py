"""`python -m benchmarks`: the table of token steps and of binding, ours and the peers in one run."""

from __future__ import annotations

import resource
import sys
import time

import torch

from benchmarks import common, token_step
from policyengine.automata.folding import FoldSpec
from policyengine.automata.vocabulary_trie import VocabularyTrie


def binding() -> None:
    """Index of the vocabulary, and binding by number of phrases."""
    vocabulary = common.vocabulary()
    start = time.perf_counter()
    VocabularyTrie(vocabulary, FoldSpec())
    print(f"index of {vocabulary.size:,} ids: {time.perf_counter() - start:.2f} s")
    print(f"{'phrases':>9} {'compile s':>10} {'bind s':>8} {'states':>9} {'tables MB':>10} {'peak RSS MB':>12}")
    for count in (100, 1_000, 10_000, 100_000):
        banned = common.phrases(count)
        start = time.perf_counter()
        program = common.program(banned)
        compiled = time.perf_counter() - start
        start = time.perf_counter()
        bound = program.bind(vocabulary)
        seconds = time.perf_counter() - start
        states, peak = program.components[0].automaton.n_states, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        size = bound.nbytes() / 1e6
        print(f"{count:>9,} {compiled:>10.2f} {seconds:>8.2f} {states:>9,} {size:>10.1f} {peak / 1e3:>12.0f}")


def steps(quick: bool) -> None:
    """One batch step, by phrases and batch size."""
    print(f"{'phrases':>9} {'batch':>6} {'ours ms':>9} {'floor ms':>9} {'bad_words ms':>13} {'ratio':>8}")
    sizes, counts = ((64, 256), (100, 1_000)) if quick else ((1, 64, 256, 1024), (100, 1_000, 10_000))
    for row in token_step.rows(sizes, counts, 15 if quick else 40):
        peer = row["bad_words"]
        shown, ratio = ("", "") if peer is None else (f"{peer * 1e3:.2f}", f"{peer / row['ours']:.0f}x")
        ours, floor = row["ours"] * 1e3, row["floor"] * 1e3
        print(f"{row['phrases']:>9,} {row['batch']:>6} {ours:>9.3f} {floor:>9.3f} {shown:>13} {ratio:>8}")


def main(arguments: list[str]) -> None:
    """Print every table; `--quick` keeps it under two minutes."""
    quick = "--quick" in arguments
    torch.set_num_threads(2)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads\n")
    binding()
    print()
    steps(quick)


if __name__ == "__main__":
    main(sys.argv[1:])
