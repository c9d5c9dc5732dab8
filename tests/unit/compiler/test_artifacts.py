"""The files that a compile makes: the same bytes everywhere, whole or not at all, and fit for Python's own tools."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.metadata
import io
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

import policyengine as pe
from policyengine.compiler.artifacts import Tree, build, check_package
from policyengine.compiler.output import OutputError, differences, write
from tests.unit.compiler.conftest import Make

RULES = "rules: {x: {ban: {phrases: [Project Titan, bluebird]}}}\n"


@pytest.fixture
def tree(make: Make) -> Tree:
    return build(pe.compile(make(a=RULES)), targets=["vllm", "trtllm"], package="policy_bundle").tree


@pytest.fixture
def other(make: Make) -> Tree:
    return build(pe.compile(make(a=RULES.replace("bird", "jay"))), targets=["vllm"], package="other_name").tree


def files(folder: Path) -> Tree:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# -- reproducible -----------------------------------------------------------------------------------------------------


def compile_in(folder: Path, argument: str, seed: str) -> Tree:
    output = folder / "out"
    command = [sys.executable, "-m", "policyengine", "compile", argument, "-o", str(output), "--wheel"]
    environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": "Asia/Tokyo" if seed == "1" else "UTC"}
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    return files(output)


def test_the_same_policies_give_the_same_bytes_wherever_and_whenever(make: Make, tmp_path: Path) -> None:
    make(a="description: 'a | b'\n" + RULES, b=RULES.replace("x:", "y:"), project="max_hold: 100\n")
    copy = tmp_path / "elsewhere" / "deep"
    shutil.copytree(tmp_path / "policies", copy / "rules")
    for path in copy.rglob("*.yaml"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    first = compile_in(tmp_path, "policies", "1")
    second = compile_in(copy, str(copy / "rules"), "2")
    third = compile_in(copy / "rules", ".", "3")
    assert first == second == third
    assert any(path.endswith(".whl") for path in first)
    assert not any(str(tmp_path).encode() in content for content in first.values())


def test_nothing_depends_on_when_it_is_made(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    program = pe.compile(make(a=RULES))
    first = build(program, targets=["vllm"], package="p", with_wheel=True).tree
    monkeypatch.setattr("time.time", lambda: 4_000_000_000.0)
    assert build(program, targets=["vllm"], package="p", with_wheel=True).tree == first


# -- what is written --------------------------------------------------------------------------------------------------


def test_the_tree_is_the_one_of_the_design(tree: Tree, make: Make) -> None:
    version = f"0+{pe.compile(make(a=RULES)).digest[:12]}"
    assert sorted(tree) == sorted(
        [
            "REPORT.md",
            f"policy_bundle-{version}.dist-info/METADATA",
            f"policy_bundle-{version}.dist-info/RECORD",
            "policy_bundle/__init__.py",
            "policy_bundle/manifest.json",
            "policy_bundle/program.safetensors",
            "policy_bundle/trtllm.py",
            "policy_bundle/vllm.py",
            "trtllm/config.yaml",
            "vllm/config.yaml",
        ]
    )


def test_the_engines_configurations(tree: Tree) -> None:
    assert yaml.safe_load(tree["vllm/config.yaml"]) == {
        "logits-processors": ["policy_bundle.vllm:PolicyLogitsProcessor"],
        "logprobs-mode": "processed_logprobs",
    }
    assert yaml.safe_load(tree["trtllm/config.yaml"]) == {"post_processor_hook": "policy_bundle.trtllm.PolicyHook"}


def test_generated_modules_are_a_few_lines(tree: Tree) -> None:
    for name in ("__init__.py", "vllm.py", "trtllm.py"):
        source = tree[f"policy_bundle/{name}"].decode("utf-8")
        compile(source, name, "exec")
        assert len(source.splitlines()) <= 12


def test_the_report_stays_a_table_whatever_the_policies_say(make: Make) -> None:
    program = pe.compile(make(a="description: |\n  a | b\n  <script>*x*\nowner: 'a`b'\n" + RULES))
    report = build(program, targets=["vllm"], package="p").tree["REPORT.md"].decode("utf-8")
    row = next(line for line in report.splitlines() if line.startswith("| a |"))
    assert row == "| a | a.yaml | always | a\\`b |  | a \\| b \\<script\\>\\*x\\* |"
    assert program.digest in report
    assert "| a/x | ban, avoid | tokens (fallback: not yet) |" in report


def test_an_open_bundle_of_a_build_is_the_program(tree: Tree, make: Make, tmp_path: Path) -> None:
    write(tree, tmp_path / "build")
    assert pe.open_bundle(tmp_path / "build" / "policy_bundle").digest == pe.compile(make(a=RULES)).digest


@pytest.mark.parametrize("name", ["no-name", "1st", "class", "vllm", "trtllm", "dist", "json", "", "größe"])
def test_names_that_a_package_cannot_have(make: Make, name: str) -> None:
    assert check_package(name)
    with pytest.raises(ValueError, match="package"):
        build(pe.compile(make(a=RULES)), targets=["vllm"], package=name)


# -- the folder -------------------------------------------------------------------------------------------------------


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


# -- Python's own tools -----------------------------------------------------------------------------------------------


def check_record(listing: str, content: Tree, own: str) -> None:
    rows = list(csv.reader(io.StringIO(listing)))
    assert sorted(row[0] for row in rows) == sorted([*content, own])
    for path, digest, size in rows:
        if path != own:
            assert int(size) == len(content[path])
            assert digest == "sha256=" + _urlsafe(hashlib.sha256(content[path]).digest())


def _urlsafe(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def test_the_folder_counts_as_installed(tree: Tree, make: Make, tmp_path: Path) -> None:
    write(tree, tmp_path / "build")
    found = list(importlib.metadata.distributions(path=[str(tmp_path / "build")]))
    assert [(one.metadata["Name"], one.version) for one in found] == [
        ("policy_bundle", f"0+{pe.compile(make(a=RULES)).digest[:12]}")
    ]
    assert not found[0].entry_points  # installed is inert
    record = next(path for path in tree if path.endswith("RECORD"))
    packaged = {path: data for path, data in tree.items() if path.startswith("policy_bundle") and path != record}
    check_record(tree[record].decode("utf-8"), packaged, record)


def test_the_wheel_installs(make: Make, tmp_path: Path) -> None:
    program = pe.compile(make(a=RULES))
    made = build(program, targets=["vllm", "trtllm"], package="policy_bundle", with_wheel=True).tree
    write(made, tmp_path / "build")
    wheel = next((tmp_path / "build" / "dist").iterdir())
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        content = {name: archive.read(name) for name in archive.namelist()}
    record = next(name for name in content if name.endswith("RECORD"))
    check_record(content.pop(record).decode("utf-8"), content, record)

    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet"]
    subprocess.run([*command, "--target", str(tmp_path / "site"), str(wheel)], check=True, capture_output=True)
    assert pe.open_bundle(tmp_path / "site" / "policy_bundle").digest == program.digest
    assert (tmp_path / "site/policy_bundle/vllm.py").read_bytes() == made["policy_bundle/vllm.py"]
