"""Vocabularies: what each id adds to the text, read from every kind of tokenizer file and from live tokenizers."""

from __future__ import annotations

import base64
import itertools
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.decoders import Decoder as RustDecoder
from tokenizers.decoders import DecodeStream

from policyengine.automata.vocab_decoders import Decoder
from policyengine.automata.vocabulary import Vocabulary
from tests import vocabularies
from tests.vocabularies import SMALL_SPECIAL, TOY_TOKENS


def write(folder: Path, **files: Any) -> Path:
    """Write `name=content` as name.json; returns the path of tokenizer.json."""
    for name, content in files.items():
        (folder / f"{name}.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return folder / "tokenizer.json"


def bpe(vocab: dict[str, int], decoder: RustDecoder | None, added: tuple[tuple[str, bool], ...] = ()) -> Tokenizer:
    """A tokenizer with these pieces and, behind them, added tokens (content, special)."""
    from tokenizers import AddedToken

    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[], byte_fallback=True))
    if decoder is not None:
        tokenizer.decoder = decoder
    for content, special in added:
        token = AddedToken(content, special=special, normalized=False)
        (tokenizer.add_special_tokens if special else tokenizer.add_tokens)([token])
    return tokenizer


def assert_decodes_alike(tokenizer: Tokenizer, vocabulary: Vocabulary, *, seed: int = 0) -> None:
    """Random outputs of valid UTF-8 read the same through the tokenizer and through the vocabulary."""
    rng = random.Random(seed)
    ids = [i for i, token in enumerate(vocabulary.tokens) if token is not None]
    compared = 0
    for _ in range(2000):
        output = rng.choices(ids, k=rng.randint(1, 8))
        try:
            text = b"".join(vocabulary.tokens[i] or b"" for i in output).decode()
        except UnicodeDecodeError:
            continue
        shown = tokenizer.decode(output, skip_special_tokens=True)
        if vocabulary.drops_leading_space:
            text = text.removeprefix(" ")
        assert shown == text, output
        compared += 1
    assert compared > 100


def random_outputs(vocabulary: Vocabulary, *, seed: int, count: int = 2000) -> Iterator[list[int]]:
    """Ids in any order: special ones, single bytes and first tokens among them more often than by chance."""
    rng = random.Random(seed)
    ids = [i for i, token in enumerate(vocabulary.tokens) if token is not None]
    silent = [i for i in ids if vocabulary.tokens[i] == b""]
    single = [i for i in ids if len(vocabulary.tokens[i] or b"") == 1]
    for _ in range(count):
        pools = rng.choices(
            [ids, single or ids, silent or ids], weights=[6, rng.choice([0, 6]), 1], k=rng.randint(1, 9)
        )
        yield [rng.choice(pool) for pool in pools]


def text_of(vocabulary: Vocabulary, output: Sequence[int], *, dropped: bool) -> str:
    """What the vocabulary says that the ids show; `dropped`: without a space that the decoder may drop."""
    text = b"".join(vocabulary.tokens[i] or b"" for i in output).decode("utf-8", "replace")
    return text.removeprefix(" ") if dropped and vocabulary.drops_leading_space else text


# -- from bytes ----------------------------------------------------------------------------------------------------


def test_from_bytes_keeps_tokens_padding_and_ends() -> None:
    vocabulary = Vocabulary.from_bytes(TOY_TOKENS, eos_token_ids=[0, 14, 0], encode=None)
    assert vocabulary.size == 24
    assert vocabulary.tokens == TOY_TOKENS
    assert vocabulary.eos_token_ids == (0, 14)
    assert vocabulary.encode is None
    assert vocabulary.drops_leading_space is False


@pytest.mark.parametrize(
    ("tokens", "eos", "message"),
    [
        ([], [0], "at least one token"),
        ([b"a"], [], "at least one EOS"),
        ([b"a"], [1], "EOS token id 1 is outside the vocabulary of 1 ids"),
        ([b"a"], [-1], "EOS token id -1 is outside"),
        ([b"a"], ["0"], "an EOS token id is an integer, not '0'"),
        ([b"a", "b"], [0], "token 1 is str; give bytes, or None"),
    ],
)
def test_what_is_no_vocabulary_is_refused(tokens: Any, eos: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Vocabulary.from_bytes(tokens, eos)


def test_the_digest_tells_vocabularies_apart() -> None:
    def digest(tokens: list[bytes | None], eos: list[int], drops: bool = False) -> str:
        return Vocabulary.from_bytes(tokens, eos, drops_leading_space=drops).digest

    assert digest([b"a", b"b"], [0]) == digest([b"a", b"b"], [0])
    different = [
        digest([b"a", b"b"], [0]),
        digest([b"a", b"b"], [1]),
        digest([b"a", b"b"], [0, 1]),
        digest([b"a", b"b"], [1, 0]),
        digest([b"ab", b""], [0]),
        digest([b"", b"ab"], [0]),
        digest([b"ab", None], [0]),
        digest([b"a", b"b"], [0], True),
    ]
    assert len(set(different)) == len(different)


def test_ids_without_a_token_are_told_apart_from_padding() -> None:
    vocabulary = Vocabulary.from_bytes([b"", None, b"a", None, None, b"b", None, None], [0])
    assert vocabulary.unknown_ids == (1, 3, 4)
    assert vocabulary.describe() == (
        "8 ids, 2 with text, 1 without, 5 padding; ends: 0; unknown to the tokenizer, taken to show nothing: 1, 3, 4"
    )
    assert vocabularies.toy().unknown_ids == ()
    assert vocabularies.small_sentencepiece().describe().endswith("; ends: 2; a space at the start may be dropped")


def test_resizing_pads_and_cuts() -> None:
    toy = vocabularies.toy()
    wide = toy.resized(30)
    assert wide.tokens == TOY_TOKENS + [None] * 6
    assert wide.encode is toy.encode
    assert wide.resized(24).digest == toy.digest
    assert toy.resized(20).size == 20
    with pytest.raises(ValueError, match="EOS token id 9 is outside"):
        Vocabulary.from_bytes(TOY_TOKENS, [9]).resized(5)


# -- from tokenizer.json -------------------------------------------------------------------------------------------


def test_byte_level_bpe(small: Vocabulary) -> None:
    tokenizer = Tokenizer.from_file(str(vocabularies.small_path()))
    assert small.size == 4096
    assert small.tokens[: len(SMALL_SPECIAL)] == [b""] * len(SMALL_SPECIAL)
    assert not small.drops_leading_space
    assert sorted(t for t in small.tokens if t is not None and len(t) == 1) == [bytes([b]) for b in range(256)]
    assert_decodes_alike(tokenizer, small)
    assert small.encode is not None
    text = "def f(x):\n    return 'ünï 🙂'"
    assert b"".join(small.tokens[i] or b"" for i in small.encode(text)).decode() == text


def test_byte_level_added_tokens_show_unless_special(tmp_path: Path) -> None:
    added = (("<think>", False), (" spaced out ", False), ("｜eos｜", True), ("Ġé", False))
    tokenizer = bpe({"Ġa": 0, "b": 1, "Ã": 2, "©": 3}, decoders.ByteLevel(), added)
    vocabulary = Vocabulary.from_tokenizer_json(write(tmp_path, tokenizer=tokenizer.to_str()), eos_token_ids=[6])
    assert vocabulary.tokens == [b" a", b"b", b"\xc3", b"\xa9", b"<think>", b" spaced out ", b"", b" \xe9"]
    assert vocabulary.special == {"｜eos｜": 6}, "names are kept where there is no text"
    assert vocabulary.resized(9).special == {"｜eos｜": 6}
    assert vocabulary.resized(6 + 1).special == {"｜eos｜": 6}
    assert_decodes_alike(tokenizer, vocabulary)


def byte_tokens() -> dict[str, int]:
    return {f"<0x{byte:02X}>": byte for byte in range(256)}


def test_sentencepiece_with_byte_fallback_that_strips_the_first_space(tmp_path: Path) -> None:
    chain = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    pieces = byte_tokens() | {"▁rice": 256, "rice": 257, "▁": 258, "▁▁▁": 259, "é": 260}
    tokenizer = bpe(pieces, chain, (("</s>", True), ("<tool>", False)))
    vocabulary = Vocabulary.from_tokenizer_json(write(tmp_path, tokenizer=tokenizer.to_str()), [261])
    assert vocabulary.tokens[:256] == [bytes([byte]) for byte in range(256)]
    assert vocabulary.tokens[256:] == [b" rice", b"rice", b" ", b"   ", "é".encode(), b"", b"<tool>"]
    assert vocabulary.drops_leading_space
    assert_decodes_alike(tokenizer, vocabulary)


def test_sentencepiece_that_keeps_the_first_space(tmp_path: Path) -> None:
    chain = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer = bpe(byte_tokens() | {"▁rice": 256}, chain, (("</s>", True),))
    vocabulary = Vocabulary.from_tokenizer_json(write(tmp_path, tokenizer=tokenizer.to_str()), [257])
    assert vocabulary.tokens[256] == b" rice"
    assert not vocabulary.drops_leading_space
    assert_decodes_alike(tokenizer, vocabulary)


@pytest.mark.parametrize(("scheme", "drops"), [("always", True), ("first", True), ("never", False)])
def test_metaspace_over_unigram(tmp_path: Path, scheme: str, drops: bool) -> None:
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), ("▁rice", -1.0), ("r", -2.0), ("▁", -3.0)], 0, False))
    tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme)
    tokenizer.add_special_tokens(["<unk>", "</s>"])
    vocabulary = Vocabulary.from_tokenizer_json(write(tmp_path, tokenizer=tokenizer.to_str()), [4])
    assert vocabulary.tokens == [b"", b" rice", b"r", b" ", b""]
    assert vocabulary.drops_leading_space is drops
    assert_decodes_alike(tokenizer, vocabulary)


@pytest.mark.parametrize("cleanup", [True, False])
def test_word_piece(tmp_path: Path, cleanup: bool) -> None:
    words = ["[UNK]", "rice", "##s", "##un", ".", "!", "'", "n't", "do", "not", "a b"]
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=cleanup)
    tokenizer.add_special_tokens(["[UNK]"])
    vocabulary = Vocabulary.from_tokenizer_json(write(tmp_path, tokenizer=tokenizer.to_str()), [0])
    assert vocabulary.tokens[:4] == [b"", b" rice", b"s", b"un"]
    assert vocabulary.tokens[4] == (b"." if cleanup else b" .")
    assert vocabulary.tokens[7] == (b"n't" if cleanup else b" n't")
    assert vocabulary.drops_leading_space
    for output in ([1, 2, 4], [1, 4, 1, 2, 3, 5], [8, 7, 6, 1], [8, 9, 1]):
        text = b"".join(vocabulary.tokens[i] or b"" for i in output).decode().removeprefix(" ")
        assert tokenizer.decode(output) == text


def test_without_a_decoder_pieces_are_joined_by_spaces(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({"<eos>": 0, "rice": 1, "pudding": 2}, unk_token="<eos>"))
    tokenizer.add_special_tokens(["<eos>"])
    vocabulary = Vocabulary.from_tokenizer_json(write(tmp_path, tokenizer=tokenizer.to_str()), [0])
    assert vocabulary.tokens == [b"", b" rice", b" pudding"]
    assert vocabulary.drops_leading_space
    assert_decodes_alike(tokenizer, vocabulary)


def test_holes_between_ids_are_padding(tmp_path: Path) -> None:
    tokenizer = bpe({"a": 0, "b": 3}, decoders.ByteLevel())
    vocabulary = Vocabulary.from_tokenizer_json(write(tmp_path, tokenizer=tokenizer.to_str()), [0])
    assert vocabulary.tokens == [b"a", None, None, b"b"]


@pytest.mark.parametrize(
    "decoder",
    [
        {"type": "BPEDecoder", "suffix": "</w>"},
        {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True},
        {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"},
        {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Strip", "content": "x", "start": 1, "stop": 0}]},
        {"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 0, "stop": 1}]},
        {"type": "Sequence", "decoders": [{"type": "ByteLevel"}, {"type": "Metaspace"}]},
        {"type": "Invented"},
    ],
)
def test_a_decoder_that_is_not_known_is_an_error(decoder: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"is not known.*Vocabulary\.from_bytes"):
        Decoder.from_json(decoder)


def test_what_is_no_tokenizer_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"tokenizer\.json does not exist"):
        Vocabulary.from_tokenizer_json(tmp_path)
    with pytest.raises(ValueError, match="not a readable tokenizer"):
        Vocabulary.from_tokenizer_json(write(tmp_path, tokenizer="{"))
    with pytest.raises(ValueError, match="holds no JSON object"):
        Vocabulary.from_tokenizer_json(write(tmp_path, tokenizer=[]))
    with pytest.raises(ValueError, match="needs `from_tekken`"):
        Vocabulary.from_tokenizer_json(write(tmp_path, tokenizer={"config": {}, "vocab": []}), [0])


def test_eos_ids_come_from_the_files_beside(tmp_path: Path) -> None:
    tokenizer = bpe({"a": 0}, decoders.ByteLevel(), (("<eos>", True), ("<end>", True), ("<stop>", True)))
    path = write(tmp_path, tokenizer=tokenizer.to_str())
    with pytest.raises(ValueError, match="give `eos_token_ids`"):
        Vocabulary.from_tokenizer_json(path)
    write(tmp_path, config={"eos_token_id": 1})
    assert Vocabulary.from_tokenizer_json(tmp_path).eos_token_ids == (1,)
    write(tmp_path, generation_config={"eos_token_id": [1, 3]})
    assert Vocabulary.from_tokenizer_json(tmp_path).eos_token_ids == (1, 3)
    write(tmp_path, tokenizer_config={"eos_token": {"content": "<end>"}})
    assert Vocabulary.from_tokenizer_json(tmp_path).eos_token_ids == (2, 1, 3)
    write(tmp_path, tokenizer_config={"eos_token": "<end>"})
    assert Vocabulary.from_path(tmp_path).eos_token_ids == (2, 1, 3)
    assert Vocabulary.from_path(path, [0]).eos_token_ids == (0,)


# -- the families: any ids in any order ----------------------------------------------------------------------------


def test_byte_level_output_is_decoded_as_the_tokenizer_does(small: Vocabulary) -> None:
    tokenizer = Tokenizer.from_file(str(vocabularies.small_path()))
    for output in random_outputs(small, seed=1):
        assert text_of(small, output, dropped=True) == tokenizer.decode(output, skip_special_tokens=True)


def test_tekken_output_is_decoded_as_mistral_common_does() -> None:
    from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    vocabulary = vocabularies.small_tekken()
    tokenizer = Tekkenizer.from_file(vocabularies.small_tekken_path())
    assert vocabulary.eos_token_ids == (tokenizer.eos_id,)
    for output in random_outputs(vocabulary, seed=2):
        shown = tokenizer.decode(output, SpecialTokenPolicy.IGNORE)
        if "\ufffd" in shown:  # a special token inside a character breaks it there; an engine drops the token first
            output = [i for i in output if vocabulary.tokens[i]]
            shown = tokenizer.decode(output, SpecialTokenPolicy.IGNORE)
        assert text_of(vocabulary, output, dropped=True) == shown


def without_broken_runs(tokenizer: Tokenizer, output: Sequence[int]) -> list[int]:
    """The ids with each run of byte tokens that is no valid UTF-8 as a whole left out."""
    kept: list[int] = []
    shown = [i for i in output if i > 2]
    for is_byte, run in itertools.groupby(shown, key=lambda i: tokenizer.id_to_token(i).startswith("<0x")):
        ids = list(run)
        try:
            bytes(int(tokenizer.id_to_token(i)[3:5], 16) for i in ids if is_byte).decode()
        except UnicodeDecodeError:
            continue
        kept += ids
    return kept


def test_sentencepiece_output_is_decoded_as_the_tokenizer_does() -> None:
    """Byte tokens that are no character together are for the next test."""
    vocabulary = vocabularies.small_sentencepiece()
    tokenizer = Tokenizer.from_file(str(vocabularies.small_sentencepiece_path()))
    for output in random_outputs(vocabulary, seed=3):
        valid = without_broken_runs(tokenizer, output)
        assert text_of(vocabulary, valid, dropped=True) == tokenizer.decode(valid, skip_special_tokens=True)


@pytest.mark.parametrize(
    ("pieces", "shown", "at_once"),
    [
        (["▁the", "<0xE2>", "<0x82>", "<0xAC>", "▁a"], " the€ a", "the€ a"),
        (["a", "<0xE2>", "<0x82>", "b"], "a\ufffdb", "a\ufffd\ufffdb"),
        (["a", "<0x72>", "<0xFF>", "b"], "ar\ufffdb", "a\ufffd\ufffdb"),
        (["a", "<0xE2>", "<0x82>", "<0xAC>", "<0xAC>"], "a€\ufffd", "a" + 4 * "\ufffd"),
    ],
)
def test_byte_tokens_that_make_no_character(pieces: list[str], shown: str, at_once: str) -> None:
    """A letter that was shown stays; decoded at once, the whole run of byte tokens is replaced."""
    vocabulary = vocabularies.small_sentencepiece()
    tokenizer = Tokenizer.from_file(str(vocabularies.small_sentencepiece_path()))
    output = [tokenizer.token_to_id(piece) for piece in pieces]
    assert text_of(vocabulary, output, dropped=False) == shown
    assert tokenizer.decode(output) == at_once


def test_mistral_sentencepiece_files_are_decoded_as_mistral_common_does() -> None:
    from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy
    from mistral_common.tokens.tokenizers.sentencepiece import SentencePieceTokenizer

    for name in ("tokenizer.model.v1", "mistral_instruct_tokenizer_241114.model.v7"):
        tokenizer = SentencePieceTokenizer(vocabularies.mistral_file(name))
        vocabulary = Vocabulary.from_transformers(tokenizer, size=tokenizer.n_words + 64, eos_token_ids=[2])
        assert vocabulary.tokens[tokenizer.n_words :] == [None] * 64
        compared = 0
        for output in random_outputs(vocabulary, seed=4):
            shown, text = (
                tokenizer.decode(output, SpecialTokenPolicy.IGNORE),
                text_of(vocabulary, output, dropped=False),
            )
            if "\ufffd" not in text:
                assert shown in (text, text.removeprefix(" ")), "a space may be dropped; one of bytes is not"
                compared += 1
        assert compared > 1000


def test_word_piece_output_is_decoded_as_the_tokenizer_does() -> None:
    vocabulary = vocabularies.word_piece()
    tokenizer = Tokenizer.from_file(str(vocabularies.word_piece_path()))
    for output in random_outputs(vocabulary, seed=5):
        text = text_of(vocabulary, output, dropped=True)
        first = next((i for i in output if vocabulary.tokens[i]), None)
        if first is not None and tokenizer.id_to_token(first).startswith("##"):
            text = "##" + text  # no output of a model that was asked something begins so
        assert text == tokenizer.decode(output, skip_special_tokens=True), output


@pytest.mark.parametrize("family", ["byte-level", "sentencepiece", "wordpiece"])
def test_a_stream_behind_a_prompt_shows_what_the_vocabulary_says(family: str) -> None:
    """The engine's own way: token by token, behind the prompt's, so that nothing is dropped at the start."""
    paths = {"byte-level": vocabularies.small_path, "sentencepiece": vocabularies.small_sentencepiece_path}
    path = paths.get(family, vocabularies.word_piece_path)()
    vocabulary, tokenizer = vocabularies.FAMILIES[family](), Tokenizer.from_file(str(path))
    prompt = tokenizer.encode("import this", add_special_tokens=False).ids
    compared = 0
    for output in random_outputs(vocabulary, seed=6, count=500):
        expected = text_of(vocabulary, output, dropped=False)
        if "\ufffd" in expected:
            continue
        stream = DecodeStream(ids=prompt, skip_special_tokens=True)
        assert "".join(stream.step(tokenizer, i) or "" for i in output) == expected, output
        compared += 1
    assert compared > 100


# -- Tekken --------------------------------------------------------------------------------------------------------


def test_the_real_tekken_file_reads_as_mistral_common_reads_it(real: Vocabulary) -> None:
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    reference = Tekkenizer.from_file(vocabularies.tekken_path())
    assert real.size == reference.n_words == 131_072
    assert real.tokens == [reference.id_to_byte_piece(i) for i in range(reference.n_words)]
    assert real.eos_token_ids == (reference.eos_id,)
    assert real.encode is not None
    for text in ("Answer: ", "Straße, 東京", "</s>", "  \n"):
        assert real.encode(text) == reference.encode(text, bos=False, eos=False)
    live = Vocabulary.from_transformers(reference, size=131_080, eos_token_ids=[2])
    assert live.tokens == real.tokens + [None] * 8
    assert live.special["</s>"] == reference.eos_id
    assert len(live.special) == reference.num_special_tokens


def tekken(special_tokens: Any = None) -> dict[str, Any]:
    words = [b"a", b"b", b"ab", b"unused"]
    vocab = [{"rank": i, "token_bytes": base64.b64encode(w).decode(), "token_str": None} for i, w in enumerate(words)]
    config = {"pattern": ".+", "default_vocab_size": 6, "default_num_special_tokens": 3}
    return {"config": config, "vocab": vocab, "special_tokens": special_tokens}


def test_a_tekken_file_by_hand(tmp_path: Path) -> None:
    write(tmp_path, tekken=tekken([{"rank": r, "token_str": t} for r, t in enumerate(("<unk>", "</s>", "<s>"))]))
    vocabulary = Vocabulary.from_path(tmp_path)
    assert vocabulary.tokens == [b"", b"", b"", b"a", b"b", b"ab"]
    assert vocabulary.eos_token_ids == (1,)
    assert vocabulary.special == {"<unk>": 0, "</s>": 1, "<s>": 2}
    write(tmp_path, tekken=tekken())
    assert Vocabulary.from_tekken(tmp_path / "tekken.json").eos_token_ids == (2,)


def test_a_broken_tekken_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tekken.json"
    with pytest.raises(ValueError, match="not a readable tekken"):
        Vocabulary.from_tekken(path)
    write(tmp_path, tekken=tekken([{"rank": 0, "token_str": "<s>"}]))
    with pytest.raises(ValueError, match="names no `</s>`"):
        Vocabulary.from_tekken(path)
    damaged = tekken()
    damaged["vocab"][0]["rank"] = 7
    write(tmp_path, tekken=damaged)
    with pytest.raises(ValueError, match="do not have the ranks"):
        Vocabulary.from_tekken(path)


# -- live tokenizers -----------------------------------------------------------------------------------------------


def test_from_transformers_is_what_the_file_gives(small: Vocabulary) -> None:
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(vocabularies.small_path()), eos_token="<eos>")
    live = Vocabulary.from_transformers(tokenizer)
    assert live.tokens == small.tokens
    assert live.eos_token_ids == (0,)
    assert live.special == small.special == {name: i for i, name in enumerate(SMALL_SPECIAL)}
    assert live.encode is not None
    assert small.encode is not None
    assert live.encode("import os") == small.encode("import os")
    wide = Vocabulary.from_transformers(tokenizer, size=4160, eos_token_ids=[0, 1, 4200])
    assert wide.tokens[4096:] == [None] * 64
    assert wide.eos_token_ids == (0, 1), "an id that no logit belongs to cannot be chosen"


def test_a_live_tokenizer_that_cannot_be_read_is_an_error() -> None:
    class Slow:
        eos_token_id = 0

    with pytest.raises(ValueError, match="the text of Slow's tokens cannot be read"):
        Vocabulary.from_transformers(Slow())


def test_without_tokenizer_libraries_only_encoding_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    vocabulary = Vocabulary.from_tokenizer_json(vocabularies.small_path(), [0])
    assert vocabulary.encode is None
    assert vocabulary.size == 4096
    write(tmp_path, tekken=tekken())
    assert Vocabulary.from_path(tmp_path).encode is None


def test_normalizers_and_pre_tokenizers_do_not_matter_for_decoding(tmp_path: Path) -> None:
    tokenizer = bpe({"Ġa": 0, "b": 1}, decoders.ByteLevel())
    plain = Vocabulary.from_tokenizer_json(write(tmp_path, tokenizer=tokenizer.to_str()), [0])
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    assert Vocabulary.from_tokenizer_json(write(tmp_path, tokenizer=tokenizer.to_str()), [0]).digest == plain.digest
