"""The bundle: a compiled program as `manifest.json` and `program.safetensors`.

The manifest holds what a person may read (policies, rules, parameters, what each component is for) and the digests; the
arrays of the automata, with the phrases as they were typed, lie in the safetensors file. Reading verifies both and
refuses what it does not know: a bundle either becomes the program that was saved, or an error.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors.numpy
from safetensors import SafetensorError

from policyengine.automata.folding import FoldSpec
from policyengine.automata.phrases import PhraseAutomaton
from policyengine.automata.threads import ThreadAutomaton
from policyengine.automata.unicode_data import UNICODE_VERSION
from policyengine.runtime.digest import program_digest
from policyengine.runtime.errors import BundleError
from policyengine.runtime.irregular import AS_IT_IS, Irregular
from policyengine.runtime.plain import PlainError, decode, encode
from policyengine.runtime.program import (
    Automaton,
    AutomatonKind,
    Channel,
    Component,
    Mode,
    Param,
    PolicyPlan,
    Program,
    Reasoning,
    RequestParserFactory,
    RulePlan,
    Use,
    WhenPlan,
    automaton_kind,
)

FORMAT = 2
MANIFEST = "manifest.json"
ARRAYS = "program.safetensors"
# Sections that loading does not interpret: for people, front ends and `inspect`.
ABOUT = ("levels", "request_schema")

Arrays = Mapping[str, npt.NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class ComponentEntry:
    """What the manifest says of a component. Its arrays are named `<place>.<array>` in the safetensors file."""

    use: Use
    channel: Channel
    mode: Mode
    policies: tuple[int, ...]
    targets: tuple[str, ...]
    when: WhenPlan
    kind: AutomatonKind
    fold: FoldSpec
    patterns: int
    weights: tuple[float | Param, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """`manifest.json` without its `ABOUT` sections. `files`: name to sha256 (hex) of the other files."""

    format: int
    digest: str
    unicode: str
    max_hold: int
    reasoning: Reasoning | None
    policies: tuple[PolicyPlan, ...]
    rules: tuple[RulePlan, ...]
    components: tuple[ComponentEntry, ...]
    files: dict[str, str]


def to_files(program: Program, about: Mapping[str, Any] | None = None) -> dict[str, bytes]:
    """The bundle's files by name. `about`: JSON values for the sections named in `ABOUT`. Same program, same bytes."""
    arrays = safetensors.numpy.save(_arrays(program.components))  # no metadata: its order is not fixed
    manifest = Manifest(
        format=FORMAT,
        digest=program.digest,
        unicode=UNICODE_VERSION,
        max_hold=program.max_hold,
        reasoning=program.reasoning,
        policies=program.policies,
        rules=program.rules,
        components=tuple(_entry(component) for component in program.components),
        files={ARRAYS: hashlib.sha256(arrays).hexdigest()},
    )
    content = encode(manifest) | dict(about or {})
    text = json.dumps(content, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    return {ARRAYS: arrays, MANIFEST: text.encode("utf-8")}


def save(program: Program, directory: str | Path) -> None:
    """Write the bundle into a directory, which is made if needed.

    Each file is replaced whole, the manifest last: whoever reads meanwhile, or after an interruption, gets the old
    bundle, the new one, or a `BundleError`, never a mixture.
    """
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    for name, content in to_files(program).items():
        temporary = target / f".{name}.{os.getpid()}.tmp"
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target / name)
        finally:
            temporary.unlink(missing_ok=True)


def read(directory: str | Path, parser_factory: RequestParserFactory) -> Program:
    """Load and verify a bundle. Raises `BundleError` where it is damaged, incomplete or of an unknown format."""
    folder = Path(directory)
    manifest = read_manifest(folder)
    if set(manifest.files) != {ARRAYS}:
        raise BundleError(f"{folder / MANIFEST}: names other files than {ARRAYS}")
    content = _bytes_of(folder / ARRAYS)
    if hashlib.sha256(content).hexdigest() != manifest.files[ARRAYS]:
        raise BundleError(f"{folder / ARRAYS}: is not the file that the manifest describes")
    try:
        components = _components(manifest, safetensors.numpy.load(content))
    except (SafetensorError, ValueError) as error:
        raise BundleError(f"{folder / ARRAYS}: {error}") from error
    digest = program_digest(manifest.policies, manifest.rules, components, manifest.max_hold, manifest.reasoning)
    if digest != manifest.digest:
        raise BundleError(f"{folder / MANIFEST}: its content does not have the digest that it states")
    return Program(
        policies=manifest.policies,
        rules=manifest.rules,
        components=components,
        max_hold=manifest.max_hold,
        digest=digest,
        parse_request=parser_factory(manifest.policies),
        reasoning=manifest.reasoning,
    )


def read_manifest(folder: Path) -> Manifest:
    """Read `manifest.json` alone, its form checked; raises `BundleError`."""
    path = folder / MANIFEST
    content = _bytes_of(path)
    try:
        data = json.loads(content, object_pairs_hook=_without_duplicates, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path}: {error}") from error
    if not isinstance(data, dict):
        raise BundleError(f"{path}: not an object")
    known = data.get("format")
    if type(known) is not int or known != FORMAT:
        raise BundleError(f"{path}: format {known!r} is unknown, this version reads format {FORMAT}; compile it again")
    if data.get("unicode") != UNICODE_VERSION:
        raise BundleError(
            f"{path}: compiled with Unicode {data.get('unicode')}, this version matches by {UNICODE_VERSION}; "
            "compile it again"
        )
    try:
        manifest = decode(Manifest, {key: value for key, value in data.items() if key not in ABOUT}, "manifest")
    except PlainError as error:
        raise BundleError(f"{path}: {error}") from error
    _check_references(manifest, path)
    return manifest


def _entry(component: Component) -> ComponentEntry:
    return ComponentEntry(
        use=component.use,
        channel=component.channel,
        mode=component.mode,
        policies=component.policies,
        targets=component.targets,
        when=component.when,
        kind=automaton_kind(component.automaton),
        fold=component.automaton.spec,
        patterns=len(component.rules),
        weights=component.weights,
    )


def _arrays(components: tuple[Component, ...]) -> dict[str, npt.NDArray[np.generic]]:
    """All arrays by name. Beside those of an automaton: `rules` int32 and the phrases, `phrase_bytes` uint8 (UTF-8, one
    after the other) and `phrase_lengths` int32 (bytes), one entry a pattern."""
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    for i, component in enumerate(components):
        phrases = [phrase.encode("utf-8", "surrogatepass") for phrase in component.phrases]
        own = component.automaton.to_arrays() | {
            "rules": np.array(component.rules, dtype=np.int32),
            "phrase_bytes": np.frombuffer(b"".join(phrases), dtype=np.uint8),
            "phrase_lengths": np.array([len(phrase) for phrase in phrases], dtype=np.int32),
        }
        arrays |= {f"{i}.{name}": np.ascontiguousarray(array) for name, array in own.items()}
    return arrays


def _components(manifest: Manifest, arrays: Arrays) -> tuple[Component, ...]:
    """Raises ValueError where the arrays do not fit the manifest."""
    components = []
    for i, entry in enumerate(manifest.components):
        own = {name.partition(".")[2]: array for name, array in arrays.items() if name.startswith(f"{i}.")}
        try:
            rules, lengths = own.pop("rules").tolist(), own.pop("phrase_lengths").tolist()
            text = own.pop("phrase_bytes").tobytes()
            automaton = _automaton(entry, own)
        except KeyError as error:
            raise ValueError(f"component {i} has no array {error}") from error
        if not automaton.n_patterns == len(rules) == len(lengths) == entry.patterns or sum(lengths) != len(text):
            raise ValueError(f"component {i} has arrays of other lengths than the manifest says")
        if any(not 0 <= rule < len(manifest.rules) for rule in rules) or any(length < 0 for length in lengths):
            raise ValueError(f"component {i} points at a rule or phrase that does not exist")
        phrases, at = [], 0
        for length in lengths:
            phrases.append(text[at : at + length].decode("utf-8", "surrogatepass"))
            at += length
        components.append(
            Component(
                use=entry.use,
                policies=entry.policies,
                targets=entry.targets,
                when=entry.when,
                automaton=automaton,
                rules=tuple(rules),
                phrases=tuple(phrases),
                weights=entry.weights,
                channel=entry.channel,
                mode=entry.mode,
            )
        )
    unknown = set(arrays) - set(_arrays(tuple(components)))
    if unknown:
        raise ValueError(f"unknown array {min(unknown)!r}")
    return tuple(components)


def _automaton(entry: ComponentEntry, arrays: dict[str, npt.NDArray[np.generic]]) -> Automaton:
    if entry.kind == "phrases":
        return PhraseAutomaton.from_arrays(entry.fold, arrays)
    if entry.kind == "threads":
        return ThreadAutomaton.from_arrays(entry.fold, arrays)
    if entry.fold != AS_IT_IS or entry.use != "text":
        raise ValueError("an expression that is not regular is folded, or masks tokens")
    return Irregular.from_arrays(arrays)


def _check_references(manifest: Manifest, path: Path) -> None:
    count = len(manifest.policies)
    pointers = [rule.policy for rule in manifest.rules]
    pointers += [policy for entry in manifest.components for policy in entry.policies]
    if any(not 0 <= policy < count for policy in pointers):
        raise BundleError(f"{path}: points at a policy that does not exist")
    for i, entry in enumerate(manifest.components):
        if len(entry.weights) != (entry.patterns if entry.use == "bias" else 0):
            raise BundleError(f"{path}: component {i} has {len(entry.weights)} weights for {entry.patterns} patterns")


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BundleError(f"{path}: {error.strerror or error}") from error


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not a JSON number")
