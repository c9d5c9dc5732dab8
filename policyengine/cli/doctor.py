"""`policyengine doctor`: whether the installed engines will enforce a build, and how."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from policyengine.cli import exits, options
from policyengine.cli.exits import fail

if TYPE_CHECKING:
    from policyengine.engines.commands import Command
    from policyengine.engines.findings import Finding, Judgement
    from policyengine.runtime.program import Program

EXAMPLE = "Example: policyengine doctor build -- vllm serve MODEL --config build/vllm/config.yaml"


class Format(StrEnum):
    """How results are written."""

    TEXT = "text"
    JSON = "json"


class Engine(StrEnum):
    """What can be looked at."""

    VLLM = "vllm"
    TRTLLM = "trtllm"


def run(
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="What compile wrote.", show_default="build")
    ] = "build",
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- COMMAND...",
            help="What starts the engine; `env NAME=VALUE` may stand before it. Nothing is run.",
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The engine's configuration. Default: the command's, or that of DIR."),
    ] = None,
    engine: Annotated[
        Engine | None, typer.Option(help="Look at this one. Default: the command's, or all that are installed.")
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="How results are written.")] = Format.TEXT,
) -> None:
    """Say whether the installed engines will enforce a build, and how. Starts none. Exit 1 if one would not."""
    options.refuse_empty(DIR=directory, config=config)
    directory, start = _split(directory, command or [])
    if start is not None and engine is not None and start.engine != engine.value:
        fail(f"the command starts {start.engine}, and --engine says {engine.value}")
    wanted = start.engine if start is not None else engine.value if engine is not None else None
    folder = Path(directory)
    program, package = _bundle(folder)
    engines = _engines(folder, package, wanted)
    if config is not None and len(engines) > 1:
        fail(f"--config could be for {' or '.join(engines)}: say which with --engine")
    judged = [_judged(one, folder, package, program, start, config) for one in engines]
    typer.echo(_json(judged) if form is Format.JSON else "\n".join(_text(judged, program, folder)))
    if any(_severity(one) == "error" for each in judged for one in each.findings):
        raise typer.Exit(exits.FINDINGS)


def _split(directory: str, words: list[str]) -> tuple[str, Command | None]:
    """The folder and the command: where only a command is given, its first word stands in the folder's place."""
    from policyengine.engines.commands import parse

    if words and not Path(directory).is_dir():
        directory, words = "build", [directory, *words]
    try:
        return directory, parse(words) if words else None
    except ValueError as error:
        fail(str(error))


def _bundle(folder: Path) -> tuple[Program, str]:
    """The program of a build, and its package's name."""
    from policyengine.bundles import open_bundle
    from policyengine.runtime.bundle import MANIFEST
    from policyengine.runtime.errors import BundleError

    found = sorted(folder.glob(f"*/{MANIFEST}"))
    if len(found) != 1:
        what = "several bundles" if found else "nothing that compile wrote"
        fail(f"{folder} holds {what}: name the folder of -o")
    try:
        return open_bundle(found[0].parent), found[0].parent.name
    except BundleError as error:
        fail(str(error))


def _engines(folder: Path, package: str, wanted: str | None) -> list[str]:
    """The engines to look at: installed, and compiled for."""
    from policyengine.engines.trtllm import doctor as trtllm
    from policyengine.engines.vllm import doctor_facts as vllm

    installed = {"vllm": vllm.is_installed, "trtllm": trtllm.is_installed}
    compiled = [one for one in installed if (folder / package / f"{one}.py").is_file()]
    if wanted is not None and wanted not in compiled:
        fail(f"{folder} was not compiled for {wanted}")
    found = [one for one in compiled if wanted in (None, one) and installed[one]()]
    if not found:
        fail(f"{wanted or ' and '.join(compiled)} {'is' if wanted or len(compiled) == 1 else 'are'} not installed here")
    return found


def _judged(
    engine: str, folder: Path, package: str, program: Program, start: Command | None, config: str | None
) -> Judgement:
    from policyengine.engines.vllm.doctor_facts import ProbeError

    make = _vllm if engine == "vllm" else _trtllm
    try:
        return make(folder, package, program, start, config)
    except ProbeError as error:
        fail(str(error))


def _vllm(folder: Path, package: str, program: Program, start: Command | None, config: str | None) -> Judgement:
    from policyengine.engines.vllm import doctor, doctor_facts
    from policyengine.runtime.program import AllowPlan, BanPlan, ForcePlan

    command = start or doctor_facts.start_of(folder)
    if config is not None:
        command = replace(command, options={**command.options, "config": (config,)})
    bans = any(
        isinstance(rule.body, AllowPlan | ForcePlan) or (isinstance(rule.body, BanPlan) and rule.body.avoid)
        for rule in program.rules
        if rule.mode == "enforce"
    )
    return doctor.judge(doctor_facts.collect(command, package, program.digest, bans=bans))


def _trtllm(folder: Path, package: str, program: Program, start: Command | None, config: str | None) -> Judgement:
    from policyengine.compiler.merging import unsafe_settings
    from policyengine.engines.findings import Finding
    from policyengine.engines.trtllm import doctor
    from policyengine.engines.vllm.doctor_facts import read_config

    command = start or doctor.start_of(folder)
    path = config or command.last(*doctor.OPTIONS)
    hook = "PolicyHookBase" in (folder / package / "trtllm.py").read_text(encoding="utf-8")
    if path is not None and start is None and config is None and not Path(path).exists():
        path = None  # the LLM API alone has no configuration
    facts = doctor.Facts(
        version=doctor.version(),
        has_hook=doctor.has_hook(),
        target="trtllm" if hook else "trtllm-llm",
        command=command,
        package=package,
        config=read_config(path) if path else {},
        config_path=path or "",
    )
    judged = doctor.judge(facts)
    more = tuple(
        Finding("config-unsafe", f"`{name}`: {one.message}", one.help, path or "command line", one.severity)
        for name, one in unsafe_settings("trtllm", facts.setting, program)
        if hook
    )
    return replace(judged, findings=(*judged.findings, *more))


def _severity(one: Finding) -> str:
    from policyengine.language import codes

    return one.severity or codes.by_name(one.name).severity


# -- showing it --------------------------------------------------------------------------------------------------------


def _text(judged: list[Judgement], program: Program, folder: Path) -> Iterator[str]:
    from policyengine.compiler.levels import levels_of
    from policyengine.language import codes

    for each in judged:
        yield each.how[0]
        yield from (f"  {line}" for line in each.how[1:])
        target = str(each.facts.get("target", each.engine))
        running = [row[target].how for row in levels_of(program, [target]) if row[target].runs]
        kinds = ", ".join(f"{running.count(how)} on {how}" for how in sorted(set(running)))
        yield (
            f"  {len(running)} of {len(program.rules)} rules run here{f' ({kinds})' if kinds else ''}, "
            f"bundle digest {program.digest}"
        )
        yield ""
        for one in each.findings:
            code = codes.by_name(one.name)
            yield f"{_severity(one)}[{code.code} {one.name}]: {one.message}"
            yield f"  --> {one.where}"
            yield f"  = help: {one.change}"
            yield ""
    found = [_severity(one) for each in judged for one in each.findings]
    counts = ", ".join(
        f"{found.count(name)} {name}{'' if found.count(name) == 1 else 's'}"
        for name in ("error", "warning")
        if name in found
    )
    verdict = "the policies will not hold" if "error" in found else "the policies will hold"
    yield f"{folder}: {verdict}{f' ({counts})' if counts else ''}"


def _json(judged: list[Judgement]) -> str:
    """One object: `version` of this form, `engines`, `findings`. Keys may be added to it; none goes or changes."""
    from policyengine.language import codes

    engines: list[dict[str, Any]] = []
    findings: list[dict[str, Any]] = []
    for each in judged:
        holds = all(_severity(one) != "error" for one in each.findings)
        engines.append(
            {"engine": each.engine, "version": each.version, "holds": holds, "how": list(each.how), **each.facts}
        )
        findings += [
            {
                "code": codes.by_name(one.name).code,
                "name": one.name,
                "severity": _severity(one),
                "engine": each.engine,
                "message": one.message,
                "help": one.change,
                "where": one.where,
            }
            for one in each.findings
        ]
    return json.dumps({"version": 1, "engines": engines, "findings": findings}, indent=2, ensure_ascii=False)
