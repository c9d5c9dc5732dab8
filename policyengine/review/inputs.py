"""Texts to look at: a file or stream as one text, or JSON lines with a text in each.

Bytes that are no UTF-8 become U+FFFD, one for each maximal part of a character, as they do in what an engine shows a
client. A byte order mark at the start is no part of the text.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

_SIZE = 1 << 16  # bytes read at once
_BOM = "\ufeff"

# Where the text of a JSON line is looked for if nobody says: the first of these that there is.
FIELDS = (
    *("text", "content", "response", "output", "completion", "answer"),
    *("message.content", "choices.0.message.content", "choices.0.text"),
)


class Decoder:
    """UTF-8 in pieces. `invalid`: how many U+FFFD stand for bytes that are none; `first`: the place of the first."""

    def __init__(self) -> None:
        self.invalid = 0
        self.first: int | None = None
        self._read = 0
        self._rest = b""

    def decode(self, data: bytes, *, last: bool = False) -> str:
        """The next piece of text."""
        data, at, parts = self._rest + data, 0, []
        base = self._read - len(self._rest)
        self._read += len(data) - len(self._rest)
        self._rest = b""
        while at < len(data):
            try:
                text, used = codecs.utf_8_decode(data[at:], "strict", last)
            except UnicodeDecodeError as error:
                parts += [data[at : at + error.start].decode("utf-8"), "\ufffd"]
                if self.first is None:
                    self.first = base + at + error.start
                self.invalid += 1
                at += error.end
                continue
            parts.append(text)
            self._rest = data[at + used :]
            break
        return "".join(parts)


def pieces(stream: BinaryIO, decoder: Decoder) -> Iterator[str]:
    """A stream as text, a piece at a time."""
    first = True
    while True:
        data = stream.read(_SIZE)
        text = decoder.decode(data, last=not data)
        if text:
            yield text.removeprefix(_BOM) if first else text
            first = False
        if not data:
            return


@dataclass(frozen=True, slots=True)
class Record:
    """A JSON line, by its number from 1: its text, or what is wrong with it."""

    line: int
    text: str | None
    problem: str = ""


def records(stream: BinaryIO, field: str | None, decoder: Decoder) -> Iterator[Record]:
    """The JSON lines of a stream; blank ones are left out. field: a path of keys and indices with dots; None: `FIELDS`.

    A line that is a JSON string is a text itself.
    """
    for number, data in enumerate(stream, 1):
        line = decoder.decode(data, last=True)
        if number == 1:
            line = line.removeprefix(_BOM)
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            yield Record(number, None, f"not JSON: {getattr(error, 'msg', 'nested too deeply')}")
            continue
        yield _record(number, value, field)


def _record(number: int, value: Any, field: str | None) -> Record:
    if isinstance(value, str) and field is None:
        return Record(number, value)
    if field is not None:
        found = _at(value, field)
        if isinstance(found, str):
            return Record(number, found)
        what = "there is no" if found is None else "there is no text at"
        return Record(number, None, f"{what} `{field}`")
    for name in FIELDS:
        found = _at(value, name)
        if isinstance(found, str):
            return Record(number, found)
    return Record(number, None, "no text under any of the usual names; say which with --field")


def _at(value: Any, path: str) -> Any:
    """What stands at a path; None where there is nothing. A key that holds dots itself is found as it is."""
    if isinstance(value, dict) and path in value:
        return value[path]
    for step in path.split("."):
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value
