"""Phrases and their options, as `ban` and `bias` share them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import Field

from policyengine.automata import unicode_data
from policyengine.automata.folding import Folding, FoldSpec
from policyengine.language import limits
from policyengine.language.diagnostics import quoted
from policyengine.language.nodes import Scalar
from policyengine.language.policyset import Gaps, Phrase, PhraseOptions, Span
from policyengine.language.reading import Reading
from policyengine.language.source import Report
from policyengine.language.strict import Strict

# A visible ASCII character folds to a visible one whatever the options, so most phrases need no look at the tables.
_PLAINLY_VISIBLE = re.compile(r"[!-~]")
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

# JSON Schema of a phrase: something that is no white space, and no control characters.
PHRASE: dict[str, Any] = {
    "minLength": 1,
    "maxLength": limits.PHRASE_LENGTH.default,
    "pattern": r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$",
    "patternErrorMessage": "A phrase holds something that shows, and no control characters.",
}

Step = Literal["nfkc", "invisible", "marks", "confusables"]


def _default_steps() -> list[Step]:
    return ["nfkc", "invisible"]


class OptionKeys(Strict):
    """The options of phrases (design 3.1)."""

    match: Literal["word", "prefix", "substring"] = Field(
        "word",
        description="word (default): whole words only. prefix: from the start of a word, so that plurals match too. "
        "substring: anywhere, also inside words.",
    )
    case: Literal["insensitive", "sensitive"] = Field(
        "insensitive",
        description="insensitive (default): capitals and small letters are alike. sensitive: as written.",
    )
    gaps: Gaps = Field(
        "spaces",
        description="What a space in a phrase stands for. spaces (default): any run of white space. punctuation: any "
        "run of white space, punctuation and symbols. letters: the same, and such a run may also stand between any two "
        "letters. literal: exactly what is written.",
    )
    normalize: list[Step] = Field(
        default_factory=_default_steps,
        description="What is made alike before comparing. nfkc: compatible forms, such as full-width letters and "
        "ligatures. invisible: characters that do not show are dropped. marks: accents are dropped. confusables: "
        "letters of other scripts that look alike, such as a Cyrillic а. Default: nfkc and invisible; [] for none.",
        json_schema_extra={"default": [*_default_steps()]},
    )
    word_end: Literal["eager", "exact"] = Field(
        "eager",
        description="With `match: word` and `avoid`. eager (default): a token that leaves the text ending in the whole "
        "banned word is masked. exact: only what would end the word is, and the model must go on with a letter.",
    )

    option_names: ClassVar[tuple[str, ...]] = ("match", "case", "gaps", "normalize", "word_end")

    def options_given(self) -> list[str]:
        """The options that the file names, in the order of the language."""
        return [name for name in self.option_names if name in self.model_fields_set]

    def options(self) -> PhraseOptions:
        """The options, defaults filled in."""
        return PhraseOptions(
            match=self.match,
            case=self.case,
            gaps=self.gaps,
            normalize=frozenset(self.normalize),
            word_end=self.word_end,
        )


def fold_spec(options: PhraseOptions) -> FoldSpec:
    """How text is folded under these options."""
    return FoldSpec(
        casefold=options.case == "insensitive",
        nfkc="nfkc" in options.normalize,
        invisible="invisible" in options.normalize,
        marks="marks" in options.normalize,
        collapse=options.gaps == "spaces",
        confusables="confusables" in options.normalize,
    )


def accept(options: PhraseOptions, report: Report) -> Callable[[Phrase], bool]:
    """A test for phrases: whether one can match something. What is wrong with one that cannot is reported."""
    folding = Folding(replace(fold_spec(options), invisible=True))  # what does not show is no phrase under any options
    bare = options.gaps == "letters"
    return lambda phrase: (
        _accept(phrase.text, folding, phrase.span, report)
        and (not bare or _accept_bare(phrase.text, folding, phrase.span, report))
    )


def from_node(scalar: Scalar, text: str, reading: Reading) -> Phrase:
    """A phrase written in a policy, variables already replaced."""
    return Phrase(text, scalar.span(reading.source))


def _accept(text: str, folding: Folding, span: Span, report: Report) -> bool:
    if len(text) > limits.PHRASE_LENGTH.default:
        message = f"more than {limits.PHRASE_LENGTH.default:,} {limits.PHRASE_LENGTH.unit}"
        report.add("over-limit", message, span, hint=limits.PHRASE_LENGTH.reason)
        return False
    control = CONTROL.search(text)
    if control:
        report_control(text, control[0], span, report)
        return False
    if _PLAINLY_VISIBLE.search(text) or not _vanishes(text, folding):
        return True
    if not text:
        message = "the phrase is empty"
    elif all(unicode_data.is_white_space(ord(ch)) for ch in text):
        message = f"the phrase {quoted(text)} is blank"
    elif all(unicode_data.is_white_space(ord(ch)) or unicode_data.is_invisible(ord(ch)) for ch in text):
        message = f"the phrase {quoted(text)} holds nothing that shows"
    else:
        message = f"the phrase {quoted(text)} is empty once its marks are dropped"
    report.add("empty-phrase", message, span, hint="remove it, or write what to match")
    return False


def _accept_bare(text: str, folding: Folding, span: Span, report: Report) -> bool:
    """Where gaps may stand between any two letters, one at an end of a phrase would only be in the way of a match."""
    symbols = folding.fold(text)
    if not any(unicode_data.is_white_space(symbol) for symbol in (symbols[0], symbols[-1])):
        return True
    message = f"with `gaps: letters` a phrase cannot begin or end with white space, as {quoted(text)} does"
    report.add("invalid-value", message, span, hint="remove it: `match` says whether other letters may stand beside")
    return False


def _vanishes(text: str, folding: Folding) -> bool:
    """Whether nothing but white space is left of a phrase when it is folded."""
    return all(unicode_data.is_white_space(symbol) for symbol in folding.fold(text))


def report_control(text: str, control: str, span: Span, report: Report) -> None:
    """Report a control character in a phrase or pattern, with the fix that fits it."""
    message = f"{quoted(text)} holds the control character U+{ord(control):04X}"
    if control in "\t\n\v\f\r":
        hint = "write a space: with `gaps: spaces` it matches tabs and line breaks too"
    elif control == "\b":
        hint = "in double quotes YAML reads `\\b` as a backspace; use single quotes"
    else:
        hint = "remove it"
    report.add("control-character", message, span, hint=hint)
