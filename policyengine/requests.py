"""What a request may ask of the compiled policies (design 2.5): `extra_args` in, a checked `Request` out.

One pydantic model a policy checks that policy's parameters. Values are never coerced: a client that sends `"128"` for a
token id is told so. JSON has one number type, so an integral float (`128.0`) is taken as an integer; nothing else is.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, StrictFloat, StrictInt, StrictStr, ValidationError, create_model

from policyengine.runtime.errors import RequestError
from policyengine.runtime.program import ParameterPlan, PolicyPlan, Request, RequestParser, Value

POLICIES_KEY = "policies"
ASSIGNED_KEY = "policyengine_assigned"  # set by the server; what a client writes there counts for nothing
RESERVED_KEYS = frozenset({POLICIES_KEY, ASSIGNED_KEY})
MAX_TOKEN_ID = 2**31 - 1  # ids travel as int32
_INT64 = 2**63
_NEAR = 0.8  # difflib ratio from which an unknown key is taken for a misspelt one of ours
_SHOWN = 40  # characters of a client's value that a message repeats
_LISTED = 20  # names that a message lists

# pydantic's error types in our words.
_SAID = {
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "string_type": "must be a string",
    "string_unicode": "must be valid Unicode text",
    "string_too_long": "must have at most {max_length} characters",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be {expected}",
}


def build_parser(policies: tuple[PolicyPlan, ...]) -> RequestParser:
    """The parser for these policies. Without `extra_args` it gives the `always` policies with their defaults."""
    return _Parser(policies)


def request_schema(policies: tuple[PolicyPlan, ...]) -> dict[str, Any]:
    """JSON Schema (2020-12) of the keys of `extra_args` that belong to these policies; other keys are left alone."""
    properties: dict[str, Any] = {}
    selectable = sorted(p.name for p in policies if p.activation == "on_request")
    if selectable:
        properties[POLICIES_KEY] = {
            "description": "The on_request policies that this request runs under.",
            "type": "array",
            "items": {"type": "string", "enum": selectable},
        }
    variants: dict[str, list[dict[str, Any]]] = {}
    for policy in policies:
        model = _model(policy)
        schema = model.model_json_schema(by_alias=True).get("properties", {}) if model else {}
        for parameter in policy.parameters:
            entry = {key: value for key, value in schema[parameter.name].items() if key != "title"}
            if parameter.default is None:
                del entry["default"]
            if entry not in variants.setdefault(parameter.name, []):
                variants[parameter.name].append(entry)
    for name in sorted(variants):
        found = variants[name]
        properties[name] = found[0] if len(found) == 1 else {"anyOf": found}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": properties,
        "additionalProperties": True,
    }


class _Parser:
    """See `build_parser`. Immutable; safe to share between threads."""

    def __init__(self, policies: tuple[PolicyPlan, ...]) -> None:
        self._policies = policies
        self._models = [_model(policy) for policy in policies]
        self._index = {policy.name: i for i, policy in enumerate(policies)}
        self._always = frozenset(i for i, policy in enumerate(policies) if policy.activation == "always")
        self._selectable = sorted(p.name for p in policies if p.activation == "on_request")
        self._owners: dict[str, list[int]] = {}
        for i, policy in enumerate(policies):
            for parameter in policy.parameters:
                self._owners.setdefault(parameter.name, []).append(i)
        self._keys = {_plain(key): key for key in sorted({*RESERVED_KEYS, *self._owners})}

    def __call__(self, extra_args: Mapping[str, Any] | None) -> Request:
        """Check a request's `extra_args`; raises `RequestError` with one line fit for an API error."""
        given = {} if extra_args is None else extra_args
        if not isinstance(given, Mapping):
            raise RequestError(f"extra_args must be a mapping, not {_shown(given)}")
        self._refuse_near_misses(given)
        active = self._always | self._selected(given.get(POLICIES_KEY))
        for name, owners in self._owners.items():
            if name in given and not active.intersection(owners):
                raise RequestError(self._not_selected(name, owners))
        values: dict[str, Value] = {}
        for i in sorted(active):
            self._read(i, given, values)
        return Request(policies=active, values=values)

    def _refuse_near_misses(self, given: Mapping[Any, Any]) -> None:
        for key in given:
            if not isinstance(key, str) or key in self._owners or key in RESERVED_KEYS:
                continue
            meant = _near(key, self._keys)
            if meant == ASSIGNED_KEY:
                raise RequestError(f"unknown key {_shown(key)}: {meant!r} is the server's, remove it")
            if meant is not None:
                raise RequestError(f"unknown key {_shown(key)}: did you mean {meant!r}?")

    def _selected(self, names: Any) -> frozenset[int]:
        if names is None:
            return frozenset()
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise RequestError(f"{POLICIES_KEY!r} must be a list of policy names, not {_shown(names)}")
        chosen = set()
        for name in names:
            index = self._index.get(name)
            if index is None:
                raise RequestError(f"unknown policy {_shown(name)}: {self._offer()}")
            if self._policies[index].activation == "assigned":
                raise RequestError(f"policy {name!r} is assigned by the server, not by a request: {self._offer()}")
            chosen.add(index)
        return frozenset(chosen)

    def _offer(self) -> str:
        if not self._selectable:
            return "this server offers no policy to select"
        return f"a request may select {_listed(self._selectable)}"

    def _not_selected(self, name: str, owners: Sequence[int]) -> str:
        selectable = [self._policies[i].name for i in owners if self._policies[i].activation == "on_request"]
        if selectable:
            return (
                f"parameter {name!r} belongs to {_listed(selectable)}, which this request does not select: "
                f"name it in {POLICIES_KEY!r}"
            )
        return f"parameter {name!r} belongs to {_listed([self._policies[i].name for i in owners])}, which is not active"

    def _read(self, index: int, given: Mapping[str, Any], values: dict[str, Value]) -> None:
        """Check one active policy's parameters and add their values. A value serves every policy that declares it."""
        model = self._models[index]
        if model is None:
            return
        policy = self._policies[index]
        try:
            checked = model.model_validate({p.name: given[p.name] for p in policy.parameters if p.name in given})
        except ValidationError as error:
            raise RequestError(_message(error)) from None
        for i, parameter in enumerate(policy.parameters):
            value = getattr(checked, f"p{i}")
            if parameter.name not in given:
                self._refuse_two_defaults(parameter, values)
            if value is not None:
                values[parameter.name] = value

    def _refuse_two_defaults(self, parameter: ParameterPlan, values: Mapping[str, Value]) -> None:
        if parameter.default is not None and values.get(parameter.name, parameter.default) != parameter.default:
            raise RequestError(
                f"parameter {parameter.name!r} has different defaults in the policies that this request runs under: "
                "give it a value"
            )


def _model(policy: PolicyPlan) -> type[BaseModel] | None:
    """The model of a policy's parameters; None if it has none. Fields are `p0`, `p1`, ... so that no name can clash."""
    if not policy.parameters:
        return None
    fields: dict[str, Any] = {}
    for i, parameter in enumerate(policy.parameters):
        about: dict[str, Any] = {"description": parameter.description} if parameter.description else {}
        fields[f"p{i}"] = (_type(parameter), Field(default=parameter.default, alias=parameter.name, **about))
    model: type[BaseModel] = create_model(policy.name, **fields)
    return model


def _type(parameter: ParameterPlan) -> Any:
    ge, le = _limit(parameter.ge), _limit(parameter.le)
    if parameter.type == "token_id":
        return Annotated[StrictInt, Field(ge=0, le=MAX_TOKEN_ID), BeforeValidator(_integral)]
    if parameter.type == "integer":
        low, high = -_INT64 if ge is None else ge, _INT64 - 1 if le is None else le
        return Annotated[StrictInt, Field(ge=low, le=high), BeforeValidator(_integral)]
    if parameter.type == "number":
        return Annotated[StrictFloat, Field(ge=ge, le=le, allow_inf_nan=False)]
    if parameter.choices is not None:
        return Literal[parameter.choices]
    return Annotated[StrictStr, Field(max_length=parameter.max_length)]


def _limit(limit: float | None) -> float | int | None:
    """Whole limits as ints, so that messages say 0 and not 0.0."""
    return int(limit) if limit is not None and limit == int(limit) else limit


def _integral(value: Any) -> Any:
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return int(value)
    return value


def _message(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    said = _SAID.get(first["type"])
    must = said.format_map(first.get("ctx", {})) if said else first["msg"]
    return f"parameter {str(first['loc'][0])!r}: {must}, got {_shown(first['input'])}"


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # an int of more digits than Python prints
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(repr(name) for name in names[:_LISTED]) + more


def _plain(key: str) -> str:
    """A key as near misses are compared: capitals and hyphens make no difference."""
    return key.lower().replace("-", "_")


def _near(key: str, ours: Mapping[str, str]) -> str | None:
    """The key of ours (by their plain forms) that this one is a misspelling of, if any."""
    plain = _plain(key)
    if plain == "policy":
        return POLICIES_KEY
    found = [plain] if plain in ours else difflib.get_close_matches(plain, ours, n=1, cutoff=_NEAR)
    return ours[found[0]] if found else None
