"""The cases about streams of text: rules, a text, and what a client must get of it however the text is cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from policyengine import Program
from tests.oracle import Phrase
from tests.text_programs import Rule, ban, program

EMAIL = "user@example.com"


@dataclass(frozen=True)
class Case:
    """`matches`: rule, start and end of what decided; None: not looked at."""

    name: str
    rules: tuple[Rule | Literal["upper", "lower", "nothing"], ...]
    text: str
    output: str
    reason: str | None = None
    matches: tuple[tuple[str, int, int], ...] | None = None

    @property
    def program(self) -> Program:
        return program(*self.rules)


def _anywhere(*phrases: str, redact: str | None = None) -> Rule:
    return ban(*phrases, match="substring", redact=redact)


_STOP = ban("DEFGHIJ", terminate="found")
_VIRUS = ban("virus")
_ALTER = ban("alter")

_TITAN = Rule((Phrase("Titan", exceptions=("Titan press kit",)),), "redact")


def _expressions(source: str, *, redact: str | None = None, irregular: bool = False) -> Rule:
    return Rule((), "redact", redact, expressions=(source,), irregular=irregular)


CASES = (
    Case("9 address", (ban(EMAIL),), f"to {EMAIL}.", "to [redacted].", matches=(("r0", 3, 19),)),
    Case("9 only the address", (ban(EMAIL),), EMAIL, "[redacted]", matches=(("r0", 0, 16),)),
    Case("9 a head of it", (ban(EMAIL),), "to user@exam", "to user@exam", matches=()),
    Case("10 all of it", (_STOP,), "DEFGHIJ", "", "found", (("r0", 0, 7),)),
    Case("10 not quite", (_STOP,), "DEFGHIX", "DEFGHIX", matches=()),
    Case("10 text before", (_STOP,), "abc DEFGHIJ z", "abc ", "found"),
    Case("10 message", (ban("DEFGHIJ", terminate="found", message=" [end]"),), "ab DEFGHIJ!", "ab  [end]", "found"),
    Case("11 long phrase", (_anywhere("z" * 40),), "nothing of it", "nothing of it", matches=()),
    Case("12 clean", (_VIRUS,), " ".join(f"word{i}" for i in range(20)), " ".join(f"word{i}" for i in range(20))),
    Case(
        "15 two lengths",
        (ban("alpha", redact="<A long one>"), ban("bee", redact=".")),
        "alpha bee alpha bee!",
        "<A long one> . <A long one> .!",
        matches=(("r0", 0, 5), ("r1", 6, 9), ("r0", 10, 15), ("r1", 16, 19)),
    ),
    Case("16 every case", (_VIRUS,), "Virus VIRUS viruS", "[redacted] [redacted] [redacted]"),
    Case(
        "17 overlap",
        (_anywhere("ab", "bcd"),),
        "xabcdy",
        "x[redacted]y",
        matches=(("r0", 1, 3), ("r0", 2, 5)),
    ),
    Case("17 leftmost", (_anywhere("bcd", redact="2"), _anywhere("ab", redact="1")), "xabcdy", "x1y"),
    Case("17 longest", (_anywhere("ab", redact="1"), _anywhere("abc", redact="2")), "xabcdy", "x2dy"),
    Case("17 touching", (_anywhere("ab", redact="1"), _anywhere("cd", redact="2")), "xabcdy", "x12y"),
    Case("17 join", (_anywhere("ab", redact=""),), "aabb", ""),
    Case("17 deep join", (_anywhere("ab", redact=""),), "xaaabbby", "xy"),
    Case("17 not a join", (_anywhere("ab", redact=""),), "aabc", "ac"),
    Case("17 join ends it", (_anywhere("-", redact=""), ban("bad", terminate="bad")), "so b-ad", "so ", "bad"),
    Case("18 words", (_ALTER,), "alter ALTER;", "[redacted] [redacted];"),
    Case("18 other words", (_ALTER,), "alternative altér", "alternative altér", matches=()),
    Case("18 decomposed", (_ALTER,), "alte\u0301r", "alte\u0301r", matches=()),
    Case("18 other scripts", (_ALTER,), "使用alter项目", "使用[redacted]项目"),
    Case("the earliest ends it", (ban("b c", terminate="one"), ban("b", terminate="two")), "a b c", "a ", "two"),
    Case("the first rule ends it", (ban("b", terminate="one"), ban("b", terminate="two")), "a b c", "a ", "one"),
    Case("redacted before the end", (_VIRUS, ban("stop", terminate="s")), "virus stop", "[redacted] ", "s"),
    Case("blocked", (ban("bad", block="No."),), "all was bad then", "No.", "blocked"),
    Case("not blocked", (ban("bad", block="No."), _VIRUS), "a virus baddie", "a [redacted] baddie"),
    Case("upper", ("upper",), "Straße x", "STRASSE X"),
    Case("lower", ("lower",), "ÀB c", "àb c"),
    Case("nothing", ("nothing",), "any text", ""),
    Case("upper, not the replacement", ("upper", _VIRUS), "a virus", "A [redacted]"),
    Case("expanded character", (_anywhere("x1"),), "x½y", "[redacted]y", matches=(("r0", 0, 2),)),
    Case("invisible inside", (ban("Titan"),), "a T\u200bi\u00adtan.", "a [redacted].", matches=(("r0", 2, 9),)),
    Case("white space", (ban("press kit"),), "press \n\t kit", "[redacted]"),
    Case("emoji", (ban("👩‍💻"),), "a 👩‍💻!", "a [redacted]!"),
    Case("lone surrogate", (_VIRUS,), "\ud800virus \udc00", "\ud800[redacted] \udc00"),
    Case("word at the end", (_VIRUS,), "a virus", "a [redacted]", matches=(("r0", 2, 7),)),
    Case("avoid falls back", (Rule(_VIRUS.phrases, "terminate", None, "v", avoid=True),), "a virus b", "a ", "v"),
    Case("a key", (_expressions("sk-[a-z0-9]{8,}"),), "a sk-abcdefgh12 b", "a [redacted] b", matches=(("r0", 2, 15),)),
    Case("no key", (_expressions("sk-[a-z0-9]{8,}"),), "a sk-abcdefg b", "a sk-abcdefg b", matches=()),
    Case("goes on", (_expressions("ab(cd)*"),), "abcdcx", "[redacted]cx", matches=(("r0", 0, 4),)),
    Case("the longest leads", (_expressions("x+", redact="1"), _expressions("x+y", redact="2")), "xxy xx", "2 1"),
    Case("ends as it begins", (_expressions("x+"), ban("xxz", match="substring", terminate="z")), "y xxz", "y ", "z"),
    Case("not before", (_expressions(r"foo(?!bar)", irregular=True),), "foobar foo", "foobar [redacted]"),
    Case("twice", (_expressions(r"(\w)\1{2,}", irregular=True),), "aab bbb", "aab [redacted]", matches=(("r0", 4, 7),)),
    Case("excepted", (_TITAN,), "a Titan press kit", "a Titan press kit", matches=()),
    Case("not excepted", (_TITAN,), "a Titan press", "a [redacted] press", matches=(("r0", 2, 7),)),
    Case("excepted again", (_TITAN, ban("kit")), "Titan press kit", "[redacted] press [redacted]"),
    Case("gaps", (Rule((Phrase("bad", gaps="letters"),), "redact"),), "so b.a - d!", "so [redacted]!"),
)
