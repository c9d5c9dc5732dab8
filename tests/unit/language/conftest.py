"""Policies from texts, in a folder of their own, and what is said about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from policyengine.language import Diagnostic, PolicyError, PolicySet, load
from policyengine.language.render import Lines

Files = Mapping[str, str | bytes]


def put(folder: Path, files: Files) -> None:
    """Write files below a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which is also the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def read(folder: Path) -> Callable[..., PolicySet]:
    """Loads a text as `policy.yaml`, or several files at once as the folder `.`."""

    def run(files: str | bytes | Files, **options: Mapping[str, str]) -> PolicySet:
        put(folder, files if isinstance(files, Mapping) else {"policy.yaml": files})
        return load(".", **options)

    return run


@pytest.fixture
def errors(read: Callable[..., PolicySet]) -> Callable[..., list[Diagnostic]]:
    """What loading the same reports; it must report something."""

    def run(files: str | bytes | Files, **options: Mapping[str, str]) -> list[Diagnostic]:
        with pytest.raises(PolicyError) as caught:
            read(files, **options)
        assert str(caught.value), "every error has a text"
        return list(caught.value.diagnostics)

    return run


@pytest.fixture
def said(read: Callable[..., PolicySet]) -> Callable[..., list[tuple[str, str]]]:
    """What loading the same reports, as (name of the code, the text that is underlined)."""

    def run(files: str | bytes | Files, **options: Mapping[str, str]) -> list[tuple[str, str]]:
        with pytest.raises(PolicyError) as caught:
            read(files, **options)
        return [(one.name, underlined(one, caught.value.sources)) for one in caught.value.diagnostics]

    return run


def underlined(found: Diagnostic, sources: Mapping[str, str]) -> str:
    """The text that a diagnostic points at, on its first line."""
    at = found.span
    line = Lines(sources[at.file])[at.line]
    return line[at.column - 1 : at.end_column - 1 if at.end_line == at.line else len(line)]
