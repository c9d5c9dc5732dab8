"""docs/options.md is true: every row of its tables is compiled and tried, on text and token by token."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import policyengine as pe
from policyengine.language.phrases import OptionKeys
from policyengine.language.rules.ban import BanForm

PAGE = (Path(__file__).parents[3] / "docs" / "options.md").read_text(encoding="utf-8")
ABOUT_TOKENS = "`word_end`"
EOS = 256
TOKENS = [b"", b"Titan", b"ic", b".", b"Ti", b"tan"]

Compile = Callable[[str, str], pe.Program]


class Row(NamedTuple):
    """A row of a table: what stands in the ban, and the other two columns as written."""

    ban: str
    third: str
    fourth: str


def rows(*, about_tokens: bool) -> list[Row]:
    """The rows of the tables about text, or of the one about tokens."""
    found = []
    for section in PAGE.split("\n## ")[1:]:
        if section.startswith(ABOUT_TOKENS) == about_tokens:
            lines = [line.strip("|").split(" | ") for line in section.split("\n") if line.startswith("| ")]
            found += [Row(*(cell.strip() for cell in cells[1:])) for cells in lines[1:]]
    return found


def code(cell: str) -> str:
    """What stands between backticks."""
    found = re.fullmatch(r"`(.*)`", cell)
    assert found, cell
    return found[1]


@pytest.fixture
def compiled(tmp_path: Path) -> Compile:
    """A program with one ban."""

    def make(ban: str, action: str) -> pe.Program:
        rule = f"version: 1\npolicy: p\nrules:\n  r:\n    ban: {{{ban}}}\n    action: {action}\n"
        (tmp_path / "p.yaml").write_text(rule, encoding="utf-8")
        return pe.compile(pe.load(tmp_path))

    return make


def needs_text_action(ban: str) -> bool:
    """Whether the expressions of a ban are such that no automaton can read them."""
    return ban.startswith("regex") and ("\\1" in ban or "(?!" in ban)


TEXTS = [(code(row.ban), json.loads(code(row.third)), json.loads(code(row.fourth))) for row in rows(about_tokens=False)]


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(("ban", "text", "seen"), TEXTS)
def test_what_a_client_sees(compiled: Compile, ban: str, text: str, seen: str, size: int) -> None:
    session = compiled(ban, '{redact: "▮"}').text_session()
    shown = "".join(session.feed(text[at : at + size]).text for at in range(0, len(text), size))
    assert shown + session.finish().text == seen


@pytest.mark.parametrize(("ban", "text", "seen"), TEXTS)
def test_what_a_model_may_write(compiled: Compile, ban: str, text: str, seen: str) -> None:
    """Byte by byte, to the end. `exact`, since a mask that acts early would tell nothing of the text."""
    if needs_text_action(ban):
        with pytest.raises(pe.PolicyError, match="irregular-regex"):
            compiled(ban, "avoid")
        return
    if "phrases" in ban:
        ban += ", word_end: exact"
    vocabulary = pe.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b""], [EOS])
    session = compiled(ban, "avoid").bind(vocabulary).token_session()
    masked = False
    for token in [*text.encode(), EOS]:
        masked = masked or token in session.masked()
        session.advance(token)
    assert masked == (text != seen)


@pytest.mark.parametrize("row", rows(about_tokens=True))
def test_what_is_masked(compiled: Compile, row: Row) -> None:
    vocabulary = pe.Vocabulary.from_bytes(TOKENS, [0])
    names = {"the end": 0} | {json.dumps(token.decode()): i for i, token in enumerate(TOKENS) if token}
    for spelling in spellings(json.loads(code(row.third)).encode()):
        session = compiled(code(row.ban), "avoid").bind(vocabulary).token_session()
        for token in spelling:
            session.advance(token)
        wanted = [] if row.fourth == "nothing" else [names[part.strip("`")] for part in row.fourth.split(", ")]
        assert session.masked().tolist() == sorted(wanted)


def spellings(text: bytes) -> list[list[int]]:
    """Every way to write a text in these tokens."""
    if not text:
        return [[]]
    heads = [i for i, token in enumerate(TOKENS) if token and text.startswith(token)]
    return [[i, *rest] for i in heads for rest in spellings(text[len(TOKENS[i]) :])]


def test_every_option_and_value_has_a_row() -> None:
    shown = [row.ban for row in (*rows(about_tokens=False), *rows(about_tokens=True))]
    first = re.findall(r"^\| (.*?) \|", PAGE, flags=re.MULTILINE)
    for name in BanForm.offered():
        if name not in ("phrases_from", "normalize"):
            assert any(re.search(rf"`{name}\b", cell) or f"{name}: " in " ".join(shown) for cell in first), name
    schema = OptionKeys.model_json_schema()["properties"]
    for name in ("match", "case", "gaps", "word_end"):
        for value in schema[name]["enum"]:
            assert f"`{name}: {value}`" in first, (name, value)
    for step in schema["normalize"]["items"]["enum"]:
        assert any(step in cell for cell in first), step
