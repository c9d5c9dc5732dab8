"""The JSON Schemas: what they tell an editor, and that they judge files as the models do."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from policyengine.language import PolicyError, load, schema
from policyengine.language.nodes import compose
from policyengine.language.policy_test import PolicyTests
from policyengine.language.reading import Reading
from policyengine.language.source import Report, Source
from policyengine.language.variables import Variables
from tests import schema_corpus as corpus
from tests.unit.language.test_goldens import GOLDENS, OUTPUT, content, sections

ROOT = Path(__file__).parents[2]
SCHEMAS = {name: json.loads(text) for name, text in schema.files().items()}
POLICY, PROJECT, TEST = (Draft202012Validator(SCHEMAS[name]) for name in SCHEMAS)

# What a schema cannot know: whether parameters are declared and fit, whether files exist, whether defaults lie within
# their limits.
MEANING = {
    *("undeclared-parameter", "parameter-misfit", "default-out-of-limits", "unreadable-file"),
    *("invalid-regex", "irregular-regex"),
}
# What is wrong before there is a value that a schema could judge.
YAML = {
    "yaml-syntax",
    "yaml-feature",
    "duplicate-key",
    "several-documents",
    "empty-file",
    "invalid-character",
    "over-limit",
}


def value(text: str) -> Any:
    """What a file says, as JSON has it; None where it says nothing."""
    source, report = Source("x.yaml", Path("x.yaml"), text), Report()
    root = compose(source, report)
    return as_json(Reading(source, report, Variables({})).data(root)) if root else None


def as_json(data: Any) -> Any:
    """Keys that are numbers to YAML as text: JSON has no others, and editors show a schema no others."""
    if isinstance(data, dict):
        return {str(key): as_json(inner) for key, inner in data.items()}
    return [as_json(item) for item in data] if isinstance(data, list) else data


def refused(folder: Path, text: str | bytes, name: str = "policy.yaml") -> set[str]:
    """The names of what loading a file reports."""
    (folder / "list.txt").write_text("a phrase\n")
    if name != "policy.yaml":
        (folder / "policy.yaml").write_text(corpus.HEAD + corpus.RULE)
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    try:
        load(folder)
    except PolicyError as error:
        return {one.name for one in error.diagnostics}
    return set()


def accepts_tests(text: str) -> bool:
    """Whether the model of policy tests takes a file."""
    source, report = Source("x.yaml", Path("x.yaml"), text), Report()
    root = compose(source, report)
    assert root is not None
    reading = Reading(source, report, Variables({}))
    return reading.validate(PolicyTests, root, reading.data(root)) is not None and not report.diagnostics


def agree(validator: Draft202012Validator, text: str, names: set[str]) -> None:
    """The schema takes what the models take, and refuses what they refuse for its shape."""
    takes = validator.is_valid(value(text))
    if not names:
        assert takes, next(iter(validator.iter_errors(value(text))))
    elif names - MEANING - YAML:
        assert not takes, names


# -- the files --------------------------------------------------------------------------------------------------------


def test_the_files_in_the_repository_are_fresh() -> None:
    for name, text in schema.files().items():
        assert (ROOT / "schemas" / name).read_text(encoding="utf-8") == text, f"run `policyengine schema`: {name}"


@pytest.mark.parametrize("name", SCHEMAS)
def test_they_are_schemas_of_2020_12(name: str) -> None:
    assert SCHEMAS[name]["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(SCHEMAS[name])


def keys(part: Any, path: str = "") -> Iterator[tuple[str, str, Any]]:
    """Every key that a file may have: where it is described, its name, its schema. Conditions describe nothing."""
    if isinstance(part, list):
        for i, item in enumerate(part):
            yield from keys(item, f"{path}/{i}")
    elif isinstance(part, dict):
        for key, inner in part.items():
            if key == "properties":
                for name, described in inner.items():
                    yield path, name, described
                    yield from keys(described, f"{path}/{name}")
            elif key not in ("if", "then", "not", "dependentSchemas"):
                yield from keys(inner, f"{path}/{key}")


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_key_has_a_text_for_people_who_point_at_it(name: str) -> None:
    found = list(keys(SCHEMAS[name]))
    assert len(found) > 4
    for path, key, described in found:
        assert described["title"] == key, path
        text = described["description"]
        assert len(text) > 15, (path, key)
        assert text[-1] == ".", (path, key)
        assert "`" not in text, (path, key)
    for path, definition in SCHEMAS[name].get("$defs", {}).items():
        assert definition["title"], path
        assert definition["description"].endswith("."), path


def test_the_choices_of_a_key_are_explained() -> None:
    for name, found in SCHEMAS.items():
        for _, key, described in keys(found):
            for choice in described.get("enum", ()):
                assert choice in described["description"], (name, key)


def test_what_is_not_enforced_yet_is_not_offered() -> None:
    later = {"assignments"}
    later_values = {"assigned"}
    for name, found in SCHEMAS.items():
        assert not later & {key for _, key, _ in keys(found)}, name
        for _, key, described in keys(found):
            assert not later_values & set(json.dumps(described.get("enum", [])).split('"')), (name, key)


# -- schemas and models judge alike -----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", corpus.GOOD_POLICIES)
def test_good_policies(text: str, tmp_path: Path) -> None:
    assert refused(tmp_path, text) == set()
    POLICY.validate(value(text))


@pytest.mark.parametrize("text", corpus.BAD_POLICIES)
def test_bad_policies(text: str, tmp_path: Path) -> None:
    assert refused(tmp_path, text)
    assert not POLICY.is_valid(value(text))


@pytest.mark.parametrize("text", corpus.GOOD_PROJECTS)
def test_good_projects(text: str, tmp_path: Path) -> None:
    assert refused(tmp_path, text, "policyengine.yaml") == set()
    PROJECT.validate(value(text))


@pytest.mark.parametrize("text", corpus.BAD_PROJECTS)
def test_bad_projects(text: str, tmp_path: Path) -> None:
    assert refused(tmp_path, text, "policyengine.yaml")
    assert not PROJECT.is_valid(value(text))


@pytest.mark.parametrize("text", corpus.GOOD_TESTS)
def test_good_policy_tests(text: str) -> None:
    assert accepts_tests(text)
    TEST.validate(value(text))


@pytest.mark.parametrize("text", corpus.BAD_TESTS)
def test_bad_policy_tests(text: str) -> None:
    assert not accepts_tests(text)
    assert not TEST.is_valid(value(text))


@pytest.mark.parametrize("path", sorted((ROOT / "policies").rglob("*.yaml")), ids=lambda path: path.name)
def test_the_example_policies(path: Path) -> None:
    schema = TEST if path.name.endswith(".test.yaml") else PROJECT if path.name == "policyengine.yaml" else POLICY
    schema.validate(value(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.stem)
def test_the_goldens(golden: Path, tmp_path: Path) -> None:
    for name, text in sections(golden).items():
        if name == OUTPUT or not name.endswith((".yaml", ".yml")):
            continue
        data = content(text)
        try:
            decoded = data.decode()
        except UnicodeDecodeError:
            continue
        folder = tmp_path / name.replace("/", "-")
        folder.mkdir()
        project = name.endswith("policyengine.yaml")
        if project and golden.stem == "reasoning":
            continue  # two markers that are the same: a schema cannot compare values
        names = refused(folder, data, "policyengine.yaml" if project else "policy.yaml")
        agree(PROJECT if project else POLICY, decoded, names)


# -- and on what nobody thought of ------------------------------------------------------------------------------------

ODD = st.sampled_from(
    (
        *(None, True, False, 0, 1, -1, 101, 2**31, 0.5, "", " ", "a", "avoid", "every", "start", "vllm", "42", "cuda"),
        *([], {}, ["a"], [1], [[]], {"param": "n"}, {"param": "t"}, {"a": 1}, {1: 1}, {"redact": "a"}),
    )
).map(copy.deepcopy)
KEYS = sorted({key for found in SCHEMAS.values() for _, key, _ in keys(found)} | {"x"})


def places(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) of nested values."""
    if isinstance(data, dict | list):
        for key in list(data) if isinstance(data, dict) else range(len(data)):
            yield data, key
            yield from places(data[key])


def flow(data: Any) -> str:
    """Values as YAML, keys that are numbers unquoted."""
    if isinstance(data, dict):
        return "{" + ", ".join(f"{flow(key)}: {flow(inner)}" for key, inner in data.items()) + "}"
    if isinstance(data, list):
        return "[" + ", ".join(map(flow, data)) + "]"
    return json.dumps(data)


def raw(text: str) -> Any:
    """What a file says, keys as YAML has them."""
    source, report = Source("x.yaml", Path("x.yaml"), text), Report()
    root = compose(source, report)
    assert root is not None
    return Reading(source, report, Variables({})).data(root)


@given(data=st.data())
def test_a_policy_with_anything_put_anywhere(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    policy = raw(data.draw(st.sampled_from(corpus.GOOD_POLICIES)))
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(list(places(policy))))
        change = data.draw(st.sampled_from(["replace", "remove", "add"]))
        if change == "replace":
            container[key] = data.draw(ODD)
        elif change == "remove":
            del container[key]
        elif isinstance(container, dict):
            container[data.draw(st.sampled_from(KEYS))] = data.draw(ODD)
        else:
            container.append(data.draw(ODD))
        if not policy:
            return
    text = flow(policy)
    agree(POLICY, text, refused(tmp_path_factory.mktemp("any"), text))
