"""Collects, on this machine, the facts that `doctor` judges. Imports no engine: a process of its own asks vLLM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from policyengine.engines.commands import Command
from policyengine.engines.vllm import doctor_probe
from policyengine.engines.vllm.doctor import EntryPoint, Facts

_PATIENCE = 300  # seconds for vLLM to be imported


class ProbeError(Exception):
    """What is to be asked does not answer, or cannot be read; the text says why."""


def is_installed() -> bool:
    """Whether this environment has vLLM."""
    return find_spec("vllm") is not None


def start_of(folder: Path) -> Command:
    """How `compile` says to start vLLM with a build."""
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH", ""))))
    return Command("vllm", {"PYTHONPATH": path}, ("MODEL",), {"config": (str(folder / "vllm/config.yaml"),)})


def collect(command: Command, package: str, digest: str, *, bans: bool) -> Facts:
    """The facts of a start in this environment, with what the command assigns, for a build of this digest.

    Raises ProbeError.
    """
    environment = {**os.environ, **command.environment}
    path = command.last("config") if "config" not in command.glued else None
    known = _ask(f"{package}.vllm:PolicyLogitsProcessor", environment)
    return Facts(
        version=known["version"],
        device=known["device"],
        triton=known["triton"],
        unloadable=known["unloadable"],
        other_digest=known["digest"] if known["digest"] != digest else "",
        entry_points=tuple(EntryPoint(*point) for point in known["entry_points"]),
        environment=environment,
        command=command,
        config=read_config(path) if path is not None else {},
        config_path=path or "",
        model=model_config(command),
        package=package,
        bans=bans,
    )


def read_config(path: str) -> dict[str, Any]:
    """A configuration file as the engines read it; ProbeError if it cannot be read as a mapping."""
    try:
        values = yaml.safe_load(Path(path).read_bytes())
    except (OSError, ValueError, yaml.YAMLError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error).splitlines()[0]
        raise ProbeError(f"{path} cannot be read: {said}") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ProbeError(f"{path} cannot be read: an engine's configuration is a mapping")
    return values


def model_config(command: Command) -> dict[str, Any]:
    """The model's `config.json` where the command names a folder that holds it; else nothing."""
    model = command.last("model") or (command.words[0] if command.words else "")
    try:
        values = json.loads((Path(model) / "config.json").read_bytes()) if model else {}
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def _ask(name: str, environment: Mapping[str, str]) -> dict[str, Any]:
    # -P: the folder of the script, which is one of ours, must not be where modules are looked for.
    command = [sys.executable, "-P", doctor_probe.__file__, name]
    try:
        done = subprocess.run(
            command,
            env=dict(environment),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProbeError(f"vLLM did not answer: {type(error).__name__}") from error
    for line in reversed(done.stdout.splitlines()):
        if line.startswith(doctor_probe.MARK):
            answer: dict[str, Any] = json.loads(line.removeprefix(doctor_probe.MARK))
            return answer
    lines = done.stderr.strip().splitlines()
    raise ProbeError(
        f"vLLM is installed and cannot be imported: {lines[-1] if lines else f'exit code {done.returncode}'}"
    )
