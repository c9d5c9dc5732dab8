"""docs/language.md is true: its examples load, its keys are those of the models, and what is not there is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from policyengine.language import PolicyError, load
from policyengine.language.parameters import FORMS
from policyengine.language.phrases import OptionKeys
from policyengine.language.policy import Header
from policyengine.language.policyset import Ban, MinTokens, ParamRef, Reasoning
from policyengine.language.project import ProjectForm
from policyengine.language.rules import KINDS
from policyengine.language.rules.base import WhenForm
from policyengine.review.testing import Runner
from policyengine.review.testing_files import load_tests

PAGE = (Path(__file__).parents[3] / "docs" / "language.md").read_text(encoding="utf-8")
RULES = "version: 1\npolicy: p\nrules:\n  r: "


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_the_examples_load(folder: Path) -> None:
    names, secrets, length, project, tests, competitors = blocks("yaml")
    (list_file,) = blocks("text")
    (folder / "lists").mkdir()
    (folder / "lists" / "names.txt").write_text(list_file, encoding="utf-8")
    for name, text in (
        ("names.yaml", names),
        ("secrets.yaml", secrets),
        ("length.yaml", length),
        ("policyengine.yaml", project),
        ("names.test.yaml", tests),
        ("competitors.yaml", competitors),
    ):
        (folder / name).write_text(text, encoding="utf-8")
    results = Runner().run(load_tests(["."]).tests)
    assert [(result.ready.test.id, result.outcome) for result in results] == [
        ("codename", "passed"),
        ("other-word", "passed"),
    ]
    loaded = load(".")
    by_name = {policy.name: policy for policy in loaded.policies}
    assert sorted(by_name) == ["competitors", "length", "names", "secrets"]
    modes = {rule.id: rule.mode for rule in by_name["competitors"].rules}
    assert modes == {"names": "shadow", "prices": "shadow", "proven": "enforce"}
    (codenames,) = by_name["names"].rules
    assert isinstance(codenames.body, Ban)
    assert [one.text for one in codenames.body.phrases] == ["Project Titan", "C#", "silver lantern", "#bluebird"]
    long_enough = next(rule for rule in by_name["length"].rules if rule.id == "long-enough")
    assert long_enough.body == MinTokens(ParamRef("min_len"))
    assert loaded.project.variables == {"product": "Project Titan"}
    assert loaded.project.reasoning == Reasoning("<think>", "</think>")
    keys, han, twice = (rule.body for rule in by_name["secrets"].rules)
    assert isinstance(keys, Ban)
    assert isinstance(han, Ban)
    assert isinstance(twice, Ban)
    assert [one.regular for one in (*keys.expressions, *twice.expressions)] == [True, False]
    assert [one.text for one in han.scripts] == ["Han"]


def test_every_key_is_on_the_page() -> None:
    keys = {*Header.offered(), *ProjectForm.offered(), *KINDS, *OptionKeys.offered(), *FORMS, *WhenForm.offered()}
    keys |= {key for kind in KINDS.values() for key in kind.form.offered()}
    keys |= {key for kind in KINDS.values() for key in kind.body_keys()}
    keys |= {key for form in FORMS.values() for key in form.offered()}
    assert {key for key in keys if not re.search(rf"\b{key}\b", PAGE)} == set()


@pytest.mark.parametrize(
    ("written", "files"),
    [
        (
            "`activation: assigned`",
            {"p.yaml": RULES.replace("rules", "activation: assigned\nrules") + "{min_tokens: 1}\n"},
        ),
        (
            "`assignments`",
            {"p.yaml": RULES + "{min_tokens: 1}\n", "policyengine.yaml": "version: 1\nassignments: []\n"},
        ),
    ],
)
def test_what_is_not_there_yet_is_refused_with_other_help(folder: Path, written: str, files: dict[str, str]) -> None:
    later = PAGE.split("## Not in the language yet")[1].split("## Common mistakes")[0]
    assert written in later
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
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
