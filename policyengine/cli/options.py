"""What several commands read from the command line in the same way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from policyengine.cli.exits import fail

if TYPE_CHECKING:
    from policyengine.language.codes import Code


def refuse_empty(**values: object) -> None:
    """Refuse options that were given nothing: an unset variable of a shell must not mean the working directory."""
    for option, value in values.items():
        if value == "":
            fail(f"--{option} is empty")


def pairs(settings: Iterable[str]) -> dict[str, str]:
    """The values of `--set NAME=VALUE`."""
    found = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            fail(f"--set takes NAME=VALUE, not `{setting}`")
        found[name] = value

    from policyengine.language.variables import checked

    try:
        return checked(found)
    except ValueError as error:
        fail(str(error))


def code(text: str) -> Code:
    """A diagnostic by its code or name."""
    from policyengine.lint import registry, selection

    found = registry.find(text)
    if found is None:
        fail(f"there is no diagnostic `{text}`: {selection.near(text)}")
    return found


def names(given: Iterable[str]) -> frozenset[str]:
    """The names of the diagnostics of an option that takes codes, names and families, with commas."""
    from policyengine.lint import registry, selection

    found: set[str] = set()
    for text in (one for part in given for one in part.split(",")):
        matching = registry.matching(text)
        if not matching:
            fail(f"there is no diagnostic `{text}`: {selection.near(text)}")
        found |= matching
    return frozenset(found)
