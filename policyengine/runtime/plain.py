"""Data classes to JSON values and back, strictly: unknown keys, missing keys and other types are errors.

The classes of `program` are written as they are, one key a field; where a field may be one of several classes the value
is wrapped in a single key that names the class: `{"ban": {...}}`, `{"param": {...}}`.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from policyengine.runtime.program import AllowPlan, BanPlan, BiasPlan, ForcePlan, MinTokensPlan, Param, RewritePlan

T = TypeVar("T")

# Classes that stand beside others in one field.
_TAGS: Mapping[type, str] = {
    AllowPlan: "allow",
    BanPlan: "ban",
    BiasPlan: "bias",
    ForcePlan: "force",
    MinTokensPlan: "min_tokens",
    Param: "param",
    RewritePlan: "rewrite",
}


class PlainError(ValueError):
    """A JSON value does not fit the class it should become; the text says where."""


def encode(value: Any) -> Any:
    """A data class, or a tuple, dict or scalar of such, as JSON values."""
    if is_dataclass(value) and not isinstance(value, type):
        body = {field.name: encode(getattr(value, field.name)) for field in fields(value)}
        tag = _TAGS.get(type(value))
        return body if tag is None else {tag: body}
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a {type(value).__name__} is no plain value")


def decode(kind: type[T], value: Any, where: str) -> T:
    """The inverse of `encode` for a value of class `kind`. `where` names the value in errors; raises `PlainError`."""
    result: T = _decode(kind, value, where)
    return result


def _decode(kind: Any, value: Any, where: str) -> Any:
    if kind is Any:
        return value
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _decode_union(get_args(kind), value, where)
    if origin is Literal:
        if not any(value == choice and type(value) is type(choice) for choice in get_args(kind)):
            raise PlainError(f"{where}: {value!r} is not one of {', '.join(map(repr, get_args(kind)))}")
        return value
    if origin is tuple:
        return _decode_tuple(get_args(kind), value, where)
    if origin is dict:
        if not isinstance(value, dict):
            raise PlainError(f"{where}: not an object")
        return {key: _decode(get_args(kind)[1], item, f"{where}.{key}") for key, item in value.items()}
    if is_dataclass(kind):
        tag = _TAGS.get(kind)  # type: ignore[arg-type]
        return _decode_fields(kind, value if tag is None else _untag(tag, value, where), where)
    if not _is_scalar(kind, value):
        raise PlainError(f"{where}: not of type {getattr(kind, '__name__', kind)}")
    return float(value) if kind is float else value


def _is_scalar(kind: Any, value: Any) -> bool:
    if kind is type(None):
        return value is None
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return type(value) is kind


def _decode_union(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    if isinstance(value, dict):
        for kind in kinds:
            # A class without a tag stands in a union with scalars only.
            if is_dataclass(kind) and (kind not in _TAGS or list(value) == [_TAGS[kind]]):  # type: ignore[index]
                return _decode(kind, value, where)
    for kind in kinds:
        # int before float, so that a union of both keeps what was written
        if not is_dataclass(kind) and get_origin(kind) is None and type(value) is kind and _is_scalar(kind, value):
            return value
    for kind in kinds:
        if get_origin(kind) is not None or (kind is float and _is_scalar(float, value)):
            return _decode(kind, value, where)
    raise PlainError(f"{where}: fits none of its types")


def _decode_tuple(kinds: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise PlainError(f"{where}: not a list")
    if len(kinds) == 2 and kinds[1] is ...:
        kinds = (kinds[0],) * len(value)
    if len(kinds) != len(value):
        raise PlainError(f"{where}: {len(value)} items in place of {len(kinds)}")
    return tuple(_decode(kind, item, f"{where}[{i}]") for i, (kind, item) in enumerate(zip(kinds, value, strict=True)))


def _untag(tag: str, value: Any, where: str) -> Any:
    if not isinstance(value, dict) or list(value) != [tag]:
        raise PlainError(f"{where}: not an object with the one key {tag!r}")
    return value[tag]


def _decode_fields(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise PlainError(f"{where}: not an object")
    names = [field.name for field in fields(kind)]
    for key in value:
        if key not in names:
            raise PlainError(f"{where}: unknown key {key!r}")
    for name in names:
        if name not in value:
            raise PlainError(f"{where}: key {name!r} is missing")
    hints = _hints(kind)
    return kind(**{name: _decode(hints[name], value[name], f"{where}.{name}") for name in names})


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
