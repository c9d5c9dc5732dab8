"""The output folder: whole or not at all, and nothing of anybody else's is touched."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from policyengine.compiler.artifacts import Tree
from policyengine.compiler.output import OutputError, clean, differences, write
from tests.unit.compiler.conftest import RULES, Make, files


def test_an_older_build_is_replaced_as_a_whole(tree: Tree, other: Tree, tmp_path: Path) -> None:
    write(tree, tmp_path / "build")
    write(other, tmp_path / "build")
    assert files(tmp_path / "build") == other
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_what_python_caches_in_a_build_is_no_obstacle(tree: Tree, other: Tree, tmp_path: Path) -> None:
    write(tree, tmp_path / "build")
    cache = tmp_path / "build/policy_bundle/__pycache__"
    cache.mkdir()
    (cache / "vllm.cpython-311.pyc").write_bytes(b"x")
    assert differences(tree, tmp_path / "build") == []
    write(other, tmp_path / "build")
    assert files(tmp_path / "build") == other


@pytest.mark.parametrize(
    "path",
    [
        "notes.txt",
        "policy_bundle/mine.py",
        "mine/file",
        "vllm/more.yaml",
        "policy_bundle/__pycache__/mine.txt",
        "dist/x",
    ],
)
def test_what_we_did_not_write_is_never_deleted(tree: Tree, other: Tree, tmp_path: Path, path: str) -> None:
    build_folder = tmp_path / "build"
    write(tree, build_folder)
    mine = build_folder / path
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    before = files(build_folder)
    with pytest.raises(OutputError, match="policyengine did not write"):
        write(other, build_folder)
    assert files(build_folder) == before


def test_a_folder_that_is_no_build_is_left_alone(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "mine" / "vllm").mkdir(parents=True)
    (tmp_path / "mine" / "vllm" / "config.yaml").write_text("mine")
    with pytest.raises(OutputError, match="holds `vllm/`"):
        write(tree, tmp_path / "mine")
    assert files(tmp_path / "mine") == {"vllm/config.yaml": b"mine"}


def test_a_file_and_an_empty_folder(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OutputError):
        write(tree, tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"
    (tmp_path / "empty").mkdir(mode=0o750)
    write(tree, tmp_path / "empty")
    assert files(tmp_path / "empty") == tree
    assert (tmp_path / "empty").stat().st_mode & 0o777 == 0o750


def test_a_link_to_a_build_stays_a_link(tree: Tree, other: Tree, tmp_path: Path) -> None:
    write(tree, tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write(other, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert files(tmp_path / "real") == other


@pytest.mark.parametrize("path", ["link", "link/build", "to-link", "loop"])
def test_a_link_to_nothing_is_refused(tree: Tree, tmp_path: Path, path: str) -> None:
    """Following it would make a folder somewhere else, which nobody named."""
    here = tmp_path / "here"
    here.mkdir()
    (here / "link").symlink_to(tmp_path / "elsewhere")
    (here / "to-link").symlink_to("link")
    (here / "loop").symlink_to("loop")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(OutputError, match="is a link to nothing"):
        write(tree, here / path)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("step", range(3))
def test_an_interruption_leaves_the_old_build(
    tree: Tree, other: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """The disk fails while files are written (0), at the first rename (1) and at the second (2)."""
    target = tmp_path / "build"
    write(tree, target)
    real, calls = os.rename, iter(range(1, 100))

    def rename(source: Path, destination: Path) -> None:
        if next(calls) == step:
            raise KeyboardInterrupt
        real(source, destination)

    def flush(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "rename", rename)
    if step == 0:
        monkeypatch.setattr(os, "fsync", flush)
    with pytest.raises(OutputError if step == 0 else KeyboardInterrupt):
        write(other, target)
    monkeypatch.undo()
    assert files(target) == tree
    assert sorted(path.name for path in tmp_path.iterdir()) == ["build", "policies"]


# -- killed ------------------------------------------------------------------------------------------------------------


def test_a_killed_compile_leaves_the_old_build(make: Make, tmp_path: Path) -> None:
    """Killed outright at the moment when everything is written and nothing has been renamed."""
    make(a=RULES)
    command = [sys.executable, "-m", "policyengine", "compile", "policies", "-o", "build"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    before = files(tmp_path / "build")
    make(a=RULES.replace("bluebird", "magpie"))
    code = (
        "import os, sys, policyengine.cli as cli\n"
        "os.rename = lambda *_: os.kill(os.getpid(), 9)\n"
        "sys.argv = ['policyengine', 'compile', 'policies', '-o', 'build']\n"
        "cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False, capture_output=True)
    assert done.returncode == -9
    assert files(tmp_path / "build") == before
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert files(tmp_path / "build") != before


def kill_at(step: str, folder: Path) -> None:
    """Compile `policies` to `build` in a process that is killed outright: before it renames, between, or after."""
    steps = {"written": ("rename", "build"), "between": ("rename", ".new"), "renamed": ("rmtree", ".old")}
    function, ending = steps[step]
    code = (
        "import os, shutil, sys, policyengine.cli as cli\n"
        f"module = {'os' if function == 'rename' else 'shutil'}\n"
        f"real = module.{function}\n"
        "def killed(path, *more, **options):\n"
        f"    os.kill(os.getpid(), 9) if str(path).endswith({ending!r}) else real(path, *more, **options)\n"
        f"module.{function} = killed\n"
        "sys.argv = ['policyengine', 'compile', 'policies', '-o', 'build']\n"
        "cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, check=False, capture_output=True)
    assert done.returncode == -9


def in_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time() + 4000
    monkeypatch.setattr("time.time", lambda: now)


def left(folder: Path) -> list[str]:
    return sorted(path.suffix for path in folder.iterdir() if path.name.startswith("."))


@pytest.mark.parametrize(("step", "leaves"), [("written", [".new"]), ("between", [".new", ".old"])])
def test_what_a_killed_compile_left_is_removed_in_time(
    make: Make, tree: Tree, other: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, leaves: list[str]
) -> None:
    """Not at once, since another compile may be at work there; the old build when a new one has taken its place."""
    write(tree, tmp_path / "build")
    make(a=RULES.replace("bluebird", "magpie"))
    kill_at(step, tmp_path)
    assert (left(tmp_path), (tmp_path / "build").exists()) == (leaves, step == "written")
    for build_again in (tree, other):
        write(build_again, tmp_path / "build")
        assert files(tmp_path / "build") == build_again
        assert left(tmp_path) == [".new"]
    clean(tmp_path / "build")
    assert left(tmp_path) == [".new"]
    in_an_hour(monkeypatch)
    clean(tmp_path / "build")
    assert left(tmp_path) == []
    assert files(tmp_path / "build") == other


def test_the_old_build_that_a_killed_compile_did_not_get_to_is_removed_in_time(
    make: Make, tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tree, tmp_path / "build")
    make(a=RULES.replace("bluebird", "magpie"))
    kill_at("renamed", tmp_path)
    assert left(tmp_path) == [".old"]
    clean(tmp_path / "build")
    assert left(tmp_path) == [".old"]
    in_an_hour(monkeypatch)
    clean(tmp_path / "build")
    assert left(tmp_path) == []


def test_only_what_a_compile_to_this_folder_left_is_removed(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tree, tmp_path / "build")
    mark = "0123456789ab"
    for name in (f".other.{mark}.new", ".build.old", f".build.{mark}.bak", f".build.{mark}0.new", f"build.{mark}.new"):
        (tmp_path / name).mkdir()
    (tmp_path / f".build.{mark[::-1]}.new").write_text("mine")
    (tmp_path / f".build.{'f' * 12}.new").symlink_to(tmp_path / f".other.{mark}.new")
    before = sorted(tmp_path.rglob("*"))
    in_an_hour(monkeypatch)
    clean(tmp_path / "build")
    assert sorted(tmp_path.rglob("*")) == before
