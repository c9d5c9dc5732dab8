"""What joining the policies with a model's vocabulary refuses, which an engine does when it starts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from policyengine.automata.vocabulary import Vocabulary
from policyengine.language.diagnostics import Diagnostic, diagnostic
from policyengine.language.policyset import PolicySet, Rule, Span
from policyengine.runtime.errors import BindError
from policyengine.runtime.program import ForcePlan, MinTokensPlan, Program

_TOKEN_LEVEL = ("vllm", "trtllm-llm")  # the hook of trtllm-serve sees no tokens
_NOTHING = MinTokensPlan(0)


def refusals(program: Program, policies: PolicySet, vocabulary: Vocabulary) -> list[Diagnostic]:
    """Every rule that cannot hold on this vocabulary, on the project's targets that choose tokens.

    Raises BindError where the vocabulary cannot encode a text that is forced.
    """
    if vocabulary.encode is None and any(isinstance(rule.body, ForcePlan) and rule.body.text for rule in program.rules):
        raise BindError("a forced text needs the tokenizer's own library: install `tokenizers`, or `tiktoken`")
    rules = {f"{policy.name}/{rule.id}": rule for policy in policies.policies for rule in policy.rules}
    # On which device and under which name a model is served is not known here: every one that a rule asks for is tried.
    devices = sorted({device for rule in program.rules for device in rule.when.device})
    models = sorted({glob for rule in program.rules for glob in rule.when.model})
    found: dict[str, Diagnostic] = {}
    for target in (name for name in policies.project.targets if name in _TOKEN_LEVEL):
        for device, model in product((None, *devices), (None, *models)):
            for error in _errors(program, vocabulary, target, device, model):
                found.setdefault(error.rule, _diagnostic(error, rules[error.rule]))
    return list(found.values())


def _errors(
    program: Program, vocabulary: Vocabulary, target: str, device: str | None, model: str | None
) -> Iterator[BindError]:
    """Binding stops at the first rule that it refuses: bind again without that rule until nothing is refused."""
    names = [f"{program.policies[rule.policy].name}/{rule.id}" for rule in program.rules]
    while True:
        try:
            program.bind(vocabulary, device=device, model=model, target=target)
            return
        except BindError as error:
            if error.rule not in names:
                raise
            yield error
            rules = [*program.rules]
            index = names.index(error.rule)
            rules[index] = replace(rules[index], body=_NOTHING)
            program = replace(program, rules=tuple(rules))


def _diagnostic(error: BindError, rule: Rule) -> Diagnostic:
    place: Span | None = getattr(rule.body, "span", None)
    hint = "an engine that serves this model does not start with it"
    return diagnostic("not-bindable", str(error), place or rule.body_span, hint=hint)
