"""The rule kinds. A new one is a file beside these and a line in `KINDS`."""

from __future__ import annotations

from policyengine.language.rules import allow, ban, bias, force, min_tokens, rewrite
from policyengine.language.rules.base import Context, Kind

KINDS: dict[str, Kind] = {
    kind.key: kind
    for kind in (
        ban.KIND,
        force.KIND,
        min_tokens.KIND,
        bias.KIND,
        rewrite.KIND,
        allow.KIND,
    )
}

__all__ = ["KINDS", "Context", "Kind"]
