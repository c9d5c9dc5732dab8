"""PE2xx: what a target or a vocabulary cannot do."""

from __future__ import annotations

from policyengine.language.codes.model import Code, policy

_PROJECT = ("policyengine.yaml", "version: 1\ntargets: [vllm]\n")

CODES: tuple[Code, ...] = (
    Code(
        "PE206",
        "not-enforceable",
        "error",
        "a target that was selected cannot enforce the rule at all",
        """Rules about tokens (force, min_tokens, bias, token ids) need a target that chooses them (vllm,
        trtllm-llm), text actions and rewrites need a text level (the trtllm hook, the vllm server). A rule that nothing would hold is an
        error. Leave the target out with `targets:`, choose another action, or compile with --allow-unenforced, which
        makes it a warning.""",
        bad=policy("long-enough: {min_tokens: 64}"),
        good=policy("long-enough: {min_tokens: 64}", "targets: [vllm]\n"),
    ),
    Code(
        "PE207",
        "left-out-everywhere",
        "warning",
        "a policy whose targets are all left out of what is compiled",
        """The policy's `targets:` name none of the targets that are compiled for, so nothing enforces it. That may be
        meant; it is said so that it is not forgotten.""",
        bad=(_PROJECT, *policy("names: {ban: {phrases: [bluebird]}}", "targets: [trtllm]\n")),
        good=(_PROJECT, *policy("names: {ban: {phrases: [bluebird]}}", "targets: [vllm]\n")),
    ),
    Code(
        "PE208",
        "not-bindable",
        "error",
        "a rule that cannot hold on the vocabulary of the model that is served",
        """A bundle is joined with the model's vocabulary when the engine starts, and the engine does not start if a
        rule cannot hold there: a token id is outside the vocabulary or stands for nothing, a ban lists the token that
        ends outputs, the tokenizer writes a forced text with a banned token. `policyengine check --tokenizer` tells it
        before. A text means the same for every model; a token id does not.""",
        bad=policy("reserved: {ban: {token_ids: [1000000000]}}", "targets: [vllm]\n"),
        good=policy("reserved: {ban: {token_ids: [128]}}", "targets: [vllm]\n"),
    ),
)
