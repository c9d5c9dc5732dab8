"""`force`: the text or token that stands at a position, whatever the model would write."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from policyengine.language import limits
from policyengine.language.diagnostics import listed
from policyengine.language.nodes import Scalar
from policyengine.language.parameters import Use
from policyengine.language.phrases import PHRASE, accept, from_node
from policyengine.language.policyset import Force, Phrase, PhraseOptions
from policyengine.language.rules.base import Context, Kind, ParamForm, RuleForm, TokenId, is_param
from policyengine.language.strict import Strict, exactly_one, one_of, problem

_TOKEN_ID = Use("`force.token_id`", ("token_id",))


_TEXT = Use("`force.text`", ("string",))


def _text(value: Any) -> Any:
    if value == "":
        raise problem("invalid-value", "`text` is empty: there is nothing to force")
    return value


def _at(value: Any) -> Any:
    """`start`, `end`, `every` or a position in tokens, from 0."""
    if isinstance(value, dict) and "after" in value:
        raise problem(
            "invalid-value", "`after` stands beside `text`, not inside `at`", hint="write `after: …` in place of `at`"
        )
    if value in ("start", "end", "every") or (type(value) is int and 0 <= value <= limits.TOKEN_ID.default):
        return value
    expected = f"{listed(['start', 'end', 'every'])} or a position in tokens, from 0"
    raise problem("invalid-value", "`at` must be " + expected + ", not {got}")


class ForceForm(Strict):
    """A text or a token id, and where it stands."""

    model_config = ConfigDict(
        json_schema_extra={
            "allOf": [exactly_one("text", "token_id"), exactly_one("at", "after")],
            "if": {"required": ["text"]},
            "then": {"properties": {"at": {"not": {"const": "every"}}}},
        }
    )

    text: (
        Annotated[
            Annotated[str, BeforeValidator(_text), Field(json_schema_extra={"minLength": 1}), Tag("tag:value")]
            | Annotated[ParamForm, Tag("tag:param")],
            Discriminator(is_param),
        ]
        | None
    ) = Field(
        None,
        description="The text that is written, in the tokenizer's own encoding; or {param: name}, a parameter of type "
        "string, and without a value the rule is inactive.",
    )
    token_id: (
        Annotated[
            Annotated[TokenId, Tag("tag:value")] | Annotated[ParamForm, Tag("tag:param")],
            Discriminator(is_param),
        ]
        | None
    ) = Field(
        None,
        description="The id of the token that is chosen; or {param: name}, a parameter of type token_id, and without a "
        "value the rule is inactive.",
    )
    at: Annotated[Any, BeforeValidator(_at)] = Field(
        None,
        description="start: first in the answer. end: last, whenever the model would end it. every: at each position. "
        "A number: a position, in tokens from 0.",
        json_schema_extra={
            "anyOf": [
                {"type": "string", "enum": ["start", "end", "every"]},
                {"type": "integer", "minimum": 0, "maximum": limits.TOKEN_ID.default},
            ]
        },
    )

    after: Annotated[str, Field(json_schema_extra=PHRASE)] | None = Field(
        None, description="A phrase; what is forced follows it, the first time that it has been written."
    )

    @model_validator(mode="after")
    def _one(self) -> ForceForm:
        one_of(self, "text", "token_id", what="a force")
        one_of(self, "at", "after", what="a force", hint="add `at: start`, or another place")
        if self.text is not None and self.at == "every":
            hint = "a text stands at one place: `at: start` or a position; `every` takes a `token_id`"
            raise problem("invalid-value", "`text` cannot be forced at `every` position", hint=hint)
        return self


class ForceRule(RuleForm):
    """A rule that forces."""

    force: ForceForm = Field(description="What stands at a position, whatever the model would write.")


def _build(rule: ForceRule, context: Context) -> Force:
    form = rule.force
    text, token_id = form.text, form.token_id
    node = context.child("force", "text" if text is not None else "token_id")
    return Force(
        text=context.param(text, node, _TEXT) if isinstance(text, ParamForm) else text,
        token_id=context.param(token_id, node, _TOKEN_ID) if isinstance(token_id, ParamForm) else token_id,
        at=form.at,
        span=context.reading.span(node),
        after=_after(form, context),
    )


def _after(form: ForceForm, context: Context) -> Phrase | None:
    if form.after is None:
        return None
    node = context.child("force", "after")
    assert isinstance(node, Scalar)
    phrase = from_node(node, form.after, context.reading)
    return phrase if accept(PhraseOptions(), context.reading.report)(phrase) else None


KIND = Kind("force", ForceRule, _build)
