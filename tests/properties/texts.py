"""Random phrases, and texts in which they stand in many disguises: ten scripts, marks, expansions, invisibles."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace

from hypothesis import assume
from hypothesis import strategies as st

from tests import oracle
from tests.oracle import Phrase

SCRIPTS = (
    "aeinrst",
    "αβγσςΣ",
    "абвеЖ",
    "אבגש",
    "ابتـ",
    "कखगिा",
    "กขคำ",
    "中国字用",
    "かがキーゞ",
    "가나한글",
    "ᏣᎳꭰ",
)
# Characters on which matchers break: expanding, contracting, decomposing, dropped, joining, and of no script.
ODD = (
    *("ß", "ẞ", "İ", "ı", "ſ", "\u212a", "ﬁ", "ﬃ", "Å", "é", "ǆ", "½", "№", "㎏", "ﷺ", "ｔ", "Ａ", "①", "ŉ", "ΐ"),
    *("\u0301", "\u0345", "\u0327", "\u20e3", "\u200b", "\u200d", "\u200c", "\u00ad", "\ufeff", "\ufe0f", "\u034f"),
    *("🙂", "👩\u200d💻", "🇩", "1", "7", "٣", "_", "'", "-", ".", "\ufffd", "\U0001d400", "\x00"),
)
SPACES = (" ", "  ", "\t", "\n", "\u00a0", "\u3000", "\u2028", " \u200b ")
# What may stand in a gap, and what looks as if it might.
GAPS = (
    ".",
    "-",
    "_",
    ", ",
    " \u2014 ",
    "&",
    "+",
    "\u2026",
    "\u00b4",
    "\u20ac",
    "\u203f",
    "/\u200b",
    "\u0301",
    "#\ufe0f\u20e3",
)
_BY_SCRIPT = st.sampled_from(SCRIPTS).flatmap(lambda letters: st.text(st.sampled_from(letters), min_size=1, max_size=4))
_PIECE = st.one_of(_BY_SCRIPT, st.sampled_from(ODD))


def usable(phrase: Phrase) -> bool:
    """Whether nothing of the phrase is blank once folded, its exceptions among that.

    Phrases that end in a space and have exceptions are left out: with white space collapsed they end once, without
    (as exceptions ask for) wherever a run of it may end, and who reads only sees the same text covered.
    """
    folded = [oracle.fold(text, phrase)[0] for text in (phrase.text, *phrase.exceptions)]
    if phrase.exceptions and phrase.gaps == "spaces" and folded[0].endswith(" "):
        return False
    return all(text.strip() for text in folded)


WORDS = st.lists(st.one_of(_PIECE, st.sampled_from(["a", "s", " ", " "])), min_size=1, max_size=4).map("".join)
_CASE = st.sampled_from(["insensitive", "sensitive"])
_NORMALIZE = st.frozensets(st.sampled_from(["nfkc", "invisible", "marks", "confusables"]))
_PLAIN_GAPS = st.sampled_from(["spaces", "literal"])
_GAPS = st.sampled_from(["spaces", "literal", "punctuation", "letters"])
_MATCH = st.sampled_from(["word", "prefix", "substring"])
_WORD_END = st.sampled_from(["eager", "exact"])
_NO_EXCEPTIONS: st.SearchStrategy[tuple[str, ...]] = st.just(())


def _phrases(
    texts: st.SearchStrategy[str],
    case: st.SearchStrategy[str],
    normalize: st.SearchStrategy[frozenset[str]],
    gaps: st.SearchStrategy[str],
    exceptions: st.SearchStrategy[tuple[str, ...]] = _NO_EXCEPTIONS,
) -> st.SearchStrategy[Phrase]:
    return st.builds(
        Phrase,
        texts,
        match=_MATCH,
        case=case,
        normalize=normalize,
        gaps=gaps,
        word_end=_WORD_END,
        exceptions=exceptions,
    ).filter(usable)


def phrases(texts: st.SearchStrategy[str] = WORDS) -> st.SearchStrategy[Phrase]:
    """Phrases with any options, and now and then an exception, not blank once folded."""
    plain = _phrases(texts, _CASE, _NORMALIZE, _GAPS)
    return st.one_of(plain, plain, _phrases(texts, _CASE, _NORMALIZE, _GAPS, st.tuples(texts)))


@st.composite
def rules(draw: st.DrawFn, texts: st.SearchStrategy[str] = WORDS) -> list[Phrase]:
    """The phrases of one ban with gaps or exceptions: they share all options, and most exceptions hold a phrase."""
    options = draw(_phrases(st.just("a"), _CASE, _NORMALIZE, _GAPS))
    written = draw(st.lists(texts, min_size=1, max_size=3))
    around = st.tuples(st.one_of(st.just(""), texts), st.sampled_from(written), st.one_of(st.just(""), texts)).map(
        "".join
    )
    exceptions = draw(st.lists(st.one_of(around, around, texts), max_size=2))
    banned = [replace(options, text=text, exceptions=tuple(exceptions)) for text in written]
    assume(all(map(usable, banned)))
    return banned


# Few foldings, for vocabularies whose index takes a second for each.
FEW_NORMALIZE = st.sampled_from([frozenset({"nfkc", "invisible"}), frozenset({"nfkc", "invisible"}), frozenset()])


def phrases_of_few_foldings(texts: st.SearchStrategy[str]) -> st.SearchStrategy[Phrase]:
    """As `phrases`, in three foldings."""
    return st.one_of(
        _phrases(texts, st.just("insensitive"), FEW_NORMALIZE, st.just("spaces")),
        _phrases(texts, st.just("sensitive"), st.just(frozenset()), st.just("literal")),
    )


def alike(texts: st.SearchStrategy[str] = WORDS, *, max_size: int = 5) -> st.SearchStrategy[list[Phrase]]:
    """Plain phrases that fold alike, so that one automaton holds them."""
    return st.tuples(_CASE, _NORMALIZE, _PLAIN_GAPS).flatmap(
        lambda options: st.lists(_phrases(texts, *map(st.just, options)), min_size=1, max_size=max_size)
    )


_LOOK_ALIKES = str.maketrans("aeinrstоαβАв", "аеіոгѕтoɑꞵAʙ")


DISGUISES: tuple[Callable[[str], str], ...] = (
    lambda text: text,
    lambda text: text,
    lambda text: text[: len(text) // 2],
    lambda text: text[1:],
    str.upper,
    str.lower,
    str.title,
    lambda text: unicodedata.normalize("NFD", text),
    lambda text: unicodedata.normalize("NFKC", text),
    lambda text: "\u200b".join(text),
    lambda text: "\u0301".join(text),
    lambda text: ".".join(text),
    lambda text: text.replace(" ", " \n\u3000"),
    lambda text: text.replace(" ", ", "),
    lambda text: text.replace(" ", "_"),
    lambda text: text.replace(" ", ""),
    lambda text: text.translate(_LOOK_ALIKES),
    lambda text: text + text,
    lambda text: text + "s",
    lambda text: text + " ",
)


def texts_with(banned: Sequence[Phrase], *, max_pieces: int = 6) -> st.SearchStrategy[str]:
    """Texts in which the phrases, whole and cut, changed and not, stand beside each other and beside other text."""
    known = [text for p in banned for text in (p.text, *p.exceptions)]
    disguised = st.tuples(st.sampled_from(known), st.sampled_from(DISGUISES)).map(lambda pair: pair[1](pair[0]))
    pieces = st.one_of(disguised, disguised, _PIECE, st.sampled_from(SPACES))
    return st.lists(pieces, max_size=max_pieces).map("".join)
