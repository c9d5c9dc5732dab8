"""From text to the values that the compiler consumes: every kind, every form, every default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from policyengine.language import PolicySet
from policyengine.language.policyset import (
    Action,
    Allow,
    Ban,
    Bias,
    Expression,
    Force,
    MinTokens,
    ParamRef,
    Phrase,
    PhraseOptions,
    Rewrite,
    Rule,
    Span,
    When,
)

Read = Callable[..., PolicySet]

HEAD = (
    "version: 1\npolicy: p\nparameters:\n  t: {type: token_id}\n  n: {type: integer, ge: 0, le: 9, default: 1}\n"
    "  w: {type: number}\n  s: {type: string, max_length: 5, choices: [a, b], default: a, description: which}\nrules:\n"
)


def rule(read: Read, text: str) -> Rule:
    """The only rule, `a`, of a policy with the parameters t, n, w and s."""
    (found,) = read(HEAD + f"  a: {text}\n").policies[0].rules
    return found


def test_the_catalogue_of_the_language(read: Read) -> None:
    """Everything of design 2 that this version enforces, in one file."""
    (policy,) = read(
        {
            "p/brand.yaml": """\
# yaml-language-server: $schema=../schemas/policy.schema.json
version: 1
policy: brand-safety
description: Keep unreleased names out of every answer.
owner: trust-and-safety
activation: on_request
targets: [trtllm, vllm]
mode: enforce
parameters:
  target_token: {type: token_id}
rules:
  codenames:
    ban:
      phrases: [Project Titan, bluebird]
      phrases_from: lists/codenames.txt
      match: prefix
      case: sensitive
      gaps: literal
      normalize: [marks]
      word_end: exact
    action: avoid
    fallback: redact
    mode: enforce
  pinned:
    force: {token_id: {param: target_token}, at: every}
    when: {device: [cuda, cpu, cuda]}
""",
            "p/lists/codenames.txt": "\ufeff# names\n  magpie \r\n\n\\#tag\n\u3000kite\u00a0\n",
        }
    ).policies
    assert policy.name == "brand-safety"
    assert (policy.file, policy.relative_file) == ("p/brand.yaml", "p/brand.yaml")
    assert policy.description == "Keep unreleased names out of every answer."
    assert policy.owner == "trust-and-safety"
    assert policy.activation == "on_request"
    assert policy.targets == ("trtllm", "vllm")
    ban, pinned = policy.rules
    assert isinstance(ban.body, Ban)
    assert [phrase.text for phrase in ban.body.phrases] == ["Project Titan", "bluebird", "magpie", "#tag", "kite"]
    assert ban.body.phrases[1].span == Span("p/brand.yaml", 14, 32, 14, 40)
    assert ban.body.phrases[2].span == Span("p/lists/codenames.txt", 2, 3, 2, 9)
    assert ban.body.phrases[3].span == Span("p/lists/codenames.txt", 4, 1, 4, 6)
    assert ban.body.options == PhraseOptions("prefix", "sensitive", "literal", frozenset({"marks"}), "exact")
    assert ban.body.action == Action("avoid")
    assert ban.body.fallback == Action("redact", text="[redacted]")
    assert (ban.id, ban.kind) == ("codenames", "ban")
    assert ban.span == Span("p/brand.yaml", 12, 3, 12, 12)
    assert ban.body_span == Span("p/brand.yaml", 13, 5, 13, 8)
    assert ban.action_span == Span("p/brand.yaml", 21, 13, 21, 18)
    assert pinned.when == When(("cuda", "cpu"))
    assert pinned.body == Force(None, ParamRef("target_token"), "every", Span("p/brand.yaml", 25, 23, 25, 44))


def test_defaults(read: Read) -> None:
    """What a file leaves out."""
    found = rule(read, "{ban: {phrases: [x]}}")
    assert isinstance(found.body, Ban)
    assert found.body.options == PhraseOptions()
    assert found.body.options == PhraseOptions(
        "word", "insensitive", "spaces", frozenset({"nfkc", "invisible"}), "eager"
    )
    assert found.body.action == Action("avoid")
    assert found.body.fallback == Action("terminate", reason="a")
    assert found.when == When()
    assert found.action_span is None
    (policy,) = read({}).policies
    assert (policy.description, policy.owner, policy.activation, policy.targets) == ("", "", "always", None)


@pytest.mark.parametrize(
    ("written", "action"),
    [
        ("redact", Action("redact", text="[redacted]")),
        ("{redact: XX}", Action("redact", text="XX")),
        ("{redact: ''}", Action("redact", text="")),
        ("terminate", Action("terminate", reason="a")),
        ("{terminate: leaked-key}", Action("terminate", reason="leaked-key")),
        ("{terminate: {reason: R, message: M}}", Action("terminate", text="M", reason="R")),
        ("{terminate: {message: M}}", Action("terminate", text="M", reason="a")),
        ("{terminate: {reason: R}}", Action("terminate", reason="R")),
        ("block", Action("block", text="Blocked by policy.")),
        ("{block: No.}", Action("block", text="No.")),
    ],
)
def test_actions(written: str, action: Action, read: Read) -> None:
    """Short and long forms; as an action it is its own fallback, and as a fallback it stands in for avoid."""
    body = rule(read, f"{{ban: {{phrases: [x]}}, action: {written}}}").body
    assert isinstance(body, Ban)
    assert body.action == body.fallback == action
    body = rule(read, f"{{ban: {{phrases: [x]}}, fallback: {written}}}").body
    assert isinstance(body, Ban)
    assert (body.action, body.fallback) == (Action("avoid"), action)


@pytest.mark.parametrize(
    ("written", "body"),
    [
        ("{min_tokens: 0}", MinTokens(0)),
        ("{min_tokens: 2147483647}", MinTokens(2**31 - 1)),
        ("{min_tokens: {param: n}}", MinTokens(ParamRef("n"))),
        ("{rewrite: {to: upper}}", Rewrite("upper")),
        ("{rewrite: {to: lower}}", Rewrite("lower")),
        ("{rewrite: {to: nothing}}", Rewrite("nothing")),
        ("{allow: {token_ids: [5, 3, 5]}}", Allow((), (), (5, 3))),
    ],
)
def test_small_kinds(written: str, body: Any, read: Read) -> None:
    """Numbers as they are written, parameters by name."""
    assert rule(read, written).body == body


@pytest.mark.parametrize(
    ("written", "text", "token_id", "at"),
    [
        ("{text: 'Answer: ', at: start}", "Answer: ", None, "start"),
        ('{text: "\\n\\n", at: 3}', "\n\n", None, 3),
        ("{text: '{{x}} $5 {# x #}', at: start}", "{{x}} $5 {# x #}", None, "start"),
        ("{token_id: 128, at: every}", None, 128, "every"),
        ("{token_id: 0, at: 0}", None, 0, 0),
        ("{token_id: {param: t}, at: every}", None, ParamRef("t"), "every"),
        ("{text: {param: s}, at: end}", ParamRef("s"), None, "end"),
        ("{token_id: 7, at: end}", None, 7, "end"),
        ("{token_id: 7, after: no}", None, 7, None),
    ],
)
def test_force(written: str, text: Any, token_id: Any, at: Any, read: Read) -> None:
    """Texts and ids at the start, at every step and at a position."""
    body = rule(read, f"{{force: {written}}}").body
    assert isinstance(body, Force)
    assert (body.text, body.token_id, body.at) == (text, token_id, at)


def test_what_a_force_follows(read: Read) -> None:
    """A phrase, as written and with its place."""
    body = rule(read, "{force: {text: ' 42', after: The answer is}}").body
    assert isinstance(body, Force)
    assert body.at is None
    assert body.after == Phrase("The answer is", Span("policy.yaml", 9, 35, 9, 48))


def test_other_sources_of_a_ban(read: Read) -> None:
    """Exceptions, expressions and scripts, each with its place."""
    body = rule(read, "{ban: {phrases: [x], except: [x y, no], gaps: letters, normalize: [confusables]}}").body
    assert isinstance(body, Ban)
    assert [one.text for one in body.exceptions] == ["x y", "no"]
    assert body.exceptions[0].span == Span("policy.yaml", 9, 36, 9, 39)
    assert body.options == PhraseOptions(gaps="letters", normalize=frozenset({"confusables"}))
    body = rule(read, r"{ban: {regex: ['a\b', no]}}").body
    assert isinstance(body, Ban)
    assert body.expressions[0] == Expression(r"a\b", Span("policy.yaml", 9, 21, 9, 26), True)
    assert [one.text for one in body.expressions] == [r"a\b", "no"]
    body = rule(read, "{ban: {scripts: [Han, Old_Italic]}}").body
    assert isinstance(body, Ban)
    assert body.scripts[1] == Phrase("Old_Italic", Span("policy.yaml", 9, 28, 9, 38))


def test_allow(read: Read) -> None:
    """Choices and scripts in the order of the file; `no` is a text."""
    body = rule(read, "{allow: {choices: [no, 'yes ', \"a\\nb\"]}}").body
    assert isinstance(body, Allow)
    assert [one.text for one in body.choices] == ["no", "yes ", "a\nb"]
    assert body.choices[0].span == Span("policy.yaml", 9, 25, 9, 27)
    body = rule(read, "{allow: {scripts: [Latin, Greek]}}").body
    assert isinstance(body, Allow)
    assert [one.text for one in body.scripts] == ["Latin", "Greek"]


def test_each_kind_has_its_channel(read: Read) -> None:
    """Where a rule does not say one."""
    kinds = {
        "{ban: {phrases: [x]}}": "all",
        "{force: {text: x, at: start}}": "answer",
        "{min_tokens: 1}": "answer",
        "{bias: {token_ids: {1: 1}}}": "answer",
        "{rewrite: {to: upper}}": "answer",
        "{allow: {token_ids: [1]}}": "answer",
    }
    for written, channel in kinds.items():
        assert rule(read, written).channel == channel
        assert rule(read, written[:-1] + ", channel: reasoning}").channel == "reasoning"


def test_when(read: Read) -> None:
    """What is named twice counts once; digests are compared in small letters."""
    facts = "device: [cpu, cuda, cpu], model: ['acme-*', b, b], vocabulary: ['DEADBEEF', deadbeef, '01234567']"
    assert rule(read, f"{{min_tokens: 1, when: {{{facts}}}}}").when == When(
        ("cpu", "cuda"), ("acme-*", "b"), ("deadbeef", "01234567")
    )


def test_variables_in_new_places(read: Read) -> None:
    """A value is text wherever it is put."""
    rules = (
        "  a: {ban: {phrases: [x], except: ['{{ v }} y']}}\n"
        "  b: {ban: {regex: ['{{ v }}+']}}\n"
        "  c: {allow: {choices: ['{{ v }}', w]}}\n"
        "  d: {force: {text: '{{ v }}', after: '{{ v }}:'}}\n"
    )
    (policy,) = read(HEAD + rules, variables={"v": "q"}).policies
    a, b, c, d = (one.body for one in policy.rules)
    assert isinstance(a, Ban)
    assert isinstance(b, Ban)
    assert isinstance(c, Allow)
    assert isinstance(d, Force)
    assert d.after is not None
    found = a.exceptions[0].text, b.expressions[0].text, c.choices[0].text, d.text, d.after.text
    assert found == ("q y", "q+", "q", "q", "q:")


def test_bias(read: Read) -> None:
    """Phrases and token ids, numbers and parameters, in the order of the file; values are floats."""
    body = rule(
        read,
        "{bias: {phrases: {delve: -4, no: 100, 'a b': {param: w}, x: {param: n}}, token_ids: {7: 1.5, 0x10: -100}}}",
    ).body
    assert isinstance(body, Bias)
    assert [(phrase.text, value) for phrase, value in body.phrases] == [
        ("delve", -4.0),
        ("no", 100.0),
        ("a b", ParamRef("w")),
        ("x", ParamRef("n")),
    ]
    assert body.token_ids == ((7, 1.5), (16, -100.0))
    assert all(type(value) is float for _, value in body.token_ids)
    assert body.options == PhraseOptions()


def test_banned_ids_count_once(read: Read) -> None:
    """A list may repeat itself."""
    body = rule(read, "{ban: {token_ids: [5, 3, 5]}}").body
    assert isinstance(body, Ban)
    assert body.token_ids == (5, 3)
    assert body.phrases == ()


def test_sources_hold_every_file_that_a_span_may_point_into(read: Read) -> None:
    """So that later errors can show their lines."""
    policies = read(
        {
            "p.yaml": "version: 1\npolicy: p\nrules:\n  a: {ban: {phrases_from: sub/../l.txt}}\n",
            "q.yaml": "version: 1\npolicy: q\nrules:\n  a: {ban: {phrases_from: l.txt}}\n",
            "l.txt": "bluebird",
        }
    )
    for policy in policies.policies:
        for one in policy.rules:
            assert isinstance(one.body, Ban)
            (phrase,) = one.body.phrases
            assert phrase.text == "bluebird"
            assert policies.sources[phrase.span.file] == "bluebird"
    assert set(policies.sources) == {"p.yaml", "q.yaml", "l.txt"}


def test_one_hundred_thousand_phrases(read: Read) -> None:
    """In a policy and in a list."""
    words = [f"word{i} {i}" for i in range(100_000)]
    body = rule(read, "{ban: {phrases: [" + ", ".join(words) + "]}}").body
    assert isinstance(body, Ban)
    assert [phrase.text for phrase in body.phrases] == words
    (policy,) = read({"policy.yaml": HEAD + "  a: {ban: {phrases_from: l}}\n", "l": "\n".join(words)}).policies
    body = policy.rules[0].body
    assert isinstance(body, Ban)
    assert [phrase.text for phrase in body.phrases] == words
    assert body.phrases[-1].span.line == 100_000
