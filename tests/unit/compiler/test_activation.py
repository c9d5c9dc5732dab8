"""`--activate installed`: what makes vLLM find the policies without being told of them."""

from __future__ import annotations

import configparser
import importlib.metadata
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

import policyengine as pe
from policyengine.compiler.artifacts import Tree, build
from policyengine.compiler.output import differences, write
from tests.unit.compiler.conftest import RULES, Make

POINTS = {
    "vllm.general_plugins": {"acme": "acme.guard:guard"},
    "vllm.logits_processors": {"acme": "acme.vllm:PolicyLogitsProcessor"},
}


@pytest.fixture
def installed(make: Make) -> Tree:
    program = pe.compile(make(a=RULES))
    return build(program, targets=["vllm"], package="acme", with_wheel=True, activate="installed").tree


def points(text: str) -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser(delimiters=("=",))
    parser.read_string(text)
    return {section: dict(parser[section]) for section in parser.sections()}


def test_the_wheel_and_the_folder_name_the_same_entry_points(installed: Tree) -> None:
    (name,) = (path for path in installed if path.endswith("entry_points.txt"))
    wheel = next(content for path, content in installed.items() if path.endswith(".whl"))
    with zipfile.ZipFile(BytesIO(wheel)) as archive:
        assert points(archive.read(name).decode()) == points(installed[name].decode()) == POINTS
        assert archive.read("acme/guard.py") == installed["acme/guard.py"]
    for listing in (path for path in installed if path.endswith("RECORD")):
        recorded = installed[listing].decode()
        assert f"\n{name},sha256=" in f"\n{recorded}"
        assert "\nacme/guard.py,sha256=" in f"\n{recorded}"


def test_a_folder_on_the_path_counts_as_installed(installed: Tree, tmp_path: Path) -> None:
    write(installed, tmp_path / "build")
    found = [
        (point.group, point.name, point.value)
        for one in importlib.metadata.distributions(path=[str(tmp_path / "build")])
        for point in one.entry_points
    ]
    assert sorted(found) == [(group, name, value) for group, names in POINTS.items() for name, value in names.items()]


def test_named_is_inert_and_the_default(make: Make, installed: Tree) -> None:
    """Nothing of what only `installed` needs, and otherwise the same files."""
    named = build(pe.compile(make(a=RULES)), targets=["vllm"], package="acme", with_wheel=True).tree
    more = {path for path in installed if path not in named}
    assert {path.rsplit("/", 1)[-1] for path in more} == {"entry_points.txt", "guard.py"}
    changed = {path for path in named if named[path] != installed[path]}
    assert {path.rsplit("/", 1)[-1] for path in changed} == {"RECORD", next(p for p in named if "dist/" in p)[5:]}


def test_only_vllm_loads_what_is_installed(make: Make) -> None:
    with pytest.raises(ValueError, match="vLLM"):
        build(pe.compile(make(a=RULES)), targets=["trtllm"], package="acme", activate="installed")


def test_a_folder_of_the_other_kind_is_replaced_whole(make: Make, installed: Tree, tmp_path: Path) -> None:
    """In both directions, so that no entry point stays behind."""
    named = build(pe.compile(make(a=RULES)), targets=["vllm"], package="acme", with_wheel=True).tree
    for first, second in ((named, installed), (installed, named)):
        write(first, tmp_path / "build")
        assert any("entry_points" in path for path in differences(second, tmp_path / "build"))
        write(second, tmp_path / "build")
        assert differences(second, tmp_path / "build") == []


def test_the_guards_module_needs_nothing_to_be_imported(installed: Tree, tmp_path: Path) -> None:
    """vLLM passes over a plugin that it cannot import, and does not pass over one whose call fails."""
    write(installed, tmp_path / "build")
    code = (
        "import sys; before = set(sys.modules); import acme.guard\n"
        "print(sorted(set(sys.modules) - before - {'__future__'}))\n"
        "sys.modules['policyengine'] = None\n"
        "try: acme.guard.guard()\n"
        "except ImportError: print('stops')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path / "build", capture_output=True, text=True, check=True
    )
    assert done.stdout == "['acme', 'acme.guard']\nstops\n"
