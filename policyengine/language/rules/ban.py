"""`ban`: phrases, or token ids, that the output must not hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from policyengine.language import limits
from policyengine.language.diagnostics import quoted
from policyengine.language.instead import instead_of
from policyengine.language.phrases import CONTROL, PHRASE, OptionKeys, accept, from_node
from policyengine.language.policyset import Ban, Phrase
from policyengine.language.rules import actions
from policyengine.language.rules.actions import ActionValue, FallbackValue
from policyengine.language.rules.base import Context, Kind, RuleForm, TokenId
from policyengine.language.strict import Refusal, not_yet, problem, some_of, without

_BESIDE = "it belongs beside `ban`, not inside"
_PHRASE_KEYS = ("phrases", "phrases_from", "except", *OptionKeys.option_names)


def _regex(value: Any) -> Any:
    """Patterns come with a later version; a backspace that was meant as `\\b` is named already."""
    patterns = value if isinstance(value, list) else [value]
    control = next((found for text in patterns if isinstance(text, str) and (found := CONTROL.search(text))), None)
    if control:
        raise problem(
            "control-character",
            f"{quoted(control.string)} holds the control character U+{ord(control[0]):04X}",
            hint="in double quotes YAML reads `\\b` as a backspace; use single quotes",
        )
    raise problem("not-yet-supported", "`regex` is not supported yet", hint=instead_of("regex"), at_key=True)


class BanForm(OptionKeys):
    """Phrases, from here or from a file, or token ids; and how phrases are compared with text."""

    model_config = ConfigDict(
        json_schema_extra={
            **some_of("phrases", "phrases_from", "token_ids"),
            "dependentSchemas": {"token_ids": without(*_PHRASE_KEYS)},
        }
    )

    phrases: Annotated[list[Annotated[str, Field(json_schema_extra=PHRASE)]], Field(min_length=1)] | None = Field(
        None,
        description="The banned phrases, as people write them. Capitals, spacing and look-alike forms are covered by "
        "the options beside.",
    )
    phrases_from: str | None = Field(
        None,
        description="A file of phrases, one a line, its path relative to this file. Blank lines and lines that start "
        "with # are skipped; \\# stands for a leading #.",
    )
    exceptions: Annotated[list[Annotated[str, Field(json_schema_extra=PHRASE)]], Field(min_length=1)] | None = Field(
        None,
        alias="except",
        description="Phrases in which the banned ones do not count: with Titan banned, the exception Titan press kit "
        "lets that be written whole. They are compared with text as the banned ones are.",
    )
    token_ids: Annotated[list[TokenId], Field(min_length=1)] | None = Field(
        None, description="Ids of tokens that are never chosen, in the vocabulary of the model that is served."
    )
    regex: SkipJsonSchema[Annotated[Any, BeforeValidator(_regex)]] = None

    later_keys: ClassVar[tuple[str, ...]] = ("regex",)
    refused: ClassVar[Mapping[str, Refusal]] = {
        "scripts": not_yet("scripts"),
        "action": Refusal("unknown-key", "`action` is not a key of `ban`", _BESIDE),
        "fallback": Refusal("unknown-key", "`fallback` is not a key of `ban`", _BESIDE),
    }

    @model_validator(mode="after")
    def _one_source(self) -> BanForm:
        given = [key for key in ("phrases", "phrases_from", "token_ids") if key in self.model_fields_set]
        if not given:
            raise problem("missing-key", "a ban needs `phrases`, `phrases_from` or `token_ids`")
        if "token_ids" in given:
            if len(given) > 1:
                hint = "write a rule for each"
                raise problem("conflicting-keys", "a ban holds phrases or token ids, not both", hint=hint, keys=given)
            options = [*(["except"] if self.exceptions is not None else []), *self.options_given()]
            if options:
                message = f"`{options[0]}` is an option of phrases"
                raise problem("conflicting-keys", message, keys=[*options, "token_ids"])
        return self


class BanRule(RuleForm):
    """A rule that bans."""

    model_config = ConfigDict(
        json_schema_extra={
            "dependentSchemas": {"fallback": {"properties": {"action": {"const": "avoid"}}}},
            "if": {"properties": {"ban": {"required": ["token_ids"]}}, "required": ["ban"]},
            "then": {"properties": {"action": {"const": "avoid"}, "fallback": False}},
        }
    )

    ban: BanForm = Field(description="What the output must not hold: phrases, or token ids.")
    action: ActionValue = Field(
        "avoid",
        description="avoid (default): the model is kept from writing it and writes something else. redact, terminate, "
        "block: the model writes it, and the text is changed before the client sees it; block holds the whole answer "
        "back. With a text of yours: {redact: TEXT}, {terminate: REASON}, {terminate: {reason: R, message: M}}, "
        "{block: MESSAGE}.",
    )
    fallback: FallbackValue = Field(
        "terminate",
        description="What stands in for avoid where only text can be touched: terminate (default), redact or block, in "
        "the forms of `action`.",
    )

    refused: ClassVar[Mapping[str, Refusal]] = {"channel": not_yet("channel")}

    @model_validator(mode="after")
    def _levels(self) -> BanRule:
        token_ids = self.ban.token_ids is not None
        if token_ids and self.action != "avoid":
            hint = "a token id is no text that could be acted on; ban a phrase, or leave `action` out"
            raise problem("conflicting-keys", "`token_ids` can only be avoided", hint=hint, keys=["action", "ban"])
        if "fallback" in self.model_fields_set and (self.action != "avoid" or token_ids):
            hint = "a token id is never scanned in text" if token_ids else "other actions act on text everywhere"
            message = "`fallback` says what stands in for the action `avoid` of phrases"
            other = "ban" if token_ids else "action"
            raise problem("conflicting-keys", message, hint=hint, keys=["fallback", other])
        return self


def _build(rule: BanRule, context: Context) -> Ban:
    options = rule.ban.options()
    reading = context.reading
    phrases = _listed(rule.ban.phrases, "phrases", context)
    if rule.ban.phrases_from is not None:
        phrases += context.lists.phrases(rule.ban.phrases_from, context.child("ban", "phrases_from"), reading)
    if len(phrases) > limits.PHRASES.default:
        message = f"more than {limits.PHRASES.default:,} {limits.PHRASES.unit}"
        reading.add("over-limit", message, context.child("ban"), hint=limits.PHRASES.reason)
        phrases = []
    action = actions.build(rule.action, context.rule)
    fallback = actions.build(rule.fallback, context.rule) if action.kind == "avoid" else action
    acceptable = accept(options, reading.report)
    return Ban(
        phrases=tuple(filter(acceptable, phrases)),
        exceptions=tuple(filter(acceptable, _listed(rule.ban.exceptions, "except", context))),
        token_ids=tuple(dict.fromkeys(rule.ban.token_ids or ())),
        options=options,
        action=action,
        fallback=fallback,
    )


def _listed(texts: list[str] | None, key: str, context: Context) -> list[Phrase]:
    """The phrases that stand in the policy, under this key."""
    if texts is None:
        return []
    pairs = zip(context.scalars("ban", key), texts, strict=True)
    return [from_node(node, text, context.reading) for node, text in pairs]


KIND = Kind("ban", BanRule, _build)
