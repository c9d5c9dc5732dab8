"""How a phrase is taken out of a file, so that nothing else in it moves."""

from __future__ import annotations

import re

from policyengine.language import nodes
from policyengine.language.policyset import Span
from policyengine.lint.checked import Checked
from policyengine.lint.model import Edit

_BREAK = re.compile(r"\r\n|\n|\r")


def removal(checked: Checked, span: Span) -> Edit | None:
    """The edit that removes the item of a list which stands at a span: a line, or a place between commas.

    None where it would take something else along (a comment), leave the list empty, or where it is no item of a list.
    """
    text, (start, end) = checked.sources[span.file], checked.place(span)
    if span.file not in checked.yaml_files:
        return whole_line(text, span.file, start, end, "")
    tree = checked.tree(span.file)
    found = _item(tree, start) if tree else None
    if found is None:
        return None
    parent, place = found
    items = parent.items
    if len(items) < 2 or span.end_line != span.line or items[place].start.line != items[place].end.line:
        return None
    if not parent.flow:
        return whole_line(text, span.file, start, end, "-")
    if place + 1 < len(items):
        start, end = start, items[place + 1].start.index
    else:
        start = items[place - 1].end.index
    gap = text[start:end].replace(text[slice(*checked.place(span))], "")
    return Edit(span.file, start, end) if re.fullmatch(r"[ \t]*,[ \t]*", gap) else None


def is_settled(checked: Checked, removed: Span, *reasons: Span) -> bool:
    """Whether a phrase that is removed is needed by nobody, whatever the values of variables are.

    A list of phrases may be that of other rules, which read it by options of their own; what `--set` gives is another
    text tomorrow. reasons: the phrases for which it is not needed.
    """
    if checked.is_shared(removed.file):
        return False
    return not any("{{" in checked.written(span) for span in (removed, *reasons) if span.file in checked.yaml_files)


def whole_line(text: str, file: str, start: int, end: int, sign: str) -> Edit | None:
    """The edit that removes the line of a place, if nothing else stands on it than a sign before."""
    begin = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start)) + 1
    found = _BREAK.search(text, end)
    stop = found.start() if found else len(text)
    if text[begin:start].strip() != sign or text[end:stop].strip():
        return None
    return Edit(file, begin, found.end() if found else stop)


def _item(node: nodes.Node, index: int) -> tuple[nodes.Sequence, int] | None:
    """The list of which an item starts at this place, and which of its items that is."""
    children: list[nodes.Node] = []
    if isinstance(node, nodes.Sequence):
        children = node.items
        for place, item in enumerate(children):
            if item.start.index == index and isinstance(item, nodes.Scalar):
                return node, place
    elif isinstance(node, nodes.Mapping):
        children = [value for _, value in node.entries.values()]
    for child in children:
        if child.start.index <= index < child.end.index:
            found = _item(child, index)
            if found:
                return found
    return None
