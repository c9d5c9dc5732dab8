"""Which banned patterns occur in a text that we ourselves would put into an output."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from policyengine.compiler.work import Source, Work
from policyengine.language.diagnostics import quoted
from policyengine.language.policyset import Ban, Force, Phrase
from policyengine.runtime.forced_text import Place, matches


@dataclass(frozen=True, slots=True)
class Hit:
    """A pattern that the text contains, and the rule (by rank) that bans it."""

    rule: int
    phrase: Phrase


def forced_texts(work: Work, source: Source) -> list[str]:
    """What a force certainly writes, or may: its text, or what a parameter has for a default and choices."""
    body = source.rule.body
    if not isinstance(body, Force) or body.text is None:
        return []
    if isinstance(body.text, str):
        return [body.text]
    parameter = work.policies[source.policy].parameters.get(body.text.name)
    if parameter is None:
        return []  # reported by the language
    default = [parameter.default] if isinstance(parameter.default, str) else []
    return list(dict.fromkeys(text for text in (*default, *(parameter.choices or ())) if text))


def banned_in(work: Work, source: int, text: str, place: Place) -> Iterator[Hit]:
    """Bans that act together with the rule `source` and match within the text; each once, with its first phrase."""
    if not text:
        return
    seen: set[int] = set()
    for component, phrases in zip(work.components, work.patterns, strict=True):
        if component.use not in ("avoid", "text"):
            continue
        for pattern in sorted(matches(component.automaton, text, place, masks=component.use == "avoid")):
            rule = component.rules[pattern]
            if rule not in seen and work.together(work.sources[source], work.sources[rule]):
                seen.add(rule)
                yield Hit(rule, phrases[pattern])


def contains(work: Work, hit: Hit) -> str:
    """What a text holds, in words that go on from it."""
    rule = work.sources[hit.rule]
    shown, name = quoted(hit.phrase.text), f"`{work.name(rule)}`"
    body = rule.rule.body
    if isinstance(body, Ban) and body.expressions:
        return f"holds a match of {shown}, an expression that {name} bans"
    if isinstance(body, Ban) and body.scripts:
        return f"holds a character of {shown}, a script that {name} bans"
    return f"contains {shown}, a phrase that {name} bans"
