"""`policyengine init`: what it writes works, and it never overwrites."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import policyengine as pe
from policyengine.cli.app import app
from policyengine.review import first
from tests.unit.cli.conftest import Run

ROOT = Path(__file__).parents[3]
FILES = [
    ".github/workflows/policies.yml",
    ".pre-commit-config.yaml",
    "policies/unreleased-names.test.yaml",
    "policies/unreleased-names.yaml",
    "policyengine.yaml",
    "schemas/policy-test.schema.json",
    "schemas/policy.schema.json",
    "schemas/project.schema.json",
]


def tree(folder: Path) -> list[str]:
    """Every file below a folder, hidden ones too."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


@pytest.fixture
def made(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that `init` has written, and that is the working directory."""
    folder = tmp_path / "mine"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert run("init").code == 0
    return folder


def test_what_it_writes_and_says(run: Run, tmp_path: Path) -> None:
    result = run("init", tmp_path / "new" / "mine")
    folder = tmp_path / "new" / "mine"
    assert (result.code, result.err) == (0, "")
    assert tree(tmp_path) == [f"new/mine/{name}" for name in FILES]
    assert result.out == "".join(f"wrote {folder / name}\n" for name in FILES) + (
        f"\nnext:\n  cd {folder}\n  policyengine check policies\n  policyengine test policies\n"
        "  policyengine compile policies -o build\n  pre-commit install\n"
    )


def test_it_passes_every_command_of_ours(run: Run, made: Path) -> None:
    checked = run("check", "policies", "--fail-level", "info")
    assert (checked.code, checked.err, checked.out) == (0, "", "1 file, 1 rule: no findings\n")
    tested = run("test", "policies", "--coverage", "--threshold", "100")
    assert (tested.code, tested.err) == (0, "")
    assert run("compile", "policies", "-o", "build").code == 0
    assert run("schema", "--check").code == 0
    assert run("explain", "policies", "--text", "a bluebird").code == 0


def test_editors_find_the_schemas(made: Path) -> None:
    for name in ("policyengine.yaml", "policies/unreleased-names.yaml", "policies/unreleased-names.test.yaml"):
        line = (made / name).read_text().split("\n", 1)[0]
        named = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", line)
        assert named, name
        assert (made / name).parent.joinpath(named[1]).resolve().is_relative_to(made / "schemas")
        assert (made / name).parent.joinpath(named[1]).exists()


def test_the_hooks_are_those_of_this_repository(made: Path) -> None:
    """The configuration asks for the published package; `.pre-commit-hooks.yaml` offers the same hooks by address."""
    (repo,) = yaml.safe_load((made / ".pre-commit-config.yaml").read_text())["repos"]
    offered = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert repo["repo"] == "local"
    for hook, offer in zip(repo["hooks"], offered, strict=True):
        same = ("id", "name", "entry", "args", "language", "pass_filenames")
        assert {key: hook[key] for key in same} == {key: offer[key] for key in same}
        assert hook["additional_dependencies"] == [f"policyengine-llm=={pe.__version__}"]
        assert hook["entry"].split()[1] in [command.name for command in app.registered_commands]
        for pattern in (hook["files"], offer["files"]):
            assert re.search(pattern, "policies/unreleased-names.yaml")
            assert re.search(pattern, "policyengine.yaml")


def test_the_workflow_is_safe_to_run(made: Path) -> None:
    """Pinned actions, no secrets, nothing of a pull request's making inside a script, no more rights than it needs."""
    text = (made / ".github/workflows/policies.yml").read_text()
    workflow = yaml.safe_load(text)
    assert set(workflow[True]) == {"pull_request", "push"}  # YAML 1.1 reads the key `on` so
    assert workflow["permissions"] == {"contents": "read", "pull-requests": "write"}
    assert "secrets." not in text
    steps = workflow["jobs"]["review"]["steps"]
    for step in steps:
        assert re.fullmatch(r"actions/[a-z-]+@v\d+\.\d+\.\d+", step.get("uses", "actions/a@v1.2.3"))
        assert "${{" not in step.get("run", "")
    assert "${{" not in steps[-1]["with"]["script"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f'pip install "{project["name"]}=={project["version"]}"' in text


@pytest.mark.parametrize("name", FILES)
def test_it_never_overwrites(run: Run, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine")
    result = run("init", tmp_path)
    assert (result.code, result.out) == (2, "")
    assert result.err == f"error: nothing was written: {path} exist; --keep writes the others\n"
    assert tree(tmp_path) == [name]
    kept = run("init", tmp_path, "--keep")
    assert kept.code == 0
    assert kept.out.startswith(f"kept {path}\n")
    assert path.read_text() == "mine"
    assert tree(tmp_path) == FILES


def test_a_dangling_link_is_something_that_exists(run: Run, tmp_path: Path) -> None:
    (tmp_path / "policyengine.yaml").symlink_to(tmp_path / "elsewhere" / "policyengine.yaml")
    assert run("init", tmp_path).code == 2
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_where_a_folder_must_be(run: Run, tmp_path: Path) -> None:
    (tmp_path / "policies").write_text("mine")
    for more in ((), ("--keep",)):
        result = run("init", tmp_path, *more)
        assert (result.code, result.err) == (2, f"error: nothing was written: {tmp_path / 'policies'} exist\n")
    assert tree(tmp_path) == ["policies"]
    assert run("init", tmp_path / "policies").err == f"error: {tmp_path / 'policies'} is a file\n"


def test_what_fails_half_way_leaves_nothing(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "mine.yaml").write_text("mine")
    real, count = first._move, 0

    def failing(source: Path, target: Path, made: list[Path]) -> None:
        nonlocal count
        count += 1
        if count == 5:
            raise OSError(28, "No space left on device", str(target))
        real(source, target, made)

    monkeypatch.setattr(first, "_move", failing)
    result = run("init", tmp_path)
    assert result.code == 2
    assert result.err.endswith("policyengine.yaml: No space left on device\n")
    assert tree(tmp_path) == ["policies/mine.yaml"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["policies"]


def test_one_that_came_into_being_meanwhile_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("mine")
    with pytest.raises(FileExistsError):
        first.write(tmp_path, {"0": "ours", "a": "ours"})
    assert tree(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "mine"


def test_a_folder_that_cannot_be_written(run: Run, tmp_path: Path) -> None:
    result = run("init", Path("/proc/policies"))
    assert result.code == 2
    assert result.err.startswith("error: nothing was written: ")
    assert run("init", "").err == "error: the folder is empty\n"


def test_files_have_the_usual_rights(run: Run, tmp_path: Path) -> None:
    run("init", tmp_path / "mine")
    (tmp_path / "usual").write_text("")
    (tmp_path / "usual-folder").mkdir()
    assert (tmp_path / "mine/policyengine.yaml").stat().st_mode == (tmp_path / "usual").stat().st_mode
    assert (tmp_path / "mine").stat().st_mode == (tmp_path / "usual-folder").stat().st_mode


def test_inside_a_repository_the_top_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert "top of the repository" not in run("init", tmp_path).out
    assert f"{tmp_path} is the top of the repository" in run("init", tmp_path / "below").out
