"""Who is responsible, what tests show, and comments that ignore a finding."""

from __future__ import annotations

from pathlib import Path

import pytest

from policyengine.lint.run import check
from tests.unit.lint.conftest import HEAD, Found, Put, checked

RULE = "rules: {names: {ban: {phrases: [bluebird]}}}\n"


@pytest.mark.parametrize(
    ("head", "names"),
    [
        ("", {"no-owner", "no-description"}),
        ("owner: x\n", {"no-description"}),
        ("description: x\n", {"no-owner"}),
        ("owner: ' '\ndescription: ''\n", {"no-owner", "no-description"}),
        ("owner: x\ndescription: y\n", set()),
    ],
)
def test_owners_and_descriptions(tmp_path: Path, head: str, names: set[str]) -> None:
    (tmp_path / "p.yaml").write_text(f"version: 1\npolicy: p\n{head}{RULE}")
    assert {one.name for one in check([tmp_path]).diagnostics} == names


# -- tests ------------------------------------------------------------------------------------------------------------

TESTS = "version: 1\npolicies: [p.yaml]\ntests:\n"
FIRES = "  fires: {text: a bluebird, verdict: terminate, rules: [p/names]}\n"
PASSES = "  passes: {text: a bird, verdict: pass}\n"


@pytest.mark.parametrize(
    ("tests", "untested", "unclean"),
    [
        (TESTS + FIRES + PASSES, False, False),
        (TESTS + FIRES, False, True),
        (TESTS + PASSES, True, False),
        (TESTS + "  fires: {text: a bluebird, verdict: terminate}\n" + PASSES, False, False),  # it is tried
        (TESTS + "  fires: {text: a blackbird, verdict: terminate}\n" + PASSES, True, False),
        (TESTS + "  fires: {chunks: [a blue, bird], verdict: terminate}\n" + PASSES, False, False),
        (
            TESTS + "  fires: {text: a bluebird, verdict: terminate, rules: [p/names], todo: later}\n" + PASSES,
            True,
            False,
        ),
        (TESTS.replace("p.yaml", "other.yaml") + FIRES + PASSES, True, False),
        (TESTS.replace("p.yaml", ".") + FIRES + PASSES, False, False),
        ("version: 1\n", False, False),  # no test file: `policyengine test` says what is wrong with it
    ],
)
def test_rules_and_their_tests(found: Found, tests: str, untested: bool, unclean: bool) -> None:
    assert bool(found("untested-rule", RULE, p__test__yaml=tests)) is untested
    assert bool(found("never-tested-clean", RULE, p__test__yaml=tests)) is unclean


def test_without_any_test_nothing_is_said(found: Found) -> None:
    assert found("untested-rule", RULE) == found("never-tested-clean", RULE) == []


def test_what_no_text_can_show_needs_no_test(found: Found) -> None:
    policy = (
        "targets: [vllm]\nrules: {a: {min_tokens: 3}, b: {bias: {phrases: {delve: 1}}}, c: {ban: {token_ids: [7]}}}\n"
    )
    assert found("untested-rule", policy, p__test__yaml=TESTS + PASSES) == []


# -- comments that ignore ---------------------------------------------------------------------------------------------


def names(folder: Path, **options: bool) -> list[str]:
    return [one.name for one in check([folder], **options).diagnostics]


@pytest.mark.parametrize(
    "rules",
    [
        'rules: {r: {ban: {phrases: [" zz"]}}}  # policyengine: ignore[edge-whitespace] behind a space\n',
        'rules: {r: {ban: {phrases: [" zz"]}}}  #policyengine:ignore[pe006] behind a space\n',
        '# policyengine: ignore[edge-whitespace] behind a space\nrules: {r: {ban: {phrases: [" zz"]}}}\n',
        "rules:\n  r:\n    ban:\n      phrases:\n"
        '        # policyengine: ignore[edge-whitespace] so\n        # as said\n\n        - " zz"\n',
        'rules: {r: {ban: {phrases: [" zz", "b "]}}}  # policyengine: ignore[zero-bias, edge-whitespace] so\n',
    ],
)
def test_a_comment_ignores_what_is_on_its_line_or_the_next(put: Put, rules: str) -> None:
    folder = put(rules)
    assert "edge-whitespace" not in names(folder)
    assert check([folder]).ignored >= 1
    assert "edge-whitespace" in names(folder, ignores=False)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ('rules: {r: {ban: {phrases: [" zz"]}}}  # policyengine: ignore[edge-whitespace]\n', {"ignore-without-reason"}),
        ('rules: {r: {ban: {phrases: [" zz"]}}}  # policyengine: ignore\n', {"unused-ignore"}),
        ('rules:\n  # policyengine: ignore[edge-whitespace] x\n  r:\n    ban: {phrases: [" zz"]}\n', {"unused-ignore"}),
        ('rules: {r: {ban: {phrases: [" zz"]}}}  # policyengine: ignore[zero-bias] x\n', {"unused-ignore"}),
        ('rules: {r: {ban: {phrases: [" zz"]}}}  # policyengine: ignore[edge-white] x\n', {"unused-ignore"}),
    ],
)
def test_comments_that_do_not_hold(put: Put, rules: str, expected: set[str]) -> None:
    assert set(names(put(rules))) == expected | {"edge-whitespace"}


def test_errors_cannot_be_ignored(put: Put) -> None:
    folder = put("rules: {r: {min_tokens: 4}}  # policyengine: ignore[not-enforceable] we know\n")
    result = check([folder])
    assert [one.name for one in result.diagnostics] == ["not-enforceable", "unused-ignore"]
    assert result.diagnostics[1].message == "`not-enforceable` is an error, and errors cannot be ignored"


def test_what_only_looks_like_a_comment(put: Put) -> None:
    folder = put(
        "rules:\n  r: {ban: {phrases: ['# policyengine: ignore[zero-bias] x']}}\n"
        "  s:\n    ban: {phrases: [x]}\n    action:\n      block: |\n        # policyengine: ignore[zero-bias] x\n"
    )
    assert [name for name in names(folder) if "ignore" in name] == []


def test_what_needs_a_vocabulary_is_not_unused_without_one(put: Put) -> None:
    folder = put("rules: {r: {ban: {phrases: [cat]}}}  # policyengine: ignore[eager-blocks-common-word] fine\n")
    assert names(folder) == []


def test_a_list_of_phrases_has_lines_that_ignore(put: Put) -> None:
    policy = "rules: {r: {ban: {phrases_from: l.txt}}}\n"
    listed = (
        "alpha\n# policyengine: ignore[duplicate-phrase] on purpose\nAlpha\nbeta # policyengine: ignore[zero-bias] x\n"
    )
    assert names(put(policy, l__txt=listed)) == []


def test_a_wrong_file_has_no_second_finding_and_takes_nothing_from_others(put: Put) -> None:
    folder = put("rules: {r: {ban: {phrases: [' zz']}}}\n")
    (folder / "b.yaml").write_text(
        HEAD.replace("policy: p", "policy: b") + "rules: {r: {ban: {phrases: [42, ' yy']}}}\n"
    )
    assert names(folder) == ["unquoted-phrase", "edge-whitespace"]


def test_findings_that_a_fix_would_mend_are_counted(put: Put) -> None:
    from policyengine.lint.formats import summary

    result = checked(put("rules: {r: {ban: {phrases: [a1, A1, ' b1']}}}\n"))
    assert summary(result) == "1 file, 1 rule: 2 warnings; 1 fixable with --fix, 1 more with --fix=unsafe"
