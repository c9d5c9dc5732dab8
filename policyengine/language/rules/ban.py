"""`ban`: phrases, expressions, scripts or token ids that the output must not hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from policyengine.language import limits
from policyengine.language.diagnostics import quoted
from policyengine.language.expressions import control_hint, read_expression
from policyengine.language.phrases import CONTROL, PHRASE, OptionKeys, accept, from_node
from policyengine.language.policyset import Ban, Expression, Phrase
from policyengine.language.rules import actions
from policyengine.language.rules.actions import ActionValue, FallbackValue
from policyengine.language.rules.base import Context, Kind, RuleForm, TokenId
from policyengine.language.scripts import ScriptNames
from policyengine.language.strict import Refusal, problem, some_of, without

_BESIDE = "it belongs beside `ban`, not inside"
_PHRASES = ("phrases", "phrases_from")
_SOURCES = (*_PHRASES, "regex", "scripts", "token_ids")  # a ban has one of them, or both of `_PHRASES`
_OPTIONS = ("except", *OptionKeys.option_names)


def _regex(value: Any) -> Any:
    """A backspace that was meant as `\\b` is named whatever shape the value has."""
    control = CONTROL.search(value) if isinstance(value, str) else None
    if control:
        raise problem(
            "control-character",
            f"{quoted(value)} holds the control character U+{ord(control[0]):04X}",
            hint=control_hint(control[0]),
        )
    return value


# What to write in place of an option of phrases.
_INSTEAD = {
    "regex": "an expression says it itself: `(?i)` for capitals, `\\b` for a word edge, `\\s+` for white space",
    "scripts": "remove it: a script is a set of characters",
}

Pattern = Annotated[
    str,
    BeforeValidator(_regex),
    Field(
        json_schema_extra={
            "minLength": 1,
            "maxLength": limits.EXPRESSION_LENGTH.default,
            "pattern": CONTROL.pattern.replace("[", "^[^", 1) + "*$",
        }
    ),
]
Texts = Annotated[list[Annotated[str, Field(json_schema_extra=PHRASE)]], Field(min_length=1)]


class BanForm(OptionKeys):
    """Phrases, from here or from a file, expressions, scripts or token ids; and how phrases are compared with text."""

    model_config = ConfigDict(
        json_schema_extra={
            **some_of(*_SOURCES),
            "dependentSchemas": {
                key: without(*(other for other in _SOURCES if other != key), *_OPTIONS)
                for key in _SOURCES
                if key not in _PHRASES
            },
        }
    )

    phrases: Texts | None = Field(
        None,
        description="The banned phrases, as people write them. Capitals, spacing and look-alike forms are covered by "
        "the options beside.",
    )
    phrases_from: str | None = Field(
        None,
        description="A file of phrases, one a line, its path relative to this file. Blank lines and lines that start "
        "with # are skipped; \\# stands for a leading #.",
    )
    exceptions: Texts | None = Field(
        None,
        alias="except",
        description="Phrases in which the banned ones do not count: with Titan banned, the exception Titan press kit "
        "lets that be written whole. They are compared with text as the banned ones are.",
    )
    regex: Annotated[list[Pattern], Field(min_length=1), BeforeValidator(_regex)] | None = Field(
        None,
        description="Regular expressions in the syntax of Python, found anywhere in the text as it is. Capitals count, "
        "unless an expression begins with (?i). What is not regular, such as a look-ahead, needs a text action.",
    )
    scripts: ScriptNames | None = Field(
        None,
        description="Scripts, by Unicode's long names: each character of one of them is banned.",
    )
    token_ids: Annotated[list[TokenId], Field(min_length=1)] | None = Field(
        None, description="Ids of tokens that are never chosen, in the vocabulary of the model that is served."
    )
    refused: ClassVar[Mapping[str, Refusal]] = {
        "action": Refusal("unknown-key", "`action` is not a key of `ban`", _BESIDE),
        "fallback": Refusal("unknown-key", "`fallback` is not a key of `ban`", _BESIDE),
        "channel": Refusal("unknown-key", "`channel` is not a key of `ban`", _BESIDE),
        "when": Refusal("unknown-key", "`when` is not a key of `ban`", _BESIDE),
    }

    @model_validator(mode="after")
    def _one_source(self) -> BanForm:
        given = [key for key in _SOURCES if key in self.model_fields_set]
        if not given:
            raise problem("missing-key", "a ban needs `phrases`, `phrases_from`, `regex`, `scripts` or `token_ids`")
        if set(given) <= set(_PHRASES):
            return self
        if len(given) > 1:
            what = " and ".join(f"`{key}`" for key in given)
            hint = "write a rule for each"
            raise problem("conflicting-keys", f"{what} exclude each other", hint=hint, keys=given)
        options = [*(["except"] if self.exceptions is not None else []), *self.options_given()]
        if options:
            message = f"`{options[0]}` is an option of phrases"
            raise problem("conflicting-keys", message, hint=_INSTEAD.get(given[0]), keys=[*options, given[0]])
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

    ban: BanForm = Field(description="What the output must not hold: phrases, expressions, scripts or token ids.")
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

    refused: ClassVar[Mapping[str, Refusal]] = {}

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
        expressions=_expressions(rule, action.kind == "avoid", context),
        scripts=tuple(dict.fromkeys(_listed(rule.ban.scripts, "scripts", context))),
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


def _expressions(rule: BanRule, masks: bool, context: Context) -> tuple[Expression, ...]:
    texts = rule.ban.regex
    if texts is None:
        return ()
    if len(texts) > limits.EXPRESSIONS.default:
        message = f"more than {limits.EXPRESSIONS.default:,} {limits.EXPRESSIONS.unit}"
        context.reading.add("over-limit", message, context.child("ban"), hint=limits.EXPRESSIONS.reason)
        return ()
    pairs = zip(context.scalars("ban", "regex"), texts, strict=True)
    read = (read_expression(node, text, context.reading, masks=masks) for node, text in pairs)
    return tuple(one for one in read if one is not None)


KIND = Kind("ban", BanRule, _build, channel="all")
