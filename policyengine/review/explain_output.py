"""An explanation as a person reads it, in 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from policyengine.language.diagnostics import visible
from policyengine.review.explain import Explanation
from policyengine.review.explain_misses import Miss
from policyengine.review.explain_rules import Known
from policyengine.review.explain_text import Decision, Partial, TextExplained
from policyengine.review.explain_tokens import TokensExplained, TokenStep

_WIDTH = 80
_LEAD = 16  # columns before what happened
_SHOWN = 60  # code points of a text that are shown
_WORTH = 4  # characters from which on a partial match that came to nothing is told of
_MOST = 5  # near misses of one rule for one reason

# What stands in front of a line, and its colour.
_COLOURS = {"MASKED": 31, "redact": 31, "terminate": 31, "block": 31, "forced": 33}


def text(told: Explanation, *, verbose: bool = False, colour: bool = False) -> str:
    """All of it. verbose: every partial match and every token, however little came of it."""
    blocks = [_head(told), _characters(told.text, verbose), _misses(told.misses, told.text, verbose)]
    if told.tokens is not None:
        blocks.insert(1, _tokens(told.tokens, verbose))
    blocks.append("\n".join(_notes(told)))
    plain = "\n\n".join(filter(None, blocks)) + "\n"
    return _painted(plain) if colour else plain


def _painted(plain: str) -> str:
    lines = []
    for line in plain.split("\n"):
        word = line[_LEAD:].split(" ", 1)[0].rstrip(":") if line[: _LEAD - 1].strip() else ""
        if word in _COLOURS:
            line = f"{line[:_LEAD]}\x1b[1;{_COLOURS[word]}m{word}\x1b[0m{line[_LEAD + len(word) :]}"
        lines.append(line)
    return "\n".join(lines)


def _head(told: Explanation) -> str:
    seen = told.text
    reason = f" ({seen.reason})" if seen.reason else ""
    deciding = seen.decisions[-1:] if seen.ended else seen.decisions
    names = [f"`{one}`" for one in dict.fromkeys(decision.rule.name for decision in deciding)]
    by = f" by {', '.join(names)}" if names else ""
    shown = f"a client sees: {_code(seen.output)}" if seen.output else "a client sees nothing"
    return "\n".join([*_wrap(f"text: {seen.verdict}{reason}{by}", ""), shown])


# -- characters --------------------------------------------------------------------------------------------------------


def _characters(told: TextExplained, verbose: bool) -> str:
    lines = ["character by character"]
    begun = _by_place((p.start + 1, p) for p in told.partials if verbose or _is_telling(p))
    over = _by_place((p.end, p) for p in told.partials if (verbose or _is_telling(p)) and p.outcome != "matched")
    held, silent = 0, True  # silent: nothing was told of why something is held
    for step in told.steps:
        happened = [f"begins: {_phrases(one)} {_names(one.rules)}" for one in begun.get(step.at, ())]
        happened += [_end_of(one, step.char) for one in over.get(step.at, ())]
        happened += [_decided(one, told) for one in step.decisions]
        happened += [f"in shadow: would {_decided(one, told)}" for one in step.shadowed]
        if step.at == told.read and told.ended and not step.decisions and told.reason == "max_hold":
            happened.append("terminate: more than `max_hold` characters are held")
        silent = silent and not happened
        if step.sent and not silent and (held or step.sent != step.char):
            happened.append(f"sent: {_code(step.sent)}")
        elif step.held and (verbose or (not held and happened)):
            happened.append(f"held: {step.held:,} {_plural(step.held, 'character')}")
        held, silent = step.held, silent or not step.held
        lines += _entry(str(step.at) if step.char else "end", step.char, happened)
    if told.ended and told.read < len(told.text):
        lines += _wrap(f"the other {len(told.text) - told.read:,} characters are not read", " " * _LEAD)
    return "\n".join(lines) if len(lines) > 1 else "nothing began to match: every character leaves at once"


def _is_telling(partial: Partial) -> bool:
    return partial.outcome in ("matched", "edge", "except") or partial.end - partial.start > _WORTH


def _by_place(pairs: Iterable[tuple[int, Partial]]) -> dict[int, list[Partial]]:
    found: dict[int, list[Partial]] = {}
    for place, partial in pairs:
        found.setdefault(place, []).append(partial)
    return found


def _end_of(partial: Partial, char: str) -> str:
    what = f"no match: {_phrases(partial)}"
    names = _names(partial.rules)
    if partial.outcome == "edge":
        return f"{what} is complete, but {_code(char)} follows, and `match: word` needs an edge {names}"
    if partial.outcome == "except":
        return f"no match: an exception stands around {_phrases(partial)} {names}"
    if partial.outcome == "end":
        return f"{what} is not complete when the output ends {names}"
    return f"{what} does not go on with {_code(char)} {names}"


def _decided(decision: Decision, told: TextExplained) -> str:
    match, rule = decision.match, decision.rule
    matched = _code(told.text[match.start : match.end])
    where = _span(match.start, match.end)
    if rule.phrase is None:
        return f"{decision.action}: {where} {matched}, which what was replaced brought together {_names([rule])}"
    phrase = (
        f"matches {_code(rule.phrase)}" if visible(rule.phrase) != visible(told.text[match.start : match.end]) else ""
    )
    return f"{decision.action}: {where} {' '.join(filter(None, (matched, phrase)))} {_names([rule])}"


def _phrases(partial: Partial) -> str:
    if not partial.rules:
        return "one of many phrases"
    texts = list(dict.fromkeys(rule.phrase for rule in partial.rules if rule.phrase is not None))
    if not texts:
        return "one of many phrases"
    more = partial.count - len(partial.rules)
    return " or ".join(_code(one) for one in texts) + (f" or {more:,} more" if more > 0 else "")


def _names(rules: Sequence[Known]) -> str:
    """Rules with their places, in parentheses."""
    if not rules:
        return ""
    parts = [f"{name} {', '.join(one.place for one in group)}" for name, group in groupby(rules, lambda one: one.name)]
    return f"({'; '.join(parts)})"


# -- near misses -------------------------------------------------------------------------------------------------------


def _misses(found: Sequence[Miss], told: TextExplained, verbose: bool) -> str:
    if not found:
        return ""
    lines = ["why not another"]
    shown: dict[tuple[str, str, str], int] = {}
    for miss in found:
        key = miss.rule.name, miss.why, miss.because
        shown[key] = shown.get(key, 0) + 1
        if shown[key] > _MOST and not verbose:
            continue
        matched = told.text[miss.start : miss.end]
        phrase = f" for {_code(miss.rule.phrase)}" if miss.rule.phrase and miss.rule.phrase != matched else ""
        lines += _wrap(f"{_span(miss.start, miss.end)} {_code(matched)}{phrase} {_names([miss.rule])}", "  ")
        lines += _wrap(_because(miss), "      ")
    left = sum(max(0, count - _MOST) for count in shown.values())
    if left and not verbose:
        lines.append(f"  and {left:,} more like these (--verbose)")
    return "\n".join(lines)


def _because(miss: Miss) -> str:
    by = f" ({miss.by.place})" if miss.by is not None else ""
    if miss.why != "option":
        return f"{miss.because}{by}"
    return f"{miss.because}: it would match with {' and '.join(miss.changes)}"


# -- tokens ------------------------------------------------------------------------------------------------------------


def _tokens(told: TokensExplained, verbose: bool) -> str:
    count = len(told.ids)
    lines = [f"token by token: {count:,} {_plural(count, 'token')} of a vocabulary of {told.vocabulary.size:,} ids"]
    for step in told.steps:
        happened = [*_chosen(step, told), *_others(step, told, verbose)]
        if step.token is None:
            state = "may end here" if step.may_end else "may not end here"
            happened.insert(0, f"the output {state}")
        lines += _entry(str(step.at) if step.token is not None else "end", _token(step, told), happened)
    return "\n".join(lines)


def _token(step: TokenStep, told: TokensExplained) -> str:
    return "" if step.token is None else told.show(step.token)


def _chosen(step: TokenStep, told: TokensExplained) -> Iterator[str]:
    if step.token is None:
        return
    forced = step.forced is not None and step.forced == step.token
    if step.is_masked:
        yield f"MASKED: {_refused(step, told)}"
    elif forced:
        yield f"forced {_names(step.forced_by)}"
    else:
        yield "allowed"
    if step.waived:
        yield f"gives way in a dead end: {_names(step.waived)}"
    if step.watching:
        yield f"in shadow: would be masked for {'; '.join(_refusing(step.watching))}"
    if step.pushed:
        parts = ", ".join(f"{value:+g} {_names([known])}" for known, value in step.pushed)
        yield f"bias {step.bias:+g}: {parts}"


def _refused(step: TokenStep, told: TokensExplained) -> str:
    if step.only_eos:
        end = told.show(told.vocabulary.eos_token_ids[0])
        return f"nothing but {_code(end)} is left {_names(step.refused)}".rstrip()
    if step.forced is not None:
        return f"{_code(told.show(step.forced))} is forced {_names(step.forced_by)}"
    if not step.refused:
        return "several rules together leave no way on through it"
    return "; ".join(_refusing(step.refused))


def _refusing(rules: Sequence[Known]) -> list[str]:
    return [f"{_code(one.phrase)} {_names([one])}" if one.phrase else f"by {_names([one])}" for one in rules]


def _others(step: TokenStep, told: TokensExplained, verbose: bool) -> Iterator[str]:
    """What else was masked then."""
    if step.forced is not None and not verbose:
        return
    for one in step.by:
        ends = all(i in told.vocabulary.eos_token_ids for i in one.examples) if one.examples else True
        examples = " ".join(_code(told.show(i)) for i in one.examples)
        some = "" if ends and not examples else f": {examples}" + (" …" if one.count > len(one.examples) else "")
        what = "ends of the output" if not one.examples else _plural(one.count, "id")
        yield f"{one.count:,} {what} masked by {one.rule.name}{some}"
    if step.pushes and verbose:
        yield f"{step.pushes:,} {_plural(step.pushes, 'id')} with a bias"


# -- notes and lines ---------------------------------------------------------------------------------------------------


def _notes(told: Explanation) -> Iterator[str]:
    for rule in told.text.rewrites:
        yield from _wrap(f"note: all that leaves is rewritten {_names([rule])}", "")
    if told.token_rules and told.tokens is None:
        count = len(told.token_rules)
        names = ", ".join(rule.name for rule in told.token_rules[:_MOST])
        more = ", ..." if count > _MOST else ""
        verb = "acts" if count == 1 else "act"
        yield from _wrap(f"note: {count:,} {_plural(count, 'rule')} {verb} on tokens: --tokenizer ({names}{more})", "")
    for activation in dict.fromkeys(activation for _, activation in told.unasked):
        idle = [f"`{name}`" for name, other in told.unasked if other == activation]
        what = "policy is" if len(idle) == 1 else "policies are"
        yield from _wrap(f"note: {len(idle)} {what} {activation} and not active here: {', '.join(idle)}", "")


def _entry(place: str, char: str, happened: Sequence[str]) -> list[str]:
    """A place with what happened there, nothing if nothing did."""
    lines: list[str] = []
    for what in happened:
        lead = f"{place:>4} {_code(char, 9) if char else ''}" if not lines else ""
        if len(lead) >= _LEAD:
            lines.append(lead)
            lead = ""
        lines += _wrap(what, " " * _LEAD, lead)
    return lines


def _wrap(line: str, indent: str, lead: str = "") -> list[str]:
    deeper = indent + "  "
    first = f"{lead:<{len(indent)}}"
    return textwrap.wrap(
        line, _WIDTH, initial_indent=first, subsequent_indent=deeper, break_long_words=False, break_on_hyphens=False
    )


def _span(start: int, end: int) -> str:
    """Code points from 1, both ends included."""
    return f"{start + 1}-{end}" if end - start != 1 else f"{end}"


def _code(raw: str, most: int = _SHOWN) -> str:
    shown = visible(raw)
    return f"`{shown if len(shown) <= most else shown[: most - 1] + '…'}`"


def _plural(count: int, one: str) -> str:
    return one if count == 1 else f"{one}s"


__all__ = ["text"]
