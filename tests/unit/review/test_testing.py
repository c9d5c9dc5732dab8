"""Policy tests at both levels: verdicts, the ways each is run, and that a wrong level is caught."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import policyengine as pe
from policyengine.automata.vocabulary import Vocabulary
from policyengine.review.testing import Result, Runner
from policyengine.review.testing_files import load_tests
from policyengine.review.testing_output import details
from policyengine.review.testing_pieces import chunkings, cut, fewest
from policyengine.review.testing_tokens import TokenLevel
from policyengine.runtime.text_session import TextSession
from tests import vocabularies
from tests.programs import program
from tests.properties.trials import case

RULES = """
  names: {ban: {phrases: [Project Titan, bluebird]}}
  hidden: {ban: {phrases: [Hyperion], word_end: exact}, fallback: {redact: "[x]"}}
  rude: {ban: {phrases: [darn]}, action: {block: Sorry.}}
"""
ON_REQUEST = """version: 1
policy: loud
activation: on_request
targets: [vllm]
parameters: {least: {type: integer, ge: 0}}
rules: {capitals: {rewrite: {to: upper}}, long: {min_tokens: {param: least}}}
"""

Check = Callable[..., Result]


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """`check(text="…", verdict="pass", …)` runs one test of the policies above; `vocabulary=` on tokens too."""

    def checked(vocabulary: Vocabulary | None = None, policy: str = RULES, **keys: Any) -> Result:
        import json

        (tmp_path / "names.yaml").write_text(f"version: 1\npolicy: names\nrules:{policy}", encoding="utf-8")
        (tmp_path / "loud.yaml").write_text(ON_REQUEST)
        one = json.dumps(keys)
        path = tmp_path / "a.test.yaml"
        path.write_text(f"version: 1\npolicies: [names.yaml, loud.yaml]\ntests: {{one: {one}}}\n")
        (ready,) = load_tests([path]).tests
        return Runner(vocabulary).run_one(ready)

    return checked


# -- what a test may say -----------------------------------------------------------------------------------------------

LOUD = {"policies": ["loud"], "least": 3}


@pytest.mark.parametrize(
    "keys",
    [
        {"text": "", "verdict": "pass", "output": "", "rules": []},
        {"text": "Titanium bluebirds", "verdict": "pass", "output": "Titanium bluebirds", "rules": []},
        {"text": "a bluebird.", "verdict": "terminate", "output": "a ", "rules": ["names/names"]},
        {"chunks": ["a blue", "", "bird"], "verdict": "terminate", "output": "a "},
        {"text": "a Hyperion.", "verdict": "redact", "output": "a [x].", "rules": ["names/hidden"]},
        {"text": "oh darn it", "verdict": "block", "output": "Sorry.", "rules": ["names/rude"]},
        {
            "text": "Hyperion, bluebird",
            "verdict": "terminate",
            "output": "[x], ",
            "rules": ["names/names", "names/hidden"],
        },
        {"text": "quiet", "verdict": "pass", "request": {}},
        {"text": "quiet", "verdict": "rewrite", "output": "QUIET", "rules": ["loud/capitals"], "request": LOUD},
        {"text": "a Hyperion", "verdict": "redact", "output": "A [x]", "rules": ["names/hidden"], "request": LOUD},
    ],
)
def test_verdicts(check: Check, keys: dict[str, Any], small: Vocabulary) -> None:
    assert check(**keys).problems == ()
    assert check(small, **keys).outcome == "passed"


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"text": "a bluebird", "verdict": "redact"}, [("verdict", "redact", "terminate by names/names")]),
        ({"text": "bluebirds", "verdict": "block"}, [("verdict", "block", "pass")]),
        ({"text": "a bluebird", "verdict": "terminate", "output": "a"}, [("output", "a", "a ")]),
        ({"text": "a", "verdict": "pass", "output": ""}, [("output", "", "a")]),
        (
            {"text": "a bluebird", "verdict": "terminate", "rules": ["names/names", "names/rude"]},
            [("rules", "names/names, names/rude", "names/names")],
        ),
        ({"text": "a bluebird", "verdict": "terminate", "rules": []}, [("rules", "none", "names/names")]),
        (
            {"text": "Hyperion", "verdict": "pass", "output": "x", "rules": []},
            [
                ("verdict", "pass", "redact by names/hidden"),
                ("output", "x", "[x]"),
                ("rules", "none", "names/hidden"),
            ],
        ),
    ],
)
def test_what_differs_is_told(check: Check, keys: dict[str, Any], expected: list[tuple[str, str, str]]) -> None:
    result = check(**keys)
    assert result.outcome == "failed"
    assert [(one.what, one.expected, one.actual) for one in result.problems] == expected
    again = check(**keys, todo="later")
    assert (again.outcome, again.problems) == ("todo", result.problems)


def test_rules_in_shadow_decide_nothing(check: Check, small: Vocabulary) -> None:
    rules = """
  a: {ban: {phrases: [bluebird]}, mode: shadow}
  b: {rewrite: {to: upper}, mode: shadow}
  c: {ban: {phrases: [magpie]}}
"""
    assert check(small, policy=rules, text="a bluebird", verdict="pass", rules=[]).problems == ()
    result = check(small, policy=rules, text="a bluebird, a magpie", verdict="terminate", rules=["names/c"])
    assert result.problems == ()


def test_too_much_to_hold_ends_a_text_by_no_rule(check: Check, tmp_path: Path) -> None:
    (tmp_path / "policyengine.yaml").write_text("version: 1\nmax_hold: 8\n")
    rules = "\n  r: {ban: {regex: ['a[^z]*z']}, action: redact}\n"
    result = check(policy=rules, text="say a" + "b" * 20, verdict="pass")
    assert [problem.actual for problem in result.problems] == ["terminate (max_hold)"]


# -- every way to stream it --------------------------------------------------------------------------------------------


@given(st.text(st.sampled_from("ab é🙂"), max_size=40))
def test_chunkings_are_of_the_text_and_the_same_every_time(text: str) -> None:
    ways = list(chunkings(text))
    assert all("".join(way) == text for way in ways)
    assert ways == list(chunkings(text))
    if len(text) <= 7:
        assert len(set(map(tuple, ways))) == len(ways) == 2 ** max(0, len(text) - 1)
    else:
        assert [text] in ways
        assert list(text) in ways
        assert len(ways) > 8


def test_chunkings_of_a_long_text_are_few() -> None:
    ways = list(chunkings("word " * 10_000))
    assert len(ways) < 20
    assert sum(map(len, ways)) < 52_000


@given(st.sets(st.integers(0, 40)), st.data())
def test_fewest_leaves_nothing_out_that_it_takes(places: set[int], data: st.DataObject) -> None:
    """None of what is kept can be left out, and it still fails."""
    needed = data.draw(st.sets(st.sampled_from(sorted(places))) if places else st.just(set()))
    tries = 0

    def fails(some: list[int]) -> bool:
        nonlocal tries
        tries += 1
        return needed <= set(some)

    assert fewest(sorted(places), fails) == sorted(needed)
    assert tries <= 41**3


def test_a_text_level_that_minds_the_chunks_is_caught_with_as_few_as_it_takes(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = TextSession.feed

    def broken(self: TextSession, text: str) -> Any:
        """Loses a chunk that begins with `of`."""
        return feed(self, "" if text.startswith("of") else text)

    monkeypatch.setattr(TextSession, "feed", broken)
    result = check(text="a flock of birds on the hills", verdict="pass")
    (problem,) = result.problems
    assert problem.what == "chunks"
    assert problem.pieces is not None
    assert len(problem.pieces) in (2, 3)
    assert any(piece.startswith("of") for piece in problem.pieces if isinstance(piece, str))
    assert problem.expected == "pass: a flock of birds on the hills"
    shown = list(details(result))
    assert re.fullmatch(r"chunks  `a flock ` `of.*`", shown[0])
    assert shown[1:3] == [
        "        expected pass: a flock of birds on the hills",
        f"        got      {problem.actual}",
    ]


def test_empty_chunks_are_tried(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = TextSession.feed
    monkeypatch.setattr(TextSession, "feed", lambda self, text: feed(self, text or "?"))
    result = check(text="a flock of birds on the hills", verdict="pass")
    assert [problem.what for problem in result.problems] == ["chunks"]
    assert "" in (result.problems[0].pieces or ())


# -- every way to spell it ---------------------------------------------------------------------------------------------


def level(rules: str, vocabulary: Vocabulary, tmp_path: Path, name: str = "a") -> tuple[TokenLevel, pe.Program]:
    path = tmp_path / f"{name}.yaml"
    path.write_text(f"version: 1\npolicy: a\nrules:{rules}", encoding="utf-8")
    made = pe.compile(pe.load(path))
    return TokenLevel(made, vocabulary), made


WORDS = Vocabulary.from_bytes(
    [b"", *(bytes([byte]) for byte in range(256)), b"Ti", b"tan", b"Titan", b" Titan", b"Titanic", b" a", None], [0]
)
BAN = "\n  a: {ban: {phrases: [Titan]}}\n"


def test_every_segmentation_of_a_short_text_is_tried(tmp_path: Path) -> None:
    """And the word itself, before more letters, is what `eager` forbids; `exact` does not."""
    for rules, surplus in ((BAN, 1 + 1 + 1 + 1), (BAN.replace("]", "], word_end: exact"), 0)):
        tokens, made = level(rules, WORDS, tmp_path)
        found = tokens.check("Titanic", made.parse_request(None))
        assert found is not None
        pieces = [b"T", b"i", b"t", b"a", b"n", b"Ti", b"tan", b"Titan"]
        ways = sum(
            1 for count in range(1, 6) for way in itertools.product(pieces, repeat=count) if b"".join(way) == b"Titan"
        )
        assert (found.ways, found.wrong) == (ways + 1, None)  # and `Titanic`
        assert found.surplus == (ways if surplus else 0)


def test_a_token_level_that_masks_too_little_is_caught(tmp_path: Path) -> None:
    tokens, made = level(BAN, WORDS, tmp_path)
    _, other = level(BAN.replace("Titan", "Titanic"), WORDS, tmp_path, "b")
    tokens._bound = other.bind(WORDS)
    found = tokens.check("a Titan.", made.parse_request(None))
    assert found is not None
    assert found.wrong is not None
    assert (found.wrong.masked, found.wrong.end) == (False, False)
    assert found.wrong.pieces == (b"a", b" Titan", b".")
    at_end = tokens.check("a Titan", made.parse_request(None))
    assert at_end is not None
    assert at_end.wrong is not None
    assert (at_end.wrong.masked, at_end.wrong.end, at_end.wrong.pieces) == (False, True, (b"a", b" Titan"))


def test_a_token_level_that_masks_too_much_is_caught(tmp_path: Path) -> None:
    tokens, made = level(BAN.replace("Titan", "Titanic"), WORDS, tmp_path)
    _, other = level(BAN, WORDS, tmp_path, "b")
    tokens._bound = other.bind(WORDS)
    found = tokens.check("a Titan!", made.parse_request(None))
    assert found is not None
    assert found.wrong is not None
    assert found.wrong.masked
    assert found.wrong.pieces == (b"a", b" Titan")


def test_the_problem_is_told_with_the_tokens(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the last ones of many."""
    monkeypatch.setattr("policyengine.runtime.token_session.TokenSession.mask_parts", lambda self: ())
    result = check(WORDS, text="We said it: Titan.", verdict="terminate", policy="\n  a: {ban: {phrases: [Titan]}}\n")
    assert [problem.what for problem in result.problems] == ["tokens"]
    shown = list(details(result))
    assert shown[0].endswith("` Titan` `.` (ids " + ", ".join(map(str, result.problems[0].ids[-8:])) + ")")
    assert shown[0].startswith("tokens  … ")
    assert shown[1:3] == [
        "        expected the last token is masked: it completes a match",
        "        got      it may be chosen",
    ]


def test_only_bans_that_avoid_have_a_token_level(check: Check, toy: Vocabulary) -> None:
    """Forces, minimums and allows are not asked: a text that they would not let a model write passes all the same."""
    rules = "\n  a: {ban: {phrases: [bluebird]}, action: redact}\n  b: {rewrite: {to: upper}}\n"
    assert check(WORDS, policy=rules, text="bluebird", verdict="redact").segmentations == 0
    steer = "\n  a: {ban: {phrases: [magpie]}}\n  f: {force: {token_id: 3, at: every}}\n  m: {min_tokens: 99}\n"
    result = check(WORDS, policy=steer, text="Titan", verdict="pass")
    assert (result.outcome, result.segmentations) == ("passed", 5)


def test_texts_that_the_tokens_cannot_spell_are_told(check: Check, toy: Vocabulary) -> None:
    result = check(toy, text="the bluebird", verdict="terminate")
    assert (result.outcome, result.segmentations, result.unspelled) == ("passed", 0, True)


@pytest.mark.parametrize("family", sorted(vocabularies.FAMILIES))
def test_families_of_tokenizers(check: Check, family: str) -> None:
    """Bytes split inside characters, spaces that decoders drop, tokens without text."""
    vocabulary = vocabularies.FAMILIES[family]()
    for text, verdict in (
        ("the bluebird", "terminate"),
        (" bluebird, of course", "terminate"),
        ("bluebirds and Projects of Titan", "pass"),
        ("Project  Titan…", "terminate"),
        ("the Ηyperion: Hyperion。", "redact"),
        ("Hyperions", "pass"),
    ):
        result = check(vocabulary, text=text, verdict=verdict)
        assert result.problems == (), (text, list(details(result)))
        assert result.segmentations > 2 or result.unspelled


@pytest.mark.parametrize("channel", ["all", "answer", "reasoning"])
def test_channels_are_texts_of_their_own_at_both_levels(
    check: Check, tmp_path: Path, small: Vocabulary, channel: str
) -> None:
    (tmp_path / "policyengine.yaml").write_text("version: 1\nreasoning: {start: <think>, end: </think>}\n")
    rules = f"\n  a: {{ban: {{phrases: [bluebird]}}, channel: {channel}}}\n"
    for text, acts in (
        ("<think>a bluebird</think>a magpie", {"all", "reasoning"}),
        ("<think>a magpie</think>a bluebird", {"all", "answer"}),
        ("bluebird</think>", {"all", "answer"}),
        ("<think>bluebird<think>", {"all", "reasoning"}),
        ("<think>blue</think>bird <thi", set()),
    ):
        verdict = "terminate" if channel in acts else "pass"
        result = check(small, policy=rules, text=text, verdict=verdict)
        assert result.problems == (), (text, list(details(result)))


@pytest.mark.parametrize("seed", range(8))
def test_the_levels_agree_on_random_policies_and_vocabularies(seed: int) -> None:
    """What a test would call wrong is a fault of one of the levels (G3, G4), and they have none."""
    chosen = case(f"policy tests {seed}", kinds=("pieces", "byte-level"))
    policies = program(bans=chosen.banned)
    tokens, request = TokenLevel(policies, chosen.vocabulary), policies.parse_request(None)
    ways = 0
    for text in random.Random(seed).sample(chosen.texts, 8):
        found = tokens.check(text, request)
        assert found is None or found.wrong is None, f"{chosen}\n{text!a}: {found}"
        ways += found.ways if found else 0
    assert ways


# -- the files ---------------------------------------------------------------------------------------------------------


def test_policies_that_several_files_name_are_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand tests in a hundred files are no thousand compilations."""
    (tmp_path / "a.yaml").write_text("version: 1\npolicy: a\nrules: {a: {ban: {phrases: [bluebird]}}}\n")
    tests = "".join(f"  t{i}: {{text: 'Item {i}: a bluebird.', verdict: terminate}}\n" for i in range(10))
    for i in range(100):
        folder = tmp_path / f"d{i % 3}"
        folder.mkdir(exist_ok=True)
        (folder / f"{i}.test.yaml").write_text(f"version: 1\npolicies: [../a.yaml]\ntests:\n{tests}")
    suite = load_tests([tmp_path])
    assert (len(suite.tests), suite.files) == (1000, 100)
    assert len({id(test.compiled) for test in suite.tests}) == 1
    assert all(result.outcome == "passed" for result in Runner().run(suite.tests[:50]))


def test_a_file_that_is_given_twice_is_run_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("version: 1\npolicy: a\nrules: {a: {ban: {phrases: [bluebird]}}}\n")
    (tmp_path / "a.test.yaml").write_text("version: 1\npolicies: [a.yaml]\ntests: {a: {text: x, verdict: pass}}\n")
    (tmp_path / "link.test.yaml").symlink_to("a.test.yaml")
    assert len(load_tests([tmp_path, tmp_path / "a.test.yaml", tmp_path / "."]).tests) == 1


def test_variables_reach_the_policies(tmp_path: Path) -> None:
    (tmp_path / "policyengine.yaml").write_text("version: 1\nvariables: {name: magpie}\n")
    (tmp_path / "a.yaml").write_text("version: 1\npolicy: a\nrules: {a: {ban: {phrases: ['{{ name }}']}}}\n")
    path = tmp_path / "a.test.yaml"
    path.write_text("version: 1\npolicies: [a.yaml]\ntests: {a: {text: bluebird, verdict: terminate}}\n")
    outcomes = [
        [result.outcome for result in Runner().run(load_tests([path], variables).tests)]
        for variables in (None, {"name": "bluebird"})
    ]
    assert outcomes == [["failed"], ["passed"]]


def test_cut() -> None:
    assert cut("abcd", [1, 3]) == ["a", "bc", "d"]
    assert cut("", []) == [""]
