"""What every pydantic model of the language shares: strict types, known keys only, and errors that say what to do.

A model's before-validator reports unknown keys, keys of a later version and keys without a value straight to the
`Reading` that is passed as validation context (it knows where each mapping stands), and goes on without them, so that
one mistake does not hide the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from policyengine.language.diagnostics import quoted
from policyengine.language.instead import instead_of


@dataclass(frozen=True, slots=True)
class Refusal:
    """A key that is known and not taken here."""

    code: str
    message: str
    hint: str | None = None


class Reader(Protocol):
    """What is told about the keys of each mapping that is validated."""

    def keys(self, model: type[Strict], data: dict[Any, Any]) -> None:
        """Report the keys that the model does not have, those it refuses, and those without a value."""


def not_yet(key: str) -> Refusal:
    """The refusal of a key that a later version enforces."""
    return Refusal("not-yet-supported", f"`{key}` is not supported yet", instead_of(key))


def without(*keys: str) -> dict[str, Any]:
    """JSON Schema of a mapping without these keys."""
    return {"properties": dict.fromkeys(keys, False)}


def some_of(*keys: str) -> dict[str, Any]:
    """JSON Schema of a mapping with at least one of these keys."""
    return {"required": [keys[0]]} if len(keys) == 1 else {"anyOf": [{"required": [key]} for key in keys]}


def exactly_one(*keys: str) -> dict[str, Any]:
    """JSON Schema of a mapping with exactly one of these keys. An editor then names the one too many, as no `oneOf`."""
    others = {key: [other for other in keys if other != key] for key in keys}
    return {**some_of(*keys), "dependentSchemas": {key: without(*rest) for key, rest in others.items()}}


class Strict(BaseModel):
    """The base of all models. `refused` lists keys that are not fields and deserve their own words.

    `later_keys` lists fields that are only there to be refused.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    refused: ClassVar[Mapping[str, Refusal]] = {}
    later_keys: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def known(cls) -> list[str]:
        """The keys that a mapping of this model may have."""
        return [field.alias or name for name, field in cls.model_fields.items()]

    @classmethod
    def offered(cls) -> list[str]:
        """The keys that help may name."""
        return [key for key in cls.known() if key not in cls.later_keys]

    @model_validator(mode="before")
    @classmethod
    def _keys(cls, data: Any, info: ValidationInfo) -> Any:
        if not isinstance(data, dict) or info.context is None:
            return data
        reader: Reader = info.context
        reader.keys(cls, data)
        known = cls.known()
        return {key: value for key, value in data.items() if key in known}


def problem(
    code: str, message: str, *, hint: str | None = None, at_key: bool = False, keys: Sequence[str] = ()
) -> PydanticCustomError:
    """An error for a validator to raise. `code` is a registered name.

    `at_key`: points at the key of the value instead of the value. `keys`: keys of the value, a mapping, that the error
    is about: the first is pointed at, the others are shown with it.
    """
    context = {"text": message, "hint": hint, "at_key": at_key, "keys": tuple(keys)}
    # The type of a custom error must be a literal for type checkers; here it is one of the registered names.
    return PydanticCustomError(code, "{text}", context)  # type: ignore[arg-type,unused-ignore]


def later(*values: str) -> Callable[[Any], Any]:
    """A before-validator for a choice: these values come with a later version."""

    def check(value: Any) -> Any:
        if isinstance(value, str) and value in values:
            raise problem("not-yet-supported", f"`{value}` is not supported yet", hint=instead_of(value))
        return value

    return check


def distinct(texts: list[str]) -> list[str]:
    """An after-validator: no text is written twice."""
    seen: set[str] = set()
    for text in texts:
        if text in seen:
            raise problem("invalid-value", f"{quoted(text)} is written twice")
        seen.add(text)
    return texts


def one_of(data: BaseModel, *keys: str, what: str, hint: str | None = None) -> None:
    """Raise unless exactly one of these keys was given. hint: for where none was."""
    given = [key for key in keys if key in data.model_fields_set]
    names = ", ".join(f"`{key}`" for key in keys[:-1]) + f" or `{keys[-1]}`"
    if not given:
        raise problem("missing-key", f"{what} needs {names}", hint=hint)
    if len(given) > 1:
        given_names = " and ".join(f"`{key}`" for key in given)
        raise problem("conflicting-keys", f"{given_names} exclude each other", hint=f"{what} has {names}", keys=given)
