"""The frozen categories, scripts and classes of `re`, against the `regex` package and Python's own."""

from __future__ import annotations

import re
import unicodedata

import numpy as np
import numpy.typing as npt
import pytest
import regex

from policyengine.automata import unicode_properties as properties
from policyengine.automata.unicode_data import N_CODE_POINTS

ALL = "".join(map(chr, range(N_CODE_POINTS)))
# Python may be of another Unicode version than the tables. Characters that both know agree; those that only one knows
# are left out: they are unassigned for the other.
_UNKNOWN = np.array([unicodedata.category(ch) == "Cn" for ch in ALL])


# For questions that are asked often: without most of the large blocks of one script and one category.
_SOME = [cp for cp in range(0x20000) if cp % 64 == 0 or not (0x3400 <= cp < 0xA000 or 0xAC00 <= cp < 0xF900)]


def mask(runs: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    chosen = np.zeros(N_CODE_POINTS, dtype=bool)
    for first, last in runs.tolist():
        chosen[first : last + 1] = True
    return chosen


_UNASSIGNED = mask(properties.category_runs("Cn"))


def known_to_both(chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """The code points to look at: assigned for the tables and for Python."""
    return chosen & ~_UNKNOWN & ~_UNASSIGNED


@pytest.mark.parametrize(
    "name", ["Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd", "Nl", "No", "Pc", "Po", "Sc", "So", "Zs"]
)
def test_categories_are_those_of_python(name: str) -> None:
    mine = mask(properties.category_runs(name))
    theirs = np.array([unicodedata.category(ch) == name for ch in ALL])
    differ = known_to_both(mine != theirs)
    # A handful of characters changed their category between Unicode 14 and 17, none of them before 15.0.
    assert differ.sum() <= 3, [hex(cp) for cp in np.flatnonzero(differ)[:9]]


@pytest.mark.parametrize("name", sorted({*properties.script_names()} - {"Unknown"}))
def test_scripts_are_those_of_the_regex_package(name: str) -> None:
    mine, theirs = mask(properties.script_runs(name)), regex.compile(rf"\p{{Script={name}}}")
    differ = [cp for cp in _SOME if not _UNASSIGNED[cp] and mine[cp] != bool(theirs.match(chr(cp)))]
    # Newer versions move single characters between Common, Inherited and real scripts.
    assert len(differ) <= 4, list(map(hex, differ[:9]))


@pytest.mark.parametrize(
    ("ch", "category", "script"),
    [
        *(("a", "Ll", "Latin"), ("Я", "Lu", "Cyrillic"), ("你", "Lo", "Han"), ("々", "Lm", "Han"), ("〇", "Nl", "Han")),
        *(("ー", "Lm", "Common"), ("か", "Lo", "Hiragana"), ("\u0301", "Mn", "Inherited"), ("5", "Nd", "Common")),
        *((" ", "Zs", "Common"), ("\ud800", "Cs", "Unknown"), ("\U0010ffff", "Cn", "Unknown"), ("한", "Lo", "Hangul")),
    ],
)
def test_facts(ch: str, category: str, script: str) -> None:
    assert properties.general_category(ord(ch)) == category
    assert properties.script(ord(ch)) == script


def test_every_code_point_has_one_category_and_one_script() -> None:
    known = properties.properties()
    for names, runs in ((known.categories, properties.category_runs), (known.scripts, properties.script_runs)):
        assert sum(mask(runs(name)).astype(int) for name in names).tolist() == [1] * N_CODE_POINTS


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *(("Han", "Han"), ("Hani", "Han"), ("hani", "Han"), ("old-italic", "Old_Italic"), ("OldItalic", "Old_Italic")),
        *(("Zinh", "Inherited"), ("Qaai", "Inherited"), ("Klingon", None), ("L", None), ("", None)),
    ],
)
def test_names_of_scripts(name: str, expected: str | None) -> None:
    assert properties.script_name(name) == expected


def test_every_script_has_four_letters() -> None:
    assert properties.script_names()["Han"] == "Hani"
    assert all(len(short) == 4 for short in properties.script_names().values())
    assert all(properties.script_name(short) == name for name, short in properties.script_names().items())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *(("L", ("Ll", "Lm", "Lo", "Lt", "Lu")), ("Letter", ("Ll", "Lm", "Lo", "Lt", "Lu")), ("Lu", ("Lu",))),
        *(("uppercase letter", ("Lu",)), ("LC", ("Ll", "Lt", "Lu")), ("N", ("Nd", "Nl", "No")), ("Xx", None)),
    ],
)
def test_names_of_categories(name: str, expected: tuple[str, ...] | None) -> None:
    assert properties.category_names(name) == expected


@pytest.mark.parametrize(("flag", "pattern"), [(properties.RE_SPACE, r"\s"), (properties.RE_WORD, r"\w")])
def test_classes_are_those_of_re(flag: int, pattern: str) -> None:
    theirs = np.zeros(N_CODE_POINTS, dtype=bool)
    theirs[[m.start() for m in re.finditer(pattern, ALL)]] = True
    differ = known_to_both(mask(properties.re_runs(flag)) != theirs)
    assert not differ.any(), [hex(cp) for cp in np.flatnonzero(differ)[:9]]


def test_caseless_groups_are_those_of_re() -> None:
    groups = properties.caseless_groups()
    text = "".join(ALL[cp] for cp in np.flatnonzero(~_UNKNOWN).tolist())
    cased = "".join(ch for ch in text if ch.lower() != ch or ch.upper() != ch or ord(ch) in groups)
    for ch in cased:
        found = re.findall(re.escape(ch), cased, re.IGNORECASE)
        assert [c for c in map(chr, groups.get(ord(ch), (ord(ch),))) if c in cased] == found, hex(ord(ch))


def test_caseless_facts() -> None:
    groups = properties.caseless_groups()
    assert groups[ord("k")] == (ord("K"), ord("k"), 0x212A)
    assert groups[ord("ſ")] == (ord("S"), ord("s"), ord("ſ"))
    assert ord("1") not in groups
