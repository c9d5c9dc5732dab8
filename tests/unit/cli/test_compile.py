"""`policyengine compile`: what it prints, what it refuses, how it exits."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

import policyengine as pe
from tests.unit.cli.conftest import BAN, Run, Write

FORCE = 'rules: {opening: {force: {text: "Answer: ", at: start}}}\n'
REDACT = "rules: {names: {ban: {phrases: [bluebird]}, action: redact}}\n"


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def in_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time() + 4000
    monkeypatch.setattr("time.time", lambda: now)


# -- the summary ------------------------------------------------------------------------------------------------------


def test_the_summary_says_what_was_compiled_and_what_to_run(run: Run, write: Write, tmp_path: Path) -> None:
    build = tmp_path / "build"
    result = run("compile", write(a=BAN, b="targets: [vllm]\n" + FORCE), "-o", build)
    assert result.code == 0
    assert result.err == ""
    digest = pe.open_bundle(build / "policy_bundle").digest
    lines = result.out.splitlines()
    assert lines[0] == f"2 policies, 2 rules, digest {digest}"
    assert [line.split() for line in lines[2:5]] == [
        ["rule", "vllm", "trtllm"],
        ["a/names", "tokens", "(fallback:", "not", "yet)", "text", "(fallback:", "terminate)"],
        ["b/opening", "tokens", "left", "out", "(targets)"],
    ]
    assert "2 patterns in 1 automaton of" in result.out
    assert f"wrote 10 files, {sum(map(len, files(build).values())):,} bytes, in {build}" in result.out
    assert f"PYTHONPATH={build} vllm serve MODEL --config {build}/vllm/config.yaml" in result.out
    assert f"PYTHONPATH={build} trtllm-serve MODEL --extra_llm_api_options {build}/trtllm/config.yaml" in result.out


def test_compiling_again_writes_nothing_and_says_so(run: Run, write: Write, tmp_path: Path) -> None:
    policies, build = write(a=BAN), tmp_path / "build"
    run("compile", policies, "-o", build)
    before = {path: path.stat().st_mtime_ns for path in build.rglob("*")}
    result = run("compile", policies, "-o", build)
    assert result.code == 0
    assert "up to date: 10 files" in result.out
    assert {path: path.stat().st_mtime_ns for path in build.rglob("*")} == before


def test_the_table_is_in_the_manifest_too(run: Run, write: Write, tmp_path: Path) -> None:
    run("compile", write(a=BAN), "-o", tmp_path / "build")
    manifest = json.loads((tmp_path / "build/policy_bundle/manifest.json").read_text(encoding="utf-8"))
    assert manifest["levels"]["a/names"] == {
        "trtllm": {"how": "text", "detail": "fallback: terminate"},
        "vllm": {"how": "tokens", "detail": "fallback: not yet"},
    }


# -- targets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("target", "there", "missing"), [("vllm", "vllm", "trtllm"), ("trtllm", "trtllm", "vllm")])
def test_only_the_selected_targets_files_are_written(
    run: Run, write: Write, tmp_path: Path, target: str, there: str, missing: str
) -> None:
    assert run("compile", write(a=BAN), "-o", tmp_path / "build", "--target", target).code == 0
    found = files(tmp_path / "build")
    assert {f"policy_bundle/{there}.py", f"{there}/config.yaml"} <= set(found)
    assert not any(missing in path for path in found)


def test_a_target_beyond_the_projects_is_added(run: Run, write: Write, tmp_path: Path) -> None:
    policies = write(project="targets: [vllm]\n", a=BAN)
    result = run("compile", policies, "-o", tmp_path / "build", "--target", "trtllm")
    assert result.code == 0
    assert "text (fallback: terminate)" in result.out


def test_the_projects_targets_are_the_default(run: Run, write: Write, tmp_path: Path) -> None:
    assert run("compile", write(project="targets: [vllm]\n", a=FORCE), "-o", tmp_path / "build").code == 0
    assert "policy_bundle/trtllm.py" not in files(tmp_path / "build")


@pytest.mark.parametrize(
    ("policy", "place", "why"),
    [
        (FORCE, ":3:19", "rule `a/opening` cannot be enforced on target `trtllm`: the hook sees text, not tokens"),
        (
            "rules: {n: {min_tokens: 4}}\n",
            ":3:13",
            "rule `a/n` cannot be enforced on target `trtllm`: the hook sees text, not tokens",
        ),
        (
            "rules: {n: {ban: {token_ids: [4]}}}\n",
            ":3:13",
            "rule `a/n` cannot be enforced on target `trtllm`: the hook sees text, not tokens",
        ),
        (
            "activation: on_request\n" + BAN,
            ":2:9",
            "policy `a` is on_request, which cannot be enforced on target `trtllm`: the hook sees no request",
        ),
        (
            REDACT,
            ":3:53",
            "rule `a/names` cannot be enforced on target `vllm`: vLLM's server text level is not supported yet; redact",
        ),
        ("rules: {loud: {rewrite: {to: upper}}}\n", ":3:16", "on target `vllm`: vLLM's server text level is not"),
    ],
)
def test_what_a_target_cannot_enforce_is_an_error_at_its_line(
    run: Run, write: Write, tmp_path: Path, policy: str, place: str, why: str
) -> None:
    policies, build = write(a=policy), tmp_path / "build"
    result = run("compile", policies, "-o", build)
    assert result.code == 2
    assert result.out == ""
    assert "error[PE206 not-enforceable]" in result.err
    assert why in result.err
    assert f"{policies}/a.yaml{place}" in result.err
    assert not build.exists()

    allowed = run("compile", policies, "-o", build, "--allow-unenforced")
    assert allowed.code == 0
    assert "warning[PE206 not-enforceable]" in allowed.err
    assert "--target" in result.err
    assert "--allow-unenforced" in result.err
    assert "not enforced: " in allowed.out


def test_a_policy_that_no_selected_target_runs_gets_a_warning(run: Run, write: Write, tmp_path: Path) -> None:
    policies = write(a="targets: [trtllm]\n" + REDACT, b=BAN)
    result = run("compile", policies, "-o", tmp_path / "build", "--target", "vllm")
    assert result.code == 0
    assert "warning[PE207 left-out-everywhere]: no selected target runs policy `a`" in result.err


@pytest.mark.parametrize(
    ("policy", "target", "why"),
    [
        (
            "targets: [trtllm]\n" + REDACT,
            "vllm",
            "no rule runs on `vllm`: the policies' own `targets` leave them out; compile with --target trtllm",
        ),
        (
            "targets: [trtllm-llm]\n" + FORCE,
            "vllm",
            "no rule runs on `vllm`: the policies' own `targets` leave them out; compile with --target trtllm-llm",
        ),
        (
            "rules: {x: {ban: {phrases: [a]}, when: {device: [cpu]}}}\n",
            "trtllm",
            "no rule runs on `trtllm`: each rule is inactive (on cpu only)",
        ),
        (FORCE, "trtllm", "no rule runs on `trtllm`: each rule is not enforced: the hook sees text, not tokens"),
    ],
)
def test_a_bundle_that_enforces_nothing_is_not_written(
    run: Run, write: Write, tmp_path: Path, policy: str, target: str, why: str
) -> None:
    """A deployment that is green and holds nothing is the worst that a mistake in `targets` can give."""
    build = tmp_path / "build"
    result = run("compile", write(a=policy), "-o", build, "--target", target, "--allow-unenforced")
    assert (result.code, result.out, build.exists()) == (2, "", False)
    assert f"error: nothing would be enforced: {why}\n" in result.err


def test_a_target_that_runs_no_rule_is_not_what_to_run_next(run: Run, write: Write, tmp_path: Path) -> None:
    result = run("compile", write(a="targets: [vllm]\n" + BAN), "-o", tmp_path / "build")
    assert result.code == 0
    assert "vllm serve MODEL" in result.out
    assert "trtllm-serve" not in result.out


def test_the_llm_api_has_a_module_and_no_configuration(run: Run, write: Write, tmp_path: Path) -> None:
    """Its processor is named in Python, a request at a time."""
    build = tmp_path / "build"
    result = run("compile", write(a=BAN), "-o", build, "--target", "trtllm-llm")
    assert result.code == 0
    assert "a/names  tokens (no fallback)" in result.out
    assert f"PYTHONPATH={build} python, and there: from policy_bundle.trtllm import PolicyLogitsProcessor" in result.out
    assert not any(path.endswith("config.yaml") for path in files(build))
    assert "class PolicyLogitsProcessor(" in (build / "policy_bundle/trtllm.py").read_text(encoding="utf-8")
    assert "PolicyHook" not in (build / "policy_bundle/trtllm.py").read_text(encoding="utf-8")
    assert run("compile", tmp_path / "policies", "-o", build, "--target", "trtllm-llm", "--check").code == 0


# -- exit codes -------------------------------------------------------------------------------------------------------


def test_wrong_policies_exit_2_with_diagnostics_on_stderr(run: Run, write: Write, tmp_path: Path) -> None:
    result = run("compile", write(a="rules: {x: {ban: {phrasess: [a]}}}\n"), "-o", tmp_path / "build")
    assert (result.code, result.out) == (2, "")
    assert "did you mean `phrases`?" in result.err


def test_contradictions_exit_2(run: Run, write: Write, tmp_path: Path) -> None:
    policies = write(
        a="targets: [vllm]\nrules: {x: {ban: {phrases: [rice]}}, y: {force: {text: 'rice!', at: start}}}\n"
    )
    result = run("compile", policies, "-o", tmp_path / "build")
    assert (result.code, result.out) == (2, "")
    assert "error[PE103 forced-contains-banned]" in result.err


def test_no_policies_exit_3(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = run("compile", tmp_path / "empty", "-o", tmp_path / "build")
    assert (result.code, result.out) == (3, "")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["compile"],
        ["compile", "POLICIES"],
        ["compile", "POLICIES", "-o", "BUILD", "--target", "tpu"],
        ["compile", "POLICIES", "-o", "BUILD", "--set", "name"],
        ["compile", "POLICIES", "-o", "BUILD", "--set", "1 2=x"],
        ["compile", "POLICIES", "-o", "BUILD", "--set", "x=" + os.fsdecode(b"\xff")],
        ["compile", "POLICIES", "-o", "BUILD", "--package", ""],
        ["compile", "POLICIES", "-o", "BUILD", "--package", "no-name"],
        ["compile", "POLICIES", "-o", "BUILD", "--package", "vllm"],
        ["compile", "POLICIES", "-o", "BUILD", "--package", "numpy"],
        ["compile", "POLICIES", "-o", "BUILD", "--frobnicate"],
        ["compile", "missing", "-o", "BUILD"],
        ["frobnicate"],
    ],
)
def test_usage_errors_exit_2(run: Run, write: Write, tmp_path: Path, arguments: list[str]) -> None:
    names = {"POLICIES": str(write(a=BAN)), "BUILD": str(tmp_path / "build"), "missing": str(tmp_path / "missing")}
    result = run(*(names.get(one, one) for one in arguments))
    assert (result.code, (tmp_path / "build").exists()) == (2, False)
    assert "Traceback" not in result.err


@pytest.mark.parametrize("option", ["-o", "--package"])
def test_an_empty_value_is_not_the_default(
    run: Run, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    """It is an unset variable of a shell: neither the working directory nor the project's package is meant."""
    policies = write(a=BAN)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    arguments = {"-o": "build", "--package": "mine", option: ""}
    result = run("compile", policies, *(text for pair in arguments.items() for text in pair))
    assert (result.code, result.out) == (2, "")
    assert f"{option} is empty" in result.err
    assert list((tmp_path / "here").iterdir()) == []


def test_an_error_of_ours_is_no_finding(
    run: Run, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("policyengine.compiler.pipeline.compile_policies", broken)
    result = run("compile", write(a=BAN), "-o", tmp_path / "build")
    assert result.code == 2
    assert "RuntimeError: a bug" in result.err


def test_an_output_folder_that_cannot_be_made(run: Run, write: Write, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    result = run("compile", write(a=BAN), "-o", tmp_path / "file" / "build")
    assert result.code == 2
    assert "cannot be written" in result.err or "Not a directory" in result.err


def test_an_output_that_is_a_link_to_nothing(run: Run, write: Write, tmp_path: Path) -> None:
    (tmp_path / "build").symlink_to(tmp_path / "elsewhere")
    result = run("compile", write(a=BAN), "-o", tmp_path / "build")
    assert (result.code, result.out) == (2, "")
    assert result.err == f"error: {tmp_path}/build is a link to nothing: remove it, or make the folder it leads to\n"
    assert not (tmp_path / "elsewhere").exists()


def test_a_compile_that_has_nothing_to_write_still_cleans_up(
    run: Run, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies, build = write(a=BAN), tmp_path / "build"
    run("compile", policies, "-o", build)
    leftover = tmp_path / ".build.0123456789ab.new"
    (leftover / "policy_bundle").mkdir(parents=True)
    in_an_hour(monkeypatch)
    run("compile", policies, "-o", build, "--check")
    assert leftover.exists()
    assert "up to date" in run("compile", policies, "-o", build).out
    assert not leftover.exists()


def test_a_build_inside_the_policies_is_not_read_as_policies(run: Run, write: Write) -> None:
    policies = write(a=BAN)
    first = run("compile", policies, "-o", policies / "build")
    second = run("compile", policies, "-o", policies / "build", "--check")
    assert (first.code, second.code) == (0, 0)


def test_a_file_name_that_is_not_utf8_compiles_like_any_other(run: Run, write: Write, tmp_path: Path) -> None:
    policies = write(a=BAN)
    odd = policies / os.fsdecode(b"w\xffx.yaml")
    try:
        (policies / "a.yaml").rename(odd)
    except OSError:
        pytest.skip("this file system takes no such names")
    results = [run("compile", given, "-o", tmp_path / out) for given, out in ((odd, "file"), (policies, "folder"))]
    assert [(one.code, one.err) for one in results] == [(0, ""), (0, "")]
    assert files(tmp_path / "file") == files(tmp_path / "folder")
    program = pe.compile(pe.load(odd))
    program.save(tmp_path / "saved")
    assert pe.open_bundle(tmp_path / "saved").policies[0].file == "w\ufffdx.yaml"


# -- --check, --set, --package, --wheel --------------------------------------------------------------------------------


def test_check_compares_and_writes_nothing(run: Run, write: Write, tmp_path: Path) -> None:
    policies, build = write(a=BAN), tmp_path / "build"
    missing = run("compile", policies, "-o", build, "--check")
    assert (missing.code, build.exists()) == (1, False)
    assert f"not up to date: {build}/REPORT.md" in missing.out

    run("compile", policies, "-o", build)
    fresh = run("compile", policies, "-o", build, "--check")
    assert (fresh.code, fresh.out) == (0, f"{build} is up to date\n")

    before = files(build)
    write(a=BAN.replace("bluebird", "magpie"))
    stale = run("compile", policies, "-o", build, "--check")
    assert stale.code == 1
    assert "policy_bundle/program.safetensors" in stale.out
    assert files(build) == before


@pytest.mark.parametrize("change", ["edit", "remove", "add"])
def test_check_notices_every_difference(run: Run, write: Write, tmp_path: Path, change: str) -> None:
    policies, build = write(a=BAN), tmp_path / "build"
    run("compile", policies, "-o", build)
    path = {"edit": "vllm/config.yaml", "remove": "REPORT.md", "add": "notes.txt"}[change]
    if change == "remove":
        (build / path).unlink()
    else:
        (build / path).write_text("mine")
    result = run("compile", policies, "-o", build, "--check")
    assert (result.code, result.out) == (1, f"not up to date: {build}/{path}\n")


def test_variables_are_set(run: Run, write: Write, tmp_path: Path) -> None:
    policies = write(a="rules: {x: {ban: {phrases: ['{{ word }}']}}}\n")
    assert run("compile", policies, "-o", tmp_path / "build", "--set", "word=a=b").code == 0
    assert pe.open_bundle(tmp_path / "build/policy_bundle").components[0].phrases == ("a=b",)


def test_the_package_has_the_name_that_was_asked_for(run: Run, write: Write, tmp_path: Path) -> None:
    assert run("compile", write(a=BAN), "-o", tmp_path / "build", "--package", "acme_rules").code == 0
    assert 'logits-processors: ["acme_rules.vllm:PolicyLogitsProcessor"]' in (
        tmp_path / "build/vllm/config.yaml"
    ).read_text(encoding="utf-8")
    assert (tmp_path / "build/acme_rules/manifest.json").exists()


def test_without_a_wheel_there_is_none(run: Run, write: Write, tmp_path: Path) -> None:
    policies, build = write(a=BAN), tmp_path / "build"
    run("compile", policies, "-o", build, "--wheel")
    assert [path.suffix for path in (build / "dist").iterdir()] == [".whl"]
    assert run("compile", policies, "-o", build, "--wheel", "--check").code == 0
    run("compile", policies, "-o", build)
    assert not (build / "dist").exists()


def test_the_next_command_can_be_pasted(run: Run, write: Write, tmp_path: Path) -> None:
    """A folder with a space in its name is quoted."""
    build = tmp_path / "my build"
    result = run("compile", write(a="targets: [trtllm]\n" + BAN), "-o", build, "--target", "trtllm")
    assert f"PYTHONPATH='{build}' trtllm-serve MODEL --extra_llm_api_options '{build}/trtllm/config.yaml'" in result.out


# -- configurations of one's own --------------------------------------------------------------------------------------


def test_merge_adds_the_policies_to_a_configuration(run: Run, write: Write, tmp_path: Path) -> None:
    mine, build = tmp_path / "mine.yaml", tmp_path / "build"
    mine.write_text("max_batch_size: 64  # tuned\n")
    command = ("compile", write(a=BAN), "-o", build, "--target", "trtllm", "--merge", mine)
    assert run(*command).code == 0
    merged = (build / "trtllm/config.yaml").read_text()
    assert merged.startswith("max_batch_size: 64  # tuned\n")
    assert "\npost_processor_hook: policy_bundle.trtllm.PolicyHook\n" in merged
    assert run(*command, "--check").code == 0
    again = ("compile", tmp_path / "policies", "-o", build, "--target", "trtllm")
    assert run(*again, "--check").code == 1  # without the file it would be another one
    assert run(*again, "--merge", build / "trtllm/config.yaml", "--check").code == 0


def test_with_two_targets_merge_says_for_which(run: Run, write: Write, tmp_path: Path) -> None:
    mine, build = tmp_path / "mine.yaml", tmp_path / "build"
    mine.write_text("logits-processors: [acme:P]\n")
    policies = write(a=BAN)
    result = run("compile", policies, "-o", build, "--merge", mine)
    assert (result.code, build.exists()) == (2, False)
    assert "it could be for either; write --merge vllm=FILE or --merge trtllm=FILE" in result.err
    assert run("compile", policies, "-o", build, "--merge", f"vllm={mine}").code == 0
    assert "acme:P, " in (build / "vllm/config.yaml").read_text()
    assert (build / "trtllm/config.yaml").read_text().count("\n") == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--target", "trtllm-llm", "--merge", "x.yaml"], "no selected target has one"),
        (["--target", "vllm", "--merge", "trtllm=x.yaml"], "`trtllm` is not compiled for or has no configuration"),
        (["--target", "vllm", "--merge", ""], "--merge names no file"),
        (["--target", "vllm", "--merge", "a.yaml", "--merge", "vllm=b.yaml"], "two files for `vllm`"),
        (["--target", "vllm", "--merge", "gone.yaml"], "cannot read `gone.yaml`"),
    ],
)
def test_a_merge_that_cannot_be_done(run: Run, write: Write, tmp_path: Path, options: list[str], says: str) -> None:
    result = run("compile", write(a=BAN), "-o", tmp_path / "build", *options)
    assert (result.code, (tmp_path / "build").exists()) == (2, False)
    assert says in result.err


def test_a_conflict_in_a_merged_file_is_shown_at_its_place(run: Run, write: Write, tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("max_batch_size: 64\npost_processor_hook: acme.Hook\n")
    result = run("compile", write(a=BAN), "-o", tmp_path / "build", "--target", "trtllm", "--merge", mine)
    assert result.code == 2
    assert "error[PE209 config-conflict]" in result.err
    assert f"{mine}:2:22" in result.err
    assert "post_processor_hook: acme.Hook" in result.err


# -- activation -------------------------------------------------------------------------------------------------------


def test_activation_is_part_of_what_is_up_to_date(run: Run, write: Write, tmp_path: Path) -> None:
    """Named by default; `--check` compares with the activation it is given."""
    policies, build = write(a=BAN), tmp_path / "build"
    installed = ("compile", policies, "-o", build, "--activate", "installed")
    assert run("compile", policies, "-o", build, "--activate", "named").code == 0
    assert run("compile", policies, "-o", build, "--check").code == 0
    checked = run(*installed, "--check")
    assert checked.code == 1
    assert "entry_points.txt" in checked.out
    assert not [path for path in files(build) if "entry_points" in path]
    result = run(*installed)
    assert result.code == 0
    assert "every vLLM that has this folder on its path" in result.out
    before = files(build)
    assert run(*installed, "--check").code == 0
    assert "up to date" in run(*installed).out
    assert files(build) == before
    assert run("compile", policies, "-o", build, "--check").code == 1


def test_only_vllm_can_be_activated_by_installing(run: Run, write: Write, tmp_path: Path) -> None:
    result = run("compile", write(a=BAN), "-o", tmp_path / "b", "--target", "trtllm", "--activate", "installed")
    assert result.code == 2
    assert "--target vllm" in result.err
    assert not (tmp_path / "b").exists()
