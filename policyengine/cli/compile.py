"""`policyengine compile`: policies to the artifacts that engines load."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from policyengine.cli import exits, options
from policyengine.cli.exits import fail

if TYPE_CHECKING:
    from policyengine.compiler.artifacts import Build
    from policyengine.language.policyset import PolicySet
    from policyengine.runtime.program import Program

EXAMPLE = "Example: policyengine compile policies --target vllm -o build"


class Target(StrEnum):
    """What policies can be compiled for."""

    VLLM = "vllm"
    TRTLLM = "trtllm"
    TRTLLM_LLM = "trtllm-llm"


class Activate(StrEnum):
    """How vLLM comes to load the policies."""

    NAMED = "named"
    INSTALLED = "installed"


def run(
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Policy files, or folders of them.")],
    output: Annotated[str, typer.Option("-o", "--output", metavar="DIR", help="Where the artifacts go.")],
    target: Annotated[
        list[Target] | None, typer.Option(help="Compile for this engine; may be repeated. Default: the project's.")
    ] = None,
    variables: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A variable for the policies; may be repeated."),
    ] = None,
    package: Annotated[
        str | None, typer.Option(metavar="NAME", help="The importable package's name. Default: the project's.")
    ] = None,
    wheel: Annotated[bool, typer.Option("--wheel", help="Also write dist/*.whl.")] = False,
    merge: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[TARGET=]FILE", help="An engine's configuration of your own, to which the policies are added."
        ),
    ] = None,
    activate: Annotated[
        Activate,
        typer.Option(
            help="Where vLLM runs the policies: where a configuration names them, or wherever they are installed."
        ),
    ] = Activate.NAMED,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 if DIR is not what would be written.")
    ] = False,
    allow_unenforced: Annotated[
        bool,
        typer.Option("--allow-unenforced", help="Only warn of what a target cannot enforce."),
    ] = False,
) -> None:
    """Compile policies to what vLLM and TensorRT-LLM load."""
    from policyengine.compiler.artifacts import build
    from policyengine.compiler.levels import findings, levels_of, nothing_runs
    from policyengine.compiler.output import OutputError, clean, differences, write
    from policyengine.compiler.pipeline import compile_policies
    from policyengine.compiler.summary import summary
    from policyengine.language import NoPoliciesFound, PolicyError, load
    from policyengine.language.packages import package_problem
    from policyengine.language.render import render

    # An empty value is an unset variable of a shell; it must not mean the working directory, or the default.
    for option, value in (("-o", output), ("--package", package)):
        if value == "":
            fail(f"{option} is empty")
    folder = Path(output)
    try:
        policies = _with_targets(load(paths, variables=options.pairs(variables or [])), target)
        targets = [t.value for t in target] if target else list(policies.project.targets)
        name = policies.project.package if package is None else package
        problem = package_problem(name)
        if problem:
            fail(f"{problem}: choose another one with --package")
        if activate is Activate.INSTALLED and Target.VLLM not in targets:
            fail("--activate installed is for vLLM, which is not among the targets: add --target vllm")
        program = compile_policies(policies)
    except PolicyError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(exits.NOTHING if isinstance(error, NoPoliciesFound) else exits.FAILED) from None

    levels = levels_of(program, targets)
    advice = "compile for others with --target, or accept it with --allow-unenforced"
    found = findings(program, levels, policies, allow_unenforced=allow_unenforced, advice=advice)
    if found:
        typer.echo(render(found, policies.sources), err=True)
    if any(one.severity == "error" for one in found):
        raise typer.Exit(exits.FAILED)
    nothing = nothing_runs(program, levels)
    if nothing:
        fail(nothing)

    made = build(program, targets=targets, package=name, with_wheel=wheel, activate=activate.value)
    if merge:
        made = _merged(made, program, merge)
    try:
        changed = differences(made.tree, folder)
        if check:
            _report_check(changed, folder)
            return
        if changed:
            write(made.tree, folder)
        clean(folder)
    except (OutputError, OSError) as error:
        fail(str(error))
    typer.echo(summary(program, made, folder, changed=bool(changed)))


def _with_targets(policies: PolicySet, target: list[Target] | None) -> PolicySet:
    """Add targets that are named here and not in the project to the project's: policies that name none follow it."""
    named = policies.project.targets + tuple(t.value for t in target or ())
    return replace(policies, project=replace(policies.project, targets=tuple(dict.fromkeys(named))))


def _merged(made: Build, program: Program, given: list[str]) -> Build:
    """The build with the configurations of `--merge` in it."""
    from policyengine.compiler.artifacts import CONFIGS
    from policyengine.compiler.merging import merged
    from policyengine.language import PolicyError
    from policyengine.language.render import render

    have = [target for target in made.targets if target in CONFIGS]
    files: dict[str, str] = {}
    for text in given:
        target, equals, path = text.partition("=")
        if not equals or target not in [one.value for one in Target]:
            target, path = (have[0] if len(have) == 1 else ""), text
        if not path:
            fail("--merge names no file")
        if target not in have:
            what = f"`{target}` is not compiled for or has no configuration" if target else "it could be for either"
            offer = " or ".join(f"--merge {one}=FILE" for one in have)
            fail(f"--merge {text}: {what}; {f'write {offer}' if offer else 'no selected target has one'}")
        if target in files:
            fail(f"--merge names two files for `{target}`")
        files[target] = path
    try:
        made, found, sources = merged(made, program, files)
    except PolicyError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(exits.FAILED) from None
    if found:
        typer.echo(render(found, sources), err=True)
    return made


def _report_check(changed: list[str], output: Path) -> None:
    if not changed:
        typer.echo(f"{output} is up to date")
        return
    for path in changed:
        typer.echo(f"not up to date: {output / path}")
    raise typer.Exit(exits.FINDINGS)
