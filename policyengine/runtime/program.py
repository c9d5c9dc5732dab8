"""The compiled policies: plain data that sessions run on, saved as a bundle and loaded by an engine.

A `Program` knows no tokenizer and no engine. `text_session` starts the text level of one output;
`bind` joins the program with one vocabulary and gives the token level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, Protocol

from policyengine.automata.phrases import PhraseAutomaton
from policyengine.automata.threads import ThreadAutomaton
from policyengine.runtime.irregular import Irregular

if TYPE_CHECKING:
    from pathlib import Path

    from policyengine.automata.vocabulary import Vocabulary
    from policyengine.runtime.text_session import TextSession
    from policyengine.runtime.token_program import TokenProgram

Value = int | float | str

# The part of an output that a rule looks at and acts on. "all" is the whole output, or either part of it.
Channel = Literal["all", "answer", "reasoning"]

# "shadow": what the rule would do is counted, and nothing is changed or held for it.
Mode = Literal["enforce", "shadow"]


@dataclass(frozen=True, slots=True)
class Param:
    """A value that the request supplies under this name."""

    name: str


@dataclass(frozen=True, slots=True)
class ParameterPlan:
    """One declared request parameter; `default` None where there is none."""

    name: str
    type: Literal["token_id", "integer", "number", "string"]
    default: Value | None = None
    ge: float | None = None
    le: float | None = None
    max_length: int | None = None
    choices: tuple[str, ...] | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class PolicyPlan:
    """One policy. `targets` are resolved: the policy's own or the project's."""

    name: str
    file: str
    description: str
    owner: str
    activation: Literal["always", "assigned", "on_request"]
    targets: tuple[str, ...]
    parameters: tuple[ParameterPlan, ...]


@dataclass(frozen=True, slots=True)
class TextAction:
    """What the text level does at a match. `text`: the replacement, or the closing message (None: no message)."""

    kind: Literal["redact", "terminate", "block"]
    text: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class BanPlan:
    """A ban. Its phrases live in the components; `token_ids` act at the token level only."""

    avoid: bool  # masks tokens; text actions never do
    text_action: TextAction  # the action, or for avoid its fallback
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ForcePlan:
    """A force. One of `text` and `token_id` is set, and one of `at` and `after`.

    at: a token position; "end": whenever the output would end, then that is what is written first.
    after: a phrase; the force acts once, from the token after its first completion. The phrase is also a pattern of a
    component with use "after", under this rule.
    """

    text: str | Param | None
    token_id: int | Param | None
    at: Literal["start", "end", "every"] | int | None
    after: str | None = None


@dataclass(frozen=True, slots=True)
class MinTokensPlan:
    """A minimum length in tokens."""

    n: int | Param


@dataclass(frozen=True, slots=True)
class BiasPlan:
    """Biases on token ids; those on phrases live in the components."""

    token_ids: tuple[tuple[int, float | Param], ...]


@dataclass(frozen=True, slots=True)
class RewritePlan:
    """A rewrite of all text that leaves."""

    to: Literal["upper", "lower", "nothing"]


@dataclass(frozen=True, slots=True)
class AllowPlan:
    """What the output may consist of; one of the three is set.

    scripts: names of scripts, for people; a component with use "allow" knows what they leave out.
    """

    choices: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    token_ids: tuple[int, ...] = ()


RuleBody = BanPlan | ForcePlan | MinTokensPlan | BiasPlan | RewritePlan | AllowPlan


@dataclass(frozen=True, slots=True)
class WhenPlan:
    """Facts of an engine, decided once when it starts. An empty tuple asks for nothing; several entries: any of them.

    device: PyTorch's names. model: shell globs on the served model's name. vocabulary: the head (8 hexadecimal digits
    or more) of a vocabulary's digest.
    """

    device: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    vocabulary: tuple[str, ...] = ()

    @property
    def always(self) -> bool:
        """Whether nothing is asked for."""
        return not (self.device or self.model or self.vocabulary)

    def holds(self, *, device: str | None, model: str | None, vocabulary: str | None) -> bool:
        """Whether these facts are what is asked for. None: not known, which is nothing that was asked for."""
        return (
            (not self.device or device in self.device)
            and (not self.model or (model is not None and any(fnmatchcase(model, glob) for glob in self.model)))
            and (not self.vocabulary or (vocabulary is not None and vocabulary.startswith(self.vocabulary)))
        )


@dataclass(frozen=True, slots=True)
class RulePlan:
    """One rule. A rule's place in `Program.rules` (file name, then rule id) is its rank in ties."""

    policy: int  # index into Program.policies
    id: str
    line: int  # of the rule's id in its file, from 1
    body: RuleBody
    when: WhenPlan = WhenPlan()
    channel: Channel = "all"
    mode: Mode = "enforce"


Automaton = PhraseAutomaton | ThreadAutomaton | Irregular
AutomatonKind = Literal["phrases", "threads", "irregular"]


def automaton_kind(automaton: Automaton) -> AutomatonKind:
    """Which kind of automaton it is, as a manifest says it."""
    if isinstance(automaton, Irregular):
        return "irregular"
    return "phrases" if isinstance(automaton, PhraseAutomaton) else "threads"


Use = Literal["avoid", "text", "bias", "after", "allow"]


@dataclass(frozen=True, slots=True)
class Component:
    """One automaton: patterns that are folded alike and always switched on and off together.

    use: "avoid" acts at both levels, "text" at the text level only; the others at the token level only: "bias",
    "after" (phrases that a force follows) and "allow" (the characters that a rule leaves out).
    rules, weights: one entry a pattern, by pattern id; weights only for "bias" (a `Param` is a request's value).
    policies: the policies (indices) that share it: all `always` ones of the same targets, or a single other one.
    """

    use: Use
    policies: tuple[int, ...]
    targets: tuple[str, ...]
    when: WhenPlan
    automaton: Automaton
    rules: tuple[int, ...]
    phrases: tuple[str, ...]  # phrases, expressions or names of scripts as written, for people
    weights: tuple[float | Param, ...] = ()
    channel: Channel = "all"
    mode: Mode = "enforce"


@dataclass(frozen=True, slots=True)
class Reasoning:
    """The texts between which a model reasons. Without them every channel is the whole output."""

    start: str
    end: str


@dataclass(frozen=True, slots=True)
class Request:
    """A checked request: the policies (indices) it runs under, and their parameters' values with defaults filled in."""

    policies: frozenset[int]
    values: Mapping[str, Value]


class RequestParser(Protocol):
    """Turns a request's `extra_args` into a `Request`; raises `RequestError`. Made by `policyengine.requests`."""

    def __call__(self, extra_args: Mapping[str, Any] | None) -> Request: ...


class RequestParserFactory(Protocol):
    """Builds the parser of a program from its policies."""

    def __call__(self, policies: tuple[PolicyPlan, ...]) -> RequestParser: ...


@dataclass(frozen=True, slots=True)
class Program:
    """The compiled policies. `digest` (sha256, hex) covers everything that decides behaviour."""

    policies: tuple[PolicyPlan, ...]
    rules: tuple[RulePlan, ...]
    components: tuple[Component, ...]
    max_hold: int
    digest: str
    parse_request: RequestParser
    reasoning: Reasoning | None = None

    def text_session(
        self, request: Mapping[str, Any] | None = None, *, target: str | None = None, reasoning: bool = False
    ) -> TextSession:
        """Start the text level of one output; raises RequestError for a request that its policies do not allow.

        target: only policies for that engine; None: all of them. reasoning: the prompt has begun the reasoning.
        """
        from policyengine.runtime.text_session import TextSession

        return TextSession(self, self.parse_request(request), target, reasoning=reasoning)

    def bind(
        self,
        vocabulary: Vocabulary,
        *,
        device: str | None = None,
        model: str | None = None,
        target: str | None = None,
    ) -> TokenProgram:
        """Join with a model's vocabulary.

        device, model (the name it is served under): decide `when`; None: rules that ask for one are inactive.
        """
        from policyengine.runtime.token_program import TokenProgram

        return TokenProgram(self, vocabulary, device=device, model=model, target=target)

    def save(self, directory: str | Path) -> None:
        """Write `manifest.json` and `program.safetensors` into an existing or new directory."""
        from policyengine.runtime.bundle import save

        save(self, directory)
