"""A saved bundle is the program that was saved, or an error."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, reject
from hypothesis import strategies as st

from policyengine.automata.folding import FoldSpec
from policyengine.automata.phrases import PhraseAutomaton
from policyengine.automata.threads import ThreadAutomaton
from policyengine.bundles import open_bundle
from policyengine.requests import build_parser
from policyengine.runtime.bundle import ABOUT, ARRAYS, MANIFEST, save, to_files
from policyengine.runtime.digest import program_digest
from policyengine.runtime.errors import BundleError
from policyengine.runtime.irregular import Irregular
from policyengine.runtime.plain import decode, encode
from policyengine.runtime.program import (
    AllowPlan,
    BanPlan,
    BiasPlan,
    Component,
    ForcePlan,
    MinTokensPlan,
    Param,
    ParameterPlan,
    PolicyPlan,
    Program,
    Reasoning,
    RewritePlan,
    RulePlan,
    TextAction,
    WhenPlan,
)

SPEC = FoldSpec()


def automaton(*phrases: str) -> PhraseAutomaton:
    flags = [True] * len(phrases)
    return PhraseAutomaton.from_phrases(SPEC, phrases, left_edge=flags, right_edge=flags, eager=flags)


def gapped() -> ThreadAutomaton:
    return ThreadAutomaton.from_phrases(
        replace(SPEC, collapse=False),
        ["Answer:"],
        gaps="letters",
        left_edge=[True],
        right_edge=[False],
        eager=[False],
        exceptions=["no answer: none"],
    )


def make_program(**changes: Any) -> Program:
    """One rule of every kind, one component of every use, every type of value."""
    policies = (
        PolicyPlan(
            name="a",
            file="a.yaml",
            description="Größe | 大きい",
            owner="team",
            activation="always",
            targets=("trtllm", "vllm"),
            parameters=(
                ParameterPlan("mood", "string", default="calm", choices=("calm", "bold"), description="tone"),
                ParameterPlan("n", "integer", default=0, ge=0.0, le=10.0),
                ParameterPlan("token", "token_id"),
                ParameterPlan("w", "number", default=1.5, ge=-2.0),
            ),
        ),
        PolicyPlan("b", "sub/b.yaml", "", "", "on_request", ("vllm",), ()),
    )
    rules = (
        RulePlan(0, "ban", 3, BanPlan(True, TextAction("redact", "", None), ())),
        RulePlan(0, "ids", 5, BanPlan(True, TextAction("terminate", None, "ids"), (7, 9))),
        RulePlan(0, "bias", 7, BiasPlan(((3, 1.5), (4, Param("w"))))),
        RulePlan(0, "force", 9, ForcePlan(None, Param("token"), "every"), WhenPlan(("cuda",))),
        RulePlan(0, "min", 11, MinTokensPlan(Param("n"))),
        RulePlan(1, "opening", 3, ForcePlan("Answer: ", None, 2)),
        RulePlan(1, "shout", 5, RewritePlan("upper")),
        RulePlan(1, "stop", 7, BanPlan(False, TextAction("terminate", "Bye.", "stop"), ())),
        RulePlan(1, "then", 9, ForcePlan("42", None, None, after="Answer: "), channel="answer"),
        RulePlan(1, "verdict", 11, AllowPlan(choices=("yes", "no")), WhenPlan((), ("acme-*",), ("0123abcd",))),
    )
    components = (
        Component(
            "avoid",
            (0,),
            ("trtllm", "vllm"),
            WhenPlan(),
            automaton("blue bird", "Titan"),
            (0, 0),
            ("blue bird", "Titan"),
        ),
        Component("text", (1,), ("vllm",), WhenPlan(), automaton("秘密"), (7,), ("秘密",)),
        Component(
            "bias",
            (0,),
            ("trtllm", "vllm"),
            WhenPlan(),
            automaton("delve", "tapestry"),
            (2, 2),
            ("delve", "tapestry"),
            (-4.0, Param("w")),
        ),
        Component(
            "text",
            (1,),
            ("vllm",),
            WhenPlan(),
            Irregular(("(a)\\1", "é(?=b)")),
            (7, 7),
            ("(a)\\1", "é(?=b)"),
            (),
            "answer",
        ),
        Component("after", (1,), ("vllm",), WhenPlan(), gapped(), (8,), ("Answer:",)),
    )
    parts: dict[str, Any] = {"policies": policies, "rules": rules, "components": components, "max_hold": 4096} | changes
    return Program(**parts, digest=program_digest(**parts), parse_request=build_parser(parts["policies"]))


def content(program: Program) -> tuple[Any, ...]:
    """Everything that a program holds, comparable."""
    components = [
        (replace(one, automaton=None), one.automaton.spec, _arrays(one))  # type: ignore[arg-type]
        for one in program.components
    ]
    return program.policies, program.rules, components, program.max_hold, program.reasoning, program.digest


def _arrays(component: Component) -> dict[str, list[Any]]:
    return {name: array.tolist() for name, array in component.automaton.to_arrays().items()}


def test_what_was_saved_is_read(tmp_path: Path) -> None:
    program = make_program()
    save(program, tmp_path / "new" / "folder")
    found = open_bundle(tmp_path / "new" / "folder")
    assert content(found) == content(program)
    assert found.parse_request({"n": 3}).values["n"] == 3


def test_the_markers_of_reasoning_are_kept(tmp_path: Path) -> None:
    program = make_program(reasoning=Reasoning("<think>", "</think>"))
    program.save(tmp_path)
    assert content(open_bundle(tmp_path)) == content(program)


def test_a_program_without_phrases_is_saved_too(tmp_path: Path) -> None:
    program = make_program(components=())
    program.save(tmp_path)
    assert content(open_bundle(tmp_path)) == content(program)


def test_the_same_program_gives_the_same_bytes() -> None:
    assert to_files(make_program()) == to_files(make_program())


def test_saving_over_a_bundle_replaces_it_and_leaves_nothing_else(tmp_path: Path) -> None:
    make_program().save(tmp_path)
    other = make_program(max_hold=7)
    other.save(tmp_path)
    assert content(open_bundle(tmp_path)) == content(other)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([MANIFEST, ARRAYS])


def test_an_interrupted_save_leaves_the_old_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = make_program()
    program.save(tmp_path)
    monkeypatch.setattr(Path, "replace", lambda self, target: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        make_program(max_hold=7).save(tmp_path)
    monkeypatch.undo()
    assert content(open_bundle(tmp_path)) == content(program)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([MANIFEST, ARRAYS])


@pytest.mark.parametrize("section", ABOUT)
def test_sections_for_people_are_kept_and_not_interpreted(tmp_path: Path, section: str) -> None:
    program = make_program()
    for name, data in to_files(program, {section: {"x": [1]}}).items():
        (tmp_path / name).write_bytes(data)
    assert json.loads((tmp_path / MANIFEST).read_text(encoding="utf-8"))[section] == {"x": [1]}
    assert content(open_bundle(tmp_path)) == content(program)


@pytest.mark.parametrize("kind", [PolicyPlan, RulePlan])
@given(data=st.data())
def test_whatever_a_plan_holds_survives_json(kind: type[PolicyPlan | RulePlan], data: st.DataObject) -> None:
    value = data.draw(st.from_type(kind))
    try:
        text = json.dumps(encode(value), allow_nan=False)
    except ValueError:
        reject()  # NaN and infinities are refused when they are written
    assert decode(kind, json.loads(text), "value") == value


# -- what decides behaviour -------------------------------------------------------------------------------------------


def test_the_digest_ignores_what_only_people_read() -> None:
    program = make_program()
    first, second = program.policies
    moved = replace(first, file="other/a.yaml", description="new words", owner="you")
    told = replace(moved, parameters=tuple(replace(one, description="!") for one in moved.parameters))
    lower = tuple(replace(rule, line=rule.line + 1) for rule in program.rules)
    assert make_program(policies=(told, second), rules=lower).digest == program.digest


@pytest.mark.parametrize(
    "change",
    [
        lambda p: {"max_hold": 4097},
        lambda p: {"reasoning": Reasoning("<think>", "</think>")},
        lambda p: {"rules": (*p.rules[:-1], replace(p.rules[-1], channel="answer"))},
        lambda p: {"components": (replace(p.components[0], channel="answer"), *p.components[1:])},
        lambda p: {
            "components": (
                *p.components[:3],
                replace(p.components[3], automaton=Irregular(("a", "é(?=b)"))),
                p.components[4],
            )
        },
        lambda p: {"policies": (replace(p.policies[0], activation="on_request"), p.policies[1])},
        lambda p: {"policies": (replace(p.policies[0], targets=("vllm",)), p.policies[1])},
        lambda p: {"rules": (replace(p.rules[0], when=WhenPlan(("cpu",))), *p.rules[1:])},
        lambda p: {"components": p.components[1:]},
        lambda p: {
            "components": (replace(p.components[0], automaton=automaton("blue bird", "Titam")), *p.components[1:])
        },
        lambda p: {
            "components": (*p.components[:2], replace(p.components[2], weights=(-4.0, -4.0)), *p.components[3:])
        },
    ],
)
def test_the_digest_covers_what_decides_behaviour(change: Callable[[Program], dict[str, Any]]) -> None:
    program = make_program()
    assert make_program(**change(program)).digest != program.digest


# -- damage -----------------------------------------------------------------------------------------------------------


def refusal(folder: Path) -> str:
    with pytest.raises(BundleError) as caught:
        open_bundle(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def edit(folder: Path, change: Callable[[dict[str, Any]], None]) -> str:
    """Save a program, change its manifest, and return why it is then refused."""
    make_program().save(folder)
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    change(manifest)
    (folder / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    return refusal(folder)


@pytest.mark.parametrize("name", [MANIFEST, ARRAYS])
def test_a_missing_file(tmp_path: Path, name: str) -> None:
    make_program().save(tmp_path)
    (tmp_path / name).unlink()
    assert name in refusal(tmp_path)


def test_every_flipped_byte_of_the_arrays_is_noticed(tmp_path: Path) -> None:
    make_program().save(tmp_path)
    path = tmp_path / ARRAYS
    data = bytearray(path.read_bytes())
    for place in range(0, len(data), 97):
        data[place] ^= 1
        path.write_bytes(data)
        assert "not the file that the manifest describes" in refusal(tmp_path)
        data[place] ^= 1


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": 2, "format": 2}', '{"format": NaN}', "\ufeff{}", "[" * 10_000]
)
def test_a_manifest_that_is_no_object(tmp_path: Path, text: str) -> None:
    make_program().save(tmp_path)
    (tmp_path / MANIFEST).write_text(text, encoding="utf-8")
    assert MANIFEST in refusal(tmp_path)


@pytest.mark.parametrize("value", [1, 3, 0, "2", 2.0, True, None])
def test_an_unknown_format_version(tmp_path: Path, value: object) -> None:
    assert "this version reads format 2" in edit(tmp_path, lambda m: m.update(format=value))


def test_another_unicode_version(tmp_path: Path) -> None:
    assert "compile it again" in edit(tmp_path, lambda m: m.update(unicode="99.0.0"))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda m: m.update(extra=1), "unknown key 'extra'"),
        (lambda m: m.pop("max_hold"), "'max_hold' is missing"),
        (lambda m: m["policies"][0].update(mode="shadow"), "unknown key 'mode'"),
        (lambda m: m["policies"][0].update(activation="never"), "manifest.policies[0].activation"),
        (lambda m: m["rules"][0].update(body={"allow": {}}), "manifest.rules[0].body"),
        (lambda m: m.update(reasoning={"start": "<a>"}), "manifest.reasoning: key 'end' is missing"),
        (lambda m: m["components"][3].update(use="avoid"), "masks tokens"),
        (lambda m: m["components"][3].update(kind="phrases"), "no array 'symbols'"),
        (lambda m: m["components"][3].update(kind="other"), "manifest.components[3].kind"),
        (lambda m: m["rules"][9].update(channel="thoughts"), "manifest.rules[9].channel"),
        (lambda m: m["rules"][9]["when"].update(model="acme-*"), "manifest.rules[9].when.model: not a list"),
        (lambda m: m["rules"][0]["body"]["ban"].update(avoid=1), "manifest.rules[0].body.avoid"),
        (lambda m: m["rules"][0].update(policy=9), "a policy that does not exist"),
        (lambda m: m["rules"][0].update(policy=-1), "a policy that does not exist"),
        (lambda m: m["rules"][0].update(policy=True), "manifest.rules[0].policy"),
        (lambda m: m["components"][2].update(weights=[1.0]), "1 weights for 2 patterns"),
        (lambda m: m["components"][0].update(patterns=1), "other lengths"),
        (lambda m: m["components"].pop(), "unknown array"),
        (lambda m: m["files"].update(other="x"), "names other files"),
        (lambda m: m.update(max_hold=5), "digest"),
        (lambda m: m.update(digest="0" * 64), "digest"),
        (lambda m: m["rules"][5]["body"]["force"].update(text="Answer "), "digest"),
        (lambda m: m["components"][0].update(use="text"), "digest"),
    ],
)
def test_a_changed_manifest(tmp_path: Path, change: Callable[[dict[str, Any]], None], why: str) -> None:
    assert why in edit(tmp_path, change)


@pytest.mark.parametrize(
    ("name", "array", "why"),
    [
        ("0.rules", np.array([0, 99], dtype=np.int32), "does not exist"),
        ("0.lengths", np.array([1, 1], dtype=np.int32), "do not fit"),
        ("0.more", np.zeros(1, dtype=np.int32), "unknown array '0.more'"),
        ("9.rules", np.zeros(1, dtype=np.int32), "unknown array '9.rules'"),
        ("1.rules", None, "no array 'rules'"),
        ("4.form", np.array([9], dtype=np.uint8), "unknown form"),
        ("4.targets", None, "no array 'targets'"),
        ("3.source_lengths", np.array([1, 1], dtype=np.int32), "do not fit"),
    ],
)
def test_arrays_that_do_not_fit(tmp_path: Path, name: str, array: Any, why: str) -> None:
    make_program().save(tmp_path)
    arrays = safetensors.numpy.load((tmp_path / ARRAYS).read_bytes())
    if array is None:
        del arrays[name]
    else:
        arrays[name] = array
    data = safetensors.numpy.save(arrays)
    (tmp_path / ARRAYS).write_bytes(data)
    manifest = json.loads((tmp_path / MANIFEST).read_text(encoding="utf-8"))
    manifest["files"][ARRAYS] = hashlib.sha256(data).hexdigest()
    (tmp_path / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    assert why in refusal(tmp_path)
