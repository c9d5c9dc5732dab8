"""The policy language: YAML files to a `PolicySet`, and everything that is wrong with them as diagnostics.

What reading needs (YAML, pydantic) is imported when something is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from policyengine.language.diagnostics import Diagnostic, Label, NoPoliciesFound, PolicyError
from policyengine.language.policyset import PolicySet

if TYPE_CHECKING:
    import os


def load(
    path_or_paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    variables: Mapping[str, str] | None = None,
) -> PolicySet:
    """Read policies.

    Args:
        path_or_paths: files and directories; a directory means every `*.yaml` and `*.yml` below it except
            `*.test.yaml`, `policyengine.yaml` and hidden ones.
        variables: values for `{{ name }}` in text, over those of the project file.

    Raises:
        NoPoliciesFound: the paths are readable and hold no policy.
        PolicyError: something is wrong; `.diagnostics` holds all of it, `str()` shows it.
        ValueError: a variable whose name no text can use, or whose value is not text.
    """
    from policyengine.language.loader import load as read

    return read(path_or_paths, variables)


__all__ = ["Diagnostic", "Label", "NoPoliciesFound", "PolicyError", "PolicySet", "load"]
