"""A slow, obvious oracle for phrases, at the level of text and of tokens.

It shares no code with policyengine: text is searched whole, tokens are decoded and the text searched again. What it
says follows the definitions of the language word by word; where it and the product differ, one of them is wrong.

Texts must keep to characters that Unicode 14 knows: Python's `unicodedata` (3.11 or 3.12) and `regex` are of other
versions than the product's tables, and agree with them there. What a few bytes may become is taken from 15.0, as there.
"""

from __future__ import annotations

import bisect
import codecs
import contextlib
import itertools
import json
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Literal

import regex

# Scripts that do not separate words by spaces.
_UNSPACED = (
    *("Han", "Hiragana", "Katakana", "Bopomofo", "Yi", "Nushu", "Tangut", "Khitan_Small_Script", "Phags_Pa"),
    *("Thai", "Lao", "Khmer", "Myanmar", "Tibetan", "New_Tai_Lue", "Tai_Le", "Tai_Tham", "Tai_Viet", "Ahom"),
    *("Javanese", "Balinese", "Batak", "Buginese", "Kawi", "Makasar", "Rejang", "Vai"),
    *("Cuneiform", "Egyptian_Hieroglyphs", "Anatolian_Hieroglyphs"),
)
# Characters that all scripts share by name, but that only such scripts use: marks and signs of Japanese and Chinese,
# and one of Javanese and Buginese.
_UNSPACED_SHARED = set(
    "\u3006\u302a\u302b\u302c\u302d\u3031\u3032\u3033\u3034\u3035\u303c\u3099\u309a\u30fc\ua9cf\uff70\uff9e\uff9f"
)
# Scripts that separate words by spaces; enough of them for the texts of the tests.
_SPACED = (
    *("Latin", "Greek", "Cyrillic", "Arabic", "Hebrew", "Devanagari", "Bengali", "Tamil", "Hangul", "Armenian"),
    *("Georgian", "Ethiopic", "Cherokee", "Linear_B", "Coptic", "Deseret"),
)

# Letters, marks, digits, punctuation and symbols that came with Unicode 15.0.
_NEW_IN_15 = (
    *((0x0CF3, 0x0CF3), (0x0ECE, 0x0ECE), (0x10EFD, 0x10EFF), (0x1123F, 0x11241), (0x11F00, 0x11F10)),
    *((0x11F12, 0x11F3A), (0x11F3E, 0x11F42), (0x11F50, 0x11F59), (0x1342F, 0x1342F), (0x13440, 0x13455)),
    *((0x1B132, 0x1B132), (0x1B155, 0x1B155), (0x1DF25, 0x1DF2A), (0x1E030, 0x1E06D), (0x1E08F, 0x1E08F)),
    *((0x1E4D0, 0x1E4F9), (0x31350, 0x323AF)),
    *((0x11B00, 0x11B09), (0x11F43, 0x11F4F), (0x1F6DC, 0x1F6DC), (0x1F774, 0x1F776), (0x1F77B, 0x1F77F)),
    *((0x1F7D9, 0x1F7D9), (0x1FA75, 0x1FA77), (0x1FA87, 0x1FA88), (0x1FAAD, 0x1FAAF), (0x1FABB, 0x1FABD)),
    *((0x1FABF, 0x1FABF), (0x1FACE, 0x1FACF), (0x1FADA, 0x1FADB), (0x1FAE8, 0x1FAE8), (0x1FAF7, 0x1FAF8)),
)

_WORD = regex.compile(r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}]")
_UNSPACED_RE = regex.compile("[" + "".join(rf"\p{{Script={name}}}" for name in _UNSPACED) + "]")
_SHARED_RE = regex.compile(r"[\p{Script=Common}\p{Script=Inherited}]")
_INHERITED_RE = regex.compile(r"\p{Script=Inherited}")
_INVISIBLE_RE = regex.compile(r"[\p{Cf}\p{Default_Ignorable_Code_Point}]")
_SPACE_RE = regex.compile(r"\p{White_Space}")
_GAP_RE = regex.compile(r"[\p{White_Space}\p{P}\p{S}]")
_LETTER_RE = regex.compile(r"\p{L}")
_SCRIPT_RES = {name: regex.compile(rf"\p{{Script={name}}}") for name in _SPACED}


@dataclass(frozen=True)
class Phrase:
    """A banned phrase with its options, named as in the language."""

    text: str
    match: Literal["word", "prefix", "substring"] = "word"
    case: Literal["insensitive", "sensitive"] = "insensitive"
    normalize: frozenset[str] = frozenset({"nfkc", "invisible"})
    gaps: Literal["spaces", "punctuation", "letters", "literal"] = "spaces"
    word_end: Literal["eager", "exact"] = "eager"
    exceptions: tuple[str, ...] = ()  # the ban's `except`; the options above are theirs too


@dataclass(frozen=True)
class Found:
    """A match: which phrase, and the code points of the original text that it covers."""

    phrase: int
    start: int
    end: int


# -- characters ----------------------------------------------------------------------------------------------------


@cache
def word_kind(ch: str) -> str | None:
    """None: always an edge. "any": a word character of every script. Else the script whose words it belongs to."""
    if not _WORD.match(ch) or ch in "\u200c\u200d" or ch in _UNSPACED_SHARED or _UNSPACED_RE.match(ch):
        return None
    if not _is_known(ch):
        return None
    if _SHARED_RE.match(ch):
        return "any"
    return next((name for name, pattern in _SCRIPT_RES.items() if pattern.match(ch)), "some other script")


def _is_known(ch: str) -> bool:
    """Whether Unicode 15.0 knows it: `regex` knows later ones, Python 3.11's `unicodedata` those of 14.0."""
    return unicodedata.category(ch) != "Cn" or any(low <= ord(ch) <= high for low, high in _NEW_IN_15)


@cache
def edge_between(a: str, b: str) -> bool:
    """Whether there is an edge between two neighbours of the folded text."""
    kinds = {word_kind(a), word_kind(b)}
    return None in kinds or len(kinds - {"any"}) > 1


@lru_cache(maxsize=1 << 18)
def fold_char(ch: str, case: str, normalize: frozenset[str], gaps: str) -> str:
    """What one character of the text becomes."""
    if "nfkc" in normalize:
        ch = "".join(_decompose(ch))
    if case == "insensitive":
        ch = "".join(part.casefold() for part in ch)
    if "confusables" in normalize:
        ch = "".join(folded_look_alike(part) if case == "insensitive" else look_alike(part) for part in ch)
    if "marks" in normalize:
        ch = "".join(p for p in ch if not (unicodedata.category(p) == "Mn" and _INHERITED_RE.match(p)))
    if "invisible" in normalize:
        ch = "".join(p for p in ch if not _INVISIBLE_RE.match(p))
    if gaps != "literal":
        ch = "".join(" " if _SPACE_RE.match(p) else p for p in ch)
    return ch


def _decompose(ch: str) -> Iterator[str]:
    """Full compatibility decomposition, by single steps and without reordering."""
    if "\uac00" <= ch <= "\ud7a3":
        yield from unicodedata.normalize("NFD", ch)
        return
    parts = [part for part in unicodedata.decomposition(ch).split() if not part.startswith("<")]
    if not parts:
        yield ch
    for part in parts:
        yield from _decompose(chr(int(part, 16)))


# -- look-alikes: letters of different scripts with one prototype in Unicode's confusables.txt -------------------------


@cache
def _data(name: str) -> Any:
    """The public data, as the package confusable-homoglyphs brings it."""
    return json.loads((files("confusable_homoglyphs") / name).read_text(encoding="utf-8"))


@cache
def _prototypes() -> dict[str, str]:
    """What each character of the file looks like. The package lists every pair twice, once for each of the two."""
    lists = {ch.strip("\u200e"): entries for ch, entries in _data("confusables.json").items()}
    pairs = {ch: [entry["c"].strip("\u200e") for entry in entries] for ch, entries in lists.items()}
    places = {ch: place for place, ch in enumerate(pairs)}
    found = {}
    for ch, others in pairs.items():
        other = others[0]
        # A prototype has several look-alikes; of a pair of no more, the file names the other one first.
        if len(others) == 1 and (len(pairs[other]) > 1 or places[ch] < places[other]):
            found[ch] = other
    return found


@cache
def _groups() -> dict[str, list[str]]:
    """By prototype: the letters of real scripts that have it, the prototype itself if it is one."""
    groups: dict[str, set[str]] = {}
    for ch, prototype in _prototypes().items():
        groups.setdefault(prototype, {ch}).update({ch, prototype} if len(prototype) == 1 else {ch})
    return {p: [ch for ch in sorted(g) if _LETTER_RE.match(ch) and _script(ch)] for p, g in groups.items()}


@cache
def _script(ch: str) -> str | None:
    """The script's name; None for what all share, or for what is not assigned."""
    data = _data("categories.json")
    place = bisect.bisect_right(data["code_points_ranges"], [ord(ch), 0x110000]) - 1
    low, high, name, _ = data["code_points_ranges"][place]
    script: str = data["iso_15924_aliases"][name]
    return script if low <= ord(ch) <= high and script not in ("COMMON", "INHERITED") else None


@cache
def look_alike(ch: str) -> str:
    """What a letter becomes: the letter of another script that its group of look-alikes stands for, or itself."""
    prototype = _prototypes().get(ch, ch)
    group = _groups().get(prototype, [])
    if ch not in group or _script(ch) == "LATIN":
        return ch
    alike = [other for other in group if bool(_UNSPACED_RE.match(other)) == bool(_UNSPACED_RE.match(ch))]
    stable = [other for other in alike if unicodedata.normalize("NFKD", other) == other]
    ascii_letters = [other for other in stable if other.isascii()]
    own_case = [other for other in ascii_letters if other.isupper() == (unicodedata.category(ch) == "Lu")]
    latin = [other for other in stable if _script(other) == "LATIN"]
    rest = [prototype] if prototype in stable else stable
    best = next((some[0] for some in (own_case, ascii_letters, latin, rest) if some), ch)
    if best not in ascii_letters and best in latin and prototype in latin:
        best = prototype
    return ch if _script(best) == _script(ch) else best


@cache
def folded_look_alike(ch: str) -> str:
    """The same for a letter that is case folded: what it, or its capital, looks like; ASCII first, again and again."""
    options = []
    for variant in (ch, *_variants().get(ch, ())):
        looks = look_alike(variant).casefold()
        if look_alike(variant) != variant and len(looks) == 1 and unicodedata.normalize("NFKD", looks) == looks != ch:
            options.append((not looks.isascii(), variant != ch, _script(looks) != "LATIN", looks))
    return folded_look_alike(min(options)[-1]) if options else ch


@cache
def _variants() -> dict[str, list[str]]:
    """By case folded character: the others that fold to it."""
    found: dict[str, list[str]] = {}
    for code in range(0x110000):
        folded = chr(code).casefold()
        if len(folded) == 1 and folded != chr(code):
            found.setdefault(folded, []).append(chr(code))
    return found


def fold(text: str, phrase: Phrase) -> tuple[str, list[int]]:
    """The folded text, and for each of its characters the place in `text` that it came from."""
    return _fold(text, phrase.case, phrase.normalize, phrase.gaps)


@lru_cache(maxsize=1 << 12)
def _fold(text: str, case: str, normalize: frozenset[str], gaps: str) -> tuple[str, list[int]]:
    out: list[str] = []
    origin: list[int] = []
    for place, ch in enumerate(text):
        for part in fold_char(ch, case, normalize, gaps):
            if gaps == "spaces" and part == " " and out and out[-1] == " ":
                continue  # a run of white space counts as one
            out.append(part)
            origin.append(place)
    return "".join(out), origin


# -- texts ---------------------------------------------------------------------------------------------------------

# A folded phrase, part by part: a character, or a gap of at least so many gap characters.
Part = str | int
End = Literal["open", "edge"]


@lru_cache(maxsize=1 << 12)
def _parts(text: str, phrase: Phrase) -> tuple[Part, ...]:
    """The parts of a phrase, or of an exception that has its options. Raises ValueError for an empty one."""
    wanted, _ = fold(text, phrase)
    if not wanted:
        raise ValueError(f"{text!r} is empty once folded")
    if phrase.gaps in ("spaces", "literal"):
        return tuple(wanted)
    parts: list[Part] = []
    for ch in regex.sub(" +", " ", wanted):
        if phrase.gaps == "letters" and parts and ch != " " and parts[-1] != 1:
            parts.append(0)
        parts.append(1 if ch == " " else ch)
    return tuple(parts)


@lru_cache(maxsize=1 << 14)
def _is_gap(ch: str) -> bool:
    return bool(_GAP_RE.match(ch)) and _is_known(ch)


def _follow(text: str, start: int, parts: Sequence[Part]) -> tuple[set[int], bool]:
    """Every place where the parts may end that begin at `start`, and whether the text breaks off before such a place.

    It breaks off where more text could give one more place: inside the parts, or inside a gap that ends them.
    """
    here, unfinished = {start}, False
    for part in parts:
        after: set[int] = set()
        for at in here:
            if isinstance(part, str):
                unfinished = unfinished or at == len(text)
                if text[at : at + 1] == part:
                    after.add(at + 1)
                continue
            run = at
            while run < len(text) and _is_gap(text[run]):
                run += 1
            after.update(range(at + part, run + 1))
            unfinished = unfinished or run == len(text)
        here = after
        if not here:
            break
    return here, unfinished


def _edge_at(text: str, place: int, end: End) -> bool | None:
    """Whether there is an edge before this place; None: that is decided by what follows the text."""
    if place == 0:
        return True
    if place < len(text):
        return edge_between(text[place - 1], text[place])
    return True if end == "edge" or word_kind(text[place - 1]) is None else None


@dataclass(frozen=True)
class _Stand:
    """A place in a folded text where a phrase stands. `waits`: it does if an edge follows the text."""

    start: int
    end: int
    waits: bool


@lru_cache(maxsize=1 << 14)
def _stands(text: str, wanted: str, phrase: Phrase, end: End) -> tuple[tuple[_Stand, ...], tuple[int, ...]]:
    """Where a phrase, or an exception with its options, stands in a folded text; and where one has begun.

    end: what follows the text: "edge", the end of the output, or "open", not known yet.
    """
    parts = _parts(wanted, phrase)
    found, begun = [], []
    for start in range(len(text)):
        if isinstance(parts[0], str) and text[start] != parts[0]:
            continue
        ends, unfinished = _follow(text, start, parts)
        if not ends and not unfinished:
            continue
        if phrase.match != "substring" and not _edge_at(text, start, "edge"):
            continue
        for last in ends:
            edge = _edge_at(text, last, end) if phrase.match == "word" else True
            if edge is not False:
                found.append(_Stand(start, last, edge is None))
        if end == "open" and (unfinished or any(s.waits and s.start == start for s in found)):
            begun.append(start)
    return tuple(found), tuple(begun)


def _matches(text: str, phrase: Phrase, end: End) -> list[_Stand]:
    """The matches in a folded text that count whatever follows it: for each end that with the earliest start.

    Those that wait for an edge are among them; they count as soon as it is there.
    """
    earliest: dict[int, _Stand] = {}
    for stand in _stands(text, phrase.text, phrase, end)[0]:
        if stand.end not in earliest or stand.start < earliest[stand.end].start:
            earliest[stand.end] = stand
    found = list(earliest.values())
    for exception in phrase.exceptions:
        stands, begun = _stands(text, exception, phrase, end)
        found = [
            match
            for match in found
            if not any(s.start <= match.start and match.end <= s.end and not s.waits for s in stands)
            and not any(start <= match.start for start in begun)
        ]
    return found


def find(text: str, phrases: Sequence[Phrase]) -> set[Found]:
    """All matches in a whole text, overlapping ones too; of those of a phrase with one end, that which starts first."""
    result = set()
    for index, phrase in enumerate(phrases):
        folded, origin = fold(text, phrase)
        for match in _matches(folded, phrase, "edge"):
            result.add(Found(index, origin[match.start], origin[match.end - 1] + 1))
    return result


# -- tokens --------------------------------------------------------------------------------------------------------


def decode(tokens: Iterable[bytes | None]) -> tuple[str, bytes]:
    """The complete characters that the tokens spell, and the bytes of one that is not complete."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(b"".join(token or b"" for token in tokens))
    tail = decoder.getstate()[0]
    if tail and not completions(tail):  # Python waits after ED A0..BF, where no character can follow
        return text + tail.decode("utf-8", "replace"), b""
    return text, tail


@cache
def completions(tail: bytes) -> tuple[str, ...]:
    """Every character whose encoding starts with these bytes."""
    length = 2 if tail[0] < 0xE0 else 3 if tail[0] < 0xF0 else 4
    found = []
    for rest in itertools.product(range(0x80, 0xC0), repeat=length - len(tail)):
        with contextlib.suppress(UnicodeDecodeError):
            found.append((tail + bytes(rest)).decode())
    return tuple(found)


Kind = tuple[tuple[str | None, bool], ...]


@lru_cache(maxsize=1 << 19)
def _kind(ch: str, case: str, normalize: frozenset[str], gaps: str) -> tuple[str, Kind]:
    """What a character folds to, and of which kinds the characters of that are."""
    folded = fold_char(ch, case, normalize, gaps)
    return folded, tuple((word_kind(c), _is_gap(c)) for c in folded)


Place = tuple[int, int]  # phrase, place after its last folded character


class TokenOracle:
    """What may not be chosen, by the definition of the token level. All phrases are bans with `avoid`.

    EOS adds no text, whatever its bytes are.
    """

    def __init__(self, tokens: Sequence[bytes | None], eos: Sequence[int], phrases: Sequence[Phrase]) -> None:
        self.tokens = [b"" if i in eos else token for i, token in enumerate(tokens)]
        self.eos, self.phrases = tuple(eos), tuple(phrases)
        self._all = tuple(range(len(phrases)))
        self._foldings = list(
            dict.fromkeys((p.case, p.normalize, "literal" if p.gaps == "literal" else "spaces") for p in phrases)
        )
        self._kinds: dict[bytes, tuple[list[str], Iterator[str]]] = {}
        self._written = {" "} | {c for p in phrases for text in (p.text, *p.exceptions) for c in fold(text, p)[0]}
        self._eager = tuple(i for i in self._all if phrases[i].word_end == "eager")
        self._in = lru_cache(maxsize=1 << 12)(self._search)
        self._step = lru_cache(maxsize=1 << 10)(self.would_match)

    def _search(self, text: str, end: End, waiting: bool, phrases: tuple[int, ...]) -> set[Place]:
        result = set()
        for index in phrases:
            folded, _ = fold(text, self.phrases[index])
            matches = _matches(folded, self.phrases[index], end)
            result.update((index, match.end) for match in matches if match.waits == waiting)
        return result

    def complete(self, text: str) -> set[Place]:
        """The matches that nothing that may follow can undo."""
        return self._in(text, "open", False, self._all)

    def complete_at_end(self, text: str, tail: bytes) -> set[Place]:
        """The matches if the output ends here; an incomplete character shows as U+FFFD."""
        return self._in(text + ("\N{REPLACEMENT CHARACTER}" if tail else ""), "edge", False, self._all)

    def eager_at_end(self, text: str, tail: bytes) -> set[Place]:
        """The banned words that the text ends in and that `eager` forbids to end in."""
        return set() if tail else self._in(text, "open", True, self._eager)

    def would_match(self, before: tuple[str, bytes], after: tuple[str, bytes], *, together: bool = False) -> set[int]:
        """The phrases of which the step from one decoded output to a longer one completes a match.

        Or leaves what eager forbids. A character that is not complete yet counts where each that it may become does:
        for one phrase, or, with `together`, each for some phrase.
        """
        found = self.complete(after[0]) - self.complete(before[0])
        found |= self.eager_at_end(*after) - self.eager_at_end(*before)
        phrases, (text, tail) = {phrase for phrase, _ in found}, after
        if phrases or not tail or after == before:
            return phrases
        every: set[int] | None = None
        for ch in self._kinds_of(tail):
            some = self.would_match(before, (text + ch, b""))
            every = some if every is None else every | some if together and some else every & some
            if not every:
                break
        return every or set()

    def _kinds_of(self, tail: bytes) -> Iterator[str]:
        """Of the characters that a tail may become one of each kind: those that no phrase tells apart do the same."""
        known, rest = self._kinds.setdefault(tail, ([], self._new_kinds(tail)))
        yield from known
        for ch in rest:
            known.append(ch)
            yield ch

    def _new_kinds(self, tail: bytes) -> Iterator[str]:
        seen = set()
        written = self._written
        for ch in completions(tail):
            folded = [_kind(ch, *options) for options in self._foldings]
            kind = tuple(
                [
                    kinds
                    if written.isdisjoint(characters)
                    else tuple(c if c in written else k for c, k in zip(characters, kinds, strict=True))
                    for characters, kinds in folded
                ]
            )
            if kind not in seen:
                seen.add(kind)
                yield ch

    def is_masked(
        self,
        history: Sequence[int],
        token: int,
        *,
        stop_token_ids: Iterable[int] = (),
        last: bool = False,
        together: bool = False,
    ) -> bool:
        """Whether the definition forbids this token after these; `last`: nothing can follow it under `max_tokens`.

        An id that ends the output is forbidden if the output would end in a match without its text, as engines show
        it, or with its text, as it was sampled. together: whether it may be forbidden, see `would_match`; one that all
        characters complete, but of different phrases, need not be, since what completes the character is.
        """
        data = self.tokens[token]
        ends = token in self.eos or token in stop_token_ids
        if data is None and not ends:
            return False
        before = decode(self.tokens[i] for i in history)
        after = decode([*(self.tokens[i] for i in history), data])
        if self._step(before, after, together=together):
            return True
        if ends and self.complete_at_end(*before) - self.complete(before[0]):
            return True
        return (ends or last) and bool(self.complete_at_end(*after) - self.complete(before[0]))

    def masked(self, history: Sequence[int], *, stop_token_ids: Iterable[int] = (), last: bool = False) -> set[int]:
        """All ids that may not be chosen now. If no id with a token is left, all but the first EOS."""
        ids, stop = range(len(self.tokens)), frozenset(stop_token_ids)
        masked = {i for i in ids if self.is_masked(history, i, stop_token_ids=stop, last=last)}
        if all(i in masked for i in ids if self.tokens[i] is not None):
            return set(ids) - {self.eos[0]}
        return masked
