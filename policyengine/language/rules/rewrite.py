"""`rewrite`: what is done to all text that leaves; it acts on the text level only."""

from __future__ import annotations

from typing import Literal

from policyengine.language.policyset import Rewrite
from policyengine.language.rules.base import Context, Kind, RuleForm
from policyengine.language.strict import Strict


class RewriteForm(Strict):
    """The body of a rewrite."""

    to: Literal["upper", "lower", "nothing"]


class RewriteRule(RuleForm):
    """A rule that rewrites."""

    rewrite: RewriteForm


def _build(rule: RewriteRule, context: Context) -> Rewrite:
    return Rewrite(rule.rewrite.to)


KIND = Kind("rewrite", RewriteRule, _build)
