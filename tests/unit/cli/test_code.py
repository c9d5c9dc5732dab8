"""`policyengine code`: the pages of diagnostics, and whether their examples are true."""

from __future__ import annotations

import configparser
import json
import shlex
from pathlib import Path

import pytest

import policyengine as pe
from policyengine.automata.vocabulary import Vocabulary
from policyengine.compiler.merging import merge
from policyengine.engines.commands import parse
from policyengine.engines.vllm import doctor
from policyengine.language.codes import Code, engine
from policyengine.language.diagnostics import PolicyError
from policyengine.lint.registry import every_code
from policyengine.lint.run import check
from tests.unit.cli.conftest import Run
from tests.vocabularies import spell

PROCESSOR = "policy_bundle.vllm:PolicyLogitsProcessor"
ALL = pytest.mark.parametrize("code", every_code(), ids=lambda code: code.name)

# Most examples say nothing of targets; on the hook, which sees no tokens, some would not hold. And an example is short.
BESIDE = {"not-enforceable", "no-owner", "no-description", "overbroad-phrase", "token-id-without-vocabulary"}
# What such a comment does not hide; and where no file is read, no logprobs mode is.
ALSO = {
    "ignore-without-reason": {"edge-whitespace"},
    "not-activated": {"raw-logprobs"},
    "config-not-read": {"raw-logprobs"},
}
OPTIONS = "trtllm-options"  # in an example, the configuration of an engine
ENGINE = {code.name for code in engine.CODES}


def found(files: tuple[tuple[str, str], ...], folder: Path) -> set[str]:
    """The names of what a check finds in some files.

    The vocabulary has the bytes but one, which birds and other emoji begin with, the end at 256, and some words.
    """
    for name, text in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode(errors="surrogateescape"))
    tokens = [*(bytes([b]) if b != 0xF0 else None for b in range(256)), b"", b" category", b"cat", b" cat", b"egory"]
    vocabulary = Vocabulary.from_bytes(tokens, [256], encode=lambda text: spell(tokens, text))
    names = {one.name for one in check([folder], vocabulary=vocabulary).diagnostics}
    return names | (_merged(folder) if (folder / OPTIONS).exists() else set())


def judged(files: dict[str, str]) -> set[str]:
    """The names of what `doctor` finds about an engine on a GPU; `old` and `build` are builds of one name."""
    installed = dict(line.split("==") for line in files.get("requirements.txt", "vllm==0.32.0").split())
    start = "PYTHONPATH=build vllm serve MODEL --config build/vllm/config.yaml"
    command = parse(shlex.split(files.get("command", start)))
    path = command.environment.get("PYTHONPATH", "")
    points = configparser.ConfigParser(delimiters=("=",))
    points.read_string(files.get("entry_points.txt", ""))
    compiled = {"logits-processors": [PROCESSOR], "logprobs-mode": "processed_logprobs"}
    facts = doctor.Facts(
        version=installed["vllm"],
        device="tpu" if "tpu-inference" in installed else "cuda",
        triton=True,
        command=command,
        package="policy_bundle",
        unloadable={} if path else {"v1": "no such module", "v2": "no such module"},
        other_digest="0123456789abcdef" if path == "old" else "",
        entry_points=tuple(
            doctor.EntryPoint(group, *one) for group in points.sections() for one in points[group].items()
        ),
        environment=command.environment,
        config=compiled if "config" in command.options and "config" not in command.glued else {},
        config_path="build/vllm/config.yaml",
        model=json.loads(files.get("MODEL/config.json", "{}")),
    )
    return {one.name for one in doctor.judge(facts).findings}


def _merged(folder: Path) -> set[str]:
    """The names of what merging an engine's configuration finds."""
    program = pe.compile(pe.load(folder))
    try:
        return {
            one.name for one in merge(b"post_processor_hook: a.B\n", str(folder / OPTIONS), "trtllm", program).found
        }
    except PolicyError as error:
        return {one.name for one in error.diagnostics}


@ALL
def test_the_wrong_example_gives_the_code(code: Code, tmp_path: Path) -> None:
    """And nothing else, so that a page shows one mistake."""
    if code.name in ENGINE:
        assert judged(dict(code.bad)) - ALSO.get(code.name, set()) == {code.name}
        return
    names = found(code.bad, tmp_path)
    assert code.name in names
    assert names - {code.name} <= BESIDE | ALSO.get(code.name, set())


@ALL
def test_the_right_example_is_right(code: Code, tmp_path: Path) -> None:
    if code.name in ENGINE:
        assert judged(dict(code.good)) == set()
        return
    assert found(code.good, tmp_path) <= BESIDE - {code.name}


@ALL
def test_a_page_says_what_is_wrong_why_and_what_is_right(run: Run, code: Code) -> None:
    result = run("code", code.code)
    assert (result.code, result.err) == (0, "")
    head, summary, *paragraphs = result.out.split("\n\n")
    assert head == f"{code.code} {code.name} ({code.severity})"
    assert summary.lower() == f"{code.summary.lower()}."
    assert len(" ".join(paragraphs[0].split())) > 60
    assert "\nWrong" in result.out
    assert "\nRight" in result.out
    assert all(ch.isprintable() or ch == "\n" for ch in result.out)


def test_code_and_name_in_any_case_are_the_same_page(run: Run) -> None:
    pages = {run("code", text).out for text in ("PE103", "pe103", "forced-contains-banned", "Forced-Contains-Banned")}
    assert len(pages) == 1


def test_a_page_as_people_read_it(run: Run) -> None:
    assert run("code", "PE003").out == (
        "PE003 duplicate-key (error)\n"
        "\n"
        "A key is written twice in one mapping.\n"
        "\n"
        "Many YAML readers keep the last one without a word, and half of the policy is gone. Merge the two.\n"
        "\n"
        "Wrong:\n"
        "\n"
        "    version: 1\n"
        "    policy: example\n"
        "    rules:\n"
        "      names:\n"
        "        ban: {phrases: [bluebird]}\n"
        "        ban: {phrases: [magpie]}\n"
        "\n"
        "Right:\n"
        "\n"
        "    version: 1\n"
        "    policy: example\n"
        "    rules:\n"
        "      names:\n"
        "        ban: {phrases: [bluebird, magpie]}\n"
    )


@pytest.mark.parametrize(("name", "shown"), [("invalid-encoding", r"caf\xe9"), ("invalid-character", r"\u2028rules:")])
def test_what_would_not_show_is_an_escape(run: Run, name: str, shown: str) -> None:
    result = run("code", name)
    assert shown in result.out
    assert "Wrong, with an escape for what would not show:" in result.out


def test_without_an_argument_all_are_listed(run: Run) -> None:
    result = run("code")
    assert result.code == 0
    lines = result.out.splitlines()
    assert len(lines) == len(every_code())
    assert [line.split()[0] for line in lines] == sorted(code.code for code in every_code())
    for code in every_code():
        line = next(line for line in lines if line.startswith(code.code))
        assert line.split(maxsplit=3)[1:] == [code.name, code.severity, code.summary]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("duplicate-keys", "did you mean `duplicate-key`?"),
        ("forced-contains-baned", "did you mean `forced-contains-banned`?"),
        ("PE00", "did you mean `PE0"),
        ("pe0103", "did you mean `PE103`?"),
        ("tuesday", "`policyengine code` lists all of them"),
    ],
)
def test_an_unknown_one(run: Run, asked: str, answer: str) -> None:
    result = run("code", asked)
    assert (result.code, result.out) == (2, "")
    assert f"there is no diagnostic `{asked}`" in result.err
    assert answer in result.err
