"""docs/language.md is true: its examples load, its keys are those of the models, and what is not there is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from policyengine.language import PolicyError, load
from policyengine.language.parameters import FORMS
from policyengine.language.phrases import OptionKeys
from policyengine.language.policy import Header
from policyengine.language.policyset import Ban, MinTokens, ParamRef
from policyengine.language.project import ProjectForm
from policyengine.language.rules import KINDS

PAGE = (Path(__file__).parents[3] / "docs" / "language.md").read_text(encoding="utf-8")
RULES = "version: 1\npolicy: p\nrules:\n  r: "


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_the_examples_load(folder: Path) -> None:
    names, length, project = blocks("yaml")
    (list_file,) = blocks("text")
    (folder / "lists").mkdir()
    (folder / "lists" / "names.txt").write_text(list_file, encoding="utf-8")
    for name, text in (("names.yaml", names), ("length.yaml", length), ("policyengine.yaml", project)):
        (folder / name).write_text(text, encoding="utf-8")
    loaded = load(".")
    by_name = {policy.name: policy for policy in loaded.policies}
    assert sorted(by_name) == ["length", "names"]
    (codenames,) = by_name["names"].rules
    assert isinstance(codenames.body, Ban)
    assert [one.text for one in codenames.body.phrases] == ["Project Titan", "C#", "silver lantern", "#bluebird"]
    long_enough = next(rule for rule in by_name["length"].rules if rule.id == "long-enough")
    assert long_enough.body == MinTokens(ParamRef("min_len"))
    assert loaded.project.variables == {"product": "Project Titan"}


def test_every_key_is_on_the_page() -> None:
    keys = {*Header.offered(), *ProjectForm.offered(), *KINDS, *OptionKeys.offered(), *FORMS}
    keys |= {key for kind in KINDS.values() for key in kind.form.offered()}
    keys |= {key for kind in KINDS.values() for key in kind.body_keys()} - {"regex"}
    keys |= {key for form in FORMS.values() for key in form.offered()}
    assert {key for key in keys if not re.search(rf"\b{key}\b", PAGE)} == set()


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        ("`regex`", "{ban: {regex: [x]}}"),
        ("`scripts`", "{ban: {scripts: [Han]}}"),
        ("`allow`", "{allow: {choices: [a, b]}}"),
        ("`channel`", "{ban: {phrases: [x]}, channel: answer}"),
        ("`mode: shadow`", "{ban: {phrases: [x]}, mode: shadow}"),
        ("`at: end`", "{force: {text: x, at: end}}"),
        ("`after`", "{force: {text: x, after: y}}"),
        ("a text from a parameter", "{force: {text: {param: x}, at: start}}"),
        ("`model`", "{ban: {phrases: [x]}, when: {model: [x]}}"),
        ("`vocabulary`", "{ban: {phrases: [x]}, when: {vocabulary: x}}"),
    ],
)
def test_what_is_not_there_yet_is_refused_with_other_help(folder: Path, written: str, rule: str) -> None:
    later = PAGE.split("## Not in the language yet")[1].split("## Common mistakes")[0]
    assert written in later
    (folder / "p.yaml").write_text(f"{RULES}{rule}\n", encoding="utf-8")
    with pytest.raises(PolicyError) as caught:
        load(".")
    (one,) = caught.value.diagnostics
    assert one.name == "not-yet-supported"
    assert one.help
    assert "never ignored" not in one.help


@pytest.mark.parametrize(
    "policy",
    [
        RULES + "{ban: Falcon}\n",
        "version: 1\npolicy: p\nrules:\n  names:\n  ban: {phrases: [x]}\n",
        "version: 1\npolicy: p\nrules:\n- ban: {phrases: [x]}\n",
        RULES + "{ban: {phrases: [42]}}\n",
        RULES + '{ban: {phrases: ["\\bword\\b"]}}\n',
        "version: 1\npolicy: p\nrules:\n\tr: {ban: {phrases: [x]}}\n",
    ],
)
def test_a_common_mistake_gets_one_finding_with_help(folder: Path, policy: str) -> None:
    (folder / "p.yaml").write_text(policy, encoding="utf-8")
    with pytest.raises(PolicyError) as caught:
        load(".")
    assert [bool(one.help) for one in caught.value.diagnostics] == [True]
