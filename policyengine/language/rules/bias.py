"""`bias`: what is added to the logits of the tokens that complete a phrase, or of token ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from policyengine.language import limits
from policyengine.language.diagnostics import Label, quoted
from policyengine.language.nodes import Node
from policyengine.language.parameters import Use
from policyengine.language.phrases import PHRASE, OptionKeys, accept, from_node
from policyengine.language.policyset import Bias, ParamRef, Phrase
from policyengine.language.rules.base import Context, Kind, ParamForm, RuleForm, TokenId, is_param
from policyengine.language.strict import Refusal, problem, some_of

_LIMIT = limits.BIAS.default
_VALUE = Use("a bias", ("number", "integer"), ge=-_LIMIT, le=_LIMIT)

BiasValue = Annotated[
    Annotated[float, Field(ge=-_LIMIT, le=_LIMIT), Tag("tag:value")] | Annotated[ParamForm, Tag("tag:param")],
    Discriminator(is_param),
]


class BiasForm(OptionKeys):
    """What is added to logits, by phrase and by token id; and how phrases are compared with text."""

    model_config = ConfigDict(
        json_schema_extra={
            **some_of("phrases", "token_ids"),
            "dependentRequired": {name: ["phrases"] for name in OptionKeys.option_names},
        }
    )

    phrases: Annotated[dict[str, BiasValue], Field(min_length=1)] | None = Field(
        None,
        description=f"Phrases, and what is added to each token that would complete one: -{_LIMIT} to {_LIMIT}, or "
        "{param: name}. Less than 0 makes a phrase rarer.",
        json_schema_extra={"propertyNames": PHRASE},
    )
    token_ids: Annotated[dict[TokenId, BiasValue], Field(min_length=1)] | None = Field(
        None,
        description=f"Token ids, and what is added to each: -{_LIMIT} to {_LIMIT}, or {{param: name}}.",
        json_schema_extra={"propertyNames": {"pattern": "^[0-9]{1,10}$"}},
    )

    refused: ClassVar[Mapping[str, Refusal]] = {
        "except": Refusal("unknown-key", "`except` is not a key of `bias`", "only a ban has exceptions")
    }

    @model_validator(mode="after")
    def _given(self) -> BiasForm:
        if not {"phrases", "token_ids"} & self.model_fields_set:
            raise problem("missing-key", "a bias needs `phrases` or `token_ids`")
        options = self.options_given()
        if options and "phrases" not in self.model_fields_set:
            message = f"`{options[0]}` is an option of phrases"
            raise problem("conflicting-keys", message, keys=[*options, "token_ids"])
        return self


class BiasRule(RuleForm):
    """A rule that biases."""

    bias: BiasForm = Field(description="What makes phrases or tokens more or less likely, without forbidding them.")


def _build(rule: BiasRule, context: Context) -> Bias:
    options = rule.bias.options()
    token_ids = [
        (token_id, _value(value, context.child("bias", "token_ids", token_id), context))
        for token_id, value in (rule.bias.token_ids or {}).items()
    ]
    acceptable = accept(options, context.reading.report)
    phrases = [pair for pair in _phrases(rule, context) if acceptable(pair[0])]
    return Bias(tuple(phrases), tuple(token_ids), options)


def _phrases(rule: BiasRule, context: Context) -> list[tuple[Phrase, float | ParamRef]]:
    """The phrases, variables replaced: a phrase is text that happens to stand as a key."""
    if rule.bias.phrases is None:
        return []
    reading = context.reading
    mapping = context.mapping("bias", "phrases")
    if len(mapping.entries) > limits.PHRASES.default:
        message = f"more than {limits.PHRASES.default:,} {limits.PHRASES.unit}"
        reading.add("over-limit", message, mapping, hint=limits.PHRASES.reason)
        return []
    found: dict[str, tuple[Phrase, float | ParamRef]] = {}
    for key, value in rule.bias.phrases.items():
        key_node, value_node = mapping.entries[key]
        phrase = from_node(key_node, reading.text(key_node, key), reading)
        if phrase.text in found:
            message = f"with its variables replaced, {quoted(phrase.text)} is written twice"
            first = Label(found[phrase.text][0].span, "first here")
            reading.report.add("duplicate-key", message, phrase.span, labels=[first])
            continue
        found[phrase.text] = (phrase, _value(value, value_node, context))
    return list(found.values())


def _value(value: float | ParamForm, node: Node, context: Context) -> float | ParamRef:
    return context.param(value, node, _VALUE) if isinstance(value, ParamForm) else float(value)


KIND = Kind("bias", BiasRule, _build)
