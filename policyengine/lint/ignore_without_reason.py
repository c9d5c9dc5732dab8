"""A comment that ignores a finding and does not say why.

Such a comment does not hold. Whoever reads the policy next must know whether the reason still stands: write it behind
the brackets.

Wrong:

    rules:
      names: {ban: {phrases: [" Sure"]}}  # policyengine: ignore[edge-whitespace]

Right:

    rules:
      names: {ban: {phrases: [" Sure"]}}  # policyengine: ignore[edge-whitespace] only behind a space
"""

from __future__ import annotations

from collections.abc import Iterator

from policyengine.lint.checked import Checked
from policyengine.lint.model import Finding


def findings(checked: Checked) -> Iterator[Finding]:
    """One a comment."""
    for ignore in checked.ignores:
        if ignore.names and not ignore.reason:
            hint = "write it behind the brackets: `# policyengine: ignore[name] reason`"
            yield Finding("without a reason this comment does not hold", ignore.span, hint)
