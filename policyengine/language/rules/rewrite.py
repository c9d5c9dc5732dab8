"""`rewrite`: what is done to all text that leaves; it acts on the text level only."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from policyengine.language.policyset import Rewrite
from policyengine.language.rules.base import Context, Kind, RuleForm
from policyengine.language.strict import Strict


class RewriteForm(Strict):
    """What becomes of the text."""

    to: Literal["upper", "lower", "nothing"] = Field(
        description="upper: capitals. lower: small letters. nothing: no text leaves."
    )


class RewriteRule(RuleForm):
    """A rule that rewrites."""

    rewrite: RewriteForm = Field(description="What is done to all text before the client sees it.")


def _build(rule: RewriteRule, context: Context) -> Rewrite:
    return Rewrite(rule.rewrite.to)


KIND = Kind("rewrite", RewriteRule, _build)
