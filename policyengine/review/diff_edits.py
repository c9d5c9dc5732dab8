"""What was edited: what only people read (descriptions, owners, files), and the phrases and options of a rule.

These are hints for a reader. What they do is for `diff_bans` to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from policyengine.automata.folding import FoldSpec
from policyengine.language.diagnostics import quoted
from policyengine.review.diff_patterns import Part, spelled
from policyengine.runtime.program import Program

_SHOWN = 3
_STEPS = {"nfkc": "nfkc", "invisible": "invisible", "marks": "marks", "confusables": "confusables"}


def edits(base: Program, head: Program) -> Iterator[str]:
    """What differs in policies and only people read, one a policy and field."""
    before = {policy.name: policy for policy in base.policies}
    for policy in head.policies:
        old = before.get(policy.name)
        if old is None:
            continue
        for name in ("description", "owner", "file"):
            if getattr(old, name) != getattr(policy, name):
                yield f"{policy.name}: {name}"
        mine = {parameter.name: parameter.description for parameter in old.parameters}
        if any(mine.get(one.name, one.description) != one.description for one in policy.parameters):
            yield f"{policy.name}: descriptions of parameters"


def pattern_notes(base: Sequence[Part], head: Sequence[Part]) -> Iterator[str]:
    """What came, went or is read otherwise among the phrases, expressions and scripts of a rule."""
    old, new = ({text for part in parts for text in part.texts} for parts in (base, head))
    yield from _came_and_went("patterns", old, new)
    before, after = ({spelled(one) for part in parts for one in part.exceptions} for parts in (base, head))
    yield from _came_and_went("exceptions", before, after)
    if len(base) == len(head) == 1 and base[0].family and head[0].family:
        yield from _options(base[0], head[0])


def _came_and_went(what: str, old: set[str], new: set[str]) -> Iterator[str]:
    for word, texts in (("added", new - old), ("removed", old - new)):
        if texts:
            first = ", ".join(map(quoted, sorted(texts)[:_SHOWN]))
            more = f" and {len(texts) - _SHOWN:,} more" if len(texts) > _SHOWN else ""
            yield f"{what} {word}: {first}{more}"


def _options(base: Part, head: Part) -> Iterator[str]:
    assert base.family is not None
    assert head.family is not None
    old, new = base.family, head.family
    if old.spec.casefold != new.spec.casefold:
        yield f"case: {_case(old.spec)} → {_case(new.spec)}"
    if _normalize(old.spec) != _normalize(new.spec):
        yield f"normalize: [{_normalize(old.spec)}] → [{_normalize(new.spec)}]"
    if old.gaps != new.gaps:
        yield f"gaps: {old.gaps} → {new.gaps}"
    forms = [
        {text: (plain.left, plain.right, plain.eager) for plain, text in part.plain.items()} for part in (base, head)
    ]
    common = sorted(forms[0].keys() & forms[1].keys())
    if any(forms[0][text][:2] != forms[1][text][:2] for text in common):
        yield "match is another"
    if any(forms[0][text][2] != forms[1][text][2] and all(f[text][1] for f in forms) for text in common):
        yield "word_end is another"


def _case(spec: FoldSpec) -> str:
    return "insensitive" if spec.casefold else "sensitive"


def _normalize(spec: FoldSpec) -> str:
    return ", ".join(word for name, word in _STEPS.items() if getattr(spec, name))


__all__ = ["edits", "pattern_notes"]
