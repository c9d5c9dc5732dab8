"""Policies for LLM output: YAML in, what vLLM and TensorRT-LLM load out.

The names below are the public ones; each is imported when it is first used, so `import policyengine` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from policyengine.automata.vocabulary import Vocabulary
    from policyengine.bundles import open_bundle
    from policyengine.compiler import compile_policies as compile  # noqa: A004  the name users know: pe.compile
    from policyengine.language import load
    from policyengine.language.diagnostics import PolicyError
    from policyengine.language.policyset import PolicySet
    from policyengine.runtime.errors import BindError, BundleError, RequestError
    from policyengine.runtime.program import Program
    from policyengine.runtime.text_session import Match, TextSession, Verdict
    from policyengine.runtime.token_program import TokenProgram
    from policyengine.runtime.token_session import TokenSession

__version__ = "0.1.0"

_HOMES = {
    "BindError": ("policyengine.runtime.errors", "BindError"),
    "BundleError": ("policyengine.runtime.errors", "BundleError"),
    "Match": ("policyengine.runtime.text_session", "Match"),
    "PolicyError": ("policyengine.language.diagnostics", "PolicyError"),
    "PolicySet": ("policyengine.language.policyset", "PolicySet"),
    "Program": ("policyengine.runtime.program", "Program"),
    "RequestError": ("policyengine.runtime.errors", "RequestError"),
    "TextSession": ("policyengine.runtime.text_session", "TextSession"),
    "TokenProgram": ("policyengine.runtime.token_program", "TokenProgram"),
    "TokenSession": ("policyengine.runtime.token_session", "TokenSession"),
    "Verdict": ("policyengine.runtime.text_session", "Verdict"),
    "Vocabulary": ("policyengine.automata.vocabulary", "Vocabulary"),
    "compile": ("policyengine.compiler", "compile_policies"),
    "load": ("policyengine.language", "load"),
    "open_bundle": ("policyengine.bundles", "open_bundle"),
}

__all__ = [
    "BindError",
    "BundleError",
    "Match",
    "PolicyError",
    "PolicySet",
    "Program",
    "RequestError",
    "TextSession",
    "TokenProgram",
    "TokenSession",
    "Verdict",
    "Vocabulary",
    "__version__",
    "compile",
    "load",
    "open_bundle",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
