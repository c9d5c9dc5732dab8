"""The format of policy tests, `*.test.yaml`: texts, and what must become of them.

version: 1
policies: [brand-safety.yaml]
tests:
  named: {text: "We call it Titan.", verdict: terminate, output: "We call it ", rules: [brand-safety/names]}
  plain-talk: {chunks: ["Tit", "anic"], request: {}, verdict: pass}
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from policyengine.language import limits
from policyengine.language.diagnostics import quoted
from policyengine.language.policy import POLICY_NAME, RULE_ID, VERSION, Version
from policyengine.language.strict import Strict, exactly_one, one_of, problem

Verdict = Literal["pass", "redact", "terminate", "block", "rewrite"]


def _rule_name(name: str) -> str:
    policy, slash, rule = name.partition("/")
    if not (slash and POLICY_NAME.fullmatch(policy) and RULE_ID.fullmatch(rule)):
        raise problem(
            "invalid-value", f"{quoted(name)} is no rule", hint="write `policy/rule`: its policy's name, its id"
        )
    return name


def _reason(text: str) -> str:
    if not text.strip():
        raise problem("invalid-value", "a reason must not be blank")
    return text


def _ids(tests: dict[str, Any]) -> dict[str, Any]:
    for name in tests:
        if not RULE_ID.fullmatch(name) or len(name) > limits.NAME_LENGTH.default:
            hint = f"letters, digits, `_`, `-` and `.`, not starting with `.`, at most {limits.NAME_LENGTH.default}"
            raise problem("invalid-value", f"{quoted(name)} is no id for a test", hint=hint)
    return tests


RuleName = Annotated[
    str,
    Field(json_schema_extra={"pattern": f"^{POLICY_NAME.pattern}/{RULE_ID.pattern}$"}),
    AfterValidator(_rule_name),
]


class Case(Strict):
    """One output of a model, whole or in chunks, and what a client must get of it."""

    model_config = ConfigDict(json_schema_extra=exactly_one("text", "chunks"))

    text: str | None = Field(None, description="What the model writes, as one text.")
    chunks: Annotated[list[str], Field(min_length=1)] | None = Field(
        None, description="What the model writes, in the pieces in which it streams."
    )
    request: dict[str, Any] | None = Field(
        None,
        description="What the request passes: `policies`, a list of on_request policies, and parameters by name. "
        "Without it the policies that are always active run with their defaults.",
    )
    verdict: Verdict = Field(
        description="pass: the text leaves as it is. redact: parts of it are replaced. terminate: it ends early. "
        "block: it is withheld whole. rewrite: it leaves rewritten. A rule with the action avoid shows as its fallback."
    )
    output: str | None = Field(None, description="Exactly what the client gets.")
    rules: list[RuleName] | None = Field(
        None, description="The rules that decided, each as policy/rule: all of them and no others."
    )
    todo: Annotated[str, Field(json_schema_extra={"pattern": r"\S"}), AfterValidator(_reason)] | None = Field(
        None, description="Why the test does not hold yet. It is run and must fail; once it passes, take this away."
    )

    @model_validator(mode="after")
    def _one(self) -> Case:
        one_of(self, "text", "chunks", what="a test")
        return self


class PolicyTests(Strict):
    """The keys of a test file."""

    version: Version = Field(description=VERSION)
    policies: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)] = Field(
        description="The policies under test, as paths relative to this file."
    )
    tests: Annotated[dict[str, Case], Field(min_length=1), AfterValidator(_ids)] = Field(
        description="The tests, each under an id of its own.",
        json_schema_extra={
            "propertyNames": {"pattern": f"^{RULE_ID.pattern}$", "maxLength": limits.NAME_LENGTH.default}
        },
    )
