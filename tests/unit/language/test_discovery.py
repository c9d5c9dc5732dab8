"""Which files of a path are policies, what they are called, and in which order they come."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from policyengine.language import NoPoliciesFound, PolicyError, load


def policy(name: str) -> str:
    return f"version: 1\npolicy: {name}\nrules:\n  a: {{ban: {{phrases: [bluebird]}}}}\n"


def write(folder: Path, *names: str) -> None:
    for i, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(policy(f"p{i}"))


def test_a_directory_is_every_policy_below_it(folder: Path) -> None:
    """Not tests, the project file, hidden files and folders, or other endings; sorted by name."""
    write(folder, "p/b.yaml", "p/a.yml", "p/sub/deep/c.yaml", "p/a-z.yaml", "p/a.b.yaml")
    write(folder, "p/a.test.yaml", "p/.hidden.yaml", "p/.git/d.yaml", "p/e.yaml.bak", "p/f.json", "p/G.YAML")
    (folder / "p/policyengine.yaml").write_text("version: 1\n")
    names = ["a-z.yaml", "a.b.yaml", "a.yml", "b.yaml", "sub/deep/c.yaml"]
    for given in ("p", "p/", Path("p"), ["p"], ["p", "p/sub", "p/a.yml"]):
        policies = load(given).policies
        assert [one.file for one in policies] == ["p/" + name for name in names], "each once, under its first name"
        assert [one.relative_file for one in policies] == names


def test_names_follow_the_argument(folder: Path) -> None:
    """What lies below the argument is the same wherever it lies; the argument itself may be hidden."""
    write(folder, ".p/sub/a.yaml")
    for given, name in [
        (".p", ".p/sub/a.yaml"),
        (folder / ".p", f"{folder}/.p/sub/a.yaml"),
        ("./.p", ".p/sub/a.yaml"),
        (".p/sub/../sub", ".p/sub/../sub/a.yaml"),
        (".p/sub/a.yaml", ".p/sub/a.yaml"),
    ]:
        (one,) = load(given).policies
        assert one.file == one.span.file == name
        assert one.relative_file in ("sub/a.yaml", "a.yaml")


def test_order_does_not_depend_on_the_order_of_arguments(folder: Path) -> None:
    """Ties between rules go by file name, so it must not matter how the command line was written."""
    write(folder, "y/1.yaml", "x/2.yaml", "x/1.yaml")
    for given in (["x", "y"], ["y", "x"]):
        assert [one.file for one in load(given).policies] == ["x/1.yaml", "y/1.yaml", "x/2.yaml"]


def test_nothing_found_is_an_error_of_its_own(folder: Path) -> None:
    """The command line exits with 3 for it; a wrong path is another error."""
    (folder / "empty").mkdir()
    (folder / "empty/policyengine.yaml").write_text("version: 1\n")
    for given in ("empty", ["empty", folder / "empty"], []):
        with pytest.raises(NoPoliciesFound) as caught:
            load(given)
        assert [one.name for one in caught.value.diagnostics] == ["no-policies"]


@pytest.mark.parametrize("given", ["gone", "gone/x.yaml", "a\0b", "", "p.yaml/x", "loop", "fifo", "folder.yaml"])
def test_unreadable_paths(given: str, folder: Path) -> None:
    """Missing, impossible, circular, and what would block for ever."""
    write(folder, "p.yaml")
    os.symlink("loop", "loop")
    os.mkfifo("fifo")
    (folder / "folder.yaml").mkdir()
    with pytest.raises(PolicyError) as caught:
        load([given, "p.yaml"] if given != "folder.yaml" else [given])
    assert [one.name for one in caught.value.diagnostics] == [
        "unreadable-file" if given != "folder.yaml" else "no-policies"
    ]


def test_a_directory_that_cannot_be_listed(folder: Path) -> None:
    """It could hold policies, so it is an error and not an empty directory."""
    write(folder, "p/a.yaml", "p/locked/b.yaml")
    (folder / "p/locked").chmod(0)
    try:
        if os.access("p/locked", os.R_OK):
            pytest.skip("this user may read everything")
        with pytest.raises(PolicyError) as caught:
            load("p")
        assert [(one.name, one.span.file) for one in caught.value.diagnostics] == [("unreadable-file", "p/locked")]
    finally:
        (folder / "p/locked").chmod(0o700)


@pytest.mark.parametrize("name", ["policyengine.yaml", "a.test.yaml"])
def test_a_file_of_another_kind_is_refused_by_name(name: str, folder: Path) -> None:
    """They are skipped in directories; named, they are a mistake that deserves words."""
    write(folder, name)
    with pytest.raises(PolicyError, match="not a policy"):
        load(name)


def test_any_other_file_may_be_named(folder: Path) -> None:
    """The ending only matters in a directory."""
    write(folder, "policy.txt")
    assert load("policy.txt").policies[0].file == "policy.txt"


def test_symbolic_links_to_files_are_followed_once(folder: Path) -> None:
    """As a mounted ConfigMap looks: visible links into a hidden folder."""
    write(folder, "p/..data/a.yaml")
    os.symlink("..data/a.yaml", "p/a.yaml")
    os.symlink("..data/a.yaml", "p/b.yaml")
    assert [one.file for one in load("p").policies] == ["p/a.yaml"]


def test_odd_file_names_can_be_printed(folder: Path) -> None:
    """A line break, an escape or a byte that is not UTF-8 in a name does not reach the terminal."""
    (folder / "p").mkdir()
    for raw in (b"a\n.yaml", b"b\x1b.yaml", b"c\xff.yaml"):
        try:
            Path(os.fsdecode(b"p/" + raw)).write_text("version: 2\n")
        except OSError:
            pytest.skip("this file system takes no such names")
    with pytest.raises(PolicyError) as caught:
        load("p")
    str(caught.value).encode()
    assert {one.span.file for one in caught.value.diagnostics} == {"p/a\\n.yaml", "p/b\\x1b.yaml", "p/c\ufffd.yaml"}


@pytest.mark.parametrize("raw", [b"a\n.yaml", b"b\x1b.yaml", b"c\xff.yaml", "größe.yaml".encode()])
def test_a_file_has_one_name_however_it_is_given(raw: bytes, folder: Path) -> None:
    """By its folder or itself: the same names, and all of them text that a manifest can hold."""
    name = os.fsdecode(raw)
    (folder / "p").mkdir()
    try:
        (folder / "p" / name).write_text(policy("p0"))
    except OSError:
        pytest.skip("this file system takes no such names")
    (by_folder,) = load("p").policies
    (by_name,) = load(f"p/{name}").policies
    assert (by_name.file, by_name.relative_file) == (by_folder.file, by_folder.relative_file)
    assert by_name.file == f"p/{by_name.relative_file}"
    by_name.file.encode()


def test_importing_the_language_reads_nothing_heavy() -> None:
    """YAML and pydantic are imported when something is read."""
    import subprocess
    import sys

    code = "import sys, policyengine.language; print(sorted({'yaml', 'pydantic', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
