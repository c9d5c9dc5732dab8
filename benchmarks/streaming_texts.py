"""Texts as a model might write them, in the chunks in which a server sends them, and none of them twice.

English prose with code: the topics of Python's reference manual (`pydoc_data`) and the docstrings of the standard
library, in an order drawn once, 1.8 million characters; the vocabulary's own tokenizer cuts them into tokens.
"""

from __future__ import annotations

import ast
import codecs
import random
import sysconfig
from functools import cache
from importlib.resources import files
from pathlib import Path

from benchmarks import common

_SHORTEST = 200  # characters of a docstring that is read
_PIECE = 20_000  # characters that the tokenizer gets at once


@cache
def corpus() -> str:
    """All there is to read."""
    from pydoc_data.topics import topics

    parts = [topics[name] for name in sorted(topics)]
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if {"site-packages", "test", "tests", "idle_test", "pydoc_data"}.isdisjoint(path.parts):
            parts += _docstrings(path)
    random.Random(1).shuffle(parts)
    return "\n\n".join(parts)


def _docstrings(path: Path) -> list[str]:
    try:
        tree = ast.parse(path.read_text("utf-8"))
    except (SyntaxError, ValueError):
        return []  # a file that shows an error
    nodes = (n for n in ast.walk(tree) if isinstance(n, (ast.Module, ast.ClassDef, ast.FunctionDef)))
    return [text for node in nodes if len(text := ast.get_docstring(node) or "") > _SHORTEST]


@cache
def _tokenizer() -> object:
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    return Tekkenizer.from_file(str(files("mistral_common").joinpath("data", common.VOCABULARY)))


@cache
def _piece(at: int) -> tuple[str, ...]:
    """Chunks of one piece of the corpus: what a decoder of UTF-8 can show after each token."""
    tokens, decoder = common.vocabulary().tokens, codecs.getincrementaldecoder("utf-8")("replace")
    ids = _tokenizer().encode(corpus()[at : at + _PIECE], bos=False, eos=False)  # type: ignore[attr-defined]
    return tuple(filter(None, (decoder.decode(tokens[i] or b"") for i in ids)))


class Reader:
    """Hands out stretches of the corpus, from the beginning on and each once."""

    def __init__(self) -> None:
        self._at, self._chunks = 0, list[str]()

    def text(self, chunks: int) -> list[str]:
        """The next so many chunks. Raises ValueError where the corpus is read."""
        while len(self._chunks) < chunks:
            if self._at >= len(corpus()):
                raise ValueError("there is no more to read")
            self._chunks += _piece(self._at)
            self._at += _PIECE
        found, self._chunks = self._chunks[:chunks], self._chunks[chunks:]
        return found
