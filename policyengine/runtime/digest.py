"""The digest of a program: one place that says what decides behaviour.

It does not cover what only people read (descriptions, owners, file names, line numbers, phrases as they were typed), so
a comment or a moved file changes nothing; it does cover the Unicode version, since folding decides what matches.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from policyengine.automata.unicode_data import UNICODE_VERSION
from policyengine.runtime.plain import encode
from policyengine.runtime.program import Component, PolicyPlan, Reasoning, RulePlan, automaton_kind

_SCHEME = "policyengine program 2"


def program_digest(
    policies: Sequence[PolicyPlan],
    rules: Sequence[RulePlan],
    components: Sequence[Component],
    max_hold: int,
    reasoning: Reasoning | None = None,
) -> str:
    """sha256 in hex of everything that decides behaviour; the same on every machine and at every time."""
    digest = hashlib.sha256()
    _add(
        digest,
        {
            "scheme": _SCHEME,
            "unicode": UNICODE_VERSION,
            "max_hold": max_hold,
            "reasoning": encode(reasoning),
            "policies": [encode(_behaviour(policy)) for policy in policies],
            "rules": [encode(replace(rule, line=0)) for rule in rules],
        },
    )
    for component in components:
        head = {
            "use": component.use,
            "policies": component.policies,
            "targets": component.targets,
            "when": encode(component.when),
            "channel": component.channel,
            "mode": component.mode,
            "kind": automaton_kind(component.automaton),
            "fold": component.automaton.spec.to_json(),
            "rules": component.rules,
            "weights": encode(component.weights),
        }
        _add(digest, head)
        _add_arrays(digest, component.automaton.to_arrays())
    return digest.hexdigest()


def _behaviour(policy: PolicyPlan) -> PolicyPlan:
    parameters = tuple(replace(parameter, description="") for parameter in policy.parameters)
    return replace(policy, file="", description="", owner="", parameters=parameters)


def _add(digest: Any, value: Any) -> None:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()
    digest.update(len(text).to_bytes(8, "little"))
    digest.update(text)


def _add_arrays(digest: Any, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        _add(digest, {"array": name, "dtype": little.dtype.str, "shape": list(little.shape)})
        digest.update(little.tobytes())
