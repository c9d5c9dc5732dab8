"""Patterns into automata: one component for those that are read alike and always on and off together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, Literal

from policyengine.automata.folding import Folding, FoldSpec
from policyengine.automata.gap_phrases import TooManyStatesError
from policyengine.automata.phrases import PhraseAutomaton
from policyengine.automata.regex_errors import TooLargeError
from policyengine.automata.threads import ThreadAutomaton
from policyengine.compiler.lowering import weight
from policyengine.compiler.work import Work
from policyengine.language.diagnostics import diagnostic
from policyengine.language.phrases import fold_spec
from policyengine.language.policyset import Allow, Ban, Bias, Force, Phrase, PhraseOptions
from policyengine.runtime.irregular import AS_IT_IS, Irregular
from policyengine.runtime.program import Automaton, Component, Param, Use

_USES: tuple[Use, ...] = ("avoid", "text", "bias", "after", "allow")

# phrases: a plain automaton of phrases; gapped: phrases that need threads; the others: expressions.
_Form = Literal["phrases", "gapped", "regular", "irregular"]
_FORMS: tuple[_Form, ...] = ("phrases", "gapped", "regular", "irregular")

_NO_OPTIONS = PhraseOptions()
_AFTER = PhraseOptions(match="prefix")  # a force follows its phrase at once, whatever would stand there otherwise


@dataclass(slots=True)
class _Entry:
    """One pattern of one rule.

    phrase: as written, for people. expression: what is compiled in place of it, where that is no phrase.
    exceptions: those of the rule, which then shares its automaton with no other.
    """

    use: Use
    rule: int
    phrase: Phrase
    options: PhraseOptions = _NO_OPTIONS
    form: _Form = "phrases"
    expression: str = ""
    weight: float | Param | None = None
    exceptions: tuple[Phrase, ...] = ()

    @property
    def spec(self) -> FoldSpec:
        """How text is folded for it; gaps are no matter of folding to an automaton of threads."""
        if self.form in ("regular", "irregular"):
            return AS_IT_IS
        spec = fold_spec(self.options)
        return replace(spec, collapse=False) if self.form == "gapped" else spec


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
            yield from _ban(index, body)
        elif isinstance(body, Bias):
            form = _form(body.options)
            for phrase, value in body.phrases:
                yield _Entry("bias", index, phrase, body.options, form, weight=weight(value))
        elif isinstance(body, Force) and body.after is not None:
            yield _Entry("after", index, body.after, _AFTER)
        elif isinstance(body, Allow) and body.scripts:
            # One pattern: the characters that the rule leaves out.
            names = sorted(script.text for script in body.scripts)
            others = "".join(rf"\p{{{name}}}" for name in ("Common", "Inherited", *names))
            shown = replace(body.scripts[0], text=", ".join(names))
            yield _Entry("allow", index, shown, form="regular", expression=f"[^{others}]")


def _ban(index: int, body: Ban) -> Iterator[_Entry]:
    use: Use = "avoid" if body.action.kind == "avoid" else "text"
    form = _form(body.options, exceptions=bool(body.exceptions))
    for phrase in body.phrases:
        yield _Entry(use, index, phrase, body.options, form, exceptions=body.exceptions)
    for one in body.expressions:
        shown = Phrase(one.text, one.span)
        yield _Entry(use, index, shown, form="regular" if one.regular else "irregular", expression=one.text)
    for script in body.scripts:
        yield _Entry(use, index, script, form="regular", expression=rf"\p{{{script.text}}}")


def _form(options: PhraseOptions, *, exceptions: bool = False) -> _Form:
    return "gapped" if exceptions or options.gaps in ("punctuation", "letters") else "phrases"


def _key(work: Work, entry: _Entry) -> tuple[Any, ...]:
    """What must agree within one component; sortable. All `always` policies of the same targets count as one."""
    rule = work.rules[entry.rule]
    policy = work.plans[rule.policy]
    group = -1 if policy.activation == "always" else rule.policy
    parameter = entry.weight.name if isinstance(entry.weight, Param) else ""
    spec = json.dumps(entry.spec.to_json(), sort_keys=True)
    gaps = entry.options.gaps if entry.form == "gapped" else ""
    alone = entry.rule if entry.exceptions else -1
    who = _USES.index(entry.use), group, policy.targets, astuple(rule.when), rule.channel, rule.mode
    return *who, _FORMS.index(entry.form), spec, gaps, alone, parameter


def _automata(work: Work, entries: list[_Entry]) -> Iterator[tuple[list[_Entry], Automaton]]:
    """The automaton of a group; or those of its halves, where all together would need too many states.

    Nothing for a pattern that cannot be built, which is then a diagnostic.
    """
    try:
        yield entries, _build(entries)
    except (TooManyStatesError, TooLargeError) as error:
        if len(entries) > 1:
            half = len(entries) // 2
            yield from _automata(work, entries[:half])
            yield from _automata(work, entries[half:])
            return
        name = work.name(work.sources[entries[0].rule])
        message = f"`{name}` cannot be compiled: {getattr(error, 'message', error)}"
        work.diagnostics.append(diagnostic("over-limit", message, entries[0].phrase.span, hint="write it more simply"))
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
    """The phrases of a group of which folding leaves nothing."""
    folding = Folding(entries[0].spec)
    phrases = [entry.phrase for entry in entries if not entry.expression] + list(entries[0].exceptions)
    return [phrase for phrase in phrases if not folding.fold(phrase.text)]


def _build(entries: Sequence[_Entry]) -> Automaton:
    first = entries[0]
    if first.form == "regular":
        return ThreadAutomaton.from_expressions([entry.expression for entry in entries])
    if first.form == "irregular":
        return Irregular(tuple(entry.expression for entry in entries))
    texts = [entry.phrase.text for entry in entries]
    left = [entry.options.match != "substring" for entry in entries]
    right = [entry.options.match == "word" for entry in entries]
    eager = [entry.options.word_end == "eager" for entry in entries]
    if first.form == "phrases":
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
        mode=rule.mode,
    )
