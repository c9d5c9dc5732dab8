"""Policies in, what one lint finds out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from policyengine.automata.vocabulary import Vocabulary
from policyengine.lint.run import Result, check

HEAD = "version: 1\npolicy: p\nowner: a team\ndescription: for a test\n"

Found = Callable[..., list[str]]
Put = Callable[..., Path]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """`put("rules: ...")` writes p.yaml; more files by keyword, with `__` for the dot of a name."""

    def written(policy: str, **others: str) -> Path:
        (tmp_path / "p.yaml").write_text(HEAD + policy, encoding="utf-8", newline="")
        for name, text in others.items():
            (tmp_path / name.replace("__", ".")).write_text(text, encoding="utf-8", newline="")
        return tmp_path

    return written


@pytest.fixture
def found(put: Put) -> Found:
    """`found("zero-bias", "rules: ...")`: the messages of one lint."""

    def messages(lint: str, policy: str, *, vocabulary: Vocabulary | None = None, **others: str) -> list[str]:
        return [one.message for one in checked(put(policy, **others), vocabulary).diagnostics if one.name == lint]

    return messages


def checked(folder: Path, vocabulary: Vocabulary | None = None) -> Result:
    """A check in which no policy is wrong."""
    result = check([folder], vocabulary=vocabulary)
    wrong = [one for one in result.diagnostics if one.severity == "error" and one.name != "not-enforceable"]
    assert wrong == []
    return result
