"""Policies from text, for tests of the compiler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import policyengine as pe
from policyengine.compiler.artifacts import Tree, build
from policyengine.language import load
from policyengine.language.policyset import PolicySet

Make = Callable[..., PolicySet]

RULES = "rules: {x: {ban: {phrases: [Project Titan, bluebird]}}}\n"


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


@pytest.fixture
def tree(make: Make) -> Tree:
    """A build of `RULES`."""
    return build(pe.compile(make(a=RULES)), targets=["vllm", "trtllm"], package="policy_bundle").tree


@pytest.fixture
def other(make: Make) -> Tree:
    """A build that differs from it in every way."""
    return build(pe.compile(make(a=RULES.replace("bird", "jay"))), targets=["vllm"], package="other_name").tree


def files(folder: Path) -> Tree:
    """The files below a folder, as a build holds them."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
