"""`policyengine schema`: what it writes, when it says that files are stale, and the schema of a bundle's requests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.unit.cli.conftest import BAN, Run, Write

NAMES = ["policy-test.schema.json", "policy.schema.json", "project.schema.json"]

PARAMETERS = (
    "targets: [vllm]\nactivation: on_request\n"
    "parameters: {min_len: {type: integer, ge: 0, le: 9, default: 2, description: The least}}\n"
    "rules: {a: {min_tokens: {param: min_len}}}\n"
)


def test_the_schemas_are_written(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "schemas"
    result = run("schema", folder)
    assert (result.code, result.err) == (0, "")
    assert sorted(result.out.splitlines()) == [f"wrote {folder / name}" for name in NAMES]
    assert sorted(path.name for path in folder.iterdir()) == NAMES
    for name in NAMES:
        Draft202012Validator.check_schema(json.loads((folder / name).read_text(encoding="utf-8")))


def test_the_folder_is_schemas_unless_it_is_named(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("schema").code == 0
    assert sorted(path.name for path in (tmp_path / "schemas").iterdir()) == NAMES
    assert run("schema", "--check").out == "schemas is up to date\n"


def test_what_is_fresh_is_not_written_again(run: Run, tmp_path: Path) -> None:
    run("schema", tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert run("schema", tmp_path).out == f"{tmp_path} is up to date\n"
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("change", ["edit", "remove"])
def test_check_says_what_is_stale_and_writes_nothing(run: Run, tmp_path: Path, change: str) -> None:
    run("schema", tmp_path)
    path = tmp_path / "policy.schema.json"
    if change == "edit":
        path.write_bytes(path.read_bytes() + b"\n")
    else:
        path.unlink()
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    result = run("schema", tmp_path, "--check")
    assert (result.code, result.out) == (1, f"not up to date: {path}\n")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_nothing_is_up_to_date_in_a_folder_that_is_not_there(run: Run, tmp_path: Path) -> None:
    result = run("schema", tmp_path / "gone", "--check")
    assert (result.code, len(result.out.splitlines())) == (1, 3)
    assert not (tmp_path / "gone").exists()


def test_a_file_where_the_folder_should_be(run: Run, tmp_path: Path) -> None:
    (tmp_path / "schemas").write_text("mine")
    result = run("schema", tmp_path / "schemas")
    assert (result.code, result.out) == (2, "")
    assert f"error: {tmp_path / 'schemas'}" in result.err


def test_what_requests_may_pass_to_a_bundle(run: Run, write: Write, tmp_path: Path) -> None:
    run("compile", write(least=PARAMETERS, names="targets: [vllm]\n" + BAN), "-o", tmp_path / "build")
    result = run("schema", "--bundle", tmp_path / "build" / "policy_bundle")
    assert (result.code, result.err) == (0, "")
    schema = json.loads(result.out)
    Draft202012Validator.check_schema(schema)
    requests = Draft202012Validator(schema)
    assert requests.is_valid({"policies": ["least"], "min_len": 9, "of_somebody_else": 1})
    assert not requests.is_valid({"policies": ["names"]})
    assert not requests.is_valid({"min_len": 10})
    assert not requests.is_valid({"min_len": "2"})
    assert schema["properties"]["min_len"]["description"] == "The least"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--bundle", "gone"], "gone"),
        (["--bundle", "bundle", "--check"], "--bundle prints a schema"),
        (["--bundle", "bundle", "folder"], "--bundle prints a schema"),
        (["--bundle", ""], "--bundle is empty"),
        ([""], "the folder is empty"),
        (["a", "b"], "Usage"),
        (["--kind", "policy"], "Usage"),
    ],
)
def test_what_cannot_be_done(run: Run, arguments: list[str], why: str) -> None:
    result = run("schema", *arguments)
    assert (result.code, result.out) == (2, "")
    assert why in result.err
    assert "Traceback" not in result.err
