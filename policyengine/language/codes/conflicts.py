"""PE12x: rules of several policies that cannot all hold; the compiler finds them. PE207 belongs to it too."""

from __future__ import annotations

from policyengine.language.codes.model import Code

CODES: tuple[Code, ...] = (
    Code(
        "PE120",
        "conflicting-forces",
        "error",
        "two rules that are active together force different tokens at one position",
        """One position holds one token, so every request would fail. Remove one of the rules, give them other
        positions, or make their policies on_request and let a request choose.""",
    ),
    Code(
        "PE121",
        "message-contains-banned",
        "error",
        "a replacement or closing message contains a phrase that a rule active with it bans",
        """Clients see that text. What is banned in a model's words must not arrive in ours. Choose another text.""",
    ),
    Code(
        "PE122",
        "conflicting-rewrites",
        "error",
        "two rules that are active together rewrite all text to upper and to lower case",
        """Text leaves in one case only, and which would depend on an order that rules do not have. Remove one.""",
    ),
    Code(
        "PE123",
        "conflicting-defaults",
        "error",
        "two policies that are always active give one parameter two defaults",
        """A request that does not pass the parameter has one value for both policies. Give one default, or rename
        one of the parameters.""",
    ),
    Code(
        "PE207",
        "left-out-everywhere",
        "warning",
        "no target that was selected runs the policy",
        """The policy's own `targets` leave out every target that is compiled for, so that it holds nowhere. Add a
        target to it, or compile for one that it names.""",
    ),
)
