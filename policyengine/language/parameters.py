"""`parameters:` — what a request may pass — and whether each fits where it is used."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from policyengine.language import limits, nodes
from policyengine.language.diagnostics import Label, listed, quoted
from policyengine.language.nodes import Node, Scalar
from policyengine.language.policyset import Parameter, Span
from policyengine.language.reading import Reading
from policyengine.language.strict import Strict, problem

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
RESERVED = ("policies", "policyengine_assigned")  # keys of a request that mean something else (design 2.5)

Integer = Annotated[int, Field(ge=-limits.INTEGER.default, le=limits.INTEGER.default)]
Text = Annotated[str, Field(max_length=limits.TEXT_LENGTH.default)]


def _ordered(form: IntegerForm | NumberForm) -> Any:
    if form.ge is not None and form.le is not None and form.ge > form.le:
        raise problem("default-out-of-limits", "`ge` is greater than `le`: no value fits", keys=["ge", "le"])
    default = form.default
    if default is not None and form.ge is not None and default < form.ge:
        raise problem("default-out-of-limits", "the default is less than `ge`", keys=["default", "ge"])
    if default is not None and form.le is not None and default > form.le:
        raise problem("default-out-of-limits", "the default is greater than `le`", keys=["default", "le"])
    return form


TYPE = "What a request must pass: token_id, an id of the model's vocabulary; integer; number; string."
DEFAULT = "The value where a request passes none. Without a default, rules that use the parameter are then inactive."
GE = "The least value that a request may pass."
LE = "The greatest value that a request may pass."


class Form(Strict):
    """The keys of every parameter."""

    description: str = Field("", description="What the parameter is for; people who send requests see it.")


class TokenIdForm(Form):
    """A token id; that it is below the vocabulary's size is checked where the vocabulary is known."""

    type: Literal["token_id"] = Field(description=TYPE)
    default: Annotated[int, Field(ge=0, le=limits.TOKEN_ID.default)] | None = Field(None, description=DEFAULT)


class IntegerForm(Form):
    """A whole number."""

    type: Literal["integer"] = Field(description=TYPE)
    default: Integer | None = Field(None, description=DEFAULT)
    ge: Integer | None = Field(None, description=GE)
    le: Integer | None = Field(None, description=LE)

    @model_validator(mode="after")
    def _limits(self) -> Any:
        return _ordered(self)


class NumberForm(Form):
    """A finite number."""

    type: Literal["number"] = Field(description=TYPE)
    default: float | None = Field(None, description=DEFAULT)
    ge: float | None = Field(None, description=GE)
    le: float | None = Field(None, description=LE)

    @model_validator(mode="after")
    def _limits(self) -> Any:
        return _ordered(self)


def _distinct(choices: list[str]) -> list[str]:
    twice = [choice for i, choice in enumerate(choices) if choice in choices[:i]] if len(choices) < 1000 else []
    if twice:
        raise problem("invalid-value", f"the choice {quoted(twice[0])} is written twice")
    return choices


class StringForm(Form):
    """Text; always literal."""

    type: Literal["string"] = Field(description=TYPE)
    default: Text | None = Field(None, description=DEFAULT)
    max_length: Annotated[int, Field(ge=1, le=limits.TEXT_LENGTH.default)] | None = Field(
        None, description="The most characters that a request may pass."
    )
    choices: Annotated[list[Text], Field(min_length=1), AfterValidator(_distinct)] | None = Field(
        None, description="The only texts that a request may pass.", json_schema_extra={"uniqueItems": True}
    )

    @model_validator(mode="after")
    def _limits(self) -> Any:
        for choice in self.choices or ():
            if self.max_length is not None and len(choice) > self.max_length:
                message = f"the choice {quoted(choice)} is longer than `max_length`"
                raise problem("default-out-of-limits", message, keys=["choices", "max_length"])
        if self.default is None:
            return self
        if self.choices is not None and self.default not in self.choices:
            message = f"the default is not one of {listed(self.choices)}"
            raise problem("default-out-of-limits", message, keys=["default", "choices"])
        if self.max_length is not None and len(self.default) > self.max_length:
            message = "the default is longer than `max_length`"
            raise problem("default-out-of-limits", message, keys=["default", "max_length"])
        return self


FORMS: dict[str, type[TokenIdForm | IntegerForm | NumberForm | StringForm]] = {
    "token_id": TokenIdForm,
    "integer": IntegerForm,
    "number": NumberForm,
    "string": StringForm,
}


class _TypeForm(Strict):
    """Only there for its errors: a type that is missing or no type."""

    type: Literal["token_id", "integer", "number", "string"]


@dataclass(frozen=True, slots=True)
class Use:
    """A place where `{param: name}` stands, and what may stand there."""

    what: str  # in words: "`min_tokens`"
    accepts: tuple[str, ...]
    ge: float | None = None
    le: float | None = None
    name: str = ""
    span: Span | None = None

    def of(self, name: str, span: Span) -> Use:
        """The same use, by this parameter at this place."""
        return replace(self, name=name, span=span)


def read_parameters(reading: Reading, node: Node | None, data: Any) -> dict[str, Parameter | None]:
    """The declared parameters; None for one that is declared and wrong, which is reported."""
    found: dict[str, Parameter | None] = {}
    if not isinstance(node, nodes.Mapping) or not isinstance(data, dict):
        return found
    for name, (key, value) in node.entries.items():
        if not isinstance(name, str):
            continue  # reported by the header's model
        found[name] = _parameter(reading, name, key, value, data[name])
    return found


def _parameter(reading: Reading, name: str, key: Scalar, node: Node, data: Any) -> Parameter | None:
    if not NAME.fullmatch(name) or len(name) > limits.NAME_LENGTH.default:
        hint = f"letters, digits, `_` and `-`, not starting with a digit, at most {limits.NAME_LENGTH.default}"
        reading.add("invalid-value", f"{quoted(name)} is no name for a parameter", key, hint=hint)
    elif name in RESERVED:
        message = f"a parameter cannot be named {quoted(name)}: requests use that key for something else"
        reading.add("reserved-parameter", message, key, hint="choose another name")
    kind = data.get("type") if isinstance(data, dict) else None
    form = FORMS.get(kind) if isinstance(kind, str) else None
    if form is None:
        only = (
            {"type": data["type"]}
            if isinstance(data, dict) and "type" in data
            else {}
            if isinstance(data, dict)
            else data
        )
        reading.validate(_TypeForm, node, only, key)
        return None
    checked = reading.validate(form, node, data, key)
    if checked is None:
        return None
    return Parameter(
        name=name,
        type=checked.type,
        span=reading.span(key),
        default=checked.default,
        ge=getattr(checked, "ge", None),
        le=getattr(checked, "le", None),
        max_length=getattr(checked, "max_length", None),
        choices=tuple(choices) if (choices := getattr(checked, "choices", None)) else None,
        description=checked.description,
    )


def fit(declared: dict[str, Parameter | None], uses: Sequence[Use], reading: Reading) -> dict[str, Parameter]:
    """The parameters, limits that they leave out narrowed to what their uses allow. What does not fit is reported."""
    for use in uses:
        assert use.span is not None
        if use.name not in declared:
            offer = f"declared here: {listed(list(declared))}" if declared else "declare it under `parameters:`"
            message = f"the parameter {quoted(use.name)} is not declared"
            reading.report.add("undeclared-parameter", message, use.span, hint=offer)
            continue
        parameter = declared[use.name]
        if parameter is not None:
            declared[use.name] = _fitted(parameter, use, reading)
    return {name: parameter for name, parameter in declared.items() if parameter is not None}


def _fitted(parameter: Parameter, use: Use, reading: Reading) -> Parameter:
    assert use.span is not None
    labels = [Label(parameter.span, "declared here")]
    if parameter.type not in use.accepts:
        message = f"{use.what} takes {_either(use.accepts)}, and {quoted(parameter.name)} is a `{parameter.type}`"
        reading.report.add("parameter-misfit", message, use.span, labels=labels)
        return parameter
    low = use.ge if parameter.ge is None else parameter.ge
    high = use.le if parameter.le is None else parameter.le
    wide = (use.ge is not None and low is not None and low < use.ge) or (
        use.le is not None and high is not None and high > use.le
    )
    default = parameter.default if isinstance(parameter.default, int | float) else None
    outside = default is not None and ((low is not None and default < low) or (high is not None and default > high))
    none_left = low is not None and high is not None and low > high
    if wide or outside or none_left:
        what, go = ("default", "goes") if outside and not wide else ("limits", "go")
        message = f"the {what} of {quoted(parameter.name)} {go} beyond what {use.what} takes: {_range(use)}"
        reading.report.add("parameter-misfit", message, use.span, labels=labels)
        return parameter
    return replace(parameter, ge=low, le=high)


def _either(types: tuple[str, ...]) -> str:
    return " or ".join(f"a `{name}`" if name[0] not in "aeiou" else f"an `{name}`" for name in types)


def _range(use: Use) -> str:
    if use.ge is not None and use.le is not None:
        return f"{use.ge} to {use.le}"
    return f"at least {use.ge}" if use.ge is not None else f"at most {use.le}"
