"""`# policyengine: ignore[name, name] reason`: advice that somebody has looked at and does not follow.

It counts for what is found on its line, or, where it has a line of its own, on the next line that is no comment. It
holds only with a reason, and never for an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from policyengine.language import nodes
from policyengine.language.diagnostics import Diagnostic
from policyengine.language.policyset import Span
from policyengine.lint.checked import Checked

_MARK = "policyengine:"
_COMMENT = re.compile(r"#[ \t]*policyengine:[ \t]*ignore\b[ \t]*(?:\[([^\]\r\n]*)\])?[ \t]*([^\r\n]*)")


@dataclass(eq=False, slots=True)
class Ignore:
    """One comment. `line`: the one that it is about. `start`, `end`: where it stands in the text of its file.

    names: as they were written. used: those that something was ignored for.
    """

    span: Span
    line: int
    start: int
    end: int
    names: tuple[str, ...]
    reason: str
    used: set[str] = field(default_factory=set)

    def covers(self, found: Diagnostic) -> bool:
        """Whether this finding is not reported because of it, which is then noted."""
        if found.severity == "error" or not self.reason:
            return False
        if found.span.file != self.span.file or found.span.line != self.line:
            return False
        names = {name for name in self.names if name.lower() in (found.name, found.code.lower())}
        self.used |= names
        return bool(names)


def read_ignores(checked: Checked) -> list[Ignore]:
    """The comments of all files."""
    found = []
    for file in checked.files:
        text = checked.sources[file]
        if _MARK in text:
            found += list(_in_file(checked, file, text))
    return found


def _in_file(checked: Checked, file: str, text: str) -> Iterator[Ignore]:
    lines = checked.source(file).lines
    is_yaml = file in checked.yaml_files
    for match in _COMMENT.finditer(text):
        line, column = lines.position(match.start())
        before = lines[line][: column - 1]
        alone = not before.strip()
        if not alone and (not is_yaml or not before[-1].isspace()):
            continue  # in a list of phrases only a whole line is a comment
        if is_yaml and _inside_a_scalar(checked.tree(file), match.start(), text):
            continue
        about = line
        if alone:
            about += 1
            while about < len(lines) and (not lines[about].strip() or lines[about].lstrip().startswith("#")):
                about += 1
        end = match.start() + len(match[0].rstrip())
        names = tuple(name.strip() for name in (match[1] or "").split(",") if name.strip())
        span = checked.source(file).span(match.start(), end)
        yield Ignore(span, about, match.start(), end, names, match[2].strip())


def _inside_a_scalar(node: nodes.Node | None, index: int, text: str) -> bool:
    """Whether a place of the text belongs to a value, so that what looks like a comment is none."""
    if isinstance(node, nodes.Scalar):
        end: int = node.end.index
        block = node.style in ("|", ">")  # the line that opens one may end in a comment
        start: int = text.find("\n", node.start.index) if block else node.start.index
        return start <= index < end
    children: list[nodes.Node] = []
    if isinstance(node, nodes.Sequence):
        children = node.items
    elif isinstance(node, nodes.Mapping):
        children = [part for pair in node.entries.values() for part in pair]
    return any(_inside_a_scalar(child, index, text) for child in children)
