"""A secret that is kept from being written by masking tokens.

`avoid` masks the token that would complete a match. For a word that is right: the model writes another. For a key of 20
letters it masks the last of them, and the client has read the other 19. Let a text action work on it: the text is held
back from its first letter on, and `terminate` or `redact` shows nothing of it.

Wrong:

    targets: [vllm]
    rules:
      keys: {ban: {regex: ['AKIA[0-9A-Z]{16}']}}

Right:

    targets: [trtllm]
    rules:
      keys: {ban: {regex: ['AKIA[0-9A-Z]{16}']}, action: terminate}
"""

from __future__ import annotations

from collections.abc import Iterator

from policyengine.language.diagnostics import quoted
from policyengine.language.policyset import Ban
from policyengine.lint.checked import Checked
from policyengine.lint.model import Finding

_FREE = 8  # so many characters of a match at least are anything of a class
_CLASS = 10  # so many characters a class has at least


def findings(checked: Checked) -> Iterator[Finding]:
    """One an expression."""
    for _, rule in checked.rules():
        body = rule.body
        if not isinstance(body, Ban) or body.action.kind != "avoid":
            continue
        for one in body.expressions:
            free = _free(one.text) if one.regular else 0
            if free >= _FREE:
                message = f"{quoted(one.text)} looks like a secret, and `avoid` masks only its last character"
                hint = "use `action: terminate` or `action: redact`, which hold it back from its first character on"
                yield Finding(message, one.span, hint)


def _free(expression: str) -> int:
    """How many characters of the shortest match are each one of many."""
    from policyengine.automata.regex_errors import TooLargeError
    from policyengine.automata.regex_syntax import parse

    try:
        return _count(parse(expression))
    except TooLargeError:
        return 0


def _count(node: object) -> int:
    from policyengine.automata.regex_tree import Chars, Choice, Repeat, Sequence

    if isinstance(node, Chars):
        return int(sum(end - start + 1 for start, end in node.runs) >= _CLASS)
    if isinstance(node, Sequence):
        return sum(map(_count, node.parts))
    if isinstance(node, Choice):
        return min(map(_count, node.parts), default=0)
    return node.least * _count(node.node) if isinstance(node, Repeat) else 0
