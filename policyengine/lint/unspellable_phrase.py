"""A phrase that the model's vocabulary cannot write.

A character of it occurs in no token, not even byte by byte, so that the model can never write the phrase: a ban or a
bias on it does nothing on this model. Nothing is wrong if the policy serves other models too; otherwise it is often a
character of another script that looks alike. Asked only with `--tokenizer`.

Wrong:

    rules:
      names: {ban: {phrases: [bluebird 🐦]}}

Right:

    rules:
      names: {ban: {phrases: [bluebird]}}
"""

from __future__ import annotations

from collections.abc import Iterator

from policyengine.automata.folding import Folding
from policyengine.automata.unicode_data import changed_code_points
from policyengine.automata.vocabulary import Vocabulary
from policyengine.language.diagnostics import quoted
from policyengine.language.phrases import fold_spec
from policyengine.language.policyset import PhraseOptions
from policyengine.lint.checked import Checked
from policyengine.lint.model import Finding


def findings(checked: Checked) -> Iterator[Finding]:
    """One a phrase."""
    vocabulary = checked.vocabulary
    if vocabulary is None:
        return
    spelled = _bytes(vocabulary)
    if len(spelled) == 256:
        return
    for _, phrase, options in checked.phrases():
        missing = [ch for ch in phrase.text if not _can_be_written(ch, options, spelled)]
        if missing:
            message = f"this model cannot write {quoted(phrase.text)}: no token holds {quoted(missing[0])}"
            yield Finding(message, phrase.span, "if other models are served too, that is fine")


def _bytes(vocabulary: Vocabulary) -> frozenset[int]:
    """The bytes that occur in tokens."""
    return frozenset().union(*(token for token in vocabulary.tokens if token))


def _can_be_written(ch: str, options: PhraseOptions, spelled: frozenset[int]) -> bool:
    """Whether some character that counts as this one is made of such bytes."""
    if spelled.issuperset(ch.encode(errors="replace")):
        return True
    folding = Folding(fold_spec(options))
    wanted = set(folding.symbols(ch))
    return not wanted or any(
        wanted & set(folding.symbols(chr(other))) and spelled.issuperset(chr(other).encode())
        for other in (*changed_code_points(), *wanted)
        if not 0xD800 <= other < 0xE000
    )
