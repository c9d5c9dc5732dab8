"""The files that a compile makes: the same bytes everywhere, and fit for Python's own tools."""

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
from policyengine.compiler.artifacts import Tree, build
from policyengine.compiler.output import write
from policyengine.language.packages import package_problem
from tests.unit.compiler.conftest import RULES, Make, files

# -- reproducible -----------------------------------------------------------------------------------------------------


# What is made into automata of other kinds.
OTHERS = r"""rules:
  a: {ban: {phrases: [Project Titan, Hyperion, a-b c], gaps: letters, normalize: [nfkc, marks, confusables]}}
  b: {ban: {phrases: [Titan], except: [Titan press kit, the Titan], gaps: punctuation}}
  c: {ban: {regex: ['AKIA[0-9A-Z]{16}', '(?i)\b(top|very) secret\b', '^a|b$']}}
  d: {ban: {scripts: [Han, Cyrillic]}}
"""


def compile_in(folder: Path, argument: str, seed: str) -> Tree:
    output = folder / "out"
    command = [sys.executable, "-m", "policyengine", "compile", argument, "-o", str(output), "--wheel"]
    environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": "Asia/Tokyo" if seed == "1" else "UTC"}
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    return files(output)


def test_the_same_policies_give_the_same_bytes_wherever_and_whenever(make: Make, tmp_path: Path) -> None:
    make(a="description: 'a | b'\n" + RULES, b=RULES.replace("x:", "y:"), c=OTHERS, project="max_hold: 100\n")
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


@pytest.mark.parametrize("name", ["no-name", "1st", "class", "vllm", "trtllm", "dist", "json", "", "größe", "numpy"])
def test_names_that_a_package_cannot_have(make: Make, name: str) -> None:
    assert package_problem(name)
    with pytest.raises(ValueError, match="package"):
        build(pe.compile(make(a=RULES)), targets=["vllm"], package=name)


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


def test_the_report_names_kinds_and_parts_of_the_output(make: Make) -> None:
    program = pe.compile(
        make(
            project="targets: [trtllm]\nreasoning: {start: <think>, end: </think>}\n",
            a="""\
rules:
  a: {ban: {phrases: [x], gaps: letters}, channel: answer}
  b: {ban: {regex: ['(a)\\1']}, action: redact}
  c: {ban: {scripts: [Han]}}
  d: {rewrite: {to: upper}}
""",
        )
    )
    report = build(program, targets=["trtllm"], package="p").tree["REPORT.md"].decode("utf-8")
    for row in (
        "| a/a | ban, avoid, in the answer | text (fallback: terminate) |",
        "| a/b | ban, redact | text (redact) |",
        "| a/d | rewrite, in the answer | text |",
        "| avoid | threads | a | trtllm | 1 |",
        "| text | irregular | a | trtllm | 1 | 0 |",
    ):
        assert row in report
