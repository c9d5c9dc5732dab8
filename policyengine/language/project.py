"""The project file, `policyengine.yaml`: what the policies beside and below it share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from policyengine.language import limits, nodes
from policyengine.language.diagnostics import quoted
from policyengine.language.packages import NAME as PACKAGE_NAME
from policyengine.language.packages import package_problem
from policyengine.language.policy import VERSION, Targets, Version
from policyengine.language.policyset import LintOptions, Phrase, Project, Reasoning
from policyengine.language.reading import Reading
from policyengine.language.strict import Refusal, Strict, not_yet, problem
from policyengine.language.variables import NAME

FILE_NAME = "policyengine.yaml"


def _package(name: str) -> str:
    problem_found = package_problem(name)
    if problem_found:
        raise problem("invalid-value", problem_found)
    return name


def _marker(text: str) -> str:
    if not text.strip():
        raise problem("invalid-value", "a marker must not be blank", hint="write what the model writes: `<think>`")
    return text


Marker = Annotated[
    str,
    Field(max_length=limits.NAME_LENGTH.default),
    AfterValidator(_marker),
    Field(json_schema_extra={"pattern": r"\S"}),
]


class ReasoningForm(Strict):
    """What a model writes around its reasoning."""

    start: Marker = Field(description="What the model writes before it reasons, such as <think>.")
    end: Marker = Field(description="What it writes before its answer, such as </think>.")

    @model_validator(mode="after")
    def _differ(self) -> ReasoningForm:
        if self.start == self.end:
            raise problem("invalid-value", "`start` and `end` are the same", keys=["start", "end"])
        return self


Names = Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]


class LintForm(Strict):
    """What `policyengine check` reports. The command line goes first."""

    select: Names | None = Field(
        None,
        description="Report only these: codes, names, or families such as PE1xx. What cannot be loaded is always "
        "reported. --select on the command line takes the place of it.",
    )
    ignore: Names | None = Field(
        None, description="Do not report these: codes, names, or families. --ignore on the command line adds to it."
    )
    fail_level: Literal["error", "warning", "info"] | None = Field(
        None,
        description="Exit with 1 for findings that are at least this grave: error (default), warning or info. "
        "--fail-level on the command line takes the place of it.",
    )


class ProjectForm(Strict):
    """The keys of a project file."""

    version: Version = Field(description=VERSION)
    targets: Targets = Field(
        default_factory=lambda: list(Project().targets),
        description="The engines that policies are compiled for: vllm, trtllm (the hook of trtllm-serve), trtllm-llm "
        "(TensorRT-LLM's LLM API). A policy may name its own.",
        json_schema_extra={"default": [*Project().targets]},
    )
    package: Annotated[str, AfterValidator(_package)] = Field(
        "policy_bundle",
        description="The name of the importable package that is compiled. It must hide no other package.",
        json_schema_extra={"pattern": f"^{PACKAGE_NAME.pattern}$", "maxLength": limits.NAME_LENGTH.default},
    )
    variables: dict[str, str] = Field(
        default_factory=dict,
        description="Texts by name. `{{ name }}` in a text of a policy is replaced by its text; `--set name=value` "
        "on the command line goes first.",
        json_schema_extra={"propertyNames": {"pattern": f"^{NAME.pattern}$"}},
    )
    reasoning: ReasoningForm | None = Field(
        None,
        description="How a model marks its reasoning, so that a rule can be about the answer alone, or the reasoning. "
        "Without it every rule is about the whole output.",
    )
    max_hold: Annotated[int, Field(ge=1, le=limits.MAX_HOLD.default)] = Field(
        4096,
        description="How many code points of an answer may be held back at most while they could be the start of a "
        "match. Beyond it the answer is ended.",
    )
    lint: LintForm | None = Field(None, description="What `policyengine check` reports, and what makes it exit with 1.")

    refused: ClassVar[Mapping[str, Refusal]] = {"assignments": not_yet("assignments")}


def read_project(root: nodes.Mapping, reading: Reading) -> Project | None:
    """The project of a file; None where it is wrong, which is reported."""
    form = reading.validate(ProjectForm, root, reading.data(root))
    node = root.value("variables")
    if isinstance(node, nodes.Mapping):
        for name, (key, _) in node.entries.items():
            if isinstance(name, str) and not NAME.fullmatch(name):
                hint = "letters, digits, `_` and `-`, not starting with a digit"
                reading.add("invalid-value", f"{quoted(name)} is no name for a variable", key, hint=hint)
    if form is None:
        return None
    markers = form.reasoning
    return Project(
        targets=tuple(form.targets),
        package=form.package,
        variables=dict(form.variables),
        max_hold=form.max_hold,
        reasoning=Reasoning(markers.start, markers.end) if markers else None,
        lint=_lint(form.lint, root, reading),
    )


def _lint(form: LintForm | None, root: nodes.Mapping, reading: Reading) -> LintOptions:
    node = root.value("lint")
    if form is None or not isinstance(node, nodes.Mapping):
        return LintOptions()

    def names(key: str, texts: list[str] | None) -> tuple[Phrase, ...]:
        listed = node.value(key)
        items = listed.items if isinstance(listed, nodes.Sequence) else []
        return tuple(Phrase(text, reading.span(item)) for text, item in zip(texts or (), items, strict=False))

    select = None if form.select is None else names("select", form.select)
    return LintOptions(select, names("ignore", form.ignore), form.fail_level)
