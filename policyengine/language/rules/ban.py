"""`ban`: phrases, or token ids, that the output must not hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, model_validator

from policyengine.language import limits
from policyengine.language.diagnostics import quoted
from policyengine.language.phrases import CONTROL, OptionKeys, accept, from_node
from policyengine.language.policyset import Ban, Phrase
from policyengine.language.rules import actions
from policyengine.language.rules.actions import ActionValue, FallbackValue
from policyengine.language.rules.base import Context, Kind, RuleForm, TokenId
from policyengine.language.strict import NOT_YET_HINT, Refusal, not_yet, problem

_BESIDE = "it belongs beside `ban`, not inside"


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
    raise problem("not-yet-supported", "`regex` is not supported yet", hint=NOT_YET_HINT, at_key=True)


class BanForm(OptionKeys):
    """The body of a ban."""

    phrases: Annotated[list[str], Field(min_length=1)] | None = None
    phrases_from: str | None = None
    token_ids: Annotated[list[TokenId], Field(min_length=1)] | None = None
    regex: Annotated[Any, BeforeValidator(_regex)] = None

    refused: ClassVar[Mapping[str, Refusal]] = {
        "except": not_yet("except"),
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
            options = self.options_given()
            if options:
                message = f"`{options[0]}` is an option of phrases"
                raise problem("conflicting-keys", message, keys=[*options, "token_ids"])
        return self


class BanRule(RuleForm):
    """A rule that bans."""

    ban: BanForm
    action: ActionValue = "avoid"
    fallback: FallbackValue = "terminate"

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
    phrases: list[Phrase] = []
    if rule.ban.phrases is not None:
        pairs = zip(context.scalars("ban", "phrases"), rule.ban.phrases, strict=True)
        phrases += [from_node(node, text, reading) for node, text in pairs]
    if rule.ban.phrases_from is not None:
        phrases += context.lists.phrases(rule.ban.phrases_from, context.child("ban", "phrases_from"), reading)
    if len(phrases) > limits.PHRASES.default:
        message = f"more than {limits.PHRASES.default:,} {limits.PHRASES.unit}"
        reading.add("over-limit", message, context.child("ban"), hint=limits.PHRASES.reason)
        phrases = []
    action = actions.build(rule.action, context.rule)
    fallback = actions.build(rule.fallback, context.rule) if action.kind == "avoid" else action
    return Ban(
        phrases=tuple(filter(accept(options, reading.report), phrases)),
        token_ids=tuple(dict.fromkeys(rule.ban.token_ids or ())),
        options=options,
        action=action,
        fallback=fallback,
    )


KIND = Kind("ban", BanRule, _build)
