"""Inputs that broke other systems at the level of tokens, over the toy vocabulary of 24 ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import policyengine as pe
from policyengine.automata.vocabulary import Vocabulary
from policyengine.runtime.token_program import TokenProgram
from tests.vocabularies import TOY_TOKENS

Bind = Callable[..., TokenProgram]


@pytest.fixture
def bind(tmp_path: Path, toy: Vocabulary) -> Bind:
    """Binds the policy `toy` with these rules to the toy vocabulary, or to another one."""

    def bound(rules: str, *, activation: str = "always", vocabulary: Vocabulary = toy) -> TokenProgram:
        indented = "".join(f"  {line}\n" for line in rules.strip().splitlines())
        path = tmp_path / "toy.yaml"
        path.write_text(f"version: 1\npolicy: toy\nactivation: {activation}\nrules:\n{indented}")
        return pe.compile(pe.load(path)).bind(vocabulary)

    return bound


def masked(program: TokenProgram, history: Sequence[int] = (), **options: Any) -> list[int]:
    """The ids that may not be chosen after these."""
    session = program.token_session(**options)
    for token in history:
        session.advance(token)
    return list(session.masked().tolist())


def test_1_a_ban_holds_for_every_spelling(bind: Bind) -> None:
    program = bind("no-rice: {ban: {phrases: [rice], match: substring}}")
    assert masked(program, [2]) == [3, 4, 12, 13]
    assert masked(program, [2, 6, 7]) == [3, 4, 8, 12, 13, 16], "and what completes a spelling in pieces"
    program = bind("no-rice: {ban: {phrases: [rice]}}")
    assert masked(program, [2]) == [4, 13], "therice is another word"


def test_2_a_ban_longer_than_the_history(bind: Bind) -> None:
    program = bind("no-rice-the: {ban: {phrases: [rice the], match: substring}}")
    assert masked(program) == []
    assert masked(program, [2]) == []
    assert masked(program, [3]) == [2]


@pytest.mark.parametrize("token", [24, 26, 131_072])
def test_3_a_token_id_outside_the_vocabulary(bind: Bind, token: int) -> None:
    with pytest.raises(ValueError, match=rf"toy/reserved: token id {token} is outside the vocabulary of 24 ids"):
        bind(f"reserved: {{ban: {{token_ids: [{token}]}}}}")


def test_4_min_tokens_masks_every_stop_id(bind: Bind) -> None:
    vocabulary = Vocabulary.from_bytes(TOY_TOKENS, eos_token_ids=[0, 14])
    program = bind("long: {min_tokens: 3}", vocabulary=vocabulary)
    for length in range(3):
        assert masked(program, [1] * length) == [0, 14]
        assert masked(program, [1] * length, stop_token_ids=[9, 14]) == [0, 9, 14], "a client's own ids too"
    assert masked(program, [1] * 3, stop_token_ids=[9]) == []


def test_5_forcing_what_is_banned(bind: Bind) -> None:
    with pytest.raises(pe.PolicyError) as caught:
        bind("no-rice: {ban: {phrases: [rice]}}\nopening: {force: {text: rice, at: start}}")
    (found,) = caught.value.diagnostics
    assert found.code == "PE103"
    assert "toy/no-rice" in found.message
    assert "toy/opening" in found.message


def test_6_a_bias_reaches_every_spelling(bind: Bind) -> None:
    program = bind("less-rice: {bias: {phrases: {rice: -100}}}")
    session = program.token_session()
    assert session.biases() == {3: -100.0, 4: -100.0, 12: -100.0, 13: -100.0}
    for token in (6, 7):
        session.advance(token)
    assert session.biases() == {4: -100.0, 8: -100.0, 13: -100.0, 16: -100.0}, "ids that complete the word, too"
    assert session.masked().tolist() == []


def test_8_a_request_without_rules_is_left_alone(bind: Bind) -> None:
    rules = (
        "no-rice: {ban: {phrases: [rice]}}",
        "less: {bias: {phrases: {the: -1}, token_ids: {5: 2}}}",
        "long: {min_tokens: 9}",
    )
    program = bind("\n".join(rules), activation="on_request")
    first = program.token_session({"policies": ["toy"]})
    assert first.masked().tolist() == [0, 3, 4, 12, 13]
    assert first.biases() == {1: -1.0, 2: -1.0, 5: 2.0}
    first.advance(6)
    second = program.token_session()
    for token in (6, 7, 8):
        assert second.masked().tolist() == []
        assert second.biases() == {}
        assert second.forced is None
        assert second.is_idle
        second.advance(token)
    assert second.masked_choices == 0


def test_24_what_a_grammar_still_allows_is_never_masked_whole(bind: Bind) -> None:
    session = bind("long: {min_tokens: 64}").token_session()
    assert 0 in session.masked()
    masked_under_grammar = session.masked(allowed=[0]).tolist()
    assert masked_under_grammar == list(range(1, 24)), "the end is all that is left, and the minimum gives way"
    program = bind("long: {min_tokens: 64}\nno-rice: {ban: {phrases: [rice]}}")
    assert program.token_session().masked(allowed=[3, 4]).tolist() == list(range(1, 24)), (
        "no banned token is the way out"
    )
