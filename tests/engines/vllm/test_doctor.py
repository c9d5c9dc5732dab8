"""How `doctor` judges a vLLM: from facts of any machine, and once from the installed one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from policyengine.engines.commands import Command, parse
from policyengine.engines.vllm.doctor import EntryPoint, Facts, judge, runner_of

NAME = "policy_bundle.vllm:PolicyLogitsProcessor"
CONFIG = {"logits-processors": [NAME], "logprobs-mode": "processed_logprobs"}
INSTALLED = (
    EntryPoint("vllm.general_plugins", "policy_bundle", "policy_bundle.guard:guard"),
    EntryPoint("vllm.logits_processors", "policy_bundle", NAME),
)
OTHERS = (EntryPoint("vllm.logits_processors", "x", "x:Y"),)  # of a package that is not ours
MODE = {"logprobs-mode": "processed_logprobs"}
ALONE = {"config": MODE, "entry_points": INSTALLED}  # found by entry points and nothing else
V1 = {"VLLM_USE_V2_MODEL_RUNNER": "0"}


def command(more: str = "", config: str = "--config c.yaml") -> Command:
    return parse(f"vllm serve MODEL {config} {more}".split())


def facts(given: Command | None = None, **changed: Any) -> Facts:
    """A GPU, a verified vLLM, the configuration that `compile` writes; changed in some way."""
    fine: dict[str, Any] = {
        "version": "0.32.0",
        "device": "cuda",
        "triton": True,
        "command": given or command(),
        "package": "policy_bundle",
        "config": CONFIG,
        "config_path": "c.yaml",
    }
    return Facts(**fine | changed)


def names(judged: Facts) -> list[str]:
    return [one.name for one in judge(judged).findings]


# -- the model runner --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "changed", "runner"),
    [
        ("", {}, "v2"),
        ("", {"triton": False}, "v1"),
        ("", {"environment": V1}, "v1"),
        ("", {"triton": False, "environment": {"VLLM_USE_V2_MODEL_RUNNER": "1"}}, "v2"),
        ("--spec-method ngram", {}, "v2"),
        ("--spec-method medusa", {}, "v1"),
        ("--speculative-config {\"method\":\"suffix\"}", {}, "v1"),
        ("--enable-dbo", {}, "v1"),
        ("--distributed-executor-backend external_launcher -pp 2", {}, "v1"),
        ("--distributed-executor-backend external_launcher", {}, "v2"),
        ("--watermark-config {}", {"environment": V1}, "v2"),
    ],
)  # fmt: skip
def test_the_runner_that_vllm_chooses(given: str, changed: dict[str, Any], runner: str) -> None:
    found, why = runner_of(facts(command(given), **changed))
    assert found == runner
    assert why


# -- what is wrong -----------------------------------------------------------------------------------------------------


def test_what_compile_writes_holds_in_both_runners() -> None:
    for environment in ({}, V1):
        judged = judge(facts(environment=environment))
        assert judged.findings == ()
        assert "the policies are named in c.yaml" in judged.how


@pytest.mark.parametrize(
    ("given", "changed", "expected"),
    [
        # by what it is loaded
        ("", {"config": {}}, ["not-activated", "raw-logprobs"]),
        ("", {"config": {"logits_processors": NAME, "logprobs_mode": "processed_logits"}}, []),
        ("--logits_processors a.b:C", {}, ["processors-replaced"]),
        ("--logits-processors a.b:C", {"config": MODE}, ["not-activated"]),
        (f"--logits-processors a.b:C {NAME}", {}, []),
        (f"--logits-processors={NAME}", {"config": MODE}, []),
        ("--logits-processors a.b:C", {"entry_points": INSTALLED}, []),
        ("", {"config": MODE, "entry_points": OTHERS}, ["not-activated"]),
        # what it is loaded into
        ("", {"unloadable": {"v2": "not a subclass"}}, ["class-not-loadable"]),
        ("", {"unloadable": {"v1": "not a subclass"}}, []),
        ("", {"other_digest": "abc"}, ["other-build"]),
        ("--runner pooling", {}, ["pooling-model"]),
        ("--convert embed", {}, ["pooling-model"]),
        ("--convert none --runner generate", {}, []),
        ("", {"model": {"canvas_length": 64}}, ["diffusion-model"]),
        ("--hf-overrides {\"canvas_length\":64}", {}, ["diffusion-model"]),
        ("", {"device": "tpu"}, ["unsupported-device"]),
        ("--skip-tokenizer-init", {}, ["config-unsafe"]),
        ("--logprobs-mode raw_logits", {}, ["raw-logprobs"]),
        ("--logprobs-mode raw_logits", {"bans": False}, []),
        # speculative decoding
        ("-sc {\"method\":\"ngram\"}", {}, []),
        ("-sc {\"method\":\"ngram\"}", {"environment": V1}, ["speculative-decoding"]),
        ("--speculative-config.method ngram", {"environment": V1}, ["speculative-decoding"]),
        ("--spec-model org/draft", {"environment": V1}, ["speculative-decoding"]),
        ("", {"environment": V1, "config": {**CONFIG, "spec_method": "ngram"}}, ["speculative-decoding"]),
        ("", {"environment": V1, "model": {"speculators_config": {}}}, ["speculative-decoding"]),
        # entry points alone
        ("", {**ALONE}, []),
        ("", {**ALONE, "environment": V1}, ["tokens-not-told"]),
        ("--no-async-scheduling", {**ALONE, "environment": V1}, []),
        ("", {**ALONE, "config": {**MODE, "async-scheduling": False}, "environment": V1}, []),
        ("", {**ALONE, "triton": False, "device": "cpu"}, []),
        ("", {"entry_points": INSTALLED, "environment": V1}, []),
        ("--distributed-executor-backend ray", {}, []),
        ("--distributed-executor-backend ray", ALONE, ["workers-not-told"]),
        ("--data-parallel-backend ray", ALONE, ["workers-not-told"]),
        ("--nnodes 2", ALONE, ["workers-not-told"]),
        ("--nnodes=1", ALONE, []),
        ("--distributed-executor-backend ray", {"entry_points": INSTALLED}, []),
        ("--distributed-executor-backend ray --logits-processors a.b:C", {**ALONE}, ["workers-not-told"]),
        # filters and front ends
        ("", {"entry_points": INSTALLED, "environment": {"VLLM_PLUGINS": "other"}}, ["plugin-filtered"]),
        ("", {"entry_points": INSTALLED, "environment": {"VLLM_PLUGINS": ""}}, ["plugin-filtered"]),
        ("", {"entry_points": INSTALLED, "environment": {"VLLM_PLUGINS": "other,policy_bundle"}}, []),
        ("", {"environment": {"VLLM_PLUGINS": "other"}}, []),
        ("", {"environment": {"VLLM_USE_RUST_FRONTEND": "1"}}, ["requests-not-checked"]),
        ("", {"environment": {"VLLM_USE_RUST_FRONTEND": "0"}}, []),
    ],
)  # fmt: skip
def test_each_mistake_by_itself(given: str, changed: dict[str, Any], expected: list[str]) -> None:
    judged = facts(command(given), **changed)
    assert names(judged) == expected
    assert all(one.message and one.change and one.where for one in judge(judged).findings)


def test_a_file_behind_an_equals_sign_is_not_read() -> None:
    """With entry points the policies run all the same, but nothing else of the file holds."""
    glued = command(config="--config=c.yaml")
    assert names(facts(glued, config={}, config_path="")) == ["config-not-read", "raw-logprobs"]
    assert names(facts(glued, config={}, config_path="", entry_points=INSTALLED)) == ["config-not-read", "raw-logprobs"]


def test_beam_search_is_told_of_where_there_is_no_text_level() -> None:
    def told(judged: Facts) -> bool:
        return any("use_beam_search" in line for line in judge(judged).how)

    assert told(facts())
    assert not told(facts(config={**CONFIG, "middleware": ["policy_bundle.asgi.PolicyMiddleware"]}))


def test_an_unverified_version_that_was_tried_is_a_warning() -> None:
    (found,) = judge(facts(version="0.33.1")).findings
    assert (found.name, found.severity) == ("engine-unverified", None)
    (found,) = judge(facts(version="0.33.1", environment={"POLICYENGINE_ALLOW_VLLM": "0.33.1"})).findings
    assert (found.name, found.severity) == ("engine-unverified", "warning")


# -- the command line --------------------------------------------------------------------------------------------------


def test_a_command_as_people_write_it() -> None:
    text = (
        "env A=1 B=x=y /opt/bin/vllm serve org/model --max_model_len -1 --config c.yaml "
        "--middleware=a.B -tp 2 --no-async-scheduling --enforce-eager"
    )
    read = parse(text.split())
    assert (read.engine, read.words, read.environment) == ("vllm", ("org/model",), {"A": "1", "B": "x=y"})
    assert read.last("config") == "c.yaml"
    assert read.setting("max-model-len", {}) == "-1"
    assert read.setting("async-scheduling", {"async-scheduling": True}) is False
    assert read.setting("enforce-eager", {}) is True
    assert read.setting("port", {"port": 1}) == 1
    assert read.glued == {"middleware"}
    module = parse(["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "m"])
    assert (module.engine, module.last("model")) == ("vllm", "m")
    assert parse(["trtllm-serve", "serve", "m", "--config=x"]).engine == "trtllm"


@pytest.mark.parametrize("words", ["", "env A=1", "vllm", "vllm bench serve", "python -m http.server", "python -m"])
def test_a_command_that_starts_no_server(words: str) -> None:
    with pytest.raises(ValueError, match="serve"):
        parse(words.split())


# -- the installed vLLM ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_installed_vllm(tmp_path: Path) -> None:
    """Asked in a process of its own: what it is, and that the class loads in both model runners."""
    (tmp_path / "a.yaml").write_text("version: 1\npolicy: a\nrules: {x: {ban: {phrases: [bluebird]}}}\n")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        left_out = ("PYTHONPATH", "VLLM_USE_V2_MODEL_RUNNER", "VLLM_PLUGINS")
        environment = {key: value for key, value in os.environ.items() if key not in left_out}
        command = [sys.executable, "-m", "policyengine", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert run("compile", "a.yaml", "-o", "build", "--activate", "installed").returncode == 0
    done = run("doctor", "--engine", "vllm", "--format", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    (engine,) = found["engines"]
    assert engine["version"].startswith("0.32.")
    assert engine["holds"]
    assert engine["named"]
    assert engine["installed"]
    assert found["findings"] == []
    # The same with V2, and with a command whose environment does not hold the package.
    words = ["vllm", "serve", "MODEL", "--config", "build/vllm/config.yaml"]
    done = run("doctor", "--format", "json", "--", "env", "PYTHONPATH=build", "VLLM_USE_V2_MODEL_RUNNER=1", *words)
    assert (done.returncode, json.loads(done.stdout)["engines"][0]["runner"]) == (0, "v2")
    done = run("doctor", "--format", "json", "--", *words)
    assert [one["name"] for one in json.loads(done.stdout)["findings"]] == ["class-not-loadable"]
