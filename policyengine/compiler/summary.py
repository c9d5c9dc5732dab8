"""What a compile prints for a person: what was compiled, where each rule is enforced, what to run next."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

from policyengine.compiler.artifacts import CONFIGS, Build, rule_name
from policyengine.runtime.bundle import ARRAYS
from policyengine.runtime.program import Program

_COMMANDS = {
    "vllm": "vllm serve MODEL --config",
    "trtllm": "trtllm-serve MODEL --extra_llm_api_options",
}


def summary(program: Program, made: Build, output: Path, *, changed: bool) -> str:
    """The printed summary. changed: whether anything had to be written."""
    rows = [["rule", *made.targets]]
    for rule, levels in zip(program.rules, made.levels, strict=True):
        rows.append([rule_name(program, rule), *(str(levels[target]) for target in made.targets)])
    patterns = sum(len(one.phrases) for one in program.components)
    states = sum(one.automaton.n_states for one in program.components)
    size = sum(map(len, made.tree.values()))
    verb = "wrote" if changed else "up to date:"
    parts = [
        f"{_count(len(program.policies), 'policy', 'policies')}, {_count(len(program.rules), 'rule', 'rules')}, "
        f"digest {program.digest}",
        _table(rows),
        f"{_count(patterns, 'pattern', 'patterns')} in {_count(len(program.components), 'automaton', 'automata')} of "
        f"{_count(states, 'state', 'states')}; {ARRAYS}: {made.size(ARRAYS):,} bytes",
        f"{verb} {_count(len(made.tree), 'file', 'files')}, {size:,} bytes, in {output}",
        "\n".join(_next(made, output)),
    ]
    return "\n\n".join(parts)


def _next(made: Build, output: Path) -> list[str]:
    """What to run, for the targets that run a rule."""
    running = [target for target in made.targets if any(row[target].runs for row in made.levels)]
    path = f"  PYTHONPATH={quote(str(output))}"
    lines = [f"{path} {_COMMANDS[t]} {quote(str(output / CONFIGS[t][0]))}" for t in running if t in CONFIGS]
    if "trtllm-llm" in running:
        lines.append(f"{path} python, and there: from {made.package}.trtllm import PolicyLogitsProcessor")
    if any(name.endswith("/entry_points.txt") for name in made.tree):
        lines.append("every vLLM that has this folder on its path, or the wheel installed, runs the policies")
    return ["next:", *lines]


def _table(rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
