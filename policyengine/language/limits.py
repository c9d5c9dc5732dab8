"""Every limit on what is read, with its unit and its reason. They keep one file from taking a build machine down.

They are far above what a real policy needs; what goes over one is refused with a diagnostic that names the limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit: the largest value that is accepted, what it counts, and why it is there."""

    default: int
    unit: str
    reason: str


FILE_BYTES: Final = Limit(16 * 2**20, "bytes", "a list of 100,000 phrases has about 3 MiB; reading takes ~1 s a MiB")
NODES: Final = Limit(1_000_000, "YAML values", "each costs about 0.5 KiB while a file is read")
DEPTH: Final = Limit(32, "levels of nesting", "the language needs 6; deep nesting only serves to exhaust a parser")
PHRASES: Final = Limit(500_000, "phrases in one rule", "binding 100,000 phrases takes up to 25 s and 2 GiB")
PHRASE_LENGTH: Final = Limit(
    4_096, "code points in a phrase", "the default of `max_hold`: a longer match could not be held back in a stream"
)
EXPRESSIONS: Final = Limit(10_000, "expressions in one rule", "each is compiled; words belong under `phrases`")
EXPRESSION_LENGTH: Final = Limit(4_096, "code points in an expression", "what is longer is reviewed by nobody")
EXPRESSION_EXPANDED: Final = Limit(
    100_000, "code points in an expression once its repeats are written out", "compiling writes them out, in memory"
)
CHOICES: Final = Limit(10_000, "choices in one rule", "every ban is looked for in each of them")
TEXT_LENGTH: Final = Limit(65_536, "code points in one text", "messages and forced text go out with every answer")
EXPANDED: Final = Limit(
    16 * 2**20, "code points after variables are replaced", "short files must not grow without end through variables"
)
NAME_LENGTH: Final = Limit(100, "characters in a name", "names go into metrics, logs and file names")
FILES: Final = Limit(10_000, "policy files", "a wrong path such as / must not be read to its end")
TOKEN_ID: Final = Limit(2**31 - 1, "the largest token id", "engines hold ids as 32-bit signed integers")
INTEGER: Final = Limit(2**53, "the largest whole number of a parameter", "beyond it JSON readers round")
BIAS: Final = Limit(
    100, "the largest bias either way", "logits are smaller than this; more is a mistake or an overflow"
)
MAX_HOLD: Final = Limit(1_048_576, "code points that a stream may hold", "held text is memory of every running answer")
REPORTED: Final = Limit(1_000, "diagnostics of one file", "a long list of one mistake must not fill memory")
SHOWN: Final = Limit(50, "diagnostics shown of one file", "the first ones are the ones that people fix")
