"""What `allow` rules and bans leave, and forces that they leave out: only what is certain is refused."""

from __future__ import annotations

import pytest

import policyengine as pe
from policyengine.language.diagnostics import PolicyError
from tests.unit.compiler.conftest import Make

VLLM = "targets: [vllm]\n"
CHOICES = "verdict: {allow: {choices: ['yes', 'no']}}"
REASONING = "reasoning: {start: <think>, end: </think>}\n"


def names(make: Make, project: str = "", **policies: str) -> list[str]:
    """The codes that compiling gives."""
    try:
        pe.compile(make(project=project, **policies))
    except PolicyError as error:
        return [one.name for one in error.diagnostics]
    return []


def rules(*lines: str, head: str = VLLM) -> str:
    return head + "rules:\n" + "".join(f"  {line}\n" for line in lines)


@pytest.mark.parametrize(
    "other",
    [
        "x: {ban: {phrases: ['yes', 'no']}}",
        "x: {ban: {phrases: ['yes', 'no']}, action: {terminate: why}}",
        "x: {ban: {regex: ['[a-z]']}}",
        "x: {ban: {scripts: [Latin]}}",
        "x: {ban: {phrases: ['YES', 'No'], gaps: letters, match: substring}}",
        "a: {allow: {choices: ['maybe']}}",
        "x: {allow: {scripts: [Greek]}}",
    ],
)
def test_nothing_is_left(make: Make, other: str) -> None:
    head = VLLM.replace("vllm", "vllm, trtllm")
    assert names(make, a=rules(CHOICES, other, head=head)) == ["nothing-allowed"]


@pytest.mark.parametrize(
    "other",
    [
        "x: {ban: {phrases: ['yes']}}",
        "x: {ban: {phrases: ['yes', 'no'], case: sensitive, match: word}, action: redact}",
        "x: {ban: {phrases: ['Yes', 'No'], case: sensitive}}",
        "x: {ban: {phrases: ['yes', 'no']}, when: {device: [cuda]}}",  # on other devices both are left
        "x: {allow: {choices: ['no', maybe]}}",
        "x: {allow: {scripts: [Latin, Greek]}}",
        "x: {ban: {token_ids: [1, 2]}}",
    ],
)
def test_something_may_be_left(make: Make, other: str) -> None:
    assert names(make, a=rules(CHOICES, other)) == []


def test_choices_within_an_exception_are_left(make: Make) -> None:
    allow = "verdict: {allow: {choices: [the Titan press kit]}}"
    assert names(make, a=rules(allow, "x: {ban: {phrases: [Titan], except: [Titan press kit]}}")) == []
    assert names(make, a=rules(allow, "x: {ban: {phrases: [Titan], except: [Titan press kits]}}")) == [
        "nothing-allowed"
    ]


def test_choices_that_only_together_leave_nothing(make: Make) -> None:
    parts = "x: {ban: {phrases: ['yes']}}", "y: {ban: {phrases: ['no']}}"
    assert names(make, a=rules(CHOICES, *parts)) == ["nothing-allowed"]
    assert names(make, a=rules(CHOICES), b=rules(parts[0]), c=rules(parts[1])) == ["nothing-allowed"]
    asked = VLLM + "activation: on_request\n"
    assert names(make, a=rules(CHOICES), b=rules(*parts, head=asked)) == ["nothing-allowed"]
    # A request may select only one of these.
    assert names(make, a=rules(CHOICES), b=rules(parts[0], head=asked), c=rules(parts[1], head=asked)) == []
    # And no engine runs all of these.
    here, there = "targets: [vllm]\n", "targets: [trtllm-llm]\n"
    both = "targets: [vllm, trtllm-llm]\n"
    assert names(make, a=rules(CHOICES, head=both), b=rules(parts[0], head=here), c=rules(parts[1], head=there)) == []


def test_bans_of_another_part_of_the_output_leave_choices_alone(make: Make) -> None:
    ban = "x: {ban: {phrases: ['yes', 'no']}, channel: reasoning}"
    assert names(make, a=rules(CHOICES, ban)) == ["nothing-allowed"]  # without markers both are the whole output
    assert names(make, project=REASONING, a=rules(CHOICES, ban)) == []
    assert names(make, project=REASONING, a=rules(CHOICES, ban.replace("reasoning", "all"))) == ["nothing-allowed"]


@pytest.mark.parametrize(
    ("token_ids", "other", "found"),
    [
        ("[1, 2]", "x: {ban: {token_ids: [2, 1, 3]}}", True),
        ("[1, 2]", "x: {ban: {token_ids: [2]}}", False),
        ("[1, 2]", "a: {allow: {token_ids: [3]}}", True),
        ("[1, 2]", "a: {allow: {token_ids: [2, 3]}}", False),
        ("[1, 2]", "a: {allow: {choices: [x]}}", False),  # what these ids write, only a vocabulary knows
    ],
)
def test_token_ids(make: Make, token_ids: str, other: str, found: bool) -> None:
    allow = f"ids: {{allow: {{token_ids: {token_ids}}}}}"
    assert names(make, a=rules(allow, other)) == ["nothing-allowed"] * found


@pytest.mark.parametrize(
    ("allow", "force", "found"),
    [
        ("choices: [so yes, so no]", "text: 'so ', at: start", False),
        ("choices: [so yes, so no]", "text: 'so yes', at: 0", False),
        ("choices: [so yes, so no]", "text: 'yes', at: start", True),
        ("choices: [so yes, so no]", "text: 'yes', at: 1", False),
        ("choices: [so yes, so no]", "text: 'no', at: end", False),
        ("choices: [so yes, so no]", "text: 'so', at: end", True),
        ("choices: [so yes, so no]", "text: ' yes', after: so", False),
        ("choices: [so yes, so no]", "text: ' maybe', after: so", True),
        ("choices: [so yes, so no]", "token_id: 1, at: start", False),
        ("scripts: [Latin]", "text: 'naïve - 42!', at: 3", False),
        ("scripts: [Latin]", "text: 'тест', at: end", True),
        ("token_ids: [1, 2]", "token_id: 2, at: end", False),
        ("token_ids: [1, 2]", "token_id: 3, at: end", True),
        ("token_ids: [1, 2]", "text: x, at: start", False),
    ],
)
def test_forces(make: Make, allow: str, force: str, found: bool) -> None:
    policy = rules(f"a: {{allow: {{{allow}}}}}", f"f: {{force: {{{force}}}}}")
    assert names(make, a=policy) == ["forced-not-allowed"] * found


def test_a_force_in_another_part_of_the_output_is_allowed(make: Make) -> None:
    policy = rules("a: {allow: {choices: [x]}}", "f: {force: {text: y, at: start}, channel: reasoning}")
    assert names(make, a=policy) == ["forced-not-allowed"]
    assert names(make, project=REASONING, a=policy) == []


def test_a_parameter_that_may_bring_what_is_not_allowed(make: Make) -> None:
    head = VLLM + "parameters: {{word: {{type: string{}}}}}\n"
    lines = "a: {allow: {choices: [x, y]}}", "f: {force: {text: {param: word}, at: start}}"
    assert names(make, a=rules(*lines, head=head.format(", choices: [x, z]"))) == ["forced-not-allowed"]
    assert names(make, a=rules(*lines, head=head.format(", default: z"))) == ["forced-not-allowed"]
    assert names(make, a=rules(*lines, head=head.format(""))) == []
