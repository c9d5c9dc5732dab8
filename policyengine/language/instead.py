"""What to write in place of what the language does not have yet, and of the keys of other tools."""

from __future__ import annotations

_REFUSED = "remove it: what this version cannot enforce is refused, never ignored"

# By key, or by value where a value is what is not there yet.
INSTEAD = {
    "assigned": "use `always` and compile the policy for those servers alone, or `on_request`, which clients choose",
    "assignments": "remove it, and compile a bundle for each kind of server",
}

# The keys of other tools, and the key of a ban that means the same.
_PHRASES = ("bad_words", "banned_words", "banned_phrases", "banned", "words", "keywords", "terms", "strings", "phrase")
_CASES = ("case_sensitive", "case_insensitive", "ignore_case")

_ODD = {
    "\xa0": "a no-break space",
    "\u202f": "a narrow no-break space",
    "\u3000": "an ideographic space",
    "\u200b": "a zero-width space",
    "\u200d": "a zero-width joiner",
    "\ufeff": "a byte order mark",
}


def instead_of(what: str) -> str:
    """The help for something that is not supported yet."""
    return INSTEAD.get(what, _REFUSED)


def other_tool(key: str) -> str | None:
    """What the key of another tool is called inside a ban; None for keys that no tool has."""
    name = key.lower().replace("-", "_")
    if name in _PHRASES:
        return "that is `phrases`"
    return "that is `case: sensitive` or `case: insensitive`, the default" if name in _CASES else None


def odd_character(key: str) -> str | None:
    """Help for a key with a character that looks like a space or like nothing; None where it has none."""
    odd = next((ch for ch in key if ch in _ODD), None)
    return f"the key holds {_ODD[odd]} (U+{ord(odd):04X}): remove it, or type an ordinary space" if odd else None
