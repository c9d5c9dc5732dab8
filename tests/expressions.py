"""Expressions for the tests: what an automaton finds at every place of a text, and patterns as people write them."""

from __future__ import annotations

import random
from itertools import pairwise

from policyengine.automata.anchored import Anchored
from tests import oracle


def found(automaton: Anchored, text: str) -> set[tuple[int, int, int]]:
    """Every match in a text: (pattern, start, end). Edges are the oracle's."""
    edges = [True, *(oracle.edge_between(a, b) for a, b in pairwise(text)), True]
    result = set()
    for start in range(len(text)):
        state = automaton.first if start == 0 else automaton.start
        for at in range(start, len(text)):
            result |= {(pattern, start, at) for pattern in automaton.before(state, edges[at]) if at > start}
            state = automaton.next(state, automaton.column(ord(text[at])), edges[at])
            if state < 0:
                break
            result |= {(pattern, start, at + 1) for pattern in automaton.now(state)}
        else:
            result |= {(pattern, start, len(text)) for pattern in automaton.at_end(state)}
    return result


def api_keys(count: int) -> list[str]:
    """Patterns of keys and secrets, as scanners have them: the well-known ones, and made-up vendors after them."""
    known = [
        *(r"AKIA[0-9A-Z]{16}", r"ghp_[A-Za-z0-9]{36}", r"sk-[A-Za-z0-9]{48}", r"xox[baprs]-[0-9A-Za-z-]{10,48}"),
        *(r"AIza[0-9A-Za-z_-]{35}", r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
        r"-----BEGIN (?:RSA |EC |OPENSSH |)PRIVATE KEY-----",
        r"(?:postgres|mysql|mongodb(?:\+srv)?|redis)://[^:\s]+:[^@\s]+@[\w.-]+",
        r"(?i)\bapi[_-]?key\s*[:=]\s*[\x22\x27]?[a-z0-9]{20,64}",
    ]
    rng = random.Random(500)
    alphabets = ["[0-9A-Z]", "[A-Za-z0-9]", "[A-Za-z0-9_-]", "[0-9a-f]", "[a-z0-9]", "[A-Za-z0-9+/]"]
    while len(known) < count:
        vendor = "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(2, 6))) + rng.choice("_-")
        alphabet, length = rng.choice(alphabets), rng.choice([16, 20, 24, 32, 40, 48, 64])
        form = rng.choice(["{0}{1}{{{2}}}", "{0}(?:live|test)_{1}{{{3},{2}}}", r"\b{0}{1}{{{2}}}\b"])
        known.append(form.format(vendor, alphabet, length, length // 2))
    return known
