"""The formats of `policyengine check`: what each shows, that machines can read it, that none changes the exit code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from policyengine.lint.formats import FORMATS
from policyengine.lint.formats.markdown import cell
from policyengine.lint.formats.text import painted
from tests.unit.cli.conftest import BAN, Run, Write

# One of each: an error of loading, an error, a warning with a fix and another place, an info, in two files.
BROKEN = "rules: {x: {ban: {phrasess: [a]}}}\n"
MIXED = (
    "targets: [vllm]\nrules:\n"
    '  a: {ban: {phrases: [titan, "It\'s | 100% <b>", TITAN]}}\n'
    "  b: {ban: {phrases: [bluebird]}, action: redact}\n"
)
INFO = "version: 1\npolicy: c\nowner: x\nrules: {c: {ban: {phrases: [x y]}}}\n"


@pytest.fixture
def folder(write: Write, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four files in the working directory's `policies`."""
    path = write(a=BROKEN, b=MIXED)
    (path / "c.yaml").write_text(INFO)
    (path / "ä b.yaml").write_text(INFO.replace("policy: c", "policy: d").replace("x y", "z"))
    monkeypatch.chdir(path.parent)
    return path


def shown(run: Run, form: str, *arguments: str) -> str:
    result = run("check", "policies", "--format", form, *arguments)
    assert (result.code, result.err) == (1, "")
    return result.out


NAMES = ["unknown-key", "duplicate-phrase", "not-enforceable", "no-description", "no-description"]


def test_every_format_tells_of_every_finding(run: Run, folder: Path) -> None:
    for form in FORMATS:
        out = shown(run, form)
        for name in NAMES:
            assert name in out, (form, name)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    ("policies", "arguments", "code"),
    [
        ({"a": BAN}, [], 0),
        ({"a": BAN}, ["--fail-level", "info"], 0),
        ({"a": "rules: {x: {ban: {phrases: [titan, titan]}}}\n"}, [], 0),
        ({"a": "rules: {x: {ban: {phrases: [titan, titan]}}}\n"}, ["--fail-level", "warning"], 1),
        ({"a": BROKEN}, ["--ignore", "all"], 1),
        ({}, [], 3),
    ],
)
def test_the_exit_code_is_the_same_in_every_format(
    run: Run, write: Write, form: str, policies: dict[str, str], arguments: list[str], code: int
) -> None:
    result = run("check", write(**policies), "--format", form, *arguments)
    assert (result.code, result.err) == (code, "")
    assert result.out.endswith("\n")


@pytest.mark.parametrize("form", FORMATS)
def test_an_unreadable_path_is_the_same_in_every_format(run: Run, write: Write, form: str) -> None:
    result = run("check", write(a=BAN), "gone", "--format", form)
    assert (result.code, result.err) == (2, "")
    assert "unreadable-file" in result.out


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_twice(run: Run, folder: Path, form: str) -> None:
    assert shown(run, form) == shown(run, form)


# -- for programs -----------------------------------------------------------------------------------------------------


def test_json(run: Run, folder: Path) -> None:
    data = json.loads(shown(run, "json"))
    assert data["version"] == 1
    assert data["summary"] == {"files": 4, "rules": 5, "error": 2, "warning": 1, "info": 2, "ignored": 0}
    assert [one["name"] for one in data["findings"]] == NAMES
    assert data["findings"][1] == {
        "code": "PE102",
        "name": "duplicate-phrase",
        "severity": "warning",
        "message": "`TITAN` is the same as `titan` in the rule `a`",
        "help": "remove one\n`--fix` does it",
        "label": None,
        "file": "policies/b.yaml",
        "line": 5,
        "column": 49,
        "end_line": 5,
        "end_column": 54,
        "related": [
            {
                "message": "first here",
                "file": "policies/b.yaml",
                "line": 5,
                "column": 23,
                "end_line": 5,
                "end_column": 28,
            }
        ],
        "fix": "safe",
    }


_RESULT = ("ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints")
_REGION = ("startLine", "startColumn", "endLine", "endColumn")
_PLACE: dict[str, Any] = {
    "type": "object",
    "required": ["physicalLocation"],
    "additionalProperties": False,
    "properties": {
        "message": {"$ref": "#/$defs/message"},
        "physicalLocation": {
            "type": "object",
            "required": ["artifactLocation", "region"],
            "additionalProperties": False,
            "properties": {
                "artifactLocation": {
                    "type": "object",
                    "required": ["uri"],
                    "additionalProperties": False,
                    "properties": {"uri": {"type": "string", "format": "uri-reference", "minLength": 1}},
                },
                "region": {
                    "type": "object",
                    "required": [*_REGION],
                    "additionalProperties": False,
                    "properties": {key: {"type": "integer", "minimum": 1} for key in _REGION},
                },
            },
        },
    },
}
_LEVEL = {"enum": ["none", "note", "warning", "error"]}
_TEXT = {"$ref": "#/$defs/message"}

# What the standard (SARIF 2.1.0, sections 3.13 to 3.52) says of the objects that are written here, and what GitHub
# adds: a place for each result. Stricter than the standard where keys are left out: a new one is to be looked up there.
SARIF: dict[str, Any] = {
    "type": "object",
    "required": ["version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "additionalProperties": False,
                "properties": {
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "additionalProperties": False,
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name", "version", "rules"],
                                "additionalProperties": False,
                                "properties": {
                                    "name": {"const": "policyengine"},
                                    "version": {"type": "string"},
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {
                                            "type": "object",
                                            "required": ["id"],
                                            "additionalProperties": False,
                                            "properties": {
                                                "id": {"type": "string"},
                                                "name": {"type": "string"},
                                                "shortDescription": _TEXT,
                                                "fullDescription": _TEXT,
                                                "help": _TEXT,
                                                "defaultConfiguration": {
                                                    "type": "object",
                                                    "additionalProperties": False,
                                                    "properties": {"level": _LEVEL},
                                                },
                                            },
                                        },
                                    },
                                },
                            }
                        },
                    },
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": [*_RESULT],
                            "additionalProperties": False,
                            "properties": {
                                "ruleId": {"type": "string"},
                                "ruleIndex": {"type": "integer", "minimum": 0},
                                "level": _LEVEL,
                                "message": _TEXT,
                                "locations": {"type": "array", "minItems": 1, "maxItems": 1, "items": _PLACE},
                                "relatedLocations": {"type": "array", "minItems": 1, "items": _PLACE},
                                "partialFingerprints": {
                                    "type": "object",
                                    "minProperties": 1,
                                    "additionalProperties": {"type": "string"},
                                },
                            },
                        },
                    },
                },
            },
        },
    },
    "$defs": {
        "message": {
            "type": "object",
            "required": ["text"],
            "additionalProperties": False,
            "properties": {"text": {"type": "string", "minLength": 1}},
        }
    },
}


def sarif(run: Run, *arguments: str) -> dict[str, Any]:
    """The one run of a file that the standard allows."""
    data = json.loads(run("check", "--format", "sarif", *arguments).out)
    jsonschema.Draft202012Validator(SARIF).validate(data)
    (only,) = data["runs"]
    assert isinstance(only, dict)
    return only


def test_sarif(run: Run, folder: Path) -> None:
    only = sarif(run, "policies")
    rules = only["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["PE010", "PE102", "PE206", "PE302"]
    for result in only["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    assert [result["level"] for result in only["results"]] == ["error", "warning", "error", "note", "note"]
    places = [result["locations"][0]["physicalLocation"] for result in only["results"]]
    assert [place["artifactLocation"]["uri"] for place in places] == [
        "policies/a.yaml",
        "policies/b.yaml",
        "policies/b.yaml",
        "policies/c.yaml",
        "policies/%C3%A4%20b.yaml",
    ]
    assert places[1]["region"] == {"startLine": 5, "startColumn": 49, "endLine": 5, "endColumn": 54}


def test_sarif_has_a_place_for_what_is_about_no_line(run: Run, folder: Path) -> None:
    (folder / "empty.yaml").write_text("")
    assert [one["ruleId"] for one in sarif(run, "gone")["results"]] == ["PE016"]
    assert "PE015" in [one["ruleId"] for one in sarif(run, "policies")["results"]]
    assert sarif(run, str(folder))["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"][
        "uri"
    ].startswith("file:///")


def test_sarif_without_findings(run: Run, write: Write) -> None:
    assert sarif(run, str(write(a=BAN)))["results"] == []


def test_fingerprints_outlive_lines_that_are_put_in_above(run: Run, folder: Path) -> None:
    def prints() -> list[str]:
        return [one["partialFingerprints"]["policyengine/v1"] for one in sarif(run, "policies")["results"]]

    before = prints()
    path = folder / "b.yaml"
    path.write_text("# a comment\n# and more\n" + path.read_text())
    assert prints() == before
    assert len(set(before)) == len(before)


def test_github(run: Run, folder: Path) -> None:
    lines = shown(run, "github").splitlines()
    assert lines[1] == (
        "::warning title=PE102 duplicate-phrase,file=policies/b.yaml,line=5,col=49,endLine=5,endColumn=54"
        "::`TITAN` is the same as `titan` in the rule `a`%0Aremove one%0A`--fix` does it"
    )
    assert [line.split()[0] for line in lines[:-1]] == ["::error", "::warning", "::error", "::notice", "::notice"]
    assert lines[-1].startswith("4 files, 5 rules:")


def test_github_escapes_what_separates(run: Run, write: Write) -> None:
    path = write(a="rules: {r: {ban: {phrases: ['100% %0A sure', '100%  %0A sure']}}}\n").rename
    moved = path(write().parent / "a,b:c")
    out = run("check", moved, "--format", "github").out
    assert "a%2Cb%3Ac" in out.split("::")[1]
    assert "100%25  %250A sure" in out


def test_junit(run: Run, folder: Path) -> None:
    root = ElementTree.fromstring(shown(run, "junit"))
    assert (root.tag, root.attrib) == ("testsuites", {"name": "policyengine", "tests": "5", "failures": "2"})
    assert [suite.get("name") for suite in root] == [
        *("policies/a.yaml", "policies/b.yaml", "policies/c.yaml", "policies/ä b.yaml")
    ]
    cases = {case.get("name"): case for case in root.iter("testcase")}
    assert cases["PE010 unknown-key at 3:19"].find("failure") is not None
    warned = cases["PE102 duplicate-phrase at 5:49"]
    assert warned.find("failure") is None
    assert (warned.findtext("system-out") or "").startswith("warning: policies/b.yaml:5:49: `TITAN`")


def test_junit_fails_what_makes_the_run_fail(run: Run, folder: Path) -> None:
    failures = {}
    for level in ("error", "warning", "info"):
        root = ElementTree.fromstring(shown(run, "junit", "--fail-level", level))
        failures[level] = len(list(root.iter("failure")))
        assert sum(int(suite.get("failures", "")) for suite in root) == failures[level] == int(root.get("failures", ""))
    assert failures == {"error": 2, "warning": 3, "info": 5}


def test_junit_holds_what_xml_does_not(run: Run, write: Write) -> None:
    folder = write()
    (folder / "a.yaml").write_bytes(b"version: 1\npolicy: a\x00\nrules: {x: {ban: {phrases: ['\xef\xbf\xbe']}}}\n")
    ElementTree.fromstring(run("check", folder, "--format", "junit").out)


def test_junit_without_findings_has_a_case_that_passed(run: Run, write: Write) -> None:
    root = ElementTree.fromstring(run("check", write(a=BAN), "--format", "junit").out)
    assert [(case.get("name"), len(list(case.iter("failure")))) for case in root.iter("testcase")] == [("check", 0)]


def test_markdown(run: Run, folder: Path) -> None:
    lines = shown(run, "markdown").splitlines()
    assert lines[0].startswith("**policyengine check**: 4 files, 5 rules: 2 errors, 1 warning, 2 info; 1 fixable")
    rows = [line for line in lines if line.startswith("| ") and "---" not in line][1:]
    assert [row.split()[1] for row in rows] == ["error", "error", "warning", "info", "info"]
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 5 for row in rows)


def test_markdown_keeps_a_user_text_in_its_cell(run: Run, write: Write) -> None:
    folder = write(a="rules: {r: {ban: {phrases: ['x | <b>y', 'X | <b>y']}}}\n")
    (row,) = [line for line in run("check", folder, "--format", "markdown").out.splitlines() if "PE102" in line]
    assert "`X \\| <b>y` is the same as `x \\| <b>y`" in row
    assert len(re.findall(r"(?<!\\)\|", row)) == 5


def test_a_backtick_in_a_phrase_ends_no_code(run: Run, write: Write) -> None:
    """What stands behind it would be markup, and call the people whose names it holds."""
    folder = write(a="rules: {r: {ban: {phrases: ['x` @all [a](b) <b>', 'X` @all [a](b) <b>']}}}\n")
    (row,) = [line for line in run("check", folder, "--format", "markdown").out.splitlines() if "PE102" in line]
    assert "`X\\x60 @all [a](b) <b>` is the same as `x\\x60 @all [a](b) <b>` in the rule `r`" in row


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a `b` c", "a `b` c"),
        ("*a* `*b*` [c](d) <e> \\<", r"\*a\* `*b*` \[c](d) \<e> \\\<"),
        ("`` a`*b* `` *c*", r"`` a`*b* `` \*c\*"),
        ("`a `` *b*", r"\`a \`\` \*b\*"),  # no code: the runs are of different lengths
        ("@a `@b`", "@<!-- -->a `@b`"),
        ("a|b `c|d`\ne", r"a\|b `c\|d`<br>e"),
    ],
)
def test_markdown_outside_code_is_literal(text: str, shown: str) -> None:
    assert cell(text) == shown


# -- for people -------------------------------------------------------------------------------------------------------


def test_without_a_terminal_there_are_no_colours(run: Run, folder: Path) -> None:
    for form in FORMATS:
        assert "\x1b" not in shown(run, form)


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_colours_are_for_terminals_whose_user_wants_them(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], coloured: bool
) -> None:
    from policyengine.cli import check

    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert check._is_coloured() is coloured


def test_colours_change_nothing_that_is_read(run: Run, folder: Path) -> None:
    out = shown(run, "text")
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted(out)) == out
    assert "\x1b[1;31merror[PE010 unknown-key]\x1b[0m" in painted(out)
