"""pydantic's errors as diagnostics: the node that a location means, and words for a person who writes policies.

A location names keys and indices, and also the tags of unions, which no document holds: segments that the tree does
not have are skipped.
"""

from __future__ import annotations

import difflib
import json
import re
from typing import Any

from policyengine.language import forms, nodes
from policyengine.language.diagnostics import Label, listed, quoted, visible
from policyengine.language.nodes import Node, Scalar
from policyengine.language.scalars import resolve
from policyengine.language.source import Report, Source

VALUE_TAG = "tag:value"  # the member of a union with `{param: name}` that is the value itself
_KEY = "[key]"  # pydantic's last segment for an error in a key

_KINDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "bool_type": "`true` or `false`",
}
_BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "less_than_equal": ("at most", "le"),
    "greater_than": ("more than", "gt"),
    "less_than": ("less than", "lt"),
}


class _Place:
    """What a location leads to: the node, the key it stands under, and what to call it."""

    def __init__(self, root: Node, key: Scalar | None, location: tuple[Any, ...]) -> None:
        self.node = root
        self.key = key
        self.in_list = False
        self.is_key = False
        self.path: list[Any] = []
        for segment in location:
            if segment == _KEY:
                self.is_key = self.key is not None
                break
            self._enter(segment)
        if self.is_key and self.key is not None:
            self.node = self.key

    def _enter(self, segment: Any) -> None:
        if isinstance(self.node, nodes.Sequence) and isinstance(segment, int) and segment < len(self.node.items):
            self.node = self.node.items[segment]
            self.in_list = True
            self.path.append(segment)
        elif isinstance(self.node, nodes.Mapping):
            entry = self.node.entries.get(segment) or _by_text(self.node, segment)
            if entry:
                self.key, self.node = entry
                self.in_list = False
                self.path.append(segment)

    @property
    def is_phrase(self) -> bool:
        """Whether this is an item of a list of phrases, or a key of a mapping of phrases."""
        return len(self.path) >= 2 and self.path[-2] in ("phrases", "except") and (self.in_list or self.is_key)

    @property
    def subject(self) -> str:
        """How a message names it."""
        name = quoted(self.key.text) if self.key else "the file"
        if self.is_key:
            return f"the key {name}"
        return f"an item of {name}" if self.in_list else name


def _by_text(node: nodes.Mapping, segment: Any) -> tuple[Scalar, Node] | None:
    """An entry whose key is neither text nor integer: pydantic writes it out in a location."""
    return next(
        (entry for key, entry in node.entries.items() if not isinstance(key, str) and str(key) == segment), None
    )


def explain(error: Any, root: Node, key: Scalar | None, source: Source, report: Report) -> None:
    """Report one error of pydantic (an `ErrorDetails`) about `root`, which stands under `key`."""
    place = _Place(root, key, error["loc"])
    kind, context = error["type"], error.get("ctx", {})
    if "text" in context:
        _own(kind, context, place, source, report)
        return
    if kind == "missing":
        name = str(error["loc"][-1])
        if not _explained(name, _reported_keys(place.node, source, report)):
            where = place.key or _first_key(place.node) or place.node
            report.add("missing-key", f"missing key `{name}`", where.span(source), hint=forms.missing(name))
        return
    span = place.node.span(source)
    if report.reported_at(span):
        return
    nothing = isinstance(place.node, Scalar) and place.node.value is None
    if nothing and place.key and not place.in_list and not place.is_key:
        report.add("wrong-type", f"{place.subject} has no value", place.key.span(source))
    elif kind in _KINDS:
        if place.is_phrase and kind == "string_type":
            report.add("unquoted-phrase", _not_text(place.node), span, hint=quote_hint(place.node, source, "phrase"))
        else:
            wanted = _KINDS[kind] + (" or `{param: name}`" if VALUE_TAG in error["loc"] else "")
            message = f"{place.subject} must be {wanted}, not {describe(place.node)}"
            meant = forms.parameter(place.node) if VALUE_TAG in error["loc"] else None
            hint = forms.value(place.path, place.node) or _type_hint(kind, place.node) or meant
            report.add("wrong-type", message, span, hint=hint)
    elif kind == "literal_error":
        allowed = re.findall(r"'([^']*)'", context["expected"])
        message = f"{place.subject} must be one of {listed(allowed)}, not {describe(place.node)}"
        text = place.node.text if isinstance(place.node, Scalar) else ""
        near = difflib.get_close_matches(text[:100].lower(), allowed, n=1)
        meant = f"did you mean `{near[0]}`?" if near else None
        report.add(
            "invalid-value",
            message,
            span,
            hint=forms.value(place.path, place.node) or meant or forms.choice(place.path),
        )
    elif kind in _BOUNDS:
        words, bound = _BOUNDS[kind]
        number = describe(place.node)
        report.add("invalid-value", f"{place.subject} must be {words} {_plain(context[bound])}, not {number}", span)
    elif kind == "finite_number":
        report.add("invalid-value", f"{place.subject} must be a finite number, not {describe(place.node)}", span)
    elif kind == "too_long":
        report.add("over-limit", f"{place.subject} has more than {context['max_length']:,} items", span)
    elif kind == "too_short":
        report.add("invalid-value", f"{place.subject} is empty", span)
    else:
        report.add("invalid-value", f"{place.subject}: {error['msg'][:1].lower()}{error['msg'][1:]}", span)


def _own(code: str, context: dict[str, Any], place: _Place, source: Source, report: Report) -> None:
    """An error that one of our validators raised (`strict.problem`)."""
    labels = []
    where: Node = place.node
    if context["at_key"] and place.key is not None:
        where = place.key
    elif context["keys"] and isinstance(place.node, nodes.Mapping):
        found = [place.node.entries[key][0] for key in context["keys"] if key in place.node.entries]
        where = found[0] if found else where
        labels = [Label(key.span(source), "and this") for key in found[1:]]
    elif code == "missing-key":
        if _reported_keys(place.node, source, report):
            return  # one of them may be what is missing
        where = place.key or _first_key(place.node) or where
    text = context["text"].replace("{subject}", place.subject).replace("{got}", describe(place.node))
    report.add(code, text, where.span(source), hint=context["hint"], labels=labels)


def _first_key(node: Node) -> Scalar | None:
    return next((key for key, _ in node.entries.values()), None) if isinstance(node, nodes.Mapping) else None


def _reported_keys(node: Node, source: Source, report: Report) -> dict[str, str]:
    """The keys of a mapping that something was reported about, and under which name."""
    if not isinstance(node, nodes.Mapping):
        return {}
    return {key.text: name for key, _ in node.entries.values() if (name := report.reported_at(key.span(source)))}


def _explained(missing: str, reported: dict[str, str]) -> bool:
    """Whether a key is missing only because a reported one was meant to be it, or would stand in for it later."""
    later = "not-yet-supported" in reported.values()
    return later or bool(difflib.get_close_matches(missing, [key[:100] for key in reported], n=1))


def describe(node: Node) -> str:
    """A value in words: "text `abc`", "the number `42`", "a list"."""
    if isinstance(node, nodes.Mapping):
        return "a mapping"
    if isinstance(node, nodes.Sequence):
        return "a list"
    assert isinstance(node, Scalar)
    if node.value is None:
        return f"nothing ({quoted(node.text)})" if node.text else "nothing"
    if isinstance(node.value, bool):
        return quoted(node.text)
    return f"text {quoted(node.text)}" if isinstance(node.value, str) else f"the number {quoted(node.text)}"


def _not_text(node: Node) -> str:
    what = {int: "a number", float: "a number", bool: "a truth value"}
    if isinstance(node, Scalar):
        return f"this is {what.get(type(node.value), 'nothing')} to YAML, not a phrase"
    return f"this is {describe(node)} to YAML, not a phrase"


def quote_hint(node: Node, source: Source, what: str) -> str:
    """The advice to quote a value, with the quoted text where it fits on a line."""
    line = source.lines[node.start.line + 1]
    text = source.text[node.start.index : node.end.index] if _inline(node) else line[node.start.column :]
    text = text.strip()
    if not text:
        rest = line[node.start.column :].strip()
        if rest.startswith("#"):
            return f"`#` starts a comment; quote the {what}: {json.dumps(rest, ensure_ascii=False)}"
        return f"write it in quotes, or remove the `-` if no {what} is meant"
    if "\n" in text or "\r" in text or len(text) > 60:
        return f"quote the {what}"
    return f"quote the {what}: {json.dumps(text, ensure_ascii=False)}"


def _inline(node: Node) -> bool:
    return isinstance(node, Scalar) or (isinstance(node, nodes.Sequence | nodes.Mapping) and node.flow)


def _type_hint(kind: str, node: Node) -> str | None:
    if not isinstance(node, Scalar) or node.value is None or len(node.text) > 60:
        return None
    if kind == "string_type":
        return f"quote the text: {json.dumps(node.text, ensure_ascii=False)}"
    if kind == "list_type":
        return f"write a list: [{visible(node.text)}]"
    if kind in ("int_type", "float_type") and node.style and type(resolve(node.text)) in (int, float):
        return f"remove the quotes: {node.text}"
    return None


def _plain(bound: Any) -> str:
    return f"{bound:g}" if isinstance(bound, float) and abs(bound) < 1e15 else str(bound)
