"""A banned word that, in the model's tokens, is the beginning of common words.

With `word_end: eager` no token may leave the text ending in a banned word, since the model might stop there. A longer
word that its tokenizer splits just there can then only be written with other tokens, which models rarely do: with `ass`
banned, `Assess` as `Ass` and `ess`. Use `word_end: exact` if these words matter more than that the banned one is never
left hanging. Common words, and beginnings of them, are taken from the vocabulary itself: what a token holds whole
behind a space, and then splits in a new line or behind a quote. Asked only with `--tokenizer`.

Wrong:

    targets: [vllm]
    rules:
      names: {ban: {phrases: [cat], word_end: eager}}

Right:

    targets: [vllm]
    rules:
      names: {ban: {phrases: [cat], word_end: exact}}
"""

from __future__ import annotations

from collections.abc import Iterator

from policyengine.automata.phrases import PhraseAutomaton
from policyengine.automata.threads import ThreadAutomaton
from policyengine.automata.vocabulary import Vocabulary
from policyengine.language.diagnostics import quoted
from policyengine.lint.checked import Checked
from policyengine.lint.everyday import WORDS
from policyengine.lint.model import Finding

_SHOWN = 3
_SHORTEST = 3  # letters of a word that is looked at


def findings(checked: Checked) -> Iterator[Finding]:
    """One a phrase, with the most frequent of the words."""
    vocabulary = checked.vocabulary
    if vocabulary is None or vocabulary.encode is None:
        return
    words = _words(vocabulary)
    for component, phrases in zip(checked.work.components, checked.work.patterns, strict=True):
        if component.use != "avoid" or not isinstance(component.automaton, PhraseAutomaton | ThreadAutomaton):
            continue
        blocked: dict[int, dict[str, str]] = {}
        spaced: set[int] = set()  # those that block a word behind a space, where most words stand
        for word in words:
            if not _stops_inside(component.automaton, word):
                continue
            for form in dict.fromkeys((f" {word}", word, f" {word.capitalize()}", word.capitalize())):
                for number, split in _blocking(component.automaton, vocabulary, form):
                    blocked.setdefault(number, {}).setdefault(word, f"{quoted(form.strip())} ({split})")
                    spaced |= {number} if form[0] == " " else set()
        for number, found in sorted(blocked.items()):
            some = ", ".join(list(found.values())[:_SHOWN])
            more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            where = "" if number in spaced else " without a space before them, as in a new line"
            message = f"{quoted(phrases[number].text)} keeps this model from common words{where}: {some}"
            hint = "`word_end: exact` lets them be written"
            yield Finding(message + more, phrases[number].span, hint)


def _words(vocabulary: Vocabulary) -> list[str]:
    """Common words: those that a token holds whole, most frequent first, as ids of such vocabularies run."""
    found = dict.fromkeys(WORDS)
    for token in vocabulary.tokens:
        if token and token[:1] == b" " and len(token) > _SHORTEST:
            try:
                word = token[1:].decode()
            except UnicodeDecodeError:
                continue
            if word.isalpha() and word.islower():
                found[word] = None
    return [word for word in found if len(word) >= _SHORTEST]


def _stops_inside(automaton: PhraseAutomaton | ThreadAutomaton, word: str) -> bool:
    """Whether a banned word begins the word without being all of it."""
    state = automaton.START
    inside = False
    for ch in word:
        if inside:
            return not _waiting(automaton, word)
        state, _ = automaton.follow(state, ch)  # type: ignore[arg-type]
        inside = bool(automaton.waiting(state))  # type: ignore[arg-type]
    return False


def _waiting(automaton: PhraseAutomaton | ThreadAutomaton, text: str) -> tuple[int, ...]:
    state, _ = automaton.follow(automaton.START, text)  # type: ignore[arg-type]
    return automaton.waiting(state)  # type: ignore[arg-type]


def _blocking(
    automaton: PhraseAutomaton | ThreadAutomaton, vocabulary: Vocabulary, form: str
) -> Iterator[tuple[int, str]]:
    """The patterns that mask a token inside a word as it is usually split, and how that is."""
    assert vocabulary.encode is not None
    tokens = [vocabulary.tokens[token] or b"" for token in vocabulary.encode(form)]
    if b"".join(tokens).strip() != form.strip().encode():
        return
    written = b""
    split = " + ".join(quoted(token.decode(errors="replace").strip()) for token in tokens)
    for token in tokens[:-1]:
        written += token
        try:
            text = written.decode()
        except UnicodeDecodeError:
            continue
        yield from ((number, split) for number in _waiting(automaton, text))
