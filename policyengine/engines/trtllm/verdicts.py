"""The engine's verdict class, under the names it has had.

The module is imported only when a hook is made, and its absence is no error then: a bundle may be inspected, and its
hook tried, where the engine is not installed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ENGINE = "tensorrt_llm"
MODULE = "tensorrt_llm.executor.postprocessor_hook"
NAMES = ("PostProcessorHookVerdict", "PostProcVerdict")  # the second in first drafts of the interface

Verdicts = Callable[..., Any]  # (action=..., text=..., reason=...)


@dataclass(slots=True)
class StandInVerdict:
    """What the hook answers where the engine is not installed; same fields as the engine's own class."""

    action: str
    text: str = ""
    reason: str | None = None


def engine_verdicts() -> Verdicts | None:
    """The engine's class; None if the engine is not installed. Raises RuntimeError for one that has no such class."""
    try:
        module = importlib.import_module(MODULE)
    except ModuleNotFoundError as error:
        if error.name == ENGINE:
            return None
        raise RuntimeError(
            f"this TensorRT-LLM has no text hook ({MODULE} is missing): it needs 1.3 or a release candidate of it"
        ) from error
    for name in NAMES:
        if hasattr(module, name):
            found: Verdicts = getattr(module, name)
            return found
    raise RuntimeError(f"{MODULE} has none of {', '.join(NAMES)}: this version of the hook's interface is not known")
