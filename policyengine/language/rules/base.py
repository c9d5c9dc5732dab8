"""What all rule kinds share: the keys beside the kind, `{param: name}`, and what a kind is to the rest."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from policyengine.language import limits, nodes
from policyengine.language.diagnostics import quoted
from policyengine.language.nodes import Node, Scalar
from policyengine.language.parameters import Use
from policyengine.language.phrase_lists import PhraseLists
from policyengine.language.policyset import Body, Channel, Mode, ParamRef, When
from policyengine.language.reading import Reading
from policyengine.language.strict import Refusal, Strict, problem

TokenId = Annotated[int, Field(ge=0, le=limits.TOKEN_ID.default)]
Device = Literal["cpu", "cuda", "hpu", "mps", "npu", "tpu", "xpu"]


class ParamForm(Strict):
    """`{param: name}`: the value that a request passes under this name."""

    param: str = Field(description="The name of a parameter that the policy declares under `parameters`.")


def is_param(value: Any) -> str:
    """The union tag of a value that may also be `{param: name}`."""
    return "tag:param" if isinstance(value, dict) else "tag:value"


def _device(value: Any) -> Any:
    if value in ("gpu", "nvidia", "rocm", "amd", "hip"):
        raise problem("invalid-value", f"{quoted(value)} is no device", hint="GPUs, AMD's too, are `cuda` to PyTorch")
    return value


def _glob(text: str) -> str:
    if not text.strip():
        raise problem("invalid-value", "the name of a model is blank", hint="`*` stands for any number of characters")
    return text


def _digest(text: str) -> str:
    if not _DIGEST.fullmatch(text):
        hint = "8 to 64 hexadecimal digits in quotes: the head of the `digest` of a `policyengine.Vocabulary`"
        raise problem("invalid-value", f"{quoted(text)} is no digest of a vocabulary", hint=hint)
    return text.lower()


_DIGEST = re.compile("[0-9A-Fa-f]{8,64}")
Glob = Annotated[str, AfterValidator(_glob), Field(json_schema_extra={"pattern": r"\S"})]
Digest = Annotated[str, AfterValidator(_digest), Field(json_schema_extra={"pattern": f"^{_DIGEST.pattern}$"})]


class WhenForm(Strict):
    """`when:`. All that is named must hold; of a list, any one. PyTorch's names of devices; ROCm calls itself cuda."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    device: Annotated[list[Annotated[Device, BeforeValidator(_device)]], Field(min_length=1)] | None = Field(
        None,
        description="The kinds of device, in PyTorch's names; AMD's GPUs are cuda too. On others the rule is inactive.",
    )
    model: Annotated[list[Glob], Field(min_length=1)] | None = Field(
        None,
        description="Names that the model is served under; * stands for any characters. For others the rule is "
        "inactive.",
    )
    vocabulary: Annotated[list[Digest], Field(min_length=1)] | None = Field(
        None,
        description="Digests of vocabularies, the first 8 digits or more. With others the rule is inactive.",
    )

    @model_validator(mode="after")
    def _given(self) -> WhenForm:
        if not self.model_fields_set:
            raise problem("missing-key", "`when` needs `device`, `model` or `vocabulary`")
        return self


_ONLY_BAN = "only a `ban` matches text, so only a `ban` has an action"


class RuleForm(Strict):
    """The keys that a rule of any kind may have."""

    when: WhenForm | None = Field(
        None, description="Facts about the engine that the rule needs, decided once when the engine starts."
    )
    channel: Channel | None = Field(
        None,
        description="The part of an output that the rule is about, where the project file says how a model marks its "
        "reasoning. all: both parts. answer, reasoning: that one. Default: all for a ban, answer for the other kinds.",
    )
    mode: Mode | None = Field(
        None,
        description="enforce: the rule acts. shadow: what it would have done is counted; it changes nothing and holds "
        "nothing back. Default: the policy's.",
    )

    refused: ClassVar[Mapping[str, Refusal]] = {
        "action": Refusal("unknown-key", "`action` does not belong to this rule", _ONLY_BAN),
        "fallback": Refusal("unknown-key", "`fallback` does not belong to this rule", _ONLY_BAN),
    }

    def condition(self) -> When:
        """The engine facts that the rule needs; what is named twice counts once."""
        facts = self.when
        return (
            When(*(tuple(dict.fromkeys(names or ())) for names in (facts.device, facts.model, facts.vocabulary)))
            if facts
            else When()
        )


@dataclass(slots=True)
class Context:
    """What building a rule needs: its place in the file, and where uses of parameters are noted."""

    reading: Reading
    rule: str
    node: nodes.Mapping
    lists: PhraseLists
    uses: list[Use]

    def child(self, *path: Any) -> Node:
        """The node under a path of keys; the models have checked that it is there."""
        node: Node = self.node
        for key in path:
            assert isinstance(node, nodes.Mapping)
            _, node = node.entries[key]
        return node

    def mapping(self, *path: Any) -> nodes.Mapping:
        """As `child`, where the models have checked that it is a mapping."""
        node = self.child(*path)
        assert isinstance(node, nodes.Mapping)
        return node

    def scalars(self, *path: Any) -> list[Scalar]:
        """The items of a list of scalars under a path of keys."""
        node = self.child(*path)
        assert isinstance(node, nodes.Sequence)
        return [item for item in node.items if isinstance(item, Scalar)]

    def param(self, form: ParamForm, node: Node, use: Use) -> ParamRef:
        """Note that `{param: name}` stands at `node`; whether the parameter fits is checked once all are known."""
        where = node.entries["param"][1] if isinstance(node, nodes.Mapping) and "param" in node.entries else node
        self.uses.append(use.of(form.param, self.reading.span(where)))
        return ParamRef(form.param)


@dataclass(frozen=True, slots=True)
class Kind:
    """A rule kind: the key that names it, the model of a rule that has that key, and how a checked rule is built."""

    key: Literal["ban", "force", "min_tokens", "bias", "rewrite", "allow"]
    form: type[RuleForm]
    build: Callable[[Any, Context], Body]
    channel: Channel = "answer"  # the default

    def holds(self, value: Node) -> bool:
        """Whether a value is one of this kind's own key rather than a rule."""
        keys = list(value.entries) if isinstance(value, nodes.Mapping) else []
        return not isinstance(value, nodes.Mapping) or any(key in self.body_keys() or key == "param" for key in keys)

    def body_keys(self) -> list[str]:
        """The keys inside the kind's own key, where that holds a mapping of its own."""
        body = self.form.model_fields[self.key].annotation
        return body.known() if isinstance(body, type) and issubclass(body, Strict) else []
