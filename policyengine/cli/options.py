"""What several commands read from the command line in the same way."""

from __future__ import annotations

import difflib
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
    from policyengine.language import codes

    found = codes.find(text)
    if found is None:
        known = {name.lower(): name for one in codes.ALL for name in (one.name, one.code)}
        near = difflib.get_close_matches(text.lower(), known, n=1)
        hint = f"did you mean `{known[near[0]]}`?" if near else "`policyengine code` lists all of them"
        fail(f"there is no diagnostic `{text}`: {hint}")
    return found
