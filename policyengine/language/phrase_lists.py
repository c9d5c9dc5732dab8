"""`phrases_from`: phrases in a file of their own, one a line.

White space around a line is stripped, blank lines and lines that start with `#` are skipped, `\\#` stands for a leading
`#`, lines end with LF or CRLF, and variables are not replaced.
"""

from __future__ import annotations

import os
import posixpath
from pathlib import Path

from policyengine.language.diagnostics import visible
from policyengine.language.nodes import Node
from policyengine.language.policyset import Phrase
from policyengine.language.reading import Reading
from policyengine.language.source import Source, read

# Unicode's White_Space. `str.strip()` would take away control characters too, which must be seen and refused.
WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


class PhraseLists:
    """The phrase lists of one load; each file is read once, however many rules name it."""

    def __init__(self) -> None:
        self._read: dict[Path, tuple[Phrase, ...]] = {}

    def phrases(self, written: str, node: Node, reading: Reading) -> tuple[Phrase, ...]:
        """The phrases of a list. `written`, at `node`, is its path relative to the policy file."""
        policy = reading.source
        path = policy.path.parent / os.path.normpath(written)
        name = visible(posixpath.normpath(posixpath.join(posixpath.dirname(policy.name), written)))
        if path not in self._read:
            source = read(path, name, reading.report, blame=reading.span(node))
            if source is None:
                return ()
            self._read[path] = _phrases(source)
        found = self._read[path]
        if not found:
            reading.add("invalid-value", f"`{name}` holds no phrase", node)
        return found


def _phrases(source: Source) -> tuple[Phrase, ...]:
    phrases = []
    start = 0
    for line in source.text.split("\n"):
        text = line.strip(WHITE_SPACE)
        if text and text[0] != "#":
            begin = start + line.index(text)
            span = source.span(begin, begin + len(text))
            phrases.append(Phrase(text[1:] if text.startswith("\\#") else text, span))
        start += len(line) + 1
    return tuple(phrases)
