"""What happens at a match: `action` and `fallback`, in their short and long forms, with their defaults.

avoid | redact | terminate | block
{redact: TEXT}, {terminate: REASON}, {terminate: {reason: R, message: M}}, {block: MESSAGE}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from policyengine.language.policyset import Action
from policyengine.language.strict import Refusal, Strict, one_of, problem

REDACTED = "[redacted]"
BLOCKED = "Blocked by policy."


def _reason(text: str) -> str:
    if not text.strip():
        raise problem("invalid-value", "a reason must not be blank", hint="without one the rule's id is the reason")
    return text


Reason = Annotated[str, AfterValidator(_reason), Field(json_schema_extra={"pattern": r"\S"})]


class TerminateForm(Strict):
    """`terminate` with a reason, a closing message, or both."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    reason: Reason | None = Field(None, description="What becomes `stop_reason`. Default: the rule's id.")
    message: str | None = Field(None, description="What the client is shown in place of the rest. Default: nothing.")

    @model_validator(mode="after")
    def _given(self) -> TerminateForm:
        if not self.model_fields_set:
            raise problem("missing-key", "`terminate` needs `reason` or `message`")
        return self


class ActionForm(Strict):
    """An action with a text of its own."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    redact: str | None = Field(None, description="What a match is replaced with; may be empty.")
    terminate: (
        Annotated[
            Annotated[Reason, Tag("tag:reason")] | Annotated[TerminateForm, Tag("tag:long")],
            Discriminator(lambda value: "tag:long" if isinstance(value, dict | TerminateForm) else "tag:reason"),
        ]
        | None
    ) = Field(None, description="The reason, which becomes `stop_reason`; or a mapping of reason and message.")
    block: str | None = Field(None, description="What the client gets in place of the whole answer.")

    refused: ClassVar[Mapping[str, Refusal]] = {
        "avoid": Refusal("unknown-key", "`avoid` takes no value", "write `action: avoid`")
    }

    @model_validator(mode="after")
    def _one(self) -> ActionForm:
        one_of(self, "redact", "terminate", "block", what="an action")
        return self


def _form(value: Any) -> str:
    return "tag:long" if isinstance(value, dict | ActionForm) else "tag:word"


ActionValue = Annotated[
    Annotated[Literal["avoid", "redact", "terminate", "block"], Tag("tag:word")]
    | Annotated[ActionForm, Tag("tag:long")],
    Discriminator(_form),
]
FallbackValue = Annotated[
    Annotated[Literal["redact", "terminate", "block"], Tag("tag:word")] | Annotated[ActionForm, Tag("tag:long")],
    Discriminator(_form),
]


def build(value: str | ActionForm, rule: str) -> Action:
    """The action of a rule, by its id, with the defaults filled in."""
    if not isinstance(value, ActionForm):
        return _DEFAULTS[value](rule)
    if "redact" in value.model_fields_set:
        return Action("redact", text=value.redact)
    if "block" in value.model_fields_set:
        return Action("block", text=value.block)
    if isinstance(value.terminate, TerminateForm):
        return Action("terminate", text=value.terminate.message, reason=value.terminate.reason or rule)
    return Action("terminate", reason=value.terminate or rule)


_DEFAULTS = {
    "avoid": lambda rule: Action("avoid"),
    "redact": lambda rule: Action("redact", text=REDACTED),
    "terminate": lambda rule: Action("terminate", reason=rule),
    "block": lambda rule: Action("block", text=BLOCKED),
}
