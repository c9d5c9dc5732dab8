"""Lints that ask a vocabulary, or name what depends on one."""

from __future__ import annotations

import pytest

from policyengine.automata.vocabulary import Vocabulary
from tests.unit.lint.conftest import Found, Put, checked
from tests.vocabularies import small, spell

WORDS = [b" category", b"cat", b" cat", b"egory", b" the", b"catalog", b" catalog", b" titan", b"tit", b"an", b" Cat"]


def vocabulary(*words: bytes, leaves_out: bytes = b"") -> Vocabulary:
    """The bytes, the end at 256, and some words; text is split into the longest."""
    tokens = [*(None if b in leaves_out else bytes([b]) for b in range(256)), b"", *(words or WORDS)]
    return Vocabulary.from_bytes(tokens, [256], encode=lambda text: spell(tokens, text))


VLLM = "targets: [vllm]\n"


@pytest.mark.parametrize(
    ("ban", "expected"),
    [
        ("phrases: [cat]", "`category` (`cat` + `egory`)"),
        ("phrases: [cat], gaps: punctuation", "`category` (`cat` + `egory`)"),
        ("phrases: [cat], word_end: exact", ""),
        ("phrases: [cat], match: prefix", ""),  # the word itself is banned
        ("phrases: [cat, category]", "`Catalog`"),
        ("phrases: [tit]", "`titan` (`tit` + `an`)"),
        ("phrases: [dog]", ""),
        ("phrases: [the cat]", ""),
    ],
)
def test_words_that_an_eager_ban_takes_away(found: Found, ban: str, expected: str) -> None:
    policy = VLLM + f"rules: {{r: {{ban: {{{ban}}}}}}}\n"
    messages = found("eager-blocks-common-word", policy, vocabulary=vocabulary())
    assert [expected in message for message in messages] == ([True] if expected else [])


def test_a_word_that_is_one_token_in_every_form_is_not_named(found: Found) -> None:
    every = vocabulary(*WORDS, b"category", b"Category", b" Category", b"titan", b"Titan", b" Titan")
    policy = VLLM + "rules: {r: {ban: {phrases: [cat]}}}\n"
    (message,) = found("eager-blocks-common-word", policy, vocabulary=every)
    assert "ategory" not in message
    assert "`Catalog`" in message  # no token holds it whole


def test_what_it_names_is_what_a_session_masks(put: Put) -> None:
    """The step that writes the word as it is usually split is refused; the other words go through."""
    import policyengine as pe

    words = vocabulary()
    folder = put(VLLM + "rules: {r: {ban: {phrases: [cat]}}}\n")
    assert any(one.name == "eager-blocks-common-word" for one in checked(folder, words).diagnostics)
    tokens = pe.compile(pe.load(folder)).bind(words, target="vllm")
    assert words.encode is not None
    for text, refused in (("category", True), (" category", False), ("catalog", False)):
        session = tokens.token_session()
        steps = []
        for token in words.encode(text):
            steps.append(token in session.masked())
            session.advance(token)
        assert any(steps) is refused


def test_a_real_tokenizer_is_asked(found: Found) -> None:
    """One that was trained on source text: its own words are the common ones."""
    policy = VLLM + "rules: {r: {ban: {phrases: [con]}}}\n"
    (message,) = found("eager-blocks-common-word", policy, vocabulary=small())
    assert message.startswith("`con` keeps this model from common words")
    assert "`Context` (`Con` + `text`)" in message


def test_it_says_where_most_words_stand(found: Found) -> None:
    policy = VLLM + "rules: {r: {ban: {phrases: [cat]}}}\n"
    every = [b" category", b"Category", b" Category", b"cat"]
    (line,) = found("eager-blocks-common-word", policy, vocabulary=vocabulary(*every))
    assert "common words without a space before them, as in a new line: `category` (`cat` + " in line
    (anywhere,) = found("eager-blocks-common-word", policy, vocabulary=vocabulary(b" category", b" Cat", b"cat"))
    assert "common words: " in anywhere


@pytest.mark.parametrize(
    ("phrase", "options", "missing"),
    [
        ("bird 🐦", "", "🐦"),
        ("été", "", ""),
        ("bird", "", ""),
        ("𝐛ird", "", ""),  # a bold b is written b, too
        ("𝐛ird", ", normalize: []", "𝐛"),
    ],
)
def test_phrases_that_a_model_cannot_write(found: Found, phrase: str, options: str, missing: str) -> None:
    policy = VLLM + f"rules: {{r: {{ban: {{phrases: [{phrase}]{options}}}}}}}\n"
    messages = found("unspellable-phrase", policy, vocabulary=vocabulary(leaves_out=b"\xf0"))
    assert messages == ([f"this model cannot write `{phrase}`: no token holds `{missing}`"] if missing else [])
    assert found("unspellable-phrase", policy, vocabulary=vocabulary()) == []
    assert found("unspellable-phrase", policy) == []


@pytest.mark.parametrize(
    ("rule", "count"),
    [
        ("ban: {token_ids: [5]}", 1),
        ("bias: {token_ids: {5: 1}}", 1),
        ("allow: {token_ids: [5, 6]}", 1),
        ("force: {token_id: 5, at: 0}", 1),
        ("force: {token_id: {param: n}, at: 0}", 0),
        ("ban: {token_ids: [5]}, when: {vocabulary: ['01234567']}", 0),
        ("ban: {token_ids: [5]}, when: {model: [acme-*]}", 0),
        ("ban: {token_ids: [5]}, when: {device: [cuda]}", 1),
        ("bias: {phrases: {delve: 1}}", 0),
    ],
)
def test_ids_of_no_particular_vocabulary(found: Found, rule: str, count: int) -> None:
    policy = f"{VLLM}parameters: {{n: {{type: token_id}}}}\nrules: {{r: {{{rule}}}}}\n"
    assert len(found("token-id-without-vocabulary", policy)) == count


def test_with_a_vocabulary_the_help_names_it(put: Put) -> None:
    words = vocabulary()
    result = checked(put(VLLM + "rules: {r: {ban: {token_ids: [5]}}}\n"), words)
    (one,) = (one for one in result.diagnostics if one.name == "token-id-without-vocabulary")
    assert one.help is not None
    assert words.digest[:12] in one.help
