"""What can be proven contradictory does not compile, and names both rules and both places."""

from __future__ import annotations

from typing import Any

import pytest

import policyengine as pe
from policyengine.language.diagnostics import Diagnostic, PolicyError
from tests.unit.compiler.conftest import Make


def refused(make: Make, **policies: str) -> Diagnostic:
    with pytest.raises(PolicyError) as caught:
        pe.compile(make(**policies))
    assert len(caught.value.diagnostics) == 1
    assert str(caught.value)
    return caught.value.diagnostics[0]


def underlined(found: Diagnostic) -> list[tuple[int, int]]:
    """Line and column of each place that a diagnostic shows."""
    return [(span.line, span.column) for span in (found.span, *(label.span for label in found.labels))]


BAN = "rules: {no-rice: {ban: {phrases: [rice]}}}\n"


# -- forced text ------------------------------------------------------------------------------------------------------


def test_a_forced_text_that_holds_a_banned_phrase_names_both_rules_and_places(make: Make) -> None:
    found = refused(make, a=BAN, b='rules: {opening: {force: {text: "Well, RICE is", at: start}}}\n')
    assert found.code == "PE103"
    assert found.message == (
        "`b/opening` forces `Well, RICE is`, which contains `rice`, a phrase that `a/no-rice` bans"
    )
    assert underlined(found) == [(3, 33), (3, 35)]
    assert [found.span.file.rsplit("/", 1)[1], found.labels[0].span.file.rsplit("/", 1)[1]] == ["b.yaml", "a.yaml"]


@pytest.mark.parametrize(
    ("options", "action", "text", "at"),
    [
        ("", "avoid", "rice", "start"),  # eager masks a text that ends in the whole word
        (", match: substring", "avoid", "price", "start"),
        (", match: substring", "avoid", "price", "5"),
        ("", "avoid", "some rice!", "5"),
        (", word_end: exact", "avoid", "rice!", "start"),
        (", match: prefix", "avoid", "ricecake", "start"),
        ("", "terminate", "rice, ", "start"),
        ("", "block", "rice, ", "start"),
    ],
)
def test_certain_matches_in_forced_text(make: Make, options: str, action: str, text: str, at: str) -> None:
    ban = f"rules: {{no: {{ban: {{phrases: [rice]{options}}}, action: {action}}}}}\n"
    assert refused(make, a=ban, b=f'rules: {{opening: {{force: {{text: "{text}", at: {at}}}}}}}\n').code == "PE103"


@pytest.mark.parametrize(
    ("options", "action", "text", "at"),
    [
        ("", "avoid", "price", "start"),
        ("", "avoid", "ricer", "start"),
        (", word_end: exact", "avoid", "rice", "start"),  # the model may go on with a letter
        ("", "terminate", "rice", "start"),
        ("", "avoid", "rice!", "5"),  # what stands before it may join to it
        ("", "redact", "rice, ", "start"),
        (", case: sensitive", "avoid", "Rice, ", "start"),
    ],
)
def test_matches_in_forced_text_that_are_not_certain(make: Make, options: str, action: str, text: str, at: str) -> None:
    ban = f"rules: {{no: {{ban: {{phrases: [rice]{options}}}, action: {action}}}}}\n"
    pe.compile(make(a=ban, b=f'rules: {{opening: {{force: {{text: "{text}", at: {at}}}}}}}\n'))


@pytest.mark.parametrize(
    ("ban", "force"),
    [
        ("activation: on_request\n", "activation: on_request\n"),  # a request may combine them, or not
        ("targets: [trtllm]\n", "targets: [vllm]\n"),
    ],
)
def test_rules_that_need_not_meet_do_not_contradict(make: Make, ban: str, force: str) -> None:
    pe.compile(make(a=ban + BAN, b=force + "rules: {opening: {force: {text: rice, at: start}}}\n"))


def test_rules_of_different_devices_never_meet(make: Make) -> None:
    pe.compile(
        make(
            a="rules: {no: {ban: {phrases: [rice]}, when: {device: [cpu]}}}\n",
            b="rules: {opening: {force: {text: rice, at: start}, when: {device: [cuda]}}}\n",
        )
    )


@pytest.mark.parametrize(
    ("ban", "force", "meet"),
    [
        ("model: [acme-7b]", "model: [other]", False),
        ("model: [acme-7b]", "model: ['acme-*']", True),
        ("model: ['acme-*']", "model: [x, acme-7b]", True),
        ("model: ['*-7b']", "model: ['acme-*']", False),  # whether any model has both names is not known
        ("model: ['acme-*']", "device: [cuda]", True),
        ("vocabulary: [0123abcd]", "vocabulary: [0123abcdef]", True),
        ("vocabulary: [0123abcd]", "vocabulary: [0123abce]", False),
        ("device: [cpu], model: [a]", "device: [cuda], model: [a]", False),
    ],
)
def test_rules_of_different_engines_never_meet(make: Make, ban: str, force: str, meet: bool) -> None:
    policies = {
        "a": f"rules: {{no: {{ban: {{phrases: [rice]}}, when: {{{ban}}}}}}}\n",
        "b": f"rules: {{opening: {{force: {{text: rice, at: start}}, when: {{{force}}}}}}}\n",
    }
    if meet:
        assert refused(make, **policies).code == "PE103"
    else:
        pe.compile(make(**policies))


def test_rules_of_different_parts_of_the_output_never_meet(make: Make) -> None:
    ban = "rules: {{no: {{ban: {{phrases: [rice]}}, channel: {}}}}}\n"
    force = "rules: {opening: {force: {text: rice, at: start}}}\n"
    assert refused(make, a=ban.format("reasoning"), b=force).code == "PE103"  # nothing tells the parts apart
    markers = "reasoning: {start: <think>, end: </think>}\n"
    pe.compile(make(project=markers, a=ban.format("reasoning"), b=force))
    for channel in ("all", "answer"):
        assert refused(make, project=markers, a=ban.format(channel), b=force).code == "PE103"


def test_an_always_policy_meets_every_other(make: Make) -> None:
    force = "activation: on_request\nrules: {opening: {force: {text: rice, at: start}}}\n"
    assert refused(make, a=BAN, b=force).code == "PE103"


def test_a_forced_token_that_a_ban_lists(make: Make) -> None:
    found = refused(make, a="rules: {x: {ban: {token_ids: [5, 128]}}, y: {force: {token_id: 128, at: every}}}\n")
    assert found.code == "PE103"
    assert found.message == "`a/y` forces token 128, which `a/x` bans"


# -- two forces -------------------------------------------------------------------------------------------------------


def two_forces(first: str, second: str) -> dict[str, Any]:
    return {"a": f"rules: {{x: {{force: {first}}}}}\n", "b": f"rules: {{y: {{force: {second}}}}}\n"}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("{token_id: 1, at: every}", "{token_id: 2, at: every}"),
        ("{token_id: 1, at: every}", "{token_id: 2, at: 7}"),
        ("{token_id: 1, at: start}", "{token_id: 2, at: 0}"),
        ("{token_id: 1, at: 3}", "{token_id: 2, at: 3}"),
        ("{text: yes, at: start}", "{text: no, at: 0}"),
        ("{text: yes, at: 3}", "{text: no, at: 3}"),
        ("{text: yes, at: start}", "{token_id: 2, at: every}"),
    ],
)
def test_two_forces_at_one_position(make: Make, first: str, second: str) -> None:
    found = refused(make, **two_forces(first, second))
    assert found.name == "conflicting-forces"
    assert "`b/y` and `a/x`" in found.message
    assert len(found.labels) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("{token_id: 1, at: every}", "{token_id: 1, at: 7}"),
        ("{token_id: 1, at: 3}", "{token_id: 2, at: 4}"),
        ("{text: yes, at: start}", "{text: yes, at: start}"),
        ("{text: yes, at: start}", "{text: 'yes, I', at: start}"),  # the same ids, or not: known with a vocabulary
        ("{text: yes, at: start}", "{token_id: 1, at: 0}"),
        ("{text: yes, at: start}", "{token_id: 1, at: 5}"),
    ],
)
def test_forces_that_may_agree(make: Make, first: str, second: str) -> None:
    pe.compile(make(**two_forces(first, second)))


def test_forces_by_one_parameter_agree(make: Make) -> None:
    rule = "parameters: {t: {type: token_id}}\nrules: {x: {force: {token_id: {param: t}, at: every}}}\n"
    pe.compile(make(a=rule, b=rule))


def test_forces_that_a_request_chooses_between(make: Make) -> None:
    force = "activation: on_request\nrules: {{x: {{force: {{token_id: {0}, at: every}}}}}}\n"
    pe.compile(make(a=force.format(1), b=force.format(2)))


# -- what clients see -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "what"),
    [
        ("action: {redact: 'Rice'}", "replacement"),
        ("action: {block: 'no rice here'}", "message"),
        ("action: {terminate: {reason: r, message: 'No rice.'}}", "message"),
        ("fallback: {redact: '<rice>'}", "replacement"),
    ],
)
def test_what_a_client_is_shown_must_not_be_banned(make: Make, action: str, what: str) -> None:
    found = refused(make, a=BAN, b=f"rules: {{x: {{ban: {{phrases: [potato]}}, {action}}}}}\n")
    assert found.name == "message-contains-banned"
    assert f"the {what} `" in found.message
    assert "`b/x` contains `rice`, a phrase that `a/no-rice` bans" in found.message


def test_a_replacement_that_is_the_phrase_itself(make: Make) -> None:
    assert refused(make, a="rules: {x: {ban: {phrases: [virus]}, action: {redact: Virus}}}\n").code == "PE116"


@pytest.mark.parametrize(
    ("ban", "said"),
    [
        ("{regex: ['[0-9]{3}']}", "holds a match of `[0-9]{3}`, an expression that `a/x` bans"),
        (r"{regex: ['(\d)\1']}", "holds a match of `(\\d)\\1`, an expression that `a/x` bans"),
        ("{scripts: [Greek]}", "holds a character of `Greek`, a script that `a/x` bans"),
        ("{phrases: [no], gaps: letters}", "contains `no`, a phrase that `a/x` bans"),
        ("{phrases: [no], except: [no one]}", "contains `no`, a phrase that `a/x` bans"),
    ],
)
def test_a_replacement_that_any_kind_of_ban_matches(make: Make, ban: str, said: str) -> None:
    found = refused(make, a=f"rules: {{x: {{ban: {ban}, action: {{redact: 'n-o no 122 λ'}}}}}}\n")
    assert found.message == f"the replacement `n-o no 122 λ` of `a/x` {said}"


def test_a_replacement_within_an_exception(make: Make) -> None:
    pe.compile(make(a="rules: {x: {ban: {phrases: [no], except: [no one]}, action: {redact: 'no one'}}}\n"))


def test_the_default_replacement_counts_too(make: Make) -> None:
    found = refused(make, a="rules: {x: {ban: {phrases: [redacted]}, action: redact}}\n")
    assert found.name == "message-contains-banned"


def test_a_message_on_another_target_shows_nothing(make: Make) -> None:
    pe.compile(
        make(
            a="targets: [vllm]\n" + BAN,
            b="targets: [trtllm]\nrules: {x: {ban: {phrases: [potato]}, action: {redact: rice}}}\n",
        )
    )


def test_upper_and_lower_case_at_once(make: Make) -> None:
    found = refused(make, a="rules: {x: {rewrite: {to: upper}}}\n", b="rules: {y: {rewrite: {to: lower}}}\n")
    assert found.name == "conflicting-rewrites"
    assert found.message == "`b/y` rewrites to lower and `a/x` to upper"


@pytest.mark.parametrize("to", ["upper", "nothing"])
def test_other_rewrites_go_together(make: Make, to: str) -> None:
    pe.compile(make(a="rules: {x: {rewrite: {to: upper}}}\n", b=f"rules: {{y: {{rewrite: {{to: {to}}}}}}}\n"))


# -- parameters -------------------------------------------------------------------------------------------------------

PARAMETER = "parameters: {{n: {{type: integer, default: {0}}}}}\nrules: {{x: {{min_tokens: {{param: n}}}}}}\n"


def test_two_defaults_of_policies_that_are_always_active(make: Make) -> None:
    found = refused(make, a=PARAMETER.format(1), b=PARAMETER.format(2))
    assert found.name == "conflicting-defaults"
    assert [span.file.rsplit("/", 1)[1] for span in (found.span, found.labels[0].span)] == ["b.yaml", "a.yaml"]


def test_two_defaults_that_a_request_settles(make: Make) -> None:
    pe.compile(make(a=PARAMETER.format(1), b="activation: on_request\n" + PARAMETER.format(2)))


def test_everything_that_is_wrong_is_said_at_once(make: Make) -> None:
    with pytest.raises(PolicyError) as caught:
        pe.compile(
            make(
                a="rules: {x: {rewrite: {to: upper}}, y: {rewrite: {to: lower}}, no: {ban: {phrases: [rice]}}}\n",
                b="rules: {opening: {force: {text: 'rice!', at: start}}}\n",
            )
        )
    assert [found.name for found in caught.value.diagnostics] == ["conflicting-rewrites", "forced-contains-banned"]


@pytest.mark.parametrize(
    ("ban", "after", "found"),
    [
        ("{phrases: [rice]}", "rice", True),
        ("{phrases: [rice]}", "some rice.", True),
        ("{phrases: [rice]}", "price", False),
        ("{phrases: [rice], word_end: exact}", "rice", False),  # it may go on with a letter, and is the head of a word
        ("{phrases: [rice, x]}, action: terminate", "rice!", True),
        ("{phrases: [rice], gaps: letters}", "r-i-c-e", True),
        ("{phrases: [rice], except: [no rice here]}", "rice", False),
        ("{regex: ['^rice']}", "rice", False),
        ("{regex: ['ice']}", "rice", True),
        (r"{regex: ['\brice']}", "rice", True),
    ],
)
def test_a_force_after_what_is_never_written(make: Make, ban: str, after: str, found: bool) -> None:
    policy = f"rules: {{no: {{ban: {ban}}}, x: {{force: {{text: ' y', after: '{after}'}}}}}}\n"
    if found:
        one = refused(make, a=policy)
        assert one.code == "PE103"
        assert one.message.startswith(f"`a/x` follows `{after}`, which ")
    else:
        pe.compile(make(a=policy))


def test_forces_of_two_parts_of_the_output_do_not_clash(make: Make) -> None:
    forces = "rules: {x: {force: {token_id: 1, at: start}}, y: {force: {token_id: 2, at: start}, channel: {}}}\n"
    forces = forces.replace("channel: {}", "channel: CHANNEL")
    assert refused(make, a=forces.replace("CHANNEL", "reasoning")).code == "PE115"  # nothing tells the parts apart
    markers = "reasoning: {start: <think>, end: </think>}\n"
    for channel in ("reasoning", "all"):
        pe.compile(make(project=markers, a=forces.replace("CHANNEL", channel)))
    assert refused(make, project=markers, a=forces.replace("CHANNEL", "answer")).code == "PE115"


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        ("text: x, at: end", "text: y, at: end", True),
        ("text: x, at: end", "text: x y, at: end", False),
        ("text: x, at: end", "text: y, at: start", False),
        ("text: x, after: a", "text: y, after: a", True),
        ("text: x, after: a", "text: y, after: b", False),
        ("text: x, after: a", "token_id: 1, at: every", False),
        ("token_id: 1, at: end", "token_id: 2, at: end", True),
    ],
)
def test_forces_in_new_places(make: Make, one: str, other: str, clash: bool) -> None:
    policy = f"rules: {{x: {{force: {{{one}}}}}, y: {{force: {{{other}}}}}}}\n"
    if clash:
        assert refused(make, a=policy).code == "PE115"
    else:
        pe.compile(make(a=policy))


@pytest.mark.parametrize(
    ("ban", "after", "text", "found"),
    [
        ("{phrases: [foo bar]}", "foo", " bar", True),
        ("{phrases: [foo bar]}", "Some FOO", " bar.", True),
        ("{phrases: [foo bar]}", "x foo", "bar", False),
        ("{phrases: [foo bar], gaps: letters}", "f-o", "o.bar", True),
        ("{phrases: [foo bar], word_end: exact}", "foo", " bar", False),  # it may go on with a letter
        ("{phrases: [foo bar], word_end: exact}", "foo", " bar ", True),
        ("{phrases: [foo], word_end: exact}", "foo", " bar", False),
        ("{phrases: [foo bar], except: [foo bar baz]}", "foo", " bar", False),
        ("{regex: ['o b']}", "foo", " bar", True),
        ("{regex: ['^foo bar']}", "foo", " bar", False),
        ("{phrases: [foo bar, x]}, action: terminate", "foo", " bar.", True),
        ("{phrases: [foo bar, x]}, action: redact", "foo", " bar.", False),
    ],
)
def test_a_ban_across_a_phrase_and_the_text_behind_it(make: Make, ban: str, after: str, text: str, found: bool) -> None:
    """Neither alone holds a match; the answer that writes the phrase could not go on."""
    policies = f"rules: {{no: {{ban: {ban}}}, follows: {{force: {{text: '{text}', after: {after}}}}}}}\n"
    if not found:
        pe.compile(make(a=policies))
        return
    diagnostic = refused(make, a=policies)
    assert diagnostic.code == "PE103"
    assert diagnostic.message.startswith(f"`a/follows` forces `{text}` after `{after}`: `{after + text}` ")
