"""Policies for tests of explanations: written as YAML, as an author would, and read from a folder of their own."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

import policyengine as pe

Rule = dict[str, Any]


def policies(rules: dict[str, Rule], project: dict[str, Any] | None = None, **others: dict[str, Any]) -> pe.PolicySet:
    """A policy `a` with these rules, and others, each given as its keys."""
    given = {"a": {"rules": rules}, **others}
    with tempfile.TemporaryDirectory() as folder:
        for name, keys in given.items():
            body = {"version": 1, "policy": name, "targets": ["vllm"], **keys}
            Path(folder, f"{name}.yaml").write_text(yaml.safe_dump(body), encoding="utf-8")
        if project is not None:
            Path(folder, "policyengine.yaml").write_text(yaml.safe_dump({"version": 1, **project}), encoding="utf-8")
        return pe.load(folder)


LETTERS = "abA1 -é"
TEXTS = st.text(st.sampled_from("abAB1 -é\u200bá"), max_size=12)
PHRASES = st.lists(st.text(st.sampled_from(LETTERS), min_size=1, max_size=4).filter(str.strip), min_size=1, max_size=3)
ACTIONS = st.sampled_from(
    [
        "avoid",
        "redact",
        {"redact": ""},
        {"redact": "ab"},
        "terminate",
        {"terminate": {"reason": "r", "message": "m"}},
        {"block": "no"},
    ]
)
OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "match": st.sampled_from(["word", "prefix", "substring"]),
    "case": st.sampled_from(["insensitive", "sensitive"]),
    "gaps": st.sampled_from(["spaces", "punctuation", "letters", "literal"]),
    "normalize": st.lists(st.sampled_from(["nfkc", "invisible", "marks"]), unique=True),
    "except": PHRASES,
}


@st.composite
def bans(draw: st.DrawFn, actions: st.SearchStrategy[Any] = ACTIONS) -> Rule:
    """A ban of phrases or of an expression, with any options."""
    if draw(st.integers(0, 4)) == 0:
        ban: dict[str, Any] = {"regex": [draw(st.sampled_from(["ab+", "(?i)b a", r"\ba", "a$", "[^b]1"]))]}
    else:
        ban = {"phrases": draw(PHRASES)}
        for name, values in OPTIONS.items():
            if draw(st.booleans()):
                ban[name] = draw(values)
        if ban.get("gaps") == "letters":
            for key in ("phrases", "except"):
                if key in ban:
                    ban[key] = [phrase.strip() for phrase in ban[key]]
    action = draw(actions)
    rule = {"ban": ban, "fallback": "redact"} if action == "avoid" else {"ban": ban, "action": action}
    return {**rule, "mode": "shadow"} if draw(st.integers(0, 5)) == 0 else rule


def sets(most: int = 3, actions: st.SearchStrategy[Any] = ACTIONS) -> st.SearchStrategy[dict[str, Rule]]:
    """Rules by id."""
    rules = st.lists(bans(actions), min_size=1, max_size=most)
    return rules.map(lambda found: {f"r{i}": rule for i, rule in enumerate(found)})
