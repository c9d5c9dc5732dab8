"""The registry of diagnostic codes: one entry a code, in the file of its family.

A code is stable and never reused. To add one, append it to its family; numbers left out are kept for lints of the same
family. `policyengine code CODE|name` prints `Code.page`.
"""

from __future__ import annotations

from policyengine.language.codes import engine, file, governance, logic, target
from policyengine.language.codes.model import Code

ALL: tuple[Code, ...] = (*file.CODES, *logic.CODES, *target.CODES, *engine.CODES, *governance.CODES)

_BY_NAME = {code.name: code for code in ALL}
_BY_CODE = {code.code: code for code in ALL}


def by_name(name: str) -> Code:
    """The code of this name; KeyError lists what there is."""
    if name not in _BY_NAME:
        raise KeyError(f"no diagnostic is named {name!r}; there are {', '.join(sorted(_BY_NAME))}")
    return _BY_NAME[name]


def find(code_or_name: str) -> Code | None:
    """A code by its number or name, in any case; None if there is none."""
    return _BY_CODE.get(code_or_name.upper()) or _BY_NAME.get(code_or_name.lower())


__all__ = ["ALL", "Code", "by_name", "find"]
