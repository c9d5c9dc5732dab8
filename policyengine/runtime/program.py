"""The compiled policies: plain data that sessions run on, saved as a bundle and loaded by an engine.

A `Program` knows no tokenizer and no engine. `text_session` starts the text level of one output;
`bind` joins the program with one vocabulary and gives the token level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from policyengine.automata.phrases import PhraseAutomaton

if TYPE_CHECKING:
    from pathlib import Path

    from policyengine.automata.vocabulary import Vocabulary
    from policyengine.runtime.text_session import TextSession
    from policyengine.runtime.token_program import TokenProgram

Value = int | float | str


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
    """A force. One of `text` and `token_id` is set."""

    text: str | Param | None
    token_id: int | Param | None
    at: Literal["start", "every"] | int


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


RuleBody = BanPlan | ForcePlan | MinTokensPlan | BiasPlan | RewritePlan


@dataclass(frozen=True, slots=True)
class RulePlan:
    """One rule. A rule's place in `Program.rules` (file name, then rule id) is its rank in ties."""

    policy: int  # index into Program.policies
    id: str
    line: int  # of the rule's id in its file, from 1
    body: RuleBody
    device: tuple[str, ...]  # empty: any; a rule with other devices is inactive on this one


@dataclass(frozen=True, slots=True)
class Component:
    """One automaton: patterns that are folded alike and always switched on and off together.

    use: "avoid" acts at both levels, "text" at the text level only, "bias" at the token level only.
    rules, weights: one entry a pattern, by pattern id; weights only for "bias" (a `Param` is a request's value).
    policies: the policies (indices) that share it: all `always` ones of the same targets, or a single other one.
    """

    use: Literal["avoid", "text", "bias"]
    policies: tuple[int, ...]
    targets: tuple[str, ...]
    device: tuple[str, ...]
    automaton: PhraseAutomaton
    rules: tuple[int, ...]
    phrases: tuple[str, ...]  # as written, for people
    weights: tuple[float | Param, ...] = ()


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

    def text_session(self, request: Mapping[str, Any] | None = None, *, target: str | None = None) -> TextSession:
        """Start the text level of one output. `target`: only policies for that engine; None: all of them."""
        from policyengine.runtime.text_session import TextSession

        return TextSession(self, self.parse_request(request), target)

    def bind(self, vocabulary: Vocabulary, *, device: str | None = None, target: str | None = None) -> TokenProgram:
        """Join with a model's vocabulary. device: decides `when`; None: rules with a device condition are inactive."""
        from policyengine.runtime.token_program import TokenProgram

        return TokenProgram(self, vocabulary, device=device, target=target)

    def save(self, directory: str | Path) -> None:
        """Write `manifest.json` and `program.safetensors` into an existing or new directory."""
        from policyengine.runtime.bundle import save

        save(self, directory)
