"""PE2xx: what a target or a vocabulary cannot do."""

from __future__ import annotations

from policyengine.language.codes.model import Code

CODES: tuple[Code, ...] = (
    Code(
        "PE206",
        "not-enforceable",
        "error",
        "a target that was selected cannot enforce the rule at all",
        """Each target enforces what design table 3.4 says: token rules need a token level (vllm, trtllm-llm), text
        actions and rewrites need a text level (the trtllm hook, the vllm server). A rule that nothing would hold is an
        error. Leave the target out with `targets:`, choose another action, or pass --allow-unenforced to make it a
        warning.""",
    ),
    Code(
        "PE207",
        "left-out-everywhere",
        "warning",
        "a policy whose targets are all left out of what is compiled",
        """The policy's `targets:` name none of the targets that are compiled for, so nothing enforces it. That may be
        meant; it is said so that it is not forgotten.""",
    ),
)
