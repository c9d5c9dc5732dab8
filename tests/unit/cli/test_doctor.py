"""`policyengine doctor`: what it prints, and how it exits; the engine's answers are given here."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from policyengine.engines.trtllm import doctor as trtllm
from policyengine.engines.vllm import doctor_facts
from policyengine.engines.vllm.doctor_facts import ProbeError
from tests.unit.cli.conftest import BAN, Run, Write

Answers = Callable[..., None]


@pytest.fixture
def build(run: Run, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build for both engines in the working directory."""
    run("compile", write(a=BAN), "-o", tmp_path / "build")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "build"


@pytest.fixture
def answers(build: Path, monkeypatch: pytest.MonkeyPatch) -> Answers:
    """`answers(version=...)`: what the installed vLLM says; no other engine is installed."""

    def given(**changed: Any) -> None:
        fine = {"version": "0.32.0", "device": "cuda", "triton": True, "entry_points": [], "unloadable": {}}

        def answer(_name: str, _environment: object) -> dict[str, Any]:
            manifest = json.loads((build / "policy_bundle/manifest.json").read_bytes())
            return {**fine, "digest": manifest["digest"], **changed}

        monkeypatch.setattr(doctor_facts, "_ask", answer)
        monkeypatch.setattr(doctor_facts, "is_installed", lambda: True)
        monkeypatch.setattr(trtllm, "is_installed", lambda: False)
        for name in ("VLLM_USE_V2_MODEL_RUNNER", "VLLM_PLUGINS", "POLICYENGINE_ALLOW_VLLM"):
            monkeypatch.delenv(name, raising=False)

    given()
    return given


def named(out: str) -> list[str]:
    return [one["name"] for one in json.loads(out)["findings"]]


@pytest.mark.usefixtures("answers")
def test_what_compile_says_to_run_holds(run: Run) -> None:
    result = run("doctor")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0] == "vllm 0.32.0 on cuda, V2 model runner (vLLM's default)"
    assert "  the policies are named in build/vllm/config.yaml" in lines
    assert lines[-1] == "build: the policies will hold"


@pytest.mark.usefixtures("answers")
def test_a_command_is_read_and_its_mistake_shown(run: Run) -> None:
    result = run("doctor", "build", "--", "vllm", "serve", "MODEL", "--config=build/vllm/config.yaml")
    assert result.code == 1
    assert (
        "error[PE224 config-not-read]: "
        "vLLM reads no file from `--config=build/vllm/config.yaml`, and says nothing about it\n"
        "  --> command line\n"
        "  = help: write two words: `--config build/vllm/config.yaml`\n"
    ) in result.out
    assert result.out.endswith("build: the policies will not hold (1 error, 1 warning)\n")


@pytest.mark.usefixtures("answers")
def test_the_example_of_the_docs(run: Run, write: Write) -> None:
    """docs/commands.md shows a build of three rules."""
    page = (Path(__file__).parents[3] / "docs" / "commands.md").read_text(encoding="utf-8")
    command, shown = re.findall(r"^```\n(.*?)^```$", page.split("\n## doctor\n")[1], flags=re.MULTILINE | re.DOTALL)[:2]
    rules = "a: {ban: {phrases: [bluebird]}}, b: {min_tokens: 3}, c: {bias: {token_ids: {7: 1}}}"
    run("compile", write(a=f"targets: [vllm]\nrules: {{{rules}}}\n"), "-o", "build", "--target", "vllm")
    printed = run(*shlex.split(command)[1:]).out
    assert re.fullmatch(re.escape(shown).replace(re.escape("..."), "[0-9a-f]{64}"), printed), printed


@pytest.mark.usefixtures("answers")
def test_a_command_alone_is_about_the_folder_build(run: Run) -> None:
    start = ["env", "VLLM_USE_V2_MODEL_RUNNER=0", "vllm", "serve", "MODEL", "--config", "build/vllm/config.yaml"]
    result = run("doctor", "--format", "json", "--", *start, "--spec-method", "ngram")
    assert result.code == 1
    assert named(result.out) == ["speculative-decoding"]
    (engine,) = json.loads(result.out)["engines"]
    assert (engine["engine"], engine["runner"], engine["holds"], engine["named"]) == ("vllm", "v1", False, True)


def test_a_warning_is_no_failure(run: Run, answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(version="0.33.0")
    assert run("doctor").code == 1
    monkeypatch.setenv("POLICYENGINE_ALLOW_VLLM", "0.33.0")
    result = run("doctor", "--format", "json")
    assert result.code == 0
    (finding,) = json.loads(result.out)["findings"]
    assert (finding["code"], finding["severity"]) == ("PE221", "warning")


@pytest.mark.usefixtures("answers")
def test_a_configuration_of_ones_own(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("logits_processors: ['policy_bundle.vllm:PolicyLogitsProcessor']\n")
    result = run("doctor", "--config", "mine.yaml", "--format", "json")
    assert (result.code, named(result.out)) == (0, ["raw-logprobs"])
    (tmp_path / "mine.yaml").write_text("port: 8000\n")
    result = run("doctor", "--config", "mine.yaml", "--format", "json")
    assert (result.code, named(result.out)) == (1, ["not-activated", "raw-logprobs"])


@pytest.mark.usefixtures("answers")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere",), "nothing that compile wrote"),
        (("build", "--", "ls", "-l"), "vllm serve"),
        (("build", "--", "vllm", "bench", "serve"), "vllm serve"),
        (("build", "--config", "missing.yaml"), "missing.yaml cannot be read"),
        (("build", "--config", ""), "--config is empty"),
        (("build", "--engine", "trtllm"), "trtllm is not installed"),
        (("build", "--engine", "vllm", "--", "trtllm-serve", "MODEL"), "--engine says vllm"),
    ],
)
def test_what_cannot_be_told_is_2(run: Run, arguments: tuple[str, ...], said: str) -> None:
    result = run("doctor", *arguments)
    assert (result.code, result.out) == (2, "")
    assert said in result.err


@pytest.mark.usefixtures("answers")
def test_no_engine_at_all_is_2(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_facts, "is_installed", lambda: False)
    result = run("doctor")
    assert (result.code, result.out) == (2, "")
    assert "vllm and trtllm are not installed here" in result.err


@pytest.mark.usefixtures("answers")
def test_an_engine_that_cannot_be_imported_is_2(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_name: str, _environment: object) -> dict[str, Any]:
        raise ProbeError("vLLM is installed and cannot be imported: ImportError: libcuda")

    monkeypatch.setattr(doctor_facts, "_ask", broken)
    result = run("doctor")
    assert (result.code, result.out) == (2, "")
    assert "libcuda" in result.err


# -- TensorRT-LLM ------------------------------------------------------------------------------------------------------


@pytest.fixture
def tensorrt(build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only TensorRT-LLM is installed, in a version with the hook."""
    monkeypatch.setattr(doctor_facts, "is_installed", lambda: False)
    monkeypatch.setattr(trtllm, "is_installed", lambda: True)
    monkeypatch.setattr(trtllm, "version", lambda: "1.3.0rc4")
    monkeypatch.setattr(trtllm, "has_hook", lambda: True)


@pytest.mark.usefixtures("tensorrt")
def test_the_hook_as_compile_says_to_run_it(run: Run) -> None:
    result = run("doctor")
    assert (result.code, result.err) == (0, "")
    assert "the policies are the hook of build/trtllm/config.yaml" in result.out


@pytest.mark.usefixtures("tensorrt")
def test_the_hook_is_not_there_or_not_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run("doctor", "--format", "json", "--", "trtllm-serve", "MODEL")
    assert (result.code, named(result.out)) == (1, ["not-activated"])
    monkeypatch.setattr(trtllm, "has_hook", lambda: False)
    monkeypatch.setattr(trtllm, "version", lambda: "1.2.1")
    result = run("doctor", "--format", "json")
    assert (result.code, named(result.out)) == (1, ["engine-too-old"])
    assert "1.2.1" in result.out


@pytest.mark.usefixtures("tensorrt")
@pytest.mark.parametrize(
    ("options", "command", "code", "severities"),
    [
        ("skip_tokenizer_init: true\n", "", 1, ["error"]),
        ("post_processor: acme.Hook\n", "", 1, ["error"]),
        ("cache_transceiver_config: {backend: UCX}\n", "", 0, ["warning"]),
        ("num_postprocess_workers: 4\n", "", 0, []),
        ("", "openai/gpt-oss-20b", 1, ["error"]),
        ("", "disaggregated_mpi_worker MODEL", 0, ["warning"]),
    ],
)
def test_what_makes_the_hook_unsafe(
    run: Run, build: Path, options: str, command: str, code: int, severities: list[str]
) -> None:
    config = build / "trtllm/config.yaml"
    config.write_text(config.read_text() + options)
    words = f"env PYTHONPATH=build trtllm-serve {command or 'MODEL'} --extra_llm_api_options {config}".split()
    result = run("doctor", "build", "--format", "json", "--", *words)
    found = json.loads(result.out)["findings"]
    assert [one["severity"] for one in found] == severities
    assert {one["name"] for one in found} <= {"config-unsafe"}
    assert result.code == code


def test_the_hook_is_looked_for_without_importing_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine whose import would fail here."""
    folder = tmp_path / "tensorrt_llm" / "executor"
    folder.mkdir(parents=True)
    (tmp_path / "tensorrt_llm" / "__init__.py").write_text("raise ImportError('libcuda')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert trtllm.is_installed()
    assert not trtllm.has_hook()
    (folder / "postprocessor_hook.py").write_text("class PostProcessorHookVerdict: ...\n")
    assert trtllm.has_hook()
