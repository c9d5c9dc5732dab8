"""`python -m benchmarks`: the tables of binding, token steps and streaming, ours and the peers in one run."""

from __future__ import annotations

import sys

import torch

from benchmarks import binding, streaming, token_step


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
    binding.show(1 if quick else 3)
    print()
    steps(quick)
    print()
    streaming.show(quick)


if __name__ == "__main__":
    main(sys.argv[1:])
