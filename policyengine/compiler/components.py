"""Patterns into automata: one component for those that are read alike and always on and off together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from policyengine.automata.folding import Folding, FoldSpec
from policyengine.automata.gap_phrases import TooManyStatesError
from policyengine.automata.phrases import PhraseAutomaton
from policyengine.automata.threads import ThreadAutomaton
from policyengine.compiler.lowering import weight
from policyengine.compiler.work import Work
from policyengine.language.diagnostics import diagnostic
from policyengine.language.phrases import fold_spec
from policyengine.language.policyset import Ban, Bias, Phrase, PhraseOptions
from policyengine.runtime.program import Automaton, Component, Param, Use

_USES: tuple[Use, ...] = ("avoid", "text", "bias", "after", "allow")


@dataclass(slots=True)
class _Entry:
    """One pattern of one rule. exceptions: those of the rule; it then shares its automaton with no other rule."""

    use: Use
    rule: int
    phrase: Phrase
    options: PhraseOptions
    weight: float | Param | None = None
    exceptions: tuple[Phrase, ...] = ()

    @property
    def in_threads(self) -> bool:
        """Whether a plain automaton of phrases cannot say it."""
        return self.options.gaps in ("punctuation", "letters") or bool(self.exceptions)

    @property
    def spec(self) -> FoldSpec:
        """How text is folded for it; gaps are no matter of folding to an automaton of threads."""
        spec = fold_spec(self.options)
        return replace(spec, collapse=False) if self.in_threads else spec


def build_components(work: Work) -> None:
    """Group all patterns and build an automaton a group: groups in a fixed order, patterns by rule, then as written."""
    groups: dict[tuple[Any, ...], list[_Entry]] = {}
    for entry in _entries(work):
        groups.setdefault(_key(work, entry), []).append(entry)
    components, patterns = [], []
    for key in sorted(groups):
        for entries, automaton in _automata(work, groups[key]):
            components.append(_component(work, entries, automaton))
            patterns.append(tuple(entry.phrase for entry in entries))
    work.components, work.patterns = tuple(components), tuple(patterns)


def _entries(work: Work) -> Iterator[_Entry]:
    for index, source in enumerate(work.sources):
        body = source.rule.body
        if isinstance(body, Ban):
            use: Use = "avoid" if body.action.kind == "avoid" else "text"
            for phrase in body.phrases:
                yield _Entry(use, index, phrase, body.options, exceptions=body.exceptions)
        elif isinstance(body, Bias):
            yield from (_Entry("bias", index, phrase, body.options, weight(value)) for phrase, value in body.phrases)


def _key(work: Work, entry: _Entry) -> tuple[Any, ...]:
    """What must agree within one component; sortable. All `always` policies of the same targets count as one."""
    rule = work.rules[entry.rule]
    policy = work.plans[rule.policy]
    group = -1 if policy.activation == "always" else rule.policy
    parameter = entry.weight.name if isinstance(entry.weight, Param) else ""
    spec = json.dumps(entry.spec.to_json(), sort_keys=True)
    gaps = entry.options.gaps if entry.in_threads else ""
    alone = entry.rule if entry.exceptions else -1
    who = _USES.index(entry.use), group, policy.targets, astuple(rule.when), rule.channel
    return *who, spec, gaps, alone, parameter


def _automata(work: Work, entries: list[_Entry]) -> Iterator[tuple[list[_Entry], Automaton]]:
    """The automaton of a group; or one for each of its rules where all together would need too many states.

    Nothing for a group that cannot be built, which is then a diagnostic.
    """
    try:
        yield entries, _build(entries)
    except TooManyStatesError as error:
        rules = sorted({entry.rule for entry in entries})
        if len(rules) > 1:
            for rule in rules:
                yield from _automata(work, [entry for entry in entries if entry.rule == rule])
            return
        source = work.sources[rules[0]]
        work.diagnostics.append(
            diagnostic(
                "over-limit",
                f"`{work.name(source)}` cannot be compiled: {error}",
                source.rule.body_span,
                hint="split the phrases over several rules, or use `gaps: spaces`, which needs half as many",
            )
        )
    except ValueError:
        empty = _empty(entries)
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


def _empty(entries: Sequence[_Entry]) -> list[Phrase]:
    folding = Folding(entries[0].spec)
    phrases = [entry.phrase for entry in entries] + list(entries[0].exceptions)
    return [phrase for phrase in phrases if not folding.fold(phrase.text)]


def _build(entries: Sequence[_Entry]) -> Automaton:
    first = entries[0]
    texts = [entry.phrase.text for entry in entries]
    left = [entry.options.match != "substring" for entry in entries]
    right = [entry.options.match == "word" for entry in entries]
    eager = [entry.options.word_end == "eager" for entry in entries]
    if not first.in_threads:
        return PhraseAutomaton.from_phrases(first.spec, texts, left_edge=left, right_edge=right, eager=eager)
    return ThreadAutomaton.from_phrases(
        first.spec,
        texts,
        gaps=first.options.gaps,
        left_edge=left,
        right_edge=right,
        eager=eager,
        exceptions=[phrase.text for phrase in first.exceptions],
    )


def _component(work: Work, entries: Sequence[_Entry], automaton: Automaton) -> Component:
    rule = work.rules[entries[0].rule]
    return Component(
        use=entries[0].use,
        policies=tuple(sorted({work.rules[entry.rule].policy for entry in entries})),
        targets=work.plans[rule.policy].targets,
        when=rule.when,
        automaton=automaton,
        rules=tuple(entry.rule for entry in entries),
        phrases=tuple(entry.phrase.text for entry in entries),
        weights=tuple(entry.weight for entry in entries if entry.weight is not None),
        channel=rule.channel,
    )
