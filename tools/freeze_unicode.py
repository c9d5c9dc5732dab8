"""Writes the frozen Unicode tables of `policyengine/automata/unicode_data.py`.

    python tools/freeze_unicode.py /usr/share/unicode

The argument is a folder with the Unicode Character Database (Debian: package unicode-data). The output depends only on
the database: the same files give the same bytes. When the version changes, change `UNICODE_VERSION` first.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from policyengine.automata import unicode_data as target

# Scripts that do not separate words by spaces, or not by spaces alone: every place in them may be an edge.
NON_SPACING_SCRIPTS = {
    *("Han", "Hiragana", "Katakana", "Bopomofo", "Yi", "Nushu", "Tangut", "Khitan_Small_Script", "Phags_Pa"),
    *("Thai", "Lao", "Khmer", "Myanmar", "Tibetan", "New_Tai_Lue", "Tai_Le", "Tai_Tham", "Tai_Viet", "Ahom"),
    *("Javanese", "Balinese", "Batak", "Buginese", "Kawi", "Makasar", "Rejang", "Vai"),
    *("Cuneiform", "Egyptian_Hieroglyphs", "Anatolian_Hieroglyphs"),
}
SHARED_SCRIPTS = {"Common", "Inherited"}


class Database:
    """The files of the database that are needed, as plain Python values."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        head = (folder / "DerivedCoreProperties.txt").read_text(encoding="utf-8").splitlines()[0]
        self.version = head.removeprefix("# DerivedCoreProperties-").removesuffix(".txt")
        self.category = ["Cn"] * target.N_CODE_POINTS
        self.decomposition: dict[int, list[int]] = {}
        first = 0
        for fields in self._lines("UnicodeData.txt"):
            cp = int(fields[0], 16)
            if fields[1].endswith(", First>"):
                first = cp
            elif fields[1].endswith(", Last>"):
                self.category[first : cp + 1] = [fields[2]] * (cp + 1 - first)
            else:
                self.category[cp] = fields[2]
            parts = [part for part in fields[5].split() if not part.startswith("<")]
            if parts:
                self.decomposition[cp] = [int(part, 16) for part in parts]
        self.casefold = {
            int(fields[0], 16): tuple(int(part, 16) for part in fields[2].split())
            for fields in self._lines("CaseFolding.txt")
            if fields[1] in "CF"
        }

    def _lines(self, name: str) -> Iterator[list[str]]:
        for line in (self.folder / name).read_text(encoding="utf-8").splitlines():
            fields = [field.strip() for field in line.partition("#")[0].split(";")]
            if len(fields) > 1:
                yield fields

    def property(self, name: str) -> Iterator[tuple[int, str]]:
        """Each code point that a property file lists, with its value."""
        for fields in self._lines(name):
            low, _, high = fields[0].partition("..")
            for cp in range(int(low, 16), int(high or low, 16) + 1):
                yield cp, fields[1]

    def having(self, name: str, value: str) -> set[int]:
        """The code points of one value."""
        return {cp for cp, listed in self.property(name) if listed == value}

    def nfkd(self, cp: int) -> tuple[int, ...]:
        """The full compatibility decomposition, without the arithmetic of Hangul."""
        if cp not in self.decomposition:
            return (cp,)
        return tuple(out for part in self.decomposition[cp] for out in self.nfkd(part))


def join_classes(data: Database) -> np.ndarray:
    """`[N_CODE_POINTS]` uint8: what `unicode_data.join_class` answers."""
    script = dict(data.property("Scripts.txt"))
    long_names = {fields[1]: fields[2] for fields in data._lines("PropertyValueAliases.txt") if fields[0] == "sc"}
    extensions = {
        cp: {long_names[short] for short in value.split()} for cp, value in data.property("ScriptExtensions.txt")
    }
    alphabetic = data.having("DerivedCoreProperties.txt", "Alphabetic")
    join_control = data.having("PropList.txt", "Join_Control")
    unknown = NON_SPACING_SCRIPTS - set(script.values())
    if unknown:
        raise ValueError(f"scripts that the database does not know: {sorted(unknown)}")

    spacing = sorted(set(script.values()) - NON_SPACING_SCRIPTS - SHARED_SCRIPTS)
    number = {name: 2 + i for i, name in enumerate(spacing)}
    result = np.zeros(target.N_CODE_POINTS, dtype=np.uint8)
    for cp, category in enumerate(data.category):
        word = cp in alphabetic or category[0] == "M" or category in ("Nd", "Pc")
        if not word or cp in join_control:
            continue
        scripts = {script[cp]}
        if scripts & SHARED_SCRIPTS:
            scripts = extensions.get(cp, scripts)
        if scripts <= NON_SPACING_SCRIPTS:
            continue
        result[cp] = number.get(script[cp], 1)
    if 2 + len(spacing) != target.N_JOIN_CLASSES:
        raise ValueError(f"set N_JOIN_CLASSES to {2 + len(spacing)}")
    return result


def flags(data: Database) -> np.ndarray:
    """`[N_CODE_POINTS]` uint8: the bits named in `unicode_data`."""
    result = np.zeros(target.N_CODE_POINTS, dtype=np.uint8)
    inherited = data.having("Scripts.txt", "Inherited")
    for cp in data.having("PropList.txt", "White_Space"):
        result[cp] |= target.WHITE_SPACE
    for cp in data.having("DerivedCoreProperties.txt", "Default_Ignorable_Code_Point"):
        result[cp] |= target.INVISIBLE
    for cp, category in enumerate(data.category):
        result[cp] |= (
            target.INVISIBLE * (category == "Cf")
            | target.DROPPED_MARK * (category == "Mn" and cp in inherited)
            | target.CONTROL * (category == "Cc")
            | target.PUNCTUATION_OR_SYMBOL * (category[0] in "PS")
        )
    return result


def mapping_arrays(mapping: dict[int, tuple[int, ...]]) -> list[np.ndarray]:
    """Keys, lengths and values, as `unicode_data._mapping` reads them."""
    keys = sorted(mapping)
    return [
        np.array(keys, dtype="<u4"),
        np.array([len(mapping[key]) for key in keys], dtype=np.uint8),
        np.array([cp for key in keys for cp in mapping[key]], dtype="<u4"),
    ]


def write(data: Database, path: Path) -> None:
    """Write the tables of a database whose version `unicode_data.py` names."""
    if data.version != target.UNICODE_VERSION:
        raise ValueError(f"{data.folder} holds Unicode {data.version}, unicode_data.py names {target.UNICODE_VERSION}")
    both = np.stack([join_classes(data), flags(data)], axis=1)
    starts = np.flatnonzero(np.concatenate(([True], (both[1:] != both[:-1]).any(axis=1))))
    arrays = [starts.astype("<u4"), both[starts, 0], both[starts, 1]]
    arrays += mapping_arrays({cp: data.nfkd(cp) for cp in data.decomposition})
    arrays += mapping_arrays(data.casefold)
    with path.open("wb") as file:
        file.write(target._MAGIC)
        for array in arrays:
            np.save(file, np.ascontiguousarray(array), allow_pickle=False)


if __name__ == "__main__":
    write(Database(Path(sys.argv[1])), target._FILE)
    print(f"{target._FILE}: {target._FILE.stat().st_size} bytes")
