"""Text in chunks under 1,000 phrases and what policies put beside them: expressions, gaps, exceptions.

All of them redact, so that a text is read to its end although some of it matches.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import policyengine as pe

_KEYS = ("AKIA", "ASIA", "ghp_", "gho_", "glpat-", "xoxb-", "xoxp-", "sk-", "rk_live_", "AIza", "ya29", "npm_", "pypi-")
EXPRESSIONS = (
    *(rf"\b{key}[A-Za-z0-9_-]{{16,40}}" for key in _KEYS),
    r"[\w.+-]{1,40}@[\w-]{1,40}\.[a-z]{2,6}",
    r"\b[0-9]{3}-[0-9]{2}-[0-9]{4}\b",
    r"\b([0-9]{4}[ -]?){3}[0-9]{4}\b",
    r"\b[A-Z]{2}[0-9]{2}( ?[A-Z0-9]{4}){3,7}\b",
    r"\b([0-9]{1,3}\.){3}[0-9]{1,3}\b",
    r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----",
    r"(?i)password\s*[:=]\s*\S{1,40}",
)


_AROUND = 20  # exceptions
NAMES = (
    "phrases alone",
    f"and {len(EXPRESSIONS)} expressions",
    "gaps: punctuation",
    f"{_AROUND} exceptions",
)


def feeds(name: str, banned: Sequence[str]) -> Callable[[], Callable[[str], object]]:
    """A function that begins a stream under one of the policies."""
    listed: dict[str, Any] = {"phrases": list(banned)}
    bans: list[dict[str, Any]] = [listed]
    if name == NAMES[1]:
        bans.append({"regex": list(EXPRESSIONS)})
    elif name == NAMES[2]:
        listed["gaps"] = "punctuation"
    elif name == NAMES[3]:
        listed["except"] = [f"{phrase} and so on" for phrase in banned[:_AROUND]]
    rules = {f"r{i}": {"ban": ban, "action": "redact"} for i, ban in enumerate(bans)}
    with TemporaryDirectory() as folder:
        # JSON is YAML.
        Path(folder, "mixed.yaml").write_text(json.dumps({"version": 1, "policy": "mixed", "rules": rules}), "utf-8")
        program = pe.compile(pe.load(folder))
    return lambda: program.text_session().feed
