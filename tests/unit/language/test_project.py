"""The project file and variables."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from policyengine.language import Diagnostic, PolicyError, PolicySet, load

BAN = "version: 1\npolicy: p\nrules:\n  a: {ban: {phrases: ['x {{ name }} y']}}\n"


def phrases(policies: PolicySet) -> list[str]:
    return [phrase.text for policy in policies.policies for rule in policy.rules for phrase in rule.body.phrases]


def test_defaults(read: Callable[..., PolicySet]) -> None:
    """Without a project file; an undeclared variable is literal."""
    policies = read(BAN)
    project = policies.project
    assert (project.targets, project.package, project.max_hold) == (("vllm", "trtllm"), "policy_bundle", 4096)
    assert phrases(policies) == ["x {{ name }} y"]


def test_all_keys(read: Callable[..., PolicySet]) -> None:
    """What the file says is what the set holds."""
    text = "version: 1\ntargets: [trtllm-llm]\npackage: acme_policies\nvariables: {name: Titan}\nmax_hold: 512\n"
    policies = read({"policyengine.yaml": text, "p.yaml": BAN})
    project = policies.project
    assert (project.targets, project.package, project.max_hold) == (("trtllm-llm",), "acme_policies", 512)
    assert project.variables == {"name": "Titan"}
    assert phrases(policies) == ["x Titan y"]
    assert phrases(read({}, variables={"name": "from the caller"})) == ["x from the caller y"]


@pytest.mark.parametrize("where", ["policyengine.yaml", "a/policyengine.yaml", "a/b/policyengine.yaml"])
def test_it_lies_beside_the_policies_or_above(where: str, folder: Path) -> None:
    """The nearest one counts, and it is shown relative where the policies are."""
    (folder / "a/b").mkdir(parents=True)
    (folder / "a/b/p.yaml").write_text(BAN)
    (folder / where).write_text("version: 1\nvariables: {name: Titan}\n")
    for given in ("a", "a/b", "a/b/p.yaml", folder / "a"):
        assert phrases(load(given)) == ["x Titan y"]
    (folder / where).write_text("version: 3\n")
    with pytest.raises(PolicyError) as caught:
        load("a")
    assert [one.span.file for one in caught.value.diagnostics] == [where]


def test_two_project_files(errors: Callable[..., list[Diagnostic]]) -> None:
    """A set has one; both are named."""
    (one,) = errors(
        {
            "a/policyengine.yaml": "version: 1\n",
            "b/policyengine.yaml": "version: 1\n",
            "a/p.yaml": BAN,
            "b/p.yaml": BAN.replace("policy: p", "policy: q"),
        }
    )
    assert one.name == "project-conflict"
    assert {one.span.file, one.labels[0].span.file} == {"a/policyengine.yaml", "b/policyengine.yaml"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("reasoning: {start: a, end: a}", ("invalid-value", "start")),
        ('reasoning: {start: "", end: b}', ("invalid-value", '""')),
        ("assignments: []", ("not-yet-supported", "assignments")),
        ("lint: {select: []}", ("invalid-value", "[]")),
        ("lint: {select: PE101}", ("wrong-type", "PE101")),
        ("lint: {fail_level: fatal}", ("invalid-value", "fatal")),
        ("lint: {selct: [PE101]}", ("unknown-key", "selct")),
        ("target: [vllm]", ("unknown-key", "target")),
        ("targets: []", ("invalid-value", "[]")),
        ("targets: [vllm, vllm]", ("invalid-value", "[vllm, vllm]")),
        ("targets: vllm", ("wrong-type", "vllm")),
        ("package: my-package", ("invalid-value", "my-package")),
        ("package: class", ("invalid-value", "class")),
        ("package: vllm", ("invalid-value", "vllm")),
        ("package: json", ("invalid-value", "json")),
        ("max_hold: 0", ("invalid-value", "0")),
        ("max_hold: 1.5", ("wrong-type", "1.5")),
        ("max_hold: 99999999999999999999999", ("invalid-value", "99999999999999999999999")),
        ("max_hold:", ("wrong-type", "max_hold")),
        ("variables: {a: 1}", ("wrong-type", "1")),
        ("variables: {a b: x}", ("invalid-value", "a b")),
        ("variables: {1: x}", ("wrong-type", "1")),
    ],
)
def test_wrong_keys(line: str, expected: tuple[str, str], said: Callable[..., list[tuple[str, str]]]) -> None:
    """Each at its key or value."""
    assert said({"policyengine.yaml": f"version: 1\n{line}\n", "p.yaml": BAN}) == [expected]


def test_values_never_change_the_structure(read: Callable[..., PolicySet]) -> None:
    """A value is text wherever it lands, and what it holds is not replaced again."""
    policy = (
        "version: 1\npolicy: p\ndescription: '{{d}}'\nrules:\n  '{{name}}x': {ban: {phrases: [a]}}\n"
        "  b: {ban: {phrases: ['{{ name }}', '{{other}}', '{{ na me }}', '{{name', '{ {name} }', '{{\tname }}']}}\n"
    )
    values = {"name": "], x: [", "d": "{{name}}"}
    with pytest.raises(PolicyError, match="no id for a rule"):
        read(policy, variables=values)
    policies = read(policy.replace("'{{name}}x'", "a"), variables=values)
    assert phrases(policies) == ["a", "], x: [", "{{other}}", "{{ na me }}", "{{name", "{ {name} }", "], x: ["]
    assert policies.policies[0].description == "{{name}}"


def test_a_phrase_may_become_empty_through_a_variable(said: Callable[..., list[tuple[str, str]]]) -> None:
    """Phrases are judged after replacing, at the place where they are written."""
    text = "version: 1\npolicy: p\nrules:\n  a: {ban: {phrases: ['{{v}}']}}\n"
    assert said(text, variables={"v": " \u200b"}) == [("empty-phrase", "'{{v}}'")]


def test_phrases_of_a_bias_are_text_too(
    read: Callable[..., PolicySet], errors: Callable[..., list[Diagnostic]]
) -> None:
    """Although they stand as keys; two that become one are a duplicate."""
    text = "version: 1\npolicy: p\nrules:\n  a: {bias: {phrases: {'{{v}} x': 1, titan x: 2}}}\n"
    (rule,) = read(text, variables={"v": "Project"}).policies[0].rules
    assert [phrase.text for phrase, _ in rule.body.phrases] == ["Project x", "titan x"]
    (one,) = errors(text, variables={"v": "titan"})
    assert one.name == "duplicate-key"


def test_variables_cannot_grow_without_end(said: Callable[..., list[tuple[str, str]]]) -> None:
    """A short file and a long value would fill the memory."""
    text = "version: 1\npolicy: p\nrules:\n  a: {ban: {phrases: ['" + "{{v}}" * 1000 + "']}}\n"
    found = said(text, variables={"v": "x" * 60_000})
    assert [name for name, _ in found] == ["over-limit", "over-limit"], "the growth, and then the phrase as it stands"


@pytest.mark.parametrize(
    "variables", [{"a b": "x"}, {"1": "x"}, {"": "x"}, {"a": 1}, {"a": "x" * 70_000}, {"a": "\ud800"}]
)
def test_variables_that_no_text_can_use(variables: dict[str, str], folder: Path) -> None:
    """A caller's mistake, not a policy's."""
    (folder / "p.yaml").write_text(BAN)
    with pytest.raises(ValueError, match="variable"):
        load("p.yaml", variables=variables)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("a\ud800", "the variable 'a' is not valid text: U+D800 is half of a surrogate pair"),
        ("\ud83d\ude00", "the variable 'a' is not valid text: U+D83D is half of a surrogate pair"),
        (os.fsdecode(b"x\xff"), "the variable 'a' is not valid text: the byte 0xff is not UTF-8"),
    ],
)
def test_variables_hold_characters(value: str, why: str, folder: Path) -> None:
    """Half a character could neither match nor be written to a bundle. A shell passes bytes, and is told which."""
    (folder / "p.yaml").write_text(BAN)
    with pytest.raises(ValueError, match="variable") as caught:
        load("p.yaml", variables={"a": value})
    assert str(caught.value) == why
