"""What `diff` says of whole policies: which rules became what, and in which words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import policyengine as pe
from policyengine.review.diff import Side, compare
from policyengine.review.diff_model import Comparison, Difference

Diff = Callable[..., Comparison]


@pytest.fixture
def diff(tmp_path: Path) -> Diff:
    """`diff(base, head)` of the bodies of two policies `p`; `project=(base, head)` of their project files."""

    def compared(*bodies: str, project: tuple[str, str] = ("", "")) -> Comparison:
        sides = []
        for name, body, settings in zip(("base", "head"), bodies, project, strict=True):
            folder = tmp_path / name
            folder.mkdir(exist_ok=True)
            for old in folder.iterdir():
                old.unlink()
            files = body if body.startswith("=== ") else f"=== p\n{body}"
            for part in files.split("=== ")[1:]:
                file, _, text = part.partition("\n")
                (folder / f"{file}.yaml").write_text(f"version: 1\npolicy: {file}\n{text}\n", encoding="utf-8")
            if settings:
                (folder / "policyengine.yaml").write_text(f"version: 1\n{settings}\n", encoding="utf-8")
            sides.append(Side(name, pe.compile(pe.load(folder)), name))
        return compare(*sides)

    return compared


def rule(body: str) -> str:
    return f"rules:\n  r: {body}"


def only(found: Comparison) -> Difference:
    [one] = [one for one in found.differences if one.change != "same" or one.was]
    return one


@pytest.mark.parametrize(
    ("base", "head", "change", "said"),
    [
        ("{ban: {phrases: [ab]}}", "{ban: {phrases: [ab, cd]}}", "stronger", "newly catches `cd`"),
        ("{ban: {phrases: [ab, cd]}}", "{ban: {phrases: [ab]}}", "weaker", "no longer catches `cd`"),
        ("{ban: {phrases: [ab]}}", "{ban: {phrases: [ab], case: sensitive}}", "weaker", "no longer catches `Ab`"),
        ("{ban: {phrases: [a b]}}", "{ban: {phrases: [a b], gaps: literal}}", "weaker", "no longer catches `a\tb`"),
        ("{ban: {phrases: [ab], except: [ab c]}}", "{ban: {phrases: [ab]}}", "stronger", "newly catches `ab c`"),
        (
            "{ban: {phrases: [ab]}, action: redact}",
            "{ban: {phrases: [aB], except: [ab c]}, action: redact}",
            "weaker",
            "ab c",
        ),
        ("{ban: {regex: ['a{3}']}}", "{ban: {regex: ['a{4}']}}", "weaker", "no longer catches `aaa`"),
        ("{ban: {scripts: [Han]}}", "{ban: {scripts: [Han, Thai]}}", "stronger", "newly catches `ก`"),
        ("{ban: {phrases: [ab]}}", "{ban: {phrases: [ab], word_end: exact}}", "weaker", "masks later"),
        ("{ban: {phrases: [ab, a]}, action: redact}", "{ban: {phrases: [ab, a b]}, action: redact}", "both", "`a`"),
        ("{ban: {token_ids: [1, 2]}}", "{ban: {token_ids: [2]}}", "weaker", "token_ids: 1 removed"),
        ("{ban: {phrases: [ab]}}", "{ban: {phrases: [ab]}, action: block}", "both", "action: avoid → block"),
        (
            "{ban: {phrases: [ab]}, action: redact}",
            "{ban: {phrases: [ab]}, action: block}",
            "stronger",
            "redact → block",
        ),
        (
            "{ban: {phrases: [ab]}}",
            "{ban: {phrases: [ab]}, fallback: redact}",
            "weaker",
            "fallback: terminate → redact",
        ),
        (
            "{ban: {phrases: [ab]}, action: {redact: x}}",
            "{ban: {phrases: [ab]}, action: {redact: y}}",
            "both",
            "replacement: `x` → `y`",
        ),
        ("{ban: {phrases: [ab]}, when: {device: [cuda]}}", "{ban: {phrases: [ab]}}", "stronger", "cuda` → any"),
        ("{min_tokens: 5}", "{min_tokens: 3}", "weaker", "min_tokens: 5 → 3"),
        ("{bias: {phrases: {ab: -4}}}", "{bias: {phrases: {ab: -2}}}", "weaker", "phrase `ab`: -4 → -2"),
        ("{bias: {phrases: {ab: -4}}}", "{bias: {phrases: {ab: 4}}}", "both", "phrase `ab`: -4 → 4"),
        ("{bias: {token_ids: {7: 1}}}", "{bias: {token_ids: {7: 1, 8: 2}}}", "stronger", "token 8: added, 2"),
        ("{force: {text: a, at: start}}", "{force: {text: b, at: start}}", "both", "text: `a` → `b`"),
        ("{force: {text: a, after: b c}}", "{force: {text: a, after: b d}}", "both", "after: `b c` → `b d`"),
        ("{allow: {choices: [a, b]}}", "{allow: {choices: [a]}}", "stronger", "choices: `b` removed"),
        ("{allow: {scripts: [Latin]}}", "{allow: {scripts: [Latin, Han]}}", "weaker", "scripts: `Han` added"),
        ("{rewrite: {to: upper}}", "{rewrite: {to: nothing}}", "stronger", "rewrite: upper → nothing"),
        ("{ban: {phrases: [ab]}}", "{bias: {phrases: {ab: -9}}}", "both", "was a `ban`, is a `bias`"),
    ],
)
def test_a_rule_that_became_another(diff: Diff, base: str, head: str, change: str, said: str) -> None:
    found = only(diff(rule(base), rule(head)))
    texts = [f"{one.text} `{one.example.text}`" if one.example else one.text for one in found.details]
    assert (found.change, found.unproven) == (change, ())
    assert any(said in text for text in texts), texts


@pytest.mark.parametrize(
    ("base", "head"),
    [
        ("{ban: {phrases: [Ab, b c]}}", "{ban: {phrases: [b  c, aB]}}"),
        ("{ban: {phrases: [ab, ab c]}}", "{ban: {phrases: [ab]}}"),  # the longer one never came to be written
        ("{ban: {phrases: ['-']}}", "{ban: {phrases: ['-'], match: substring, word_end: exact}}"),
        ("{ban: {regex: ['a+b']}}", "{ban: {regex: ['aa*b']}}"),
        ("{ban: {regex: ['(?:xb|xc)']}, action: redact}", "{ban: {regex: ['x[bc]']}, action: redact}"),
        ("{ban: {regex: ['\\p{Han}']}}", "{ban: {scripts: [Han]}}"),
        ("{ban: {phrases: [a b], gaps: letters}}", "{ban: {phrases: [A B], gaps: letters}}"),
        (
            "{ban: {phrases: [ab], except: [ab c, x]}, action: block}",
            "{ban: {phrases: [ab], except: [ab c]}, action: block}",
        ),
        ("{force: {text: a, after: B c}}", "{force: {text: a, after: b C}}"),
        ("{bias: {phrases: {ab: -4}}}", "{bias: {phrases: {AB: -4}}}"),
        ("{ban: {regex: ['a(?=b)']}, action: redact}", "{ban: {regex: ['a(?=b)']}, action: redact}  # the same"),
    ],
)
def test_a_rule_that_is_written_otherwise_is_the_same(diff: Diff, base: str, head: str) -> None:
    found = diff(rule(base), rule(head))
    assert [one.change for one in found.differences] == ["same"]
    assert not found.is_changed


def test_an_expression_that_is_not_regular_is_never_said_to_be_the_same(diff: Diff) -> None:
    found = only(
        diff(
            rule("{ban: {regex: ['a(?=b)']}, action: redact}"),
            rule("{ban: {regex: ['a(?=[b])']}, action: redact}"),
        )
    )
    assert found.unproven == ("weaker", "stronger")
    assert found.change == "both"
    assert found.may_be_weaker


def test_rules_that_came_went_and_have_a_new_name(diff: Diff) -> None:
    found = diff(
        "rules:\n  gone: {ban: {phrases: [ab]}}\n  old: {ban: {phrases: [cd]}}",
        "rules:\n  new: {ban: {phrases: [Cd]}}\n  fresh: {min_tokens: 3}",
    )
    assert {one.name: (one.change, one.was) for one in found.differences} == {
        "p/new": ("same", "p/old"),
        "p/fresh": ("stronger", None),
        "p/gone": ("weaker", None),
    }
    gone = next(one for one in found.differences if one.name == "p/gone")
    assert gone.details[0].example is not None
    assert gone.details[0].example.text == "ab"
    assert found.is_changed


def test_a_phrase_that_went_to_another_rule_is_still_caught(diff: Diff) -> None:
    found = diff(
        "rules:\n  a: {ban: {phrases: [ab, cd]}}\n  b: {ban: {phrases: [ef]}}",
        "rules:\n  a: {ban: {phrases: [ab]}}\n  b: {ban: {phrases: [cd, ef]}}",
    )
    examples = {one.name: one.details[0].example for one in found.differences}
    assert examples["p/a"] is not None
    assert examples["p/a"].elsewhere == ("p/b",)


@pytest.mark.parametrize(
    ("base", "head", "change", "said"),
    [
        ("activation: always", "activation: on_request", "weaker", "activation: always → on_request"),
        ("targets: [vllm]", "targets: [vllm, trtllm]", "stronger", "targets: `trtllm` added"),
        (
            "parameters: {n: {type: integer, default: 1}}",
            "parameters: {n: {type: integer, default: 2}}",
            "both",
            "parameter `n`, default: 1 → 2",
        ),
        ("parameters: {n: {type: integer}}", "", "both", "parameter `n` removed"),
    ],
)
def test_a_policy_that_became_another(diff: Diff, base: str, head: str, change: str, said: str) -> None:
    rules = rule("{ban: {phrases: [ab]}}")
    found = only(diff(f"{base}\n{rules}", f"{head}\n{rules}"))
    assert (found.what, found.name, found.change) == ("policy", "p", change)
    assert said in [detail.text for detail in found.details]


def test_what_the_project_says_counts(diff: Diff) -> None:
    body = rule("{ban: {phrases: [ab]}, channel: answer}")
    found = diff(body, body, project=("max_hold: 10", "reasoning: {start: <t>, end: </t>}"))
    whole = next(one for one in found.differences if one.what == "project")
    assert [detail.kind for detail in whole.details] == ["max_hold", "reasoning"]
    assert next(one.change for one in found.differences if one.name == "p/r") == "weaker"  # it was about all there was


def test_the_order_of_rules_is_behaviour_where_matches_tie(tmp_path: Path) -> None:
    """Files are ordered by name, and the policy keeps its own."""
    sides = []
    for side, names in (("base", "ab"), ("head", "zb")):
        (tmp_path / side).mkdir()
        for file, policy in zip(names, "ab", strict=True):
            text = f"version: 1\npolicy: {policy}\n{rule(f'{{ban: {{phrases: [ab]}}, action: {{redact: {policy}}}}}')}"
            (tmp_path / side / f"{file}.yaml").write_text(text, encoding="utf-8")
        sides.append(Side(side, pe.compile(pe.load(tmp_path / side))))
    found = only(compare(*sides))
    assert found.details[0].text == "where matches tie, `b/r` now decides before `a/r`"


def test_descriptions_and_owners_change_nothing(diff: Diff) -> None:
    body = rule("{ban: {phrases: [ab]}}")
    found = diff(f"owner: x\n{body}", f"owner: y  # new\ndescription: z\n{body}")
    assert not found.is_changed
    assert set(found.edited) == {"p: owner", "p: description"}
