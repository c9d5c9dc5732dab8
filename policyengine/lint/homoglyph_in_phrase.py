"""A word of two alphabets, with a letter that looks like one of the other.

A Cyrillic `а` in an otherwise Latin word looks as it should and matches nothing that people write. It is a slip of the
keyboard, or somebody's attempt to weaken a rule in review. Write the word in one alphabet; to catch the disguise
as well, add `confusables` to `normalize`.

Wrong:

    rules:
      brands: {ban: {phrases: [p\u0430ypal]}}

Right:

    rules:
      brands: {ban: {phrases: [paypal], normalize: [nfkc, invisible, confusables]}}
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from policyengine.automata.unicode_data import join_class, tables
from policyengine.language.diagnostics import quoted
from policyengine.lint.checked import Checked
from policyengine.lint.model import Edit, Finding, Fix

_WORD = re.compile(r"\w+")
_SCRIPT = 2  # join classes from here on are scripts


def findings(checked: Checked) -> Iterator[Finding]:
    """One a phrase, about its first such letter."""
    for _, phrase, options in checked.phrases():
        if phrase.text.isascii() or "confusables" in options.normalize:
            continue
        wrong = {ch: other for word in _WORD.findall(phrase.text) for ch, other in _alike(word)}
        if not wrong:
            continue
        ch, other = next(iter(wrong.items()))
        message = f"{quoted(phrase.text)} mixes alphabets: `{ch}` (U+{ord(ch):04X}) only looks like `{other}`"
        start, _ = checked.place(phrase.span)
        edits = [
            Edit(phrase.span.file, place, place + 1, wrong[letter])
            for place, letter in enumerate(checked.written(phrase.span), start)
            if letter in wrong
        ]
        fix = Fix("wrote a word in one alphabet", tuple(edits), safe=False) if edits else None
        yield Finding(message, phrase.span, f"write `{other}`, or add `confusables` to `normalize`", fix=fix)


def _alike(word: str) -> list[tuple[str, str]]:
    """The letters of a word that look like one of the script which most of it is in, with that one."""
    scripts = Counter(join_class(ord(ch)) for ch in word if join_class(ord(ch)) >= _SCRIPT)
    if len(scripts) < 2:
        return []
    alike = tables().confusables
    found = []
    for script, _ in scripts.most_common():
        for ch in word:
            other = alike.get(ord(ch))
            if join_class(ord(ch)) not in (script, 0, 1) and other is not None and join_class(other) == script:
                found.append((ch, chr(other)))
        if found:
            break
    return found
