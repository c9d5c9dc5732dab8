"""YAML text to a tree whose every key and value knows its place.

The tree is built from parser events in one pass, which refuses what the language does not have: anchors, aliases,
tags, directives, a second document, duplicate keys, keys that are not scalars, nesting and sizes beyond the limits.
libyaml's parser is used where PyYAML has it, else the pure one; both give the same places.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from policyengine.language import limits
from policyengine.language.diagnostics import Label, quoted, visible
from policyengine.language.policyset import Span
from policyengine.language.scalars import Value, resolve
from policyengine.language.source import Report, Source, top
from policyengine.language.syntax import report_syntax, surrogate_hint

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# What YAML does not call printable, and the line breaks of YAML 1.1 that 1.2 reads as ordinary characters.
_REFUSED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]|\\A\ufeff")
_PROPERTY = re.compile(r"[&*!][^\s,\[\]{}]*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN = (None, "")
_BLOCK = ("|", ">")


class Node:
    """A place in a source. `start` and `end` are PyYAML marks: `line`, `column`, `index`, from 0, in code points."""

    __slots__ = ("end", "start")

    def __init__(self, start: Any, end: Any) -> None:
        self.start = start
        self.end = end

    def span(self, source: Source) -> Span:
        """The node's place. A block collection or block scalar, whose end lies far below, gives its first line."""
        start, end = self.start, self.end
        if not self._flows():
            width = len(source.lines[start.line + 1].rstrip())
            return Span(source.name, start.line + 1, start.column + 1, start.line + 1, max(width, start.column) + 1)
        return Span(source.name, start.line + 1, start.column + 1, end.line + 1, end.column + 1)

    def _flows(self) -> bool:
        """Whether `end` is where the node's own text ends."""
        return False


class Scalar(Node):
    """A scalar. `value`: what it stands for; `text`: as YAML read it; `style`: None plain, else its opening sign."""

    __slots__ = ("style", "text", "value")

    def __init__(self, text: str, value: Value, style: str | None, start: Any, end: Any) -> None:
        self.start = start
        self.end = end
        self.text = text
        self.value = value
        self.style = style

    def _flows(self) -> bool:
        return self.style not in _BLOCK


class Sequence(Node):
    """A list."""

    __slots__ = ("flow", "items")

    def __init__(self, flow: bool, start: Any, end: Any) -> None:
        super().__init__(start, end)
        self.flow = flow
        self.items: list[Node] = []

    def _flows(self) -> bool:
        return self.flow


class Mapping(Node):
    """A mapping: key value to key node and value node, in the order of the file."""

    __slots__ = ("braces", "entries", "flow", "pending", "refused")

    def __init__(self, flow: bool, start: Any, end: Any) -> None:
        super().__init__(start, end)
        self.flow = flow
        self.entries: dict[Value, tuple[Scalar, Node]] = {}
        self.pending: Node | None = None  # a key whose value comes next
        self.refused = False  # it has a key that is no scalar, which is reported
        self.braces = False  # and looks like `{{ name }}`

    def _flows(self) -> bool:
        return self.flow

    def value(self, key: Value) -> Node | None:
        """The value under a key."""
        entry = self.entries.get(key)
        return entry[1] if entry else None


class _Stop(Exception):  # noqa: N818  control flow inside this file
    """The rest of the file would only give noise; what is wrong was reported."""


def compose(source: Source, report: Report, loader: Any = None) -> Mapping | None:
    """The tree of a file whose root is a mapping; None where it has none or cannot be read, which is reported."""
    if _refused_characters(source, report):
        return None
    root: Node | None
    try:
        root = _Builder(source, report).build(_events(source.text, loader or LOADER))
    except _Stop:
        return None
    except yaml.MarkedYAMLError as error:
        report_syntax(error, source, report)
        return None
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:  # the pure parser on odd escapes
        report.add("yaml-syntax", visible(str(error).split("\n")[0]), top(source.name))
        return None
    if root is None or (isinstance(root, Scalar) and root.value is None):
        report.add("empty-file", f"`{source.name}` has no content", top(source.name))
        return None
    if not isinstance(root, Mapping):
        got = "a list" if isinstance(root, Sequence) else "a single value"
        report.add("wrong-type", f"a file must be a mapping, not {got}", root.span(source))
        return None
    return root


def _events(text: str, loader: Any) -> Iterator[Any]:
    return iter(yaml.parse(text, Loader=loader))


class _Builder:
    def __init__(self, source: Source, report: Report) -> None:
        self._source = source
        self._report = report
        self._stack: list[Sequence | Mapping] = []
        self._root: Node | None = None
        self._count = 0

    def build(self, events: Iterator[Any]) -> Node | None:
        documents = 0
        source, report = self._source, self._report
        for event in events:
            kind = type(event)
            if report.full(source.name):
                raise _Stop
            if kind is ScalarEvent:
                self._attach(self._scalar(event))
            elif kind is SequenceStartEvent:
                self._open(Sequence(bool(event.flow_style), event.start_mark, event.end_mark), event)
            elif kind is MappingStartEvent:
                self._open(Mapping(bool(event.flow_style), event.start_mark, event.end_mark), event)
            elif kind is SequenceEndEvent or kind is MappingEndEvent:
                node = self._stack.pop()
                node.end = event.end_mark
                if isinstance(node, Mapping) and node.braces:
                    hint = "in YAML `{` opens a mapping: put `{{ … }}` in quotes"
                    report.add("wrong-type", "a key must be plain text", node.span(source), hint=hint)
                self._attach(node)
            elif kind is AliasEvent:
                self._property(event, "aliases are not part of the language")
                self._attach(Scalar("", None, None, event.start_mark, event.end_mark))
            elif kind is DocumentStartEvent:
                documents += 1
                self._document(event, documents)
        return self._root

    def _scalar(self, event: Any) -> Scalar:
        if event.anchor is not None or event.tag is not None:
            self._property(event, "anchors and tags are not part of the language")
        text, style = event.value, event.style
        if style in _PLAIN:
            return Scalar(text, resolve(text), None, event.start_mark, event.end_mark)
        scalar = Scalar(text, text, style, event.start_mark, event.end_mark)
        if _SURROGATE.search(text):  # from an escape; libyaml refuses it itself
            message = "half of a surrogate pair is not a character"
            hint = surrogate_hint(self._source.text, event.start_mark.index, event.end_mark.index)
            self._report.add("yaml-syntax", message, scalar.span(self._source), hint=hint)
            raise _Stop
        return scalar

    def _open(self, node: Sequence | Mapping, event: Any) -> None:
        if event.anchor is not None or event.tag is not None:
            self._property(event, "anchors and tags are not part of the language")
        if len(self._stack) >= limits.DEPTH.default:
            self._over(node, limits.DEPTH)
        self._stack.append(node)

    def _over(self, node: Node, limit: limits.Limit) -> None:
        message = f"more than {limit.default:,} {limit.unit}"
        self._report.add("over-limit", message, node.span(self._source), hint=limit.reason)
        raise _Stop

    def _attach(self, node: Node) -> None:
        self._count += 1
        if self._count > limits.NODES.default:
            self._over(node, limits.NODES)
        if type(node) is Scalar and len(node.text) > limits.TEXT_LENGTH.default:
            self._over(node, limits.TEXT_LENGTH)
        if not self._stack:
            self._root = node
            return
        parent = self._stack[-1]
        if isinstance(parent, Sequence):
            parent.items.append(node)
        elif parent.pending is None:
            parent.pending = node
        else:
            key, parent.pending = parent.pending, None
            self._entry(parent, key, node)

    def _entry(self, parent: Mapping, key: Node, value: Node) -> None:
        if not isinstance(key, Scalar):
            parent.refused = True
            if parent.flow and isinstance(key, Mapping):
                parent.braces = True  # reported when it is closed, as a whole
                return
            hint = "quote it if it is text"
            self._report.add("wrong-type", "a key must be plain text", key.span(self._source), hint=hint)
        elif key.value in parent.entries:
            first = parent.entries[key.value][0]
            same = f"{quoted(key.text)} is written twice"
            message = same if key.text == first.text else f"{quoted(key.text)} is the same key as {quoted(first.text)}"
            self._report.add(
                "duplicate-key",
                message,
                key.span(self._source),
                hint="merge the two, or remove one",
                labels=[Label(first.span(self._source), "first here")],
            )
        else:
            parent.entries[key.value] = (key, value)

    def _property(self, event: Any, message: str) -> None:
        """Report an anchor, alias or tag; the span is what stands in the text, `&name`, `*name` or `!tag`."""
        start = event.start_mark.index
        found = _PROPERTY.match(self._source.text, start)
        span = self._source.span(start, found.end() if found else start + 1)
        hint = "as text it needs quotes"
        self._report.add("yaml-feature", message, span, hint=hint)

    def _document(self, event: Any, number: int) -> None:
        span = self._source.span(event.start_mark.index, event.end_mark.index)
        if number > 1:
            self._report.add("several-documents", "a second document begins here", span, hint="one file is one policy")
            raise _Stop
        if event.tags or (event.version is not None and tuple(event.version) != (1, 2)):
            hint = "files are read as YAML 1.2; remove the line that starts with `%`"
            first = Span(span.file, span.line, span.column, span.line, len(self._source.lines[span.line].rstrip()) + 1)
            self._report.add("yaml-feature", "directives are not part of the language", first, hint=hint)


def _refused_characters(source: Source, report: Report) -> bool:
    """Report the characters that no file may hold, the first few of them; whether there were any."""
    found = False
    for count, match in enumerate(_REFUSED.finditer(source.text)):
        if count >= limits.SHOWN.default:
            break
        found = True
        message = f"the character U+{ord(match[0]):04X} is not allowed"
        hint = "remove it; where text needs it, write an escape in double quotes"
        report.add("invalid-character", message, source.span(match.start(), match.end()), hint=hint)
    return found
