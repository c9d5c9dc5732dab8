"""Folding of characters and texts."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policyengine.automata.folding import SPACE, Folding, FoldSpec
from tests import oracle

DEFAULT = FoldSpec()
NOTHING = FoldSpec(casefold=False, nfkc=False, invisible=False, marks=False, collapse=False)
SPECS = st.builds(FoldSpec, *[st.booleans()] * 6)
ALIKE = FoldSpec(confusables=True)
ALIKE_SENSITIVE = FoldSpec(casefold=False, confusables=True)


def folded(text: str, spec: FoldSpec = DEFAULT) -> str:
    return "".join(map(chr, Folding(spec).fold(text)))


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("Straße", "strasse"),
        ("İstanbul", "i\u0307stanbul"),
        ("\u212aelvin", "kelvin"),
        ("ﬁn", "fin"),
        ("ＦＵＬＬ", "full"),
        ("é", "e\u0301"),
        ("e\u0301", "e\u0301"),
        ("vi\u200brus", "virus"),
        ("vi\u00adrus", "virus"),
        ("a \t\n\u3000\u00a0b", "a b"),
        ("a \u200b b", "a b"),
        ("  a  ", " a "),
        ("한", "\u1112\u1161\u11ab"),
        ("½", "1\u20442"),
        ("", ""),
    ],
)
def test_the_default_folding(text: str, result: str) -> None:
    assert folded(text) == result


def test_each_step_can_be_switched_off() -> None:
    text = "É\u200b ﬁ\t ."
    assert folded(text, NOTHING) == text
    assert folded(text, FoldSpec(casefold=False)) == "E\u0301 fi ."
    assert folded(text, FoldSpec(nfkc=False)) == "é fi ."  # full case folding takes the ligature apart, too
    assert folded(text, FoldSpec(invisible=False)) == "e\u0301\u200b fi ."
    assert folded(text, FoldSpec(collapse=False)) == "e\u0301 fi\t ."
    assert folded(text, FoldSpec(marks=True)) == "e fi ."


@pytest.mark.parametrize(
    ("text", "result", "sensitive"),
    [
        ("Titаn", "titan", "Titan"),  # Cyrillic а
        ("Тitan", "titan", "Titan"),  # Cyrillic Т
        ("ТІТАΝ", "titav", "TITAN"),  # all of other scripts; ν looks like v and is what Ν folds to
        ("gοοgle", "google", "google"),  # Greek ο
        ("ᏴᎪᎠ", "bad", "BAD"),  # Cherokee
        ("ՍՏ", "us", "US"),  # Armenian
        ("ТОТ тот", "tot tot", "TOT ᴛoᴛ"),
        ("ＡА", "aa", "AA"),
        ("0O1lI|", "0o1li|", "0O1lI|"),
        ("ɑ ı rn m", "ɑ ı rn m", "ɑ ı rn m"),  # one script, or several letters
        ("0০٠", "0০٠", "0০٠"),
        ("一口", "一口", "一口"),
        ("дж", "дж", "дж"),
    ],
)
def test_confusables_become_the_latin_letter(text: str, result: str, sensitive: str) -> None:
    assert folded(text, ALIKE) == result
    assert folded(text, ALIKE_SENSITIVE) == sensitive


@given(st.text())
def test_confusables_keep_case_folding(text: str) -> None:
    plain = FoldSpec(nfkc=False, confusables=True)
    assert folded(text, plain) == folded(text.casefold(), plain)


def test_confusables_come_before_marks() -> None:
    assert folded("Ё", ALIKE) == "e\u0308"
    assert folded("Ё", FoldSpec(marks=True, confusables=True)) == "e"


def test_marks_of_a_script_stay_when_accents_are_dropped() -> None:
    spec = FoldSpec(marks=True)
    assert folded("e\u0301\u0327", spec) == "e"
    assert folded("कि", spec) == "कि"
    assert folded("שָׁ", spec) == "שָׁ"


@given(st.text(), SPECS)
def test_a_text_folds_as_its_characters_do(text: str, spec: FoldSpec) -> None:
    folding = Folding(spec)
    symbols = [s for ch in text for s in folding.symbols(ch)]
    kept = [s for i, s in enumerate(symbols) if not (spec.collapse and i and s == symbols[i - 1] == SPACE)]
    assert folding.fold(text) == kept
    assert all(folding.table[ch] == folding.symbols(ch) for ch in text)


@given(st.text(), SPECS)
def test_folding_folded_text_changes_nothing(text: str, spec: FoldSpec) -> None:
    once = folded(text, spec)
    assert folded(once, spec) == once


@given(st.text(st.characters(max_codepoint=0x2FFF, exclude_categories=("Cn", "Cs"))), SPECS)
def test_folding_agrees_with_the_oracle(text: str, spec: FoldSpec) -> None:
    steps = {"nfkc": spec.nfkc, "invisible": spec.invisible, "marks": spec.marks}
    phrase = oracle.Phrase(
        text,
        case="insensitive" if spec.casefold else "sensitive",
        normalize=frozenset(name for name, on in steps.items() if on),
        gaps="spaces" if spec.collapse else "literal",
    )
    assert folded(text, replace(spec, confusables=False)) == oracle.fold(text, phrase)[0]


@given(SPECS)
def test_a_spec_survives_json_and_a_folding_pickle(spec: FoldSpec) -> None:
    assert FoldSpec.from_json(spec.to_json()) == spec
    assert pickle.loads(pickle.dumps(Folding(spec))).fold("É \tß") == Folding(spec).fold("É \tß")


@pytest.mark.parametrize("data", [{}, {"casefold": True}, {**DEFAULT.to_json(), "new": True}])
def test_a_spec_with_other_steps_is_refused(data: dict[str, bool]) -> None:
    with pytest.raises(ValueError, match="a fold spec has"):
        FoldSpec.from_json(data)


def test_a_spec_takes_only_true_and_false() -> None:
    with pytest.raises(ValueError, match="each true or false"):
        FoldSpec.from_json({**DEFAULT.to_json(), "marks": 1})


def test_the_table_stays_bounded() -> None:
    table = Folding(FoldSpec(marks=True, nfkc=False)).table
    for cp in range(0x20000, 0x40000):
        assert table[chr(cp)] == (cp,)
    assert len(table) <= 1 << 16
