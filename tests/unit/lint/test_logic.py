"""Lints of what policies mean: asked of the automata, so that folding, edges and gaps count."""

from __future__ import annotations

import pytest

from tests.unit.lint.conftest import Found


def ban(*phrases: str, more: str = "", rule: str = "r", action: str = "") -> str:
    """A line with one rule."""
    listed = ", ".join(f'"{phrase}"' for phrase in phrases)
    return f"  {rule}: {{ban: {{phrases: [{listed}]{more}}}{action}}}\n"


def shadows(found: Found, *lines: str, head: str = "") -> list[tuple[str, str]]:
    """Which phrase is never what matches, and because of which."""
    messages = found("shadowed-phrase", head + "rules:\n" + "".join(lines))
    return [(one.split("`")[1], one.split("`")[3]) for one in messages]


@pytest.mark.parametrize(
    ("phrases", "more", "expected"),
    [
        (["Titan", "Project Titan"], "", [("Project Titan", "Titan")]),
        (["Project Titan", "TITAN"], "", [("Project Titan", "TITAN")]),
        (["Titan", "Titans"], "", []),
        (["Titan", "Titans"], ", match: prefix", [("Titans", "Titan")]),
        (["Titan", "unTitan"], ", match: prefix", []),
        (["itan", "Titan"], ", match: substring", [("Titan", "itan")]),
        (["Titan", "Titan"], "", []),  # twice, which another lint says
        (["Titan", "Project TITAN"], ", case: sensitive", []),
        (["Titan", "Ｔｉｔａｎ one"], "", [("Ｔｉｔａｎ one", "Titan")]),
        (["Titan", "Ｔｉｔａｎ one"], ", normalize: []", []),
        (["a b", "x a  b y"], "", [("x a  b y", "a b")]),
        (["a b", "x a  b y"], ", gaps: literal", []),
        (["can", "can't"], "", [("can't", "can")]),
        (["a b", "x a b"], ", gaps: punctuation", [("x a b", "a b")]),
        (["ab", "x ab"], ", gaps: letters", [("x ab", "ab")]),
        (["b", "ab"], ", gaps: letters", []),
        (["ab", "ab"], ", gaps: letters", []),
        (["a b", "a  b"], ", gaps: punctuation", []),
        (["a", "b", "c a", "b c a"], "", [("c a", "a"), ("b c a", "b")]),
        (["-", "a-b"], "", [("a-b", "-")]),
    ],
)
def test_within_a_rule(found: Found, phrases: list[str], more: str, expected: list[tuple[str, str]]) -> None:
    assert shadows(found, ban(*phrases, more=more)) == expected


@pytest.mark.parametrize("fallback", ["redact", "{redact: x}"])
def test_where_more_is_replaced_the_longer_one_counts(found: Found, fallback: str) -> None:
    assert shadows(found, ban("Titan", "Project Titan", action=f", fallback: {fallback}")) == []


def test_a_phrase_with_exceptions_shadows_nothing(found: Found) -> None:
    assert shadows(found, ban("Titan", "Project Titan", more=", except: [Titan kit]")) == []


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("", "", [("x Titan y", "Titan")]),
        ("", ", action: terminate", []),  # one masks, the other acts on text
        ("", ", fallback: block", []),
        ("", ", when: {device: [cuda]}", [("x Titan y", "Titan")]),
        (", when: {device: [cuda]}", "", []),
    ],
)
def test_between_rules_that_do_the_same(found: Found, first: str, second: str, expected: list[tuple[str, str]]) -> None:
    assert shadows(found, ban("Titan", rule="a", action=first), ban("x Titan y", rule="b", action=second)) == expected


def test_of_two_rules_that_match_together_the_second_is_shadowed(found: Found) -> None:
    assert shadows(found, ban("Titan", rule="b"), ban("Titan", rule="a")) == [("Titan", "Titan")]


def test_a_rule_that_folds_more_shadows_one_that_folds_less(found: Found) -> None:
    lines = ban("Titan", rule="a"), ban("A TITAN x", rule="b", more=", case: sensitive")
    assert shadows(found, *lines) == [("A TITAN x", "Titan")]
    assert shadows(found, ban("TITAN", rule="a", more=", case: sensitive"), ban("a TITAN x", rule="b")) == []


def test_exact_words_do_not_shadow_eager_ones(found: Found) -> None:
    """An eager mask keeps the text from ending in the word; an exact one comes a letter later."""
    lines = ban("Titan", rule="a", more=", word_end: exact"), ban("my Titan", rule="b")
    assert shadows(found, *lines) == []
    assert shadows(found, ban("Titan", rule="a"), ban("my Titan", rule="b", more=", word_end: exact")) == [
        ("my Titan", "Titan")
    ]


@pytest.mark.parametrize(
    ("rules", "count"),
    [
        (ban("Titan", "titan"), 1),
        (ban("a b", "A  B", "a\u00a0b"), 2),
        (ban("Titan", "titan", more=", case: sensitive"), 0),
        (ban("a b", "a  b", more=", gaps: literal"), 0),
        (ban("a b", "a  b", more=", gaps: letters"), 1),
        ("  r: {ban: {regex: ['ab', 'ab']}}\n", 1),
        ("  r: {bias: {phrases: {Big Deal: 1, big  deal: 2}}}\n", 1),
        (ban("Titan") + ban("Titan", rule="s"), 0),
        (ban("Titan", more=", except: [Titan kit, titan KIT]"), 1),
    ],
)
def test_duplicates(found: Found, rules: str, count: int) -> None:
    assert len(found("duplicate-phrase", "rules:\n" + rules)) == count


@pytest.mark.parametrize(
    ("replacement", "banned", "more", "count"),
    [
        ("Project", "Project Titan", "", 1),
        ("my Project", "Project Titan", "", 1),
        ("Titan", "Project Titan", "", 1),
        ("Titan now", "Project Titan", "", 1),
        ("b c", "a b c d", "", 1),
        ("[redacted]", "Project Titan", "", 0),
        ("support@example.com", "companion", "", 0),  # no letter follows what was a word
        ("ti", "titan", ", match: substring", 1),
        ("ti", "titan", "", 0),
        ("Pro", "Project Titan", ", gaps: letters", 1),
        ("xPro", "Project Titan", ", gaps: letters", 0),
    ],
)
def test_replacements_beside_what_stands_there(
    found: Found, replacement: str, banned: str, more: str, count: int
) -> None:
    rules = (
        ban("bluebird", rule="a", action=f", action: {{redact: {replacement}}}")
        if replacement[0] != "["
        else ban("bluebird", rule="a", action=", action: redact")
    )
    policy = f"targets: [trtllm]\nrules:\n{rules}{ban(banned, rule='b', more=more, action=', action: terminate')}"
    assert len(found("replacement-feeds-ban", policy)) == count


@pytest.mark.parametrize(
    ("more", "count"),
    [
        (", except: [Titan kit]", 0),
        (", except: [press TITAN]", 0),
        (", except: [Triton]", 1),
        (", except: [Titanic]", 1),
        (", except: [Titanic], match: prefix", 0),
        (", except: [T-i-t-a-n kit], gaps: letters", 0),
        (", except: [T-i-t-a-n kit], gaps: punctuation", 1),
        (", except: [T-i-t-a-n kit, Ti tan], gaps: letters", 0),
    ],
)
def test_exceptions(found: Found, more: str, count: int) -> None:
    assert len(found("exception-without-effect", "rules:\n" + ban("Titan", more=more))) == count


@pytest.mark.parametrize(
    ("phrase", "exception", "gaps", "count"),
    [
        ("tit an", "titan", "letters", 0),  # both match `tit an`
        ("a-b", "xab", "letters", 0),
        ("a-b", "x a b", "punctuation", 0),  # both match in `x a-b`
        ("a b-c", "a-b c", "punctuation", 0),  # and in `a-b-c`
        ("-", "a b", "punctuation", 0),
        ("a-b", "x ab", "punctuation", 1),
        ("a-b", "a+b", "punctuation", 1),
        ("a-b", "x a b", "spaces", 1),
    ],
)
def test_an_exception_may_hold_a_phrase_in_its_gaps(
    found: Found, phrase: str, exception: str, gaps: str, count: int
) -> None:
    rules = "rules:\n" + ban(phrase, more=f', except: ["{exception}"], gaps: {gaps}')
    assert len(found("exception-without-effect", rules)) == count


@pytest.mark.parametrize(
    ("rules", "count"),
    [
        (ban("the"), 1),
        (ban("The", more=", match: prefix"), 1),
        (ban("he", more=", match: substring"), 1),
        (ban("in the"), 0),
        (ban("Helios"), 0),
        (ban("q", more=", match: substring"), 0),
        ("  r: {ban: {regex: ['\\w+']}}\n", 1),
        ("  r: {ban: {regex: ['(?i)the secret']}}\n", 0),
        ("  r: {ban: {scripts: [Latin]}}\n", 0),
        ("  r: {bias: {phrases: {the: -1}}}\n", 0),
    ],
)
def test_what_matches_everywhere(found: Found, rules: str, count: int) -> None:
    assert len(found("overbroad-phrase", "rules:\n" + rules)) == count


@pytest.mark.parametrize(
    ("rules", "count"),
    [
        ("  t: {bias: {phrases: {a: 0, b: 0.0, c: 1}, token_ids: {3: 0}}}\n", 3),
        ("  t: {bias: {phrases: {a: {param: n}}}}\nparameters: {n: {type: number, default: 0}}\n", 0),
    ],
)
def test_biases_of_zero(found: Found, rules: str, count: int) -> None:
    assert len(found("zero-bias", "targets: [vllm]\nrules:\n" + rules)) == count


@pytest.mark.parametrize(
    ("bias", "rule", "count"),
    [
        ("delve into", ban("delve"), 1),
        ("DELVE", ban("delve"), 1),
        ("delve", ban("delve into"), 0),
        ("delver", ban("delve"), 0),
        ("delver", ban("delve", more=", match: prefix"), 1),
        ("delve", ban("delve", more=", case: sensitive"), 0),
        ("delve", ban("delve", action=", action: redact"), 0),
        ("delve", ban("delve", action=", when: {device: [cuda]}"), 1),
    ],
)
def test_biases_on_what_is_banned(found: Found, bias: str, rule: str, count: int) -> None:
    policy = f"targets: [vllm]\nrules:\n  tone: {{bias: {{phrases: {{{bias}: -1}}}}}}\n{rule}"
    assert len(found("bias-on-banned", policy)) == count


def test_biases_on_banned_tokens(found: Found) -> None:
    policy = "targets: [vllm]\nrules:\n  t: {bias: {token_ids: {5: 1, 6: 1}}}\n  b: {ban: {token_ids: [5]}}\n"
    assert found("bias-on-banned", policy) == ["a bias on token 5 does nothing: `p/b` bans it"]


def test_parameters_that_no_rule_uses(found: Found) -> None:
    policy = (
        "targets: [vllm]\nparameters:\n"
        + "".join(f"  {name}: {{type: {kind}}}\n" for name, kind in NAMES.items())
        + "rules:\n  a: {force: {text: {param: text}, at: start}}\n  b: {force: {token_id: {param: id}, at: 9}}\n"
        "  c: {min_tokens: {param: least}}\n"
        "  d: {bias: {phrases: {delve: {param: value}}, token_ids: {7: {param: other}}}}\n"
    )
    assert found("unused-parameter", policy) == ["no rule uses the parameter `left`"]


NAMES = {
    "text": "string",
    "id": "token_id",
    "least": "integer",
    "value": "number",
    "other": "number",
    "left": "integer",
}


def test_variables_that_no_policy_uses(found: Found) -> None:
    policy = "rules: {r: {ban: {phrases: ['{{ used }}']}}}\n"
    project = "version: 1\nvariables: {used: a, unused: b}\n"
    assert found("unused-variable", policy, policyengine__yaml=project) == ["no policy uses the variable `unused`"]


@pytest.mark.parametrize(
    ("phrase", "more", "longer"),
    [
        ("you won", "", "you won't"),
        ("yes we CAN", "", "yes we CAN't"),
        ("clock tower", "", "o'clock tower"),
        ("Titan", "", None),
        ("won it", "", None),
        ("you won", ', except: ["you won\'t", "you won’t"]', None),
        ("you won", ", gaps: letters", "you won't"),
    ],
)
def test_words_with_an_apostrophe(found: Found, phrase: str, more: str, longer: str | None) -> None:
    messages = found("apostrophe-edge", "rules:\n" + ban(phrase, more=more))
    assert messages == ([f"`{phrase}` also matches in `{longer}`"] if longer else [])


@pytest.mark.parametrize(
    ("regex", "action", "count"),
    [
        ("AKIA[0-9A-Z]{16}", "", 1),
        (r"\d{3}-\d{2}-\d{4}", "", 1),
        ("sk-(a{9}|[a-z]{9,})", "", 0),  # some matches have no character of many
        ("AKIA[0-9A-Z]{16}", ", action: terminate", 0),
        ("colou?r", "", 0),
        (r"\w+ing", "", 0),
    ],
)
def test_secrets_that_are_masked(found: Found, regex: str, action: str, count: int) -> None:
    assert len(found("avoid-on-secret-pattern", f"rules:\n  r: {{ban: {{regex: ['{regex}']}}{action}}}\n")) == count
