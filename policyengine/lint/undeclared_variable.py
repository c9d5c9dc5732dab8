"""A `{{ name }}` that no variable is declared for.

It stays in the text as it is written: a phrase then matches braces that nobody writes. Declare the name under
`variables` in policyengine.yaml, or pass it with `--set`.

Wrong:

    rules:
      names: {ban: {phrases: ["{{ product }}"]}}

Right:

    rules:
      names: {ban: {phrases: ["{{ product }}"]}}

Right (policyengine.yaml):

    version: 1
    variables: {product: bluebird}
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from policyengine.language.diagnostics import quoted
from policyengine.language.variables import USE
from policyengine.lint.checked import Checked
from policyengine.lint.model import Finding


def findings(checked: Checked) -> Iterator[Finding]:
    """One a place where a policy writes such a name."""
    declared = checked.policies.project.variables
    for policy in checked.policies.policies:
        if "{{" not in checked.sources[policy.file]:
            continue
        for scalar, _ in checked.scalars(policy.file):
            for name in dict.fromkeys(found[1] for found in USE.finditer(scalar.text)):
                if name not in declared:
                    near = difflib.get_close_matches(name, declared, n=1)
                    hint = (
                        f"did you mean {quoted(near[0])}?" if near else "declare it in policyengine.yaml: `variables`"
                    )
                    message = f"no variable {quoted(name)} is declared: the text stays as it is written"
                    yield Finding(message, scalar.span(checked.source(policy.file)), hint)
