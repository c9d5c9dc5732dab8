"""From nodes to models: plain data for pydantic, and the keys of every mapping checked where it stands."""

from __future__ import annotations

import difflib
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from policyengine.language import nodes
from policyengine.language.diagnostics import listed, quoted
from policyengine.language.explain import explain
from policyengine.language.instead import odd_character, other_tool
from policyengine.language.nodes import Node, Scalar
from policyengine.language.policyset import Span
from policyengine.language.source import Report, Source
from policyengine.language.strict import Strict
from policyengine.language.variables import TooLong, Variables

Model = TypeVar("Model", bound=BaseModel)


class Reading:
    """One file while it is read. It is also the context of validation: models report their keys to it."""

    def __init__(self, source: Source, report: Report, variables: Variables) -> None:
        self.source = source
        self.report = report
        self.variables = variables
        self._nodes: dict[int, nodes.Mapping] = {}  # id of a mapping's data to its node
        self._kept: list[Any] = []  # keeps the data alive, so that ids stay theirs

    def span(self, node: Node) -> Span:
        """Where a node stands."""
        return node.span(self.source)

    def add(self, name: str, message: str, node: Node, **more: Any) -> None:
        """Report at a node; see `Report.add`."""
        self.report.add(name, message, node.span(self.source), **more)

    def text(self, node: Node, text: str) -> str:
        """A text with its variables replaced; as it was where it would become too long, which is reported."""
        try:
            return self.variables.replace(text)
        except TooLong as error:
            message = f"with its variables replaced, more than {error.limit.default:,} {error.limit.unit}"
            self.add("over-limit", message, node, hint=error.limit.reason)
            return text

    def data(self, node: Node) -> Any:
        """The node as dicts, lists and scalars, variables replaced in text values."""
        if isinstance(node, Scalar):
            value = node.value
            return self.text(node, value) if type(value) is str and "{{" in value else value
        if isinstance(node, nodes.Sequence):
            return [self.data(item) for item in node.items]
        assert isinstance(node, nodes.Mapping)
        result = {key: self.data(value) for key, (_, value) in node.entries.items()}
        self._nodes[id(result)] = node
        self._kept.append(result)
        return result

    def validate(self, model: type[Model], node: Node, data: Any, key: Scalar | None = None) -> Model | None:
        """Check data (of `node`, which stands under `key`) against a model; what is wrong is reported and gives None.

        Unknown keys are reported and left out, so a model may come back all the same.
        """
        try:
            return model.model_validate(data, context=self)
        except ValidationError as error:
            for one in error.errors(include_url=False, include_input=False):
                if self.report.full(self.source.name):
                    break
                explain(one, node, key, self.source, self.report)
            return None

    def keys(self, model: type[Strict], data: dict[Any, Any]) -> None:
        """See `strict.Reader`."""
        node = self._nodes.get(id(data))
        if node is None:
            return
        known = model.known()
        for name, (key, value) in node.entries.items():
            if name in known:
                if data[name] is None:
                    self._no_value(key, value)
            elif isinstance(name, str) and name in model.refused:
                refusal = model.refused[name]
                self.add(refusal.code, refusal.message, key, hint=refusal.hint)
            elif not self.report.reported_at(self.span(key)):
                hint = _suggestion(str(name), data, model)
                self.add("unknown-key", f"unknown key {quoted(key.text)}", key, hint=hint)

    def _no_value(self, key: Scalar, value: Node) -> None:
        if not self.report.reported_at(self.span(value)):
            self.add("wrong-type", f"{quoted(key.text)} has no value", key)
            self.report.cover(self.span(value), "wrong-type")


def _suggestion(text: str, data: dict[Any, Any], model: type[Strict]) -> str:
    """What a person who wrote an unknown key may have meant."""
    if text == "<<":
        return "merge keys are not part of the language"
    known = model.offered()
    odd = odd_character(text)
    if odd:
        return odd
    tool = other_tool(text)
    if tool and "phrases" in known:
        return tool
    for parent in data:
        inner = model.model_fields[parent].annotation if parent in model.model_fields else None
        if isinstance(inner, type) and issubclass(inner, Strict) and text in inner.known():
            return f"`{text}` belongs inside `{parent}`"
    near = difflib.get_close_matches(text[:100], [name for name in known if name not in data] or known, n=1)
    return f"did you mean `{near[0]}`?" if near else f"known here: {listed(known, most=20)}"
