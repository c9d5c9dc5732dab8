"""Two programs compared rule by rule: what behaviour changed, with texts that show it.

Rules are matched by their names (`policy/rule`). A rule that only one side has may be another's under a new name; that
is said where both do the same. "same" is said only where it is proven; where the digests of both programs agree,
everything is.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

from policyengine.language.diagnostics import quoted
from policyengine.review import diff_bans, diff_fields
from policyengine.review.diff_edits import edits, pattern_notes
from policyengine.review.diff_model import Comparison, Detail, Difference, Direction, Example, Place
from policyengine.review.diff_patterns import Part, Plain, parts_of
from policyengine.runtime.program import BanPlan, BiasPlan, ForcePlan, Param, Program, RulePlan, Use, WhenPlan

_TEXT: tuple[Use, ...] = ("avoid", "text")


@dataclass(frozen=True)
class Side:
    """One side: what it is called, its program, and the folder in which files are named."""

    label: str
    program: Program
    folder: str = ""

    @cached_property
    def rules(self) -> dict[str, int]:
        """The ranks of the rules by name."""
        policies = self.program.policies
        return {f"{policies[rule.policy].name}/{rule.id}": rank for rank, rule in enumerate(self.program.rules)}

    @cached_property
    def policies(self) -> dict[str, int]:
        """The policies by name."""
        return {policy.name: index for index, policy in enumerate(self.program.policies)}

    @cached_property
    def bans(self) -> dict[str, tuple[Part, ...]]:
        """What the bans look for in text, by rule."""
        return {
            name: parts_of(self.program, rank, _TEXT)
            for name, rank in self.rules.items()
            if isinstance(self.program.rules[rank].body, BanPlan)
        }

    def rule(self, name: str) -> RulePlan:
        """A rule by its name."""
        return self.program.rules[self.rules[name]]

    def place(self, name: str) -> Place:
        """Where a rule stands."""
        rule = self.rule(name)
        return Place(self.path(rule.policy), rule.line)

    def path(self, policy: int) -> str:
        """The file of a policy."""
        return posixpath.normpath(posixpath.join(self.folder, self.program.policies[policy].file))


def compare(base: Side, head: Side) -> Comparison:
    """Compare two sides."""
    if base.program.digest == head.program.digest:
        same = tuple(Difference(name, "rule", base=base.place(name), head=head.place(name)) for name in head.rules)
        return Comparison(base.label, head.label, same, tuple(edits(base.program, head.program)))
    renamed = dict(_renamed(base, head))
    found = [*_project(base.program, head.program), *_policies(base, head)]
    for name in head.rules:
        was = renamed.get(name, name)
        if was in base.rules:
            found.append(_rule(base, head, was, name))
        else:
            found.append(_alone(head, base, name, "stronger"))
    gone = [name for name in base.rules if name not in head.rules and name not in renamed.values()]
    found += [_alone(base, head, name, "weaker") for name in gone]
    found += _order(base, head, renamed)
    rewritten = [f"{one.name}: {note}" for one in found if one.change == "same" for note in one.notes]
    return Comparison(base.label, head.label, tuple(found), (*edits(base.program, head.program), *rewritten))


# -- one rule ------------------------------------------------------------------------------------------------------


def _rule(base: Side, head: Side, was: str, name: str) -> Difference:
    details, unproven = _rule_details(base, head, was, name)
    return Difference(
        name,
        "rule",
        tuple(details),
        tuple(unproven),
        base.place(was),
        head.place(name),
        was if was != name else None,
        tuple(pattern_notes(base.bans.get(was, ()), head.bans.get(name, ()))),
    )


def _rule_details(base: Side, head: Side, was: str, name: str) -> tuple[list[Detail], list[Direction]]:
    old, new = base.rule(was), head.rule(name)
    details = diff_fields.rule_details(old, new)
    if isinstance(old.body, BanPlan) and isinstance(new.body, BanPlan):
        found = diff_bans.compare(base.bans[was], head.bans[name], old.body, new.body)
        catches = [_elsewhere(detail, base, head, was, name) for detail in found.details]
        return [*catches, *details], found.unproven
    if isinstance(old.body, BiasPlan) and isinstance(new.body, BiasPlan):
        (before, texts), (after, more) = _biases(base, was), _biases(head, name)
        details += diff_fields.weights("phrase", before, after, texts | more)
    if isinstance(old.body, ForcePlan) and isinstance(new.body, ForcePlan) and old.body.after != new.body.after:
        following: tuple[Use, ...] = ("after",)
        led = [parts_of(side.program, side.rules[one], following) for side, one in ((base, was), (head, name))]
        if not _same(*led):
            names = [quoted(phrase) if phrase else "none" for phrase in (old.body.after, new.body.after)]
            details.append(Detail("after", "changed", f"after: {' → '.join(names)}"))
    return details, []


def _elsewhere(detail: Detail, base: Side, head: Side, was: str, name: str) -> Detail:
    """The rules beside that catch the text on the side where this one does not."""
    if detail.kind != "catches" or detail.example is None:
        return detail
    side, own = (head, name) if detail.direction == "weaker" else (base, was)
    others = diff_bans.others_that_catch(_beside(side, own, side.rule(own)), detail.example.text)
    return replace(detail, example=replace(detail.example, elsewhere=others))


def _beside(side: Side, own: str, rule: RulePlan, of: Side | None = None) -> dict[str, tuple[Part, ...]]:
    """The bans of a side that act wherever a rule (of the side `of`) does, apart from the one of its own name."""
    policy = (of or side).program.policies[rule.policy]
    found = {}
    for name, parts in side.bans.items():
        other = side.rule(name)
        theirs = side.program.policies[other.policy]
        acts = theirs.activation == "always" or theirs.name == policy.name
        acts = acts and set(theirs.targets) >= set(policy.targets) and other.when in (WhenPlan(), rule.when)
        acts = acts and other.channel in ("all", rule.channel) and getattr(other, "mode", "enforce") == "enforce"
        if acts and name != own:
            found[name] = parts
    return found


def _biases(side: Side, name: str) -> tuple[dict[tuple[object, Plain], float | Param | str], dict[object, str]]:
    """The biases of a rule's phrases, those of one phrase added; and how the phrases are written."""
    found: dict[tuple[object, Plain], list[float | Param]] = {}
    texts: dict[object, str] = {}
    for component, part in _weighted(side.program, side.rules[name]):
        for plain, text in part.plain.items():
            texts[part.family, plain] = text
        for pattern, text in zip(part.patterns, part.texts, strict=True):
            plain = next(iter(Part(part.automaton, (pattern,), (text,), False).plain))
            found.setdefault((part.family, plain), []).append(component[pattern])
    total: dict[tuple[object, Plain], float | Param | str] = {}
    for key, values in found.items():
        numbers = [value for value in values if not isinstance(value, Param)]
        total[key] = values[0] if len(values) == 1 else sum(numbers) if len(numbers) == len(values) else str(values)
    return total, texts


def _weighted(program: Program, rule: int) -> Iterator[tuple[Sequence[float | Param], Part]]:
    for component in program.components:
        if component.use == "bias" and rule in component.rules:
            mine = tuple(p for p, owner in enumerate(component.rules) if owner == rule)
            texts = tuple(component.phrases[p] for p in mine)
            yield component.weights, Part(component.automaton, mine, texts, False)


def _alone(side: Side, other: Side, name: str, direction: Direction) -> Difference:
    """A rule that only one side has."""
    rule = side.rule(name)
    word = "added" if direction == "stronger" else "removed"
    example = diff_bans.shortest_caught(side.bans[name]) if name in side.bans else None
    if example is not None:
        found = diff_bans.others_that_catch(_beside(other, name, rule, side), example.text)
        example = Example(example.text, example.shortest, found)
    detail = Detail(word, direction, f"{word}: {diff_fields.describe(rule)}", example)
    place = side.place(name)
    return Difference(
        name,
        "rule",
        (detail,),
        base=place if direction == "weaker" else None,
        head=place if direction == "stronger" else None,
    )


# -- names ---------------------------------------------------------------------------------------------------------


def _renamed(base: Side, head: Side) -> Iterator[tuple[str, str]]:
    """(new name, old name) of rules that do the same under another name, in a policy that is on in the same cases."""
    gone = [name for name in base.rules if name not in head.rules]
    for name in head.rules:
        if name in base.rules:
            continue
        was = next((old for old in gone if _is_renamed(base, head, old, name)), None)
        if was is not None:
            gone.remove(was)
            yield name, was


def _is_renamed(base: Side, head: Side, was: str, name: str) -> bool:
    old, new = base.rule(was), head.rule(name)
    before, after = base.program.policies[old.policy], head.program.policies[new.policy]
    if before.name != after.name and diff_fields.policy_details(before, after):
        return False  # what became of a policy that both sides have is told by itself
    if diff_fields.rule_details(old, new):
        return False
    # What would take a search is no mere renaming.
    if was in base.bans and not _same(base.bans[was], head.bans[name]):
        return False
    return not any(_rule_details(base, head, was, name))


def _same(one: Sequence[Part], other: Sequence[Part]) -> bool:
    return len(one) == len(other) and all(a.same_as(b) for a, b in zip(one, other, strict=True))


# -- the whole -----------------------------------------------------------------------------------------------------


def _policies(base: Side, head: Side) -> Iterator[Difference]:
    for name, index in head.policies.items():
        new = head.program.policies[index]
        if name in base.policies:
            old = base.program.policies[base.policies[name]]
            details = tuple(diff_fields.policy_details(old, new))
            if details:
                yield Difference(
                    name,
                    "policy",
                    details,
                    base=Place(base.path(base.policies[name]), 0),
                    head=Place(head.path(index), 0),
                )


def _project(old: Program, new: Program) -> Iterator[Difference]:
    details = []
    if old.max_hold != new.max_hold:
        # Less that may be held ends an output sooner; it is not a rule that became stronger.
        details.append(Detail("max_hold", "changed", f"max_hold: {old.max_hold:,} → {new.max_hold:,}"))
    if old.reasoning != new.reasoning:
        was, now = (f"{r.start} … {r.end}" if r else "none" for r in (old.reasoning, new.reasoning))
        details.append(Detail("reasoning", "changed", f"reasoning: {quoted(was)} → {quoted(now)}"))
    details += diff_fields.others(
        old, new, {"policies", "rules", "components", "max_hold", "digest", "parse_request", "reasoning"}
    )
    if details:
        yield Difference("project", "project", tuple(details))


def _order(base: Side, head: Side, renamed: dict[str, str]) -> Iterator[Difference]:
    """Of two matches that would decide the same place the rule that comes first decides: its order is behaviour."""
    common = [name for name in head.rules if renamed.get(name, name) in base.rules]
    before = {name: base.rules[renamed.get(name, name)] for name in common}
    if sorted(common, key=before.__getitem__) == common:
        return
    acting = [name for name in common if head.bans.get(name)]
    for one, other in combinations(acting, 2):
        if before[one] > before[other]:
            text = f"where matches tie, `{one}` now decides before `{other}`"
            yield Difference("order of rules", "project", (Detail("order", "changed", text),))
            return


__all__ = ["Side", "compare"]
