"""Names that a compiled package may have: one check for the project file, the command line and the compiler."""

from __future__ import annotations

import keyword
import re
import sys

from policyengine.language import limits
from policyengine.language.diagnostics import quoted

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# The build folder goes on PYTHONPATH: a package of one of these names would hide the real one.
_TAKEN = frozenset({"policyengine", "vllm", "tensorrt_llm", "torch", "numpy", "pydantic", "transformers"})
_FOLDERS = ("dist", "trtllm")


def package_problem(name: str) -> str | None:
    """Why a name is no good for the package; None if it is."""
    if not NAME.fullmatch(name) or keyword.iskeyword(name) or len(name) > limits.NAME_LENGTH.default:
        return f"{quoted(name)} is no name for a Python package"
    if name in _TAKEN or name in sys.stdlib_module_names:
        return f"a package {quoted(name)} would hide the one that Python has"
    if name in _FOLDERS:
        return f"a package {quoted(name)} would lie where a build has its folder of that name"
    return None
