"""A command line that starts an engine's server, read as far as `doctor` needs it; nothing is run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_SHORT = {"-sc": "--speculative-config"}
_SERVERS = {"vllm": "vllm", "trtllm-serve": "trtllm"}
_MODULES = {"vllm.entrypoints.openai.api_server": "vllm", "tensorrt_llm.commands.serve": "trtllm"}


@dataclass(frozen=True, slots=True)
class Command:
    """What starts a server.

    engine: "vllm" or "trtllm". environment: the assignments in front of it. words: what is neither an option nor its
    value, the model first (a subcommand before it, if there is one).
    options: by name, without the dashes in front and with hyphens, the values of the last time it is given. A dotted
    option (`--speculative-config.method ngram`) is under its first part.
    glued: names that were given as `--name=value`.
    """

    engine: str
    environment: Mapping[str, str] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    glued: frozenset[str] = frozenset()

    def last(self, *names: str) -> str | None:
        """The last value of the first of these options that has one; None if none has."""
        return next((self.options[name][-1] for name in names if self.options.get(name)), None)

    def setting(self, name: str, config: Mapping[str, Any]) -> Any:
        """What an option is set to here or, if not here, in a configuration file; None if nowhere.

        A flag is True, or False where it is given as `--no-name`; several values are a list.
        """
        if f"no-{name}" in self.options:
            return False
        if name not in self.options:
            return next((value for key, value in config.items() if str(key).replace("_", "-") == name), None)
        values = self.options[name]
        return list(values) if len(values) > 1 else _value(values[0]) if values else True


def parse(words: Sequence[str]) -> Command:
    """The command in these words; ValueError for one that starts no server of an engine that is known."""
    rest = list(words)
    environment: dict[str, str] = {}
    while rest and (rest[0] == "env" or _ASSIGNMENT.match(rest[0])):
        name, equals, value = rest.pop(0).partition("=")
        if equals:
            environment[name] = value
    engine = _engine(rest)
    plain: list[str] = []
    options: dict[str, tuple[str, ...]] = {}
    glued = set()
    current = ""  # the option whose values follow
    for given in rest:
        word = _SHORT.get(given, given)
        if not word.startswith("-") or _is_number(word):
            if current:
                options[current] = (*options[current], word)
            else:
                plain.append(word)
            continue
        name, equals, value = word.lstrip("-").partition("=")
        current = name.partition(".")[0].replace("_", "-")
        options[current] = (value,) if equals else ()
        if equals:
            glued.add(current)
            current = ""
    return Command(engine, environment, tuple(plain), options, frozenset(glued))


def _engine(rest: list[str]) -> str:
    """The engine that the first words start; they are taken away."""
    program = rest[0].rpartition("/")[2] if rest else ""
    if program in _SERVERS:
        del rest[:1]
        if program == "vllm":
            if rest[:1] != ["serve"]:
                raise ValueError(f"`{' '.join(['vllm', *rest[:1]])}` starts no server: give `vllm serve MODEL ...`")
            del rest[:1]
        return _SERVERS[program]
    if program.startswith("python") and "-m" in rest[:-1]:
        at = rest.index("-m") + 1
        if rest[at] in _MODULES:
            engine = _MODULES[rest[at]]
            del rest[: at + 1]
            return engine
    raise ValueError("this is no command that starts vLLM or TensorRT-LLM: give `vllm serve ...` or `trtllm-serve ...`")


def _value(text: str) -> Any:
    """An option's value: an object where it is JSON of one."""
    if text.startswith("{"):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def _is_number(word: str) -> bool:
    return re.fullmatch(r"-\d+(\.\d+)?", word) is not None
