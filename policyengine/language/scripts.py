"""Names of scripts, as `ban` and `allow` share them: Unicode's long names."""

from __future__ import annotations

import difflib
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from policyengine.automata.unicode_properties import script_name, script_names
from policyengine.language.diagnostics import quoted
from policyengine.language.strict import distinct, problem

# Punctuation, digits, spaces and marks belong to no single script, and characters that are not assigned to none.
_NO_SCRIPT = ("Common", "Inherited", "Unknown")


def names() -> list[str]:
    """Every script that a policy may name, in the order of the alphabet."""
    return sorted(set(script_names()) - set(_NO_SCRIPT))


def _script(name: str) -> str:
    if name in script_names() and name not in _NO_SCRIPT:
        return name
    meant = script_name(name)
    if meant in _NO_SCRIPT:
        hint = "punctuation, digits, spaces and marks go with every script"
        raise problem("invalid-value", f"{quoted(name)} is no script of its own", hint=hint)
    near = difflib.get_close_matches(name[:100], names(), n=1) if meant is None else [meant]
    hint = f"did you mean `{near[0]}`?" if near else "Unicode's long names are meant: `Han`, `Latin`, `Cyrillic`"
    raise problem("invalid-value", f"{quoted(name)} is no script", hint=hint)


def _enumerated(schema: dict[str, Any]) -> None:
    schema["enum"] = names()


ScriptNames = Annotated[
    list[Annotated[str, AfterValidator(_script), Field(json_schema_extra=_enumerated)]],
    Field(min_length=1, json_schema_extra={"uniqueItems": True}),
    AfterValidator(distinct),
]
