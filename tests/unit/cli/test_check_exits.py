"""`policyengine check`: how it exits, by what it was given."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from policyengine.lint.formats import FORMATS
from tests.unit.cli.conftest import BAN, Run, Write
from tests.unit.cli.test_check import CONTRADICTION, ELSEWHERE, UNKNOWN_KEY, names

CASES = {
    "clean": (BAN, 0),
    "only a warning": (ELSEWHERE, 0),
    "a contradiction": (CONTRADICTION, 1),
    "not enforceable": ("targets: [trtllm]\nactivation: on_request\n" + BAN, 1),
    "an unknown key": (UNKNOWN_KEY, 1),
    "not yaml": ("rules: {x: [}\n", 1),
    "a list of phrases that is not there": ("rules: {x: {ban: {phrases_from: gone.txt}}}\n", 1),
}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_exit_codes_by_content(run: Run, write: Write, case: str, form: str) -> None:
    policy, expected = CASES[case]
    result = run(
        "check",
        write(project="targets: [vllm, trtllm]\n" if "not enf" in case else "targets: [vllm]\n", a=policy),
        "--format",
        form,
    )
    assert (result.code, result.err) == (expected, "")


@pytest.mark.parametrize("form", ["text", "concise"])
@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"", "empty-file"),
        (b"# nothing\n", "empty-file"),
        (b"\xff\xfe", "invalid-encoding"),
        (b"version: 1\npolicy: caf\xe9\n", "invalid-encoding"),
        (b"\x00", "invalid-character"),
        (b"- a\n", "wrong-type"),
        (b"x: 1\n" * 4_000_000, "over-limit"),
    ],
    ids=["empty", "comment", "utf-16", "latin-1", "nul", "list", "large"],
)
def test_a_readable_file_with_bad_content_exits_1(
    run: Run, tmp_path: Path, content: bytes, name: str, form: str
) -> None:
    (tmp_path / "a.yaml").write_bytes(content)
    for given in (tmp_path, tmp_path / "a.yaml"):
        result = run("check", given, "--format", form)
        assert (result.code, result.err) == (1, "")
        assert names(result.out) == [name]
        assert result.out.endswith("1 file, 0 rules: 1 error\n")


@pytest.mark.parametrize(
    "path",
    [
        "missing.yaml",
        "missing",
        "",
        "policies/a.yaml/b.yaml",
        "policies/policyengine.yaml",
        "policies/x.test.yaml",
        "policies/pipe",
    ],
)
def test_what_cannot_be_read_exits_2_and_the_rest_is_checked(
    run: Run, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    folder = write(project="targets: [vllm]\n", a=UNKNOWN_KEY)
    (folder / "x.test.yaml").write_text("version: 1\n")
    os.mkfifo(folder / "pipe")
    monkeypatch.chdir(tmp_path)
    alone, beside = run("check", path), run("check", path, "policies")
    assert (alone.code, beside.code) == (2, 2)
    assert {run("check", path, "--format", form).code for form in FORMATS} == {2}
    assert names(alone.out) == ["unreadable-file"]
    assert sorted(names(beside.out)) == ["unknown-key", "unreadable-file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="this user may read everything")
def test_a_file_without_permission_exits_2(run: Run, write: Write) -> None:
    folder = write(a=BAN)
    (folder / "a.yaml").chmod(0)
    assert run("check", folder).code == 2


def test_a_loop_of_links_exits_2(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to(tmp_path / "a.yaml")
    result = run("check", tmp_path)
    assert (result.code, names(result.out)) == (2, ["unreadable-file"])


def test_no_policies_exit_3(run: Run, tmp_path: Path) -> None:
    (tmp_path / "x.test.yaml").write_text("version: 1\n")
    assert {run("check", tmp_path, "--format", form).code for form in FORMATS} == {3}
    result = run("check", tmp_path)
    assert (result.code, names(result.out)) == (3, ["no-policies"])
    assert result.out.endswith("0 files, 0 rules: 1 error\n")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["POLICIES", "--frobnicate"],
        ["POLICIES", "--fail-level", "fatal"],
        ["POLICIES", "--select", "nonsense"],
        ["POLICIES", "--select", ""],
        ["POLICIES", "--ignore", "PE103,nonsense"],
        ["POLICIES", "--fix=all"],
        ["POLICIES", "--select", "PE9xx"],
        ["POLICIES", "--set", "name"],
        ["POLICIES", "--set", "1 2=x"],
        ["POLICIES", "--tokenizer", "missing"],
        ["POLICIES", "--tokenizer", ""],
        ["POLICIES", "--tokenizer", "POLICIES"],
    ],
)
def test_usage_errors_exit_2(run: Run, write: Write, arguments: list[str]) -> None:
    policies = str(write(a=BAN))
    result = run("check", *(policies if one == "POLICIES" else one for one in arguments))
    assert (result.code, result.out) == (2, "")
    assert result.err
    assert "Traceback" not in result.err


def test_an_error_of_ours_is_no_finding(run: Run, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr("policyengine.lint.run.analyse", broken)
    result = run("check", write(a=BAN))
    assert (result.code, result.out) == (2, "")
    assert "Traceback" in result.err
