"""`min_tokens`: no output ends before it has this many tokens."""

from __future__ import annotations

from typing import Annotated

from pydantic import Discriminator, Field, Tag

from policyengine.language import limits
from policyengine.language.parameters import Use
from policyengine.language.policyset import MinTokens
from policyengine.language.rules.base import Context, Kind, ParamForm, RuleForm, is_param

Count = Annotated[int, Field(ge=0, le=limits.TOKEN_ID.default)]

_N = Use("`min_tokens`", ("integer",), ge=0, le=limits.TOKEN_ID.default)


class MinTokensRule(RuleForm):
    """A rule that sets a least length."""

    min_tokens: Annotated[
        Annotated[Count, Tag("tag:value")] | Annotated[ParamForm, Tag("tag:param")], Discriminator(is_param)
    ] = Field(
        description="The least number of tokens of an answer; or {param: name}, a parameter of type integer. Until "
        "then nothing ends it, stop strings included."
    )


def _build(rule: MinTokensRule, context: Context) -> MinTokens:
    n = rule.min_tokens
    return MinTokens(context.param(n, context.child("min_tokens"), _N) if isinstance(n, ParamForm) else n)


KIND = Kind("min_tokens", MinTokensRule, _build)
