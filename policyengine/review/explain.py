"""What policies did with one output, and why not more: the text level, and the token level on a vocabulary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policyengine.language.policyset import PolicySet
from policyengine.review.explain_misses import Miss, misses
from policyengine.review.explain_rules import Known, Rules
from policyengine.review.explain_text import TextExplained, explain_text
from policyengine.review.explain_tokens import TokensExplained, explain_tokens, spell, text_of
from policyengine.runtime.program import BanPlan, RewritePlan

if TYPE_CHECKING:
    from policyengine.automata.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything about one output.

    active: the policies that it ran under. unasked: those that this request does not run under, and why.
    tokens: None without a vocabulary. token_rules: active rules that only steer tokens, which text does not show.
    """

    active: tuple[str, ...]
    unasked: tuple[tuple[str, str], ...]
    text: TextExplained
    misses: tuple[Miss, ...]
    tokens: TokensExplained | None
    token_rules: tuple[Known, ...]


def explain(
    policies: PolicySet,
    output: str | Sequence[int],
    request: Mapping[str, Any] | None = None,
    *,
    vocabulary: Vocabulary | None = None,
    device: str | None = None,
    model: str | None = None,
) -> Explanation:
    """Explain an output, given as text or, with a vocabulary, as the ids of its tokens.

    Raises PolicyError for policies that do not compile, RequestError for a request that they do not allow, BindError
    for rules that this vocabulary cannot hold, and ValueError for an output that the vocabulary cannot spell.
    """
    rules = Rules(policies)
    parsed = rules.program.parse_request(request)
    tokens = None
    if vocabulary is not None:
        ids = spell(vocabulary, output) if isinstance(output, str) else output
        tokens = explain_tokens(rules, parsed, vocabulary, ids, device=device, model=model)
        text = output if isinstance(output, str) else text_of(vocabulary, ids)
    elif isinstance(output, str):
        text = output
    else:
        raise ValueError("ids of tokens mean nothing without their vocabulary")
    told = explain_text(rules, parsed, text)
    plans = list(enumerate(rules.program.policies))
    active = tuple(plan.name for index, plan in plans if index in parsed.policies)
    unasked = tuple((plan.name, plan.activation) for index, plan in plans if index not in parsed.policies)
    steering = tuple(
        rules.known(rank)
        for rank, plan in enumerate(rules.program.rules)
        if rules.is_active(rank, parsed) and not rules.is_shadow(rank) and _only_tokens(plan.body)
    )
    return Explanation(active, unasked, told, misses(rules, parsed, told), tokens, steering)


def _only_tokens(body: object) -> bool:
    return not isinstance(body, RewritePlan) and (not isinstance(body, BanPlan) or bool(body.token_ids))


__all__ = ["Explanation", "explain"]
