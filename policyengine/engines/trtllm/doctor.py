"""Whether a TensorRT-LLM would run the policies of a bundle, judged from facts. Imports no engine."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from policyengine.engines.commands import Command
from policyengine.engines.findings import Finding, Judgement
from policyengine.engines.trtllm.verdicts import ENGINE, MODULE, NAMES

OPTIONS = ("extra-llm-api-options", "config")  # two names of one option of `trtllm-serve`
HOOK = "post_processor_hook"


@dataclass(frozen=True)
class Facts:
    """All that is judged.

    version: of the installed TensorRT-LLM. has_hook: whether it has the hook in a form that is known.
    target: "trtllm" (the hook) or "trtllm-llm" (the LLM API).
    config: the values of its options file, and config_path the file; empty if there is none.
    """

    version: str
    has_hook: bool
    target: str
    command: Command
    package: str
    config: Mapping[str, Any] = field(default_factory=dict)
    config_path: str = ""

    def setting(self, name: str) -> Any:
        """What an option of the server is set to, by its name with underscores; None if nowhere."""
        return self.command.setting(name.replace("_", "-"), self.config)


def is_installed() -> bool:
    """Whether this environment has TensorRT-LLM."""
    return find_spec(ENGINE) is not None


def version() -> str:
    """The installed version; empty if it is not known."""
    try:
        return importlib.metadata.version(ENGINE)
    except importlib.metadata.PackageNotFoundError:
        return ""


def has_hook() -> bool:
    """Whether the installed version has the hook, seen without importing it: that alone takes a GPU's libraries."""
    spec = find_spec(ENGINE)
    file = "/".join(MODULE.split(".")[1:]) + ".py"
    for folder in (spec.submodule_search_locations if spec else None) or ():
        path = Path(folder) / file
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            return any(name in text for name in NAMES)
    return False


def start_of(folder: Path) -> Command:
    """How `compile` says to start TensorRT-LLM with a build."""
    return Command("trtllm", {}, ("MODEL",), {OPTIONS[0]: (str(folder / "trtllm/config.yaml"),)})


def judge(facts: Facts) -> Judgement:
    """What is wrong, and how the policies would run."""
    how = [f"tensorrt_llm {facts.version or 'of unknown version'}"]
    hook = f"{facts.package}.trtllm.PolicyHook"
    named = facts.target == "trtllm" and facts.setting(HOOK) == hook
    if named:
        how.append(f"the policies are the hook of {_source(facts)}")
    elif facts.target == "trtllm-llm":
        how.append("the policies run in requests to which a program attaches them, and in no other")
    findings = tuple(_findings(facts, hook, named)) if facts.target == "trtllm" else ()
    return Judgement("trtllm", facts.version, tuple(how), {"target": facts.target, "named": named}, findings)


def _findings(facts: Facts, hook: str, named: bool) -> Iterator[Finding]:
    if not facts.has_hook:
        message = f"TensorRT-LLM {facts.version or 'of unknown version'} has no text hook of a form that is known"
        yield Finding("engine-too-old", message, "install 1.3 or a release candidate of it", "tensorrt_llm")
    if not named:
        other = facts.setting(HOOK)
        message = f"`{HOOK}` names {other}, and only one hook runs" if other else f"nothing names {hook}"
        change = f"start the server with `--{OPTIONS[0].replace('-', '_')}` and the file that `compile` writes"
        yield Finding("not-activated", message, change, _source(facts))
    words = facts.command.words
    if words and words[0].startswith("disaggregated"):
        message = (
            "in disaggregated serving the hook runs in both stages, each on its own: a match across the two is not seen"
        )
        change = "serve without disaggregation where policies must hold at the very start of an answer"
        yield Finding("config-unsafe", message, change, "command line", "warning")
    model = facts.command.last("model") or (words[-1] if words else "")
    if "gpt-oss" in model.lower():
        message = "harmony models are refused by the engine when a hook is named"
        yield Finding("config-unsafe", message, "serve another model", "command line")


def _source(facts: Facts) -> str:
    return facts.config_path or "command line"
