"""How a value that has the wrong shape is meant to be written: one line of help each, for mistakes that people make."""

from __future__ import annotations

import json
import re
from typing import Any

from policyengine.language import nodes
from policyengine.language.diagnostics import visible
from policyengine.language.nodes import Node, Scalar

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_WORDS = re.compile(r"(redact|terminate|block)[\s:]+(\S.*)", re.DOTALL)
_GPU = ("gpu", "nvidia", "rocm", "amd", "hip")
_DEVICES = ("cpu", "cuda", "hpu", "mps", "npu", "tpu", "xpu")
_LONG = 60  # code points of a user's text that help repeats

_MISSING = {
    "version": "add `version: 1`",
    "policy": "add `policy: a-name`",
}

_CHOICES = {
    "case": "sensitive: as written; insensitive: capitals and small letters are alike",
    "channel": "answer or reasoning: that part of the output; all: both",
    "gaps": "spaces: a space stands for white space; punctuation: for punctuation too; letters: also between letters",
    "normalize": "nfkc: full-width letters and the like; marks: accents; confusables: look-alikes of other scripts",
}


def missing(key: str) -> str | None:
    """Help for a key that is not there."""
    return _MISSING.get(key)


def parameter(node: Node) -> str | None:
    """Help for text where a number or `{param: name}` may stand: what looks like a name is meant as one."""
    if isinstance(node, Scalar) and isinstance(node.value, str) and _NAME.fullmatch(node.text):
        return f"for the parameter of that name write {{param: {node.text}}}"
    return None


def value(path: list[Any], node: Node) -> str | None:
    """Help for a value of the wrong type or an unknown word, by the keys that lead to it."""
    last = path[-1] if path else None
    inner = _inner(node)
    if last == "rules" and isinstance(node, nodes.Sequence):
        return "give each rule an id: `my-rule: {ban: …}` in place of `- ban: …`"
    if last == "ban" and inner:
        return f"write `ban: {{phrases: [{inner}]}}`"
    if last == "allow" and inner:
        return f"write `allow: {{choices: [{inner}]}}`"
    if path[-2:] == ["bias", "phrases"] and isinstance(node, nodes.Sequence):
        first = node.items[0] if node.items else None
        return f"give each phrase a number: {{{_inner(first) or 'phrase'}: -4}}"
    text = node.text if isinstance(node, Scalar) else ""
    if last == "regex" and text:
        return "write a list, in single quotes: ['{}']".format(visible(text).replace("'", "''"))
    if last == "rewrite":
        return f"write `rewrite: {{to: {text if text in ('upper', 'lower', 'nothing') else 'upper'}}}`"
    if last == "when":
        if not text or text.lower() in (*_GPU, *_DEVICES):
            return f"write `when: {{device: [{text.lower() if text.lower() in _DEVICES else 'cuda'}]}}`"
        return (
            f"write `when: {{model: [{_quoted(node)}]}}`" if isinstance(node, Scalar) and len(text) <= _LONG else None
        )
    if last in ("action", "fallback"):
        words = _WORDS.fullmatch(text) if len(text) <= _LONG else None
        return f"write `{last}: {{{words[1]}: {_text(words[2])}}}`" if words else None
    return None


def choice(path: list[Any]) -> str | None:
    """Help for a word that is none of the choices and near none."""
    key = next((one for one in reversed(path) if isinstance(one, str)), None)
    return _CHOICES.get(key) if key else None


def _inner(node: Node | None) -> str:
    """The texts of a list of texts, or a text, as the inside of a list; empty where something else stands there."""
    items = node.items if isinstance(node, nodes.Sequence) else [node]
    texts = [_quoted(item) for item in items if isinstance(item, Scalar) and item.text]
    joined = ", ".join(texts)
    return joined if len(texts) == len(items) and len(joined) <= _LONG else ""


def _text(written: str) -> str:
    """A text in quotes, whether it was written in quotes or not."""
    return json.dumps(written.strip("\"'"), ensure_ascii=False)


def _quoted(node: Scalar) -> str:
    """A text as it may stand in a list."""
    plain = node.style is None and isinstance(node.value, str) and not set(node.text) & set(",[]{}\n")
    return node.text if plain else json.dumps(node.text, ensure_ascii=False)
