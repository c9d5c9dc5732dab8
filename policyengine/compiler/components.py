"""Phrases into automata: one component for those that are folded alike and always on and off together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from typing import Any

from policyengine.automata.folding import Folding
from policyengine.automata.phrases import PhraseAutomaton
from policyengine.compiler.lowering import weight
from policyengine.compiler.work import Work
from policyengine.language.diagnostics import diagnostic
from policyengine.language.phrases import fold_spec
from policyengine.language.policyset import Ban, Bias, Phrase, PhraseOptions
from policyengine.runtime.program import Component, Param, Use

_USES: tuple[Use, ...] = ("avoid", "text", "bias", "after", "allow")


@dataclass(slots=True)
class _Entry:
    """One phrase of one rule."""

    use: Use
    rule: int
    phrase: Phrase
    options: PhraseOptions
    weight: float | Param | None = None


def build_components(work: Work) -> None:
    """Group all phrases and build an automaton a group: groups in a fixed order, patterns by rule, then as written."""
    groups: dict[tuple[Any, ...], list[_Entry]] = {}
    for entry in _entries(work):
        groups.setdefault(_key(work, entry), []).append(entry)
    components, patterns = [], []
    for key in sorted(groups):
        entries = groups[key]
        found = _component(work, entries)
        if found is not None:
            components.append(found)
            patterns.append(tuple(entry.phrase for entry in entries))
    work.components, work.patterns = tuple(components), tuple(patterns)


def _entries(work: Work) -> Iterator[_Entry]:
    for index, source in enumerate(work.sources):
        body = source.rule.body
        if isinstance(body, Ban):
            use: Use = "avoid" if body.action.kind == "avoid" else "text"
            yield from (_Entry(use, index, phrase, body.options) for phrase in body.phrases)
        elif isinstance(body, Bias):
            yield from (_Entry("bias", index, phrase, body.options, weight(value)) for phrase, value in body.phrases)


def _key(work: Work, entry: _Entry) -> tuple[Any, ...]:
    """What must agree within one component; sortable. All `always` policies of the same targets count as one."""
    rule = work.rules[entry.rule]
    policy = work.plans[rule.policy]
    group = -1 if policy.activation == "always" else rule.policy
    parameter = entry.weight.name if isinstance(entry.weight, Param) else ""
    spec = json.dumps(fold_spec(entry.options).to_json(), sort_keys=True)
    return _USES.index(entry.use), group, policy.targets, astuple(rule.when), spec, parameter


def _component(work: Work, entries: list[_Entry]) -> Component | None:
    """None where a phrase is empty once folded, which is then a diagnostic."""
    spec = fold_spec(entries[0].options)
    rule = work.rules[entries[0].rule]
    try:
        automaton = PhraseAutomaton.from_phrases(
            spec,
            [entry.phrase.text for entry in entries],
            left_edge=[entry.options.match != "substring" for entry in entries],
            right_edge=[entry.options.match == "word" for entry in entries],
            eager=[entry.options.word_end == "eager" for entry in entries],
        )
    except ValueError:
        folding = Folding(spec)
        empty = [entry.phrase for entry in entries if not folding.fold(entry.phrase.text)]
        if not empty:
            raise
        work.diagnostics.extend(
            diagnostic(
                "empty-phrase",
                "the phrase holds nothing once it is normalised, so that it would match everywhere",
                phrase.span,
                hint="remove it, or leave out the normalisation that drops its characters",
            )
            for phrase in empty
        )
        return None
    return Component(
        use=entries[0].use,
        policies=tuple(sorted({work.rules[entry.rule].policy for entry in entries})),
        targets=work.plans[rule.policy].targets,
        when=rule.when,
        automaton=automaton,
        rules=tuple(entry.rule for entry in entries),
        phrases=tuple(entry.phrase.text for entry in entries),
        weights=tuple(entry.weight for entry in entries if entry.weight is not None),
    )
