"""What becomes of policies: their order, their targets, their automata, their digest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import policyengine as pe
from policyengine.automata import gap_phrases
from policyengine.automata.regex_dfa import Expressions
from policyengine.automata.regex_errors import TooLargeError
from policyengine.automata.threads import ThreadAutomaton
from policyengine.language import load
from policyengine.runtime.program import (
    AllowPlan,
    BanPlan,
    BiasPlan,
    ForcePlan,
    MinTokensPlan,
    Param,
    Reasoning,
    RewritePlan,
    TextAction,
    WhenPlan,
    automaton_kind,
)
from tests.unit.compiler.conftest import Make


def test_rules_are_ordered_by_file_and_id(make: Make) -> None:
    program = pe.compile(
        make(
            b="rules: {z: {ban: {phrases: [one]}}, a: {ban: {phrases: [two]}}}\n",
            a="rules: {m: {ban: {phrases: [three]}}}\n",
        )
    )
    assert [(program.policies[rule.policy].name, rule.id) for rule in program.rules] == [
        ("a", "m"),
        ("b", "a"),
        ("b", "z"),
    ]


def test_files_are_recorded_relative_to_what_was_given(make: Make, tmp_path: Path) -> None:
    make(a="rules: {m: {ban: {phrases: [one]}}}\n")
    (tmp_path / "policies" / "sub").mkdir()
    (tmp_path / "policies" / "a.yaml").rename(tmp_path / "policies" / "sub" / "a.yaml")
    assert pe.compile(load(tmp_path / "policies")).policies[0].file == "sub/a.yaml"
    assert pe.compile(load(tmp_path / "policies" / "sub" / "a.yaml")).policies[0].file == "a.yaml"


def test_targets_are_the_policys_or_the_projects(make: Make) -> None:
    program = pe.compile(
        make(
            project="targets: [vllm]\n",
            a="rules: {m: {ban: {phrases: [one]}}}\n",
            b="targets: [trtllm, vllm]\nrules: {m: {ban: {phrases: [one]}}}\n",
        )
    )
    assert [policy.targets for policy in program.policies] == [("vllm",), ("trtllm", "vllm")]


def test_every_kind_is_lowered(make: Make) -> None:
    program = pe.compile(
        make(
            a="""
parameters:
  n: {type: integer, ge: 0, le: 9, default: 2}
  t: {type: token_id}
  w: {type: number, ge: -5, le: 5}
rules:
  a-ban: {ban: {phrases: [one]}, fallback: {redact: "x"}}
  b-stop: {ban: {phrases: [two]}, action: terminate}
  c-block: {ban: {phrases: [three]}, action: {block: "No."}}
  d-ids: {ban: {token_ids: [9, 7, 9]}}
  e-force: {force: {token_id: {param: t}, at: every}, when: {device: [cuda, cpu]}}
  f-text: {force: {text: "Hi", at: start}}
  g-min: {min_tokens: {param: n}}
  h-bias: {bias: {token_ids: {12: {param: w}, 3: 1}}}
  i-loud: {rewrite: {to: upper}}
"""
        )
    )
    assert [rule.body for rule in program.rules] == [
        BanPlan(True, TextAction("redact", "x", None), ()),
        BanPlan(False, TextAction("terminate", None, "b-stop"), ()),
        BanPlan(False, TextAction("block", "No.", "c-block"), ()),
        BanPlan(True, TextAction("terminate", None, "d-ids"), (7, 9)),
        ForcePlan(None, Param("t"), "every"),
        ForcePlan("Hi", None, "start"),
        MinTokensPlan(Param("n")),
        BiasPlan(((3, 1.0), (12, Param("w")))),
        RewritePlan("upper"),
    ]
    assert program.rules[4].when.device == ("cpu", "cuda")
    assert [(p.name, p.type, p.default, p.ge, p.le) for p in program.policies[0].parameters] == [
        ("n", "integer", 2, 0.0, 9.0),
        ("t", "token_id", None, None, None),
        ("w", "number", None, -5.0, 5.0),
    ]


def test_phrases_that_are_always_on_together_share_an_automaton(make: Make) -> None:
    program = pe.compile(
        make(
            a="rules: {x: {ban: {phrases: [one, two]}}, y: {ban: {phrases: [three]}, action: redact}}\n",
            b="rules: {x: {ban: {phrases: [four]}}}\n",
        )
    )
    assert [(one.use, one.policies, one.phrases) for one in program.components] == [
        ("avoid", (0, 1), ("one", "two", "four")),
        ("text", (0,), ("three",)),
    ]
    assert program.components[0].rules == (0, 0, 2)


@pytest.mark.parametrize(
    "other",
    [
        "activation: on_request\nrules: {x: {ban: {phrases: [two]}}}\n",
        "targets: [vllm]\nrules: {x: {ban: {phrases: [two]}}}\n",
        "rules: {x: {ban: {phrases: [two]}, when: {device: [cuda]}}}\n",
        "rules: {x: {ban: {phrases: [two], case: sensitive}}}\n",
        "rules: {x: {ban: {phrases: [two], normalize: []}}}\n",
        "rules: {x: {ban: {phrases: [two], gaps: literal}}}\n",
    ],
)
def test_phrases_that_are_not_stand_apart(make: Make, other: str) -> None:
    program = pe.compile(make(a="rules: {x: {ban: {phrases: [one]}}}\n", b=other))
    found = {(one.policies, one.phrases) for one in program.components}
    assert found == {((0,), ("one",)), ((1,), ("two",))}


def test_a_bias_by_parameter_stands_apart(make: Make) -> None:
    program = pe.compile(
        make(
            a="parameters: {w: {type: number, ge: -5, le: 5}}\n"
            "rules: {x: {bias: {phrases: {delve: -4, tapestry: {param: w}}}}}\n"
        )
    )
    assert [(one.phrases, one.weights) for one in program.components] == [
        (("delve",), (-4.0,)),
        (("tapestry",), (Param("w"),)),
    ]


@pytest.mark.parametrize(
    ("options", "edges"),
    [
        ("", (True, True, True)),
        (", word_end: exact", (True, True, False)),
        (", match: prefix", (True, False, False)),
        (", match: substring", (False, False, False)),
    ],
)
def test_options_of_phrases_reach_the_automaton(make: Make, options: str, edges: tuple[bool, bool, bool]) -> None:
    program = pe.compile(make(a=f"rules: {{x: {{ban: {{phrases: [one]{options}}}}}}}\n"))
    pattern = program.components[0].automaton.patterns[0]
    assert (pattern.left_edge, pattern.right_edge, pattern.eager) == edges


def test_comments_and_descriptions_do_not_change_the_digest(make: Make) -> None:
    first = pe.compile(make(a="rules: {x: {ban: {phrases: [one]}}}\n"))
    second = pe.compile(make(a="# reviewed\ndescription: words\nrules:\n  x:\n    ban: {phrases: ['one']}\n"))
    assert first.digest == second.digest


def test_the_order_in_which_files_are_given_does_not_matter(make: Make, tmp_path: Path) -> None:
    make(a="rules: {x: {ban: {phrases: [one]}}}\n", b="rules: {x: {ban: {phrases: [two]}}}\n")
    a, b = tmp_path / "policies" / "a.yaml", tmp_path / "policies" / "b.yaml"
    assert pe.compile(load([a, b])).digest == pe.compile(load([b, a])).digest


def test_requests_are_parsed_by_the_compiled_program(make: Make) -> None:
    program = pe.compile(
        make(
            a="activation: on_request\nrules: {x: {ban: {phrases: [one]}}}\n", b="rules: {x: {ban: {phrases: [two]}}}\n"
        )
    )
    assert program.parse_request(None).policies == {1}
    assert program.parse_request({"policies": ["a"]}).policies == {0, 1}


def test_what_needs_threads_is_an_automaton_of_threads(make: Make) -> None:
    """Rules that are read alike share one; a rule with exceptions has its own, since they count for it alone."""
    program = pe.compile(
        make(
            a="""\
rules:
  a: {ban: {phrases: [Titan], gaps: letters}}
  b: {ban: {phrases: [Hyperion, Rhea], gaps: letters}}
  c: {ban: {phrases: [Titan], gaps: punctuation}}
  d: {ban: {phrases: [Titan], except: [Titan press kit]}}
  e: {ban: {phrases: [Titan], except: [Titan moon]}}
  f: {bias: {phrases: {Titan: 1}, gaps: letters}}
  g: {ban: {phrases: [Titan]}}
"""
        )
    )
    found = [(one.use, one.rules, one.phrases, automaton_kind(one.automaton)) for one in program.components]
    assert sorted(found) == [
        ("avoid", (0, 1, 1), ("Titan", "Hyperion", "Rhea"), "threads"),
        ("avoid", (2,), ("Titan",), "threads"),
        ("avoid", (3,), ("Titan",), "threads"),
        ("avoid", (4,), ("Titan",), "threads"),
        ("avoid", (6,), ("Titan",), "phrases"),
        ("bias", (5,), ("Titan",), "threads"),
    ]


def matches(program: pe.Program, text: str) -> bool:
    """Whether the one automaton of a program finds something in a whole output."""
    (component,) = program.components
    automaton = component.automaton
    assert isinstance(automaton, ThreadAutomaton)
    state, found = automaton.follow(automaton.START, text)
    return bool(found | automaton.ends(state))


@pytest.mark.parametrize(
    ("ban", "caught", "free"),
    [
        ("phrases: [Project Titan], gaps: punctuation", ["project -- TITAN"], ["projecttitan", "pro-ject titan"]),
        ("phrases: [Project Titan], gaps: letters", ["P.r.o.j.e.c.t / Titan", "pro-ject titan"], ["Project Titans"]),
        ("phrases: [Titan], match: prefix, gaps: letters", ["T-i-t-a-n-s"], ["statitan"]),
        ("phrases: [Titan], except: [Titan press kit]", ["Titan press", "a Titan"], ["the titan  press kit"]),
        ("phrases: [Titan], normalize: [confusables], gaps: letters", ["Т-і-tan"], ["Tita"]),
    ],
)
def test_options_reach_the_automaton(make: Make, ban: str, caught: list[str], free: list[str]) -> None:
    program = pe.compile(make(a=f"rules: {{x: {{ban: {{{ban}}}}}}}\n"))
    assert [text for text in caught if not matches(program, text)] == []
    assert [text for text in free if matches(program, text)] == []


def test_phrases_that_need_too_many_states_together_get_an_automaton_a_rule(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gap_phrases, "_MOST_STATES", 30)
    policies = (
        "rules: {x: {ban: {phrases: [Hyperion], gaps: letters}}, y: {ban: {phrases: [Enceladus], gaps: letters}}}\n"
    )
    program = pe.compile(make(a=policies))
    assert [one.phrases for one in program.components] == [("Hyperion",), ("Enceladus",)]


def test_a_rule_that_needs_too_many_states_is_an_error_at_it(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gap_phrases, "_MOST_STATES", 10)
    policies = "rules: {x: {ban: {phrases: [Hyperion], gaps: letters}}, y: {ban: {phrases: [Io], gaps: letters}}}\n"
    with pytest.raises(pe.PolicyError) as caught:
        pe.compile(make(a=policies))
    (one,) = caught.value.diagnostics
    assert (one.name, one.span.line) == ("over-limit", 3)
    assert "`a/x` cannot be compiled" in one.message


def test_expressions_and_scripts_share_an_automaton(make: Make) -> None:
    program = pe.compile(
        make(
            a="""\
rules:
  a: {ban: {regex: ['AKIA[0-9A-Z]{16}', '(?i)\\btop secret\\b']}}
  b: {ban: {scripts: [Han, Cyrillic]}}
  c: {ban: {regex: ['(a)\\1', 'b(?=c)']}, action: redact}
  d: {ban: {regex: ['[0-9]{3}', '(?<=a)b']}, action: redact}
  e: {allow: {scripts: [Latin, Greek]}}
  f: {force: {text: " So:", after: Answer}}
"""
        )
    )
    found = [(one.use, one.rules, one.phrases, automaton_kind(one.automaton)) for one in program.components]
    assert found == [
        ("avoid", (0, 0, 1, 1), ("AKIA[0-9A-Z]{16}", r"(?i)\btop secret\b", "Han", "Cyrillic"), "threads"),
        ("text", (3,), ("[0-9]{3}",), "threads"),
        ("text", (2, 2, 3), (r"(a)\1", "b(?=c)", "(?<=a)b"), "irregular"),
        ("after", (5,), ("Answer",), "phrases"),
        ("allow", (4,), ("Greek, Latin",), "threads"),
    ]
    avoid, allow = program.components[0].automaton, program.components[-1].automaton
    assert isinstance(avoid, ThreadAutomaton)
    assert isinstance(allow, ThreadAutomaton)
    text = "xAKIA0123456789ABCDEF Top Secret, 漢 да"
    assert avoid.follow(avoid.START, text)[1] == {0, 1, 2, 3}
    assert avoid.follow(avoid.START, "AKIA0123456789ABCDE stop secrets, ハン")[1] == set()
    assert allow.follow(allow.START, "Naïve λόγος: 42 – ok\u0301!")[1] == set()
    assert allow.follow(allow.START, "naïve лого")[1] == {0}


def test_expressions_that_are_too_large_together_get_automata_of_their_own(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = Expressions.compile

    def small(patterns: Sequence[str]) -> Expressions:
        if len(patterns) > 2:
            raise TooLargeError("too many states", 0)
        return compiled(patterns)

    monkeypatch.setattr(Expressions, "compile", small)
    program = pe.compile(make(a="rules: {x: {ban: {regex: [a, b, c]}}, y: {ban: {regex: [d, e]}}}\n"))
    assert [(one.rules, one.phrases) for one in program.components] == [
        ((0, 0), ("a", "b")),
        ((0,), ("c",)),
        ((1, 1), ("d", "e")),
    ]


def test_the_plans_of_what_is_new(make: Make) -> None:
    program = pe.compile(
        make(
            project="targets: [vllm]\nreasoning: {start: <think>, end: </think>}\n",
            a="""\
parameters: {word: {type: string}}
rules:
  a: {ban: {phrases: [x]}}
  b: {ban: {phrases: [y]}, channel: reasoning}
  c: {force: {text: {param: word}, at: end}}
  d: {force: {token_id: 3, after: "So:"}, channel: all}
  e: {allow: {choices: [yes, no]}, when: {model: [b, a*, b], vocabulary: [DEADBEEF]}}
  f: {allow: {scripts: [Latin, Greek]}}
  g: {allow: {token_ids: [3, 1, 3]}}
""",
        )
    )
    assert program.reasoning == Reasoning("<think>", "</think>")
    assert [rule.channel for rule in program.rules] == [
        *("all", "reasoning", "answer", "all", "answer", "answer", "answer"),
    ]
    assert [rule.body for rule in program.rules[2:]] == [
        ForcePlan(Param("word"), None, "end"),
        ForcePlan(None, 3, None, "So:"),
        AllowPlan(choices=("yes", "no")),
        AllowPlan(scripts=("Greek", "Latin")),
        AllowPlan(token_ids=(1, 3)),
    ]
    assert program.rules[4].when == WhenPlan((), ("a*", "b"), ("deadbeef",))
    assert [(one.use, one.channel) for one in program.components] == [
        ("avoid", "all"),
        ("avoid", "reasoning"),
        ("after", "all"),
        ("allow", "answer"),
    ]


def test_without_markers_every_channel_is_the_whole_output(make: Make) -> None:
    rules = "rules: {a: {ban: {phrases: [x]}}, b: {ban: {phrases: [y]}, channel: reasoning}, c: {min_tokens: 1}}\n"
    program = pe.compile(make(a=rules))
    assert {rule.channel for rule in program.rules} == {"all"}
    assert [one.phrases for one in program.components] == [("x", "y")]
    assert program.reasoning is None
