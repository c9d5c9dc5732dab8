"""A variable of the project file that no policy uses.

It looks as if changing it changed a policy. Use it as `{{ name }}`, or remove it. It is only said where a folder is
checked that holds the project file, since other policies may use it else.

Wrong:

    rules:
      names: {ban: {phrases: [bluebird]}}

Wrong (policyengine.yaml):

    version: 1
    variables: {product: bluebird}

Right:

    rules:
      names: {ban: {phrases: ["{{ product }}"]}}

Right (policyengine.yaml):

    version: 1
    variables: {product: bluebird}
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from policyengine.language import nodes
from policyengine.language.diagnostics import quoted
from policyengine.language.variables import USE
from policyengine.lint.checked import Checked
from policyengine.lint.model import Finding


def findings(checked: Checked) -> Iterator[Finding]:
    """One a variable."""
    project = checked.project_file
    if not checked.policies.project.variables or checked.left_out or not project or not _is_whole(checked):
        return
    tree = checked.tree(project)
    variables = tree.value("variables") if tree else None
    if not isinstance(variables, nodes.Mapping):
        return
    texts = [text for policy in checked.policies.policies if "{{" in (text := checked.sources[policy.file])]
    used = {found[1] for text in texts for found in USE.finditer(text)}
    for name, (key, _) in variables.entries.items():
        if name not in used:
            message = f"no policy uses the variable {quoted(str(name))}"
            yield Finding(message, key.span(checked.source(project)), f"use it as `{{{{ {name} }}}}`, or remove it")


def _is_whole(checked: Checked) -> bool:
    """Whether everything that the project file is for was given."""
    folder = Path(os.path.abspath(checked.project_file)).parent
    given = (Path(os.path.abspath(path)) for path in checked.paths if os.path.isdir(path))
    return any(one == folder or one in folder.parents for one in given)
