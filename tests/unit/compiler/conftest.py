"""Policies from text, for tests of the compiler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from policyengine.language import load
from policyengine.language.policyset import PolicySet

Make = Callable[..., PolicySet]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """`make(a="rules: ...", b=...)`: a policy a keyword, its name and version written for it; `project=` too."""

    def made(project: str = "", **policies: str) -> PolicySet:
        folder = tmp_path / "policies"
        folder.mkdir(exist_ok=True)
        if project:
            (folder / "policyengine.yaml").write_text(f"version: 1\n{project}", encoding="utf-8")
        for name, body in policies.items():
            (folder / f"{name}.yaml").write_text(f"version: 1\npolicy: {name}\n{body}", encoding="utf-8")
        return load(folder)

    return made
