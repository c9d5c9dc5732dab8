"""An explanation as JSON: everything, in plain values. Offsets are code points from 0, the end not included."""

from __future__ import annotations

import json
from typing import Any

from policyengine.review.explain import Explanation
from policyengine.review.explain_misses import Miss
from policyengine.review.explain_rules import Known
from policyengine.review.explain_text import Decision, Partial, Step, TextExplained
from policyengine.review.explain_tokens import TokensExplained, TokenStep

_MASKED = 256  # ids up to which a mask is listed


def as_json(told: Explanation) -> str:
    """One object."""
    value = {
        "version": 1,
        "policies": list(told.active),
        "inactive_policies": [{"policy": name, "activation": activation} for name, activation in told.unasked],
        **_text(told.text),
        "near_misses": [_miss(one) for one in told.misses],
        "tokens": None if told.tokens is None else _tokens(told.tokens),
    }
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def _text(told: TextExplained) -> dict[str, Any]:
    return {
        "text": told.text,
        "output": told.output,
        "verdict": told.verdict,
        "reason": told.reason,
        "read": told.read,
        "matches": [_decision(one) for one in told.decisions],
        "shadowed": [_decision(one) for one in told.shadowed],
        "rewrites": [_known(one) for one in told.rewrites],
        "steps": [_step(one) for one in told.steps],
        "partial_matches": [_partial(one) for one in told.partials],
    }


def _known(rule: Known) -> dict[str, Any]:
    place = {"rule": rule.name, "file": rule.file, "line": rule.line, "column": rule.column}
    return place if rule.phrase is None else {**place, "phrase": rule.phrase}


def _decision(one: Decision) -> dict[str, Any]:
    return {
        **_known(one.rule),
        "action": one.action,
        "start": one.match.start,
        "end": one.match.end,
        "decided_at": one.at,
    }


def _step(one: Step) -> dict[str, Any]:
    return {
        "at": one.at,
        "char": one.char,
        "sent": one.sent,
        "held": one.held,
        "matches": [decision.rule.name for decision in one.decisions],
        "shadowed": [decision.rule.name for decision in one.shadowed],
    }


def _partial(one: Partial) -> dict[str, Any]:
    return {
        "rules": [_known(rule) for rule in one.rules],
        "patterns": one.count,
        "start": one.start,
        "read": one.end,
        "outcome": one.outcome,
    }


def _miss(one: Miss) -> dict[str, Any]:
    return {
        **_known(one.rule),
        "why": one.why,
        "start": one.start,
        "end": one.end,
        "because": one.because,
        "would_match_with": [change.strip("`") for change in one.changes],
        "by": None if one.by is None else _known(one.by),
    }


def _tokens(told: TokensExplained) -> dict[str, Any]:
    return {
        "vocabulary": told.vocabulary.digest,
        "size": told.vocabulary.size,
        "ids": list(told.ids),
        "ended": told.ended,
        "steps": [_token(one, told) for one in told.steps],
    }


def _token(one: TokenStep, told: TokensExplained) -> dict[str, Any]:
    return {
        "at": one.at,
        "id": one.token,
        "text": None if one.token is None else told.show(one.token),
        "is_masked": one.is_masked,
        "masked": len(one.masked),
        # Longer masks are counted only.
        "masked_ids": one.masked.tolist() if len(one.masked) <= _MASKED else None,
        "masked_by": [{**_known(by.rule), "count": by.count, "examples": list(by.examples)} for by in one.by],
        "refused_by": [_known(rule) for rule in one.refused],
        "gives_way": [_known(rule) for rule in one.waived],
        "shadowed_by": [_known(rule) for rule in one.watching],
        "only_eos": one.only_eos,
        "may_end": one.may_end,
        "forced": one.forced,
        "forced_by": [_known(rule) for rule in one.forced_by],
        "bias": one.bias,
        "bias_by": [{**_known(rule), "value": value} for rule, value in one.pushed],
    }


__all__ = ["as_json"]
