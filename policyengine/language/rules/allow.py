"""`allow`: what the output may consist of; everything else is masked."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from policyengine.language import limits
from policyengine.language.policyset import Allow, Phrase
from policyengine.language.rules.base import Context, Kind, RuleForm, TokenId
from policyengine.language.scripts import ScriptNames
from policyengine.language.strict import Strict, distinct, exactly_one, one_of, problem


def _choice(text: str) -> str:
    if not text:
        raise problem("invalid-value", "a choice is empty", hint="remove it: an output holds at least one token")
    return text


Choice = Annotated[str, AfterValidator(_choice), Field(json_schema_extra={"minLength": 1})]


class AllowForm(Strict):
    """Whole outputs, scripts, or token ids."""

    model_config = ConfigDict(json_schema_extra=exactly_one("choices", "scripts", "token_ids"))

    choices: (
        Annotated[
            list[Choice],
            Field(min_length=1, max_length=limits.CHOICES.default, json_schema_extra={"uniqueItems": True}),
            AfterValidator(distinct),
        ]
        | None
    ) = Field(
        None,
        description="The texts that the output may be: the whole of it is one of these, to the character. Those that "
        "hold what a ban forbids are left out.",
    )
    scripts: ScriptNames | None = Field(
        None,
        description="The scripts, by Unicode's long names, that the output may be written in. Punctuation, digits, "
        "spaces and marks go with every script.",
    )
    token_ids: Annotated[list[TokenId], Field(min_length=1)] | None = Field(
        None,
        description="Ids of the only tokens that may be chosen, beside those that end the output, in the vocabulary of "
        "the model that is served.",
    )

    @model_validator(mode="after")
    def _one(self) -> AllowForm:
        one_of(self, "choices", "scripts", "token_ids", what="an allow")
        return self


class AllowRule(RuleForm):
    """A rule that allows this and nothing else."""

    allow: AllowForm = Field(
        description="What the output may consist of: choices, scripts or token ids; all else is masked."
    )


def _build(rule: AllowRule, context: Context) -> Allow:
    form = rule.allow
    return Allow(
        choices=_listed(form.choices, "choices", context),
        scripts=_listed(form.scripts, "scripts", context),
        token_ids=tuple(dict.fromkeys(form.token_ids or ())),
    )


def _listed(texts: list[str] | None, key: str, context: Context) -> tuple[Phrase, ...]:
    if texts is None:
        return ()
    pairs = zip(context.scalars("allow", key), texts, strict=True)
    return tuple(Phrase(text, context.reading.span(node)) for node, text in pairs)


KIND = Kind("allow", AllowRule, _build)
