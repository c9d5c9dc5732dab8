"""`force`: the text or token that stands at a position, whatever the model would write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from policyengine.language import limits
from policyengine.language.diagnostics import listed
from policyengine.language.instead import instead_of
from policyengine.language.parameters import Use
from policyengine.language.policyset import Force
from policyengine.language.rules.base import Context, Kind, ParamForm, RuleForm, TokenId, is_param
from policyengine.language.strict import Refusal, Strict, exactly_one, not_yet, one_of, problem

_TOKEN_ID = Use("`force.token_id`", ("token_id",))


def _text(value: Any) -> Any:
    if isinstance(value, dict) and "param" in value:
        what = "{param: name}` for `text"
        raise problem("not-yet-supported", f"`{what}` is not supported yet", hint=instead_of(what))
    if value == "":
        raise problem("invalid-value", "`text` is empty: there is nothing to force")
    return value


def _at(value: Any) -> Any:
    """`start`, `every` or a position in tokens, from 0."""
    if value == "end" or (isinstance(value, dict) and "after" in value):
        what = "at: end" if value == "end" else "after"
        raise problem("not-yet-supported", f"`{what}` is not supported yet", hint=instead_of(what))
    if value in ("start", "every") or (type(value) is int and 0 <= value <= limits.TOKEN_ID.default):
        return value
    expected = f"{listed(['start', 'every'])} or a position in tokens, from 0"
    raise problem("invalid-value", "`at` must be " + expected + ", not {got}")


class ForceForm(Strict):
    """A text or a token id, and where it stands."""

    model_config = ConfigDict(
        json_schema_extra={
            **exactly_one("text", "token_id"),
            "if": {"required": ["text"]},
            "then": {"properties": {"at": {"not": {"const": "every"}}}},
        }
    )

    text: Annotated[str, BeforeValidator(_text)] | None = Field(
        None,
        description="The text that is written, in the tokenizer's own encoding.",
        json_schema_extra={"minLength": 1},
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
        description="start: first in the answer. every: at each position. A number: a position, in tokens from 0.",
        json_schema_extra={
            "anyOf": [
                {"type": "string", "enum": ["start", "every"]},
                {"type": "integer", "minimum": 0, "maximum": limits.TOKEN_ID.default},
            ]
        },
    )

    refused: ClassVar[Mapping[str, Refusal]] = {"after": not_yet("after")}

    @model_validator(mode="after")
    def _one(self) -> ForceForm:
        one_of(self, "text", "token_id", what="a force")
        if self.text is not None and self.at == "every":
            hint = "a text stands at one place: `at: start` or a position; `every` takes a `token_id`"
            raise problem("invalid-value", "`text` cannot be forced at `every` position", hint=hint)
        return self


class ForceRule(RuleForm):
    """A rule that forces."""

    force: ForceForm = Field(description="What stands at a position, whatever the model would write.")


def _build(rule: ForceRule, context: Context) -> Force:
    form = rule.force
    node = context.child("force", "text" if form.text is not None else "token_id")
    token_id = form.token_id
    return Force(
        text=form.text,
        token_id=context.param(token_id, node, _TOKEN_ID) if isinstance(token_id, ParamForm) else token_id,
        at=form.at,
        span=context.reading.span(node),
    )


KIND = Kind("force", ForceRule, _build)
