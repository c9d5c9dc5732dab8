"""A program as the files that engines load (design 5): path below the output folder to bytes, the same every time.

Nothing is written here (`output` does that), so that `--check` compares the very bytes that a compile would write.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from policyengine.compiler.levels import Levels, levels_of
from policyengine.compiler.packaging import record, wheel
from policyengine.compiler.templates import render
from policyengine.language.packages import package_problem
from policyengine.requests import request_schema
from policyengine.runtime.bundle import ARRAYS, MANIFEST, to_files
from policyengine.runtime.program import (
    AllowPlan,
    BanPlan,
    BiasPlan,
    ForcePlan,
    MinTokensPlan,
    Program,
    RewritePlan,
    RuleBody,
    RulePlan,
    automaton_kind,
)

REPORT = "REPORT.md"
# Target: its module in the package, its configuration file (the LLM API has none), and the templates of both.
MODULES = {
    "vllm": ("vllm.py", "vllm.py.j2"),
    "trtllm": ("trtllm.py", "trtllm.py.j2"),
    "trtllm-llm": ("trtllm.py", "trtllm.py.j2"),
}
CONFIGS = {
    "vllm": ("vllm/config.yaml", "vllm_config.yaml.j2"),
    "trtllm": ("trtllm/config.yaml", "trtllm_config.yaml.j2"),
}

_KINDS: dict[type[RuleBody], str] = {
    AllowPlan: "allow",
    BanPlan: "ban",
    BiasPlan: "bias",
    ForcePlan: "force",
    MinTokensPlan: "min_tokens",
    RewritePlan: "rewrite",
}

# How vLLM comes to load the policies: a configuration names them, or it finds them installed (then by name as well).
Activation = Literal["named", "installed"]

Tree = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Build:
    """What a compile is to write. tree: posix path below the output folder to content."""

    tree: Tree
    levels: Levels
    targets: tuple[str, ...]
    package: str

    def size(self, name: str) -> int:
        """Bytes of a file of the package."""
        return len(self.tree[f"{self.package}/{name}"])


def build(
    program: Program,
    *,
    targets: Iterable[str],
    package: str,
    with_wheel: bool = False,
    activate: Activation = "named",
) -> Build:
    """All files of a compiled program for these targets.

    Raises ValueError for a package name that cannot be used, and for `installed` without the only engine that loads
    what is installed.
    """
    problem = package_problem(package)
    if problem:
        raise ValueError(problem)
    chosen = tuple(target for target in MODULES if target in set(targets))
    if activate == "installed" and "vllm" not in chosen:
        raise ValueError("only vLLM loads what is installed, and it is not among the targets")
    levels = levels_of(program, chosen)
    about = {"levels": _levels_json(program, levels), "request_schema": request_schema(program.policies)}
    bundle = to_files(program, about)
    version = f"0+{program.digest[:12]}"
    info = f"{package}-{version}.dist-info"

    module = {f"{package}/__init__.py": render("init.py.j2", digest=program.digest)}
    for target in chosen:
        name, template = MODULES[target]
        module[f"{package}/{name}"] = render(template, targets=chosen)
    module |= {f"{package}/{name}": bundle[name] for name in (MANIFEST, ARRAYS)}
    metadata = {f"{info}/METADATA": render("METADATA.j2", package=package, version=version)}
    if activate == "installed":
        module[f"{package}/guard.py"] = render("guard.py.j2")
        metadata[f"{info}/entry_points.txt"] = render("entry_points.txt.j2", package=package)

    tree: Tree = module | metadata
    tree[f"{info}/RECORD"] = record(tree, f"{info}/RECORD")
    for target in (one for one in chosen if one in CONFIGS):
        name, template = CONFIGS[target]
        tree[name] = render(template, package=package)
    tree[REPORT] = _report(program, levels, chosen, len(bundle[ARRAYS]))
    if with_wheel:
        tree[f"dist/{package}-{version}-py3-none-any.whl"] = wheel(module | metadata, info)
    return Build(tree, levels, chosen, package)


def kind(rule: RulePlan) -> str:
    """The key of a rule's kind, as in a policy file."""
    return next(name for cls, name in _KINDS.items() if isinstance(rule.body, cls))


def rule_name(program: Program, rule: RulePlan) -> str:
    """`policy/rule`, as people write it."""
    return f"{program.policies[rule.policy].name}/{rule.id}"


def _levels_json(program: Program, levels: Levels) -> dict[str, Any]:
    return {
        rule_name(program, rule): {target: {"how": level.how, "detail": level.detail} for target, level in row.items()}
        for rule, row in zip(program.rules, levels, strict=True)
    }


def _report(program: Program, levels: Levels, targets: tuple[str, ...], array_bytes: int) -> bytes:
    names = [policy.name for policy in program.policies]
    rules = [
        {"name": rule_name(program, rule), "what": _what(rule), "levels": row}
        for rule, row in zip(program.rules, levels, strict=True)
    ]
    sizes = [
        {
            "use": one.use if one.mode == "enforce" else f"{one.use}, shadow",
            "policies": ", ".join(names[i] for i in one.policies),
            "targets": ", ".join(one.targets),
            "kind": automaton_kind(one.automaton),
            "patterns": len(one.phrases),
            "states": one.automaton.n_states,
        }
        for one in program.components
    ]
    return render(
        "REPORT.md.j2",
        policies=program.policies,
        rules=rules,
        targets=targets,
        sizes=sizes,
        digest=program.digest,
        array_bytes=array_bytes,
    )


def _what(rule: RulePlan) -> str:
    body = rule.body
    what = f"ban, {'avoid' if body.avoid else body.text_action.kind}" if isinstance(body, BanPlan) else kind(rule)
    what = what if rule.channel == "all" else f"{what}, in the {rule.channel}"
    return f"{what}, shadow" if rule.mode == "shadow" else what
