"""What the language means once it is read: plain, immutable values that the compiler consumes.

The pydantic models beside this file check what a person wrote; these classes hold the result.
Nothing here knows YAML, and every value that a later error may point at carries its `Span`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Target = Literal["vllm", "trtllm", "trtllm-llm"]
Gaps = Literal["spaces", "punctuation", "letters", "literal"]
Activation = Literal["always", "assigned", "on_request"]
Channel = Literal["all", "answer", "reasoning"]
Mode = Literal["enforce", "shadow"]
ActionKind = Literal["avoid", "redact", "terminate", "block"]


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a source file. Lines and columns count from 1, columns in code points; the end is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class ParamRef:
    """`{param: name}`: a value that the request supplies."""

    name: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """One declared request parameter. `default` is None where the policy gives none."""

    name: str
    type: Literal["token_id", "integer", "number", "string"]
    span: Span
    default: int | float | str | None = None
    ge: float | None = None
    le: float | None = None
    max_length: int | None = None
    choices: tuple[str, ...] | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase as written, variables already replaced."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Expression:
    """A regular expression as written. Not `regular`: no automaton can read it, so that it only acts on text."""

    text: str
    span: Span
    regular: bool


@dataclass(frozen=True, slots=True)
class PhraseOptions:
    """How phrases are compared with text (design 3.1); shared by `ban` and `bias`."""

    match: Literal["word", "prefix", "substring"] = "word"
    case: Literal["insensitive", "sensitive"] = "insensitive"
    gaps: Gaps = "spaces"
    normalize: frozenset[str] = frozenset({"nfkc", "invisible"})
    word_end: Literal["eager", "exact"] = "eager"


@dataclass(frozen=True, slots=True)
class Action:
    """What happens at a match. `text`: the replacement (redact) or the message (terminate, block; None: no message)."""

    kind: ActionKind
    text: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class When:
    """Engine facts a rule needs, decided once at start. An empty tuple puts no condition."""

    device: tuple[str, ...] = ()
    model: tuple[str, ...] = ()  # shell globs on the served model's name
    vocabulary: tuple[str, ...] = ()  # the first hexadecimal digits of a vocabulary's digest, small letters


@dataclass(frozen=True, slots=True)
class Ban:
    """`ban:` with its action. Exactly one of `phrases`, `expressions`, `scripts` and `token_ids` is not empty.

    exceptions: phrases in which the others do not count. scripts: Unicode's long names.
    """

    phrases: tuple[Phrase, ...]
    token_ids: tuple[int, ...]
    options: PhraseOptions
    action: Action
    fallback: Action  # what a text-only engine does in place of avoid; equals `action` for text actions
    exceptions: tuple[Phrase, ...] = ()
    expressions: tuple[Expression, ...] = ()
    scripts: tuple[Phrase, ...] = ()


@dataclass(frozen=True, slots=True)
class Force:
    """`force:`. Exactly one of `text` and `token_id` is set, and one of `at` and `after`."""

    text: str | ParamRef | None
    token_id: int | ParamRef | None
    at: Literal["start", "end", "every"] | int | None
    span: Span | None = None  # of the text or the id, as written
    after: Phrase | None = None


@dataclass(frozen=True, slots=True)
class MinTokens:
    """`min_tokens:`."""

    n: int | ParamRef


@dataclass(frozen=True, slots=True)
class Bias:
    """`bias:`. Values are added to logits."""

    phrases: tuple[tuple[Phrase, float | ParamRef], ...]
    token_ids: tuple[tuple[int, float | ParamRef], ...]
    options: PhraseOptions


@dataclass(frozen=True, slots=True)
class Rewrite:
    """`rewrite:`: what is done to all text that leaves."""

    to: Literal["upper", "lower", "nothing"]


@dataclass(frozen=True, slots=True)
class Allow:
    """`allow:`. Exactly one of the three is not empty. scripts: Unicode's long names."""

    choices: tuple[Phrase, ...]
    scripts: tuple[Phrase, ...]
    token_ids: tuple[int, ...]


Body = Ban | Force | MinTokens | Bias | Rewrite | Allow


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a policy.

    `span` is its id in the file; `body_span` the key of its kind (`ban`, `force`, ...); `action_span` the value of its
    `action`, where it has one.
    """

    id: str
    kind: Literal["ban", "force", "min_tokens", "bias", "rewrite", "allow"]
    body: Body
    when: When
    span: Span
    body_span: Span
    action_span: Span | None = None
    channel: Channel = "all"
    mode: Mode = "enforce"  # its own, or the policy's


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy file. `span`: the policy's name in it. `targets` None: the project's."""

    name: str
    file: str  # as reported to people: the path given on the command line joined with what lies below it, posix
    span: Span
    description: str
    owner: str
    activation: Activation
    targets: tuple[Target, ...] | None
    parameters: Mapping[str, Parameter]
    rules: tuple[Rule, ...]
    relative_file: str = ""  # below the path given (its own name where that is a file), posix; for artifacts


@dataclass(frozen=True, slots=True)
class Reasoning:
    """The texts between which a model reasons."""

    start: str
    end: str


@dataclass(frozen=True, slots=True)
class LintOptions:
    """`lint:`, names of diagnostics as they were written, for `policyengine check`. None: not said."""

    select: tuple[Phrase, ...] | None = None
    ignore: tuple[Phrase, ...] = ()
    fail_level: Literal["error", "warning", "info"] | None = None


@dataclass(frozen=True, slots=True)
class Project:
    """`policyengine.yaml`, or its defaults. reasoning None: every channel is the whole output."""

    targets: tuple[Target, ...] = ("vllm", "trtllm")
    package: str = "policy_bundle"
    variables: Mapping[str, str] = field(default_factory=dict)
    max_hold: int = 4096
    reasoning: Reasoning | None = None
    lint: LintOptions = LintOptions()


@dataclass(frozen=True, slots=True)
class PolicySet:
    """Everything that was loaded, ordered by `relative_file`, so that the order does not depend on where it lies.

    `sources` maps the file names that spans hold to their text, for error messages.
    """

    policies: tuple[Policy, ...]
    project: Project
    sources: Mapping[str, str]
