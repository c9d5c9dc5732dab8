"""A phrase that begins or ends with white space.

White space at an edge must be there for a match: ` Sure` is not found at the start of an answer, and `Sure ` not at its
end. `match: word` already keeps a phrase from matching inside longer words, and spaces need not be written for the
tokens of a model either: every way to spell a phrase is covered. Remove the white space.

Wrong:

    rules:
      openers: {ban: {phrases: [" Sure"]}}

Right:

    rules:
      openers: {ban: {phrases: [Sure]}}
"""

from __future__ import annotations

from collections.abc import Iterator

from policyengine.automata.unicode_data import is_white_space
from policyengine.language.diagnostics import quoted
from policyengine.language.policyset import Span
from policyengine.lint.checked import Checked
from policyengine.lint.model import Edit, Finding, Fix


def findings(checked: Checked) -> Iterator[Finding]:
    """One a phrase of a ban or a bias."""
    for _, phrase, _ in checked.phrases():
        sides = [
            side for side, ch in (("begins", phrase.text[0]), ("ends", phrase.text[-1])) if is_white_space(ord(ch))
        ]
        if sides:
            where = "at the start of an answer" if sides[0] == "begins" else "at the end of an answer"
            message = f"{quoted(phrase.text)} {' and '.join(sides)} with white space, so that it is not found {where}"
            hint = "remove it: `match` says whether other letters may stand beside"
            yield Finding(message, phrase.span, hint, fix=_fix(checked, phrase.span))


def _fix(checked: Checked, span: Span) -> Fix | None:
    """Strip the white space between quotes on one line, where it stands as it is."""
    written, (start, end) = checked.written(span), checked.place(span)
    if written[:1] not in ("'", '"') or written[-1:] != written[0] or span.line != span.end_line:
        return None
    inside = written[1:-1]
    left, right = len(inside) - len(inside.lstrip(" ")), len(inside) - len(inside.rstrip(" "))
    edits = [Edit(span.file, start + 1, start + 1 + left)] if left else []
    edits += [Edit(span.file, end - 1 - right, end - 1)] if right else []
    return Fix("removed the white space at the edges of a phrase", tuple(edits), safe=False) if edits else None
