"""Every lint, a line each: code, name, severity, whether `--fix` mends it, what it needs.

To add one, write its module, named like it, and add its line here. A code is stable and never reused; the codes of what
is refused are in `policyengine.language.codes`. Advice is a warning or an info; only what is refused is an error.
"""

from __future__ import annotations

from functools import cache

from policyengine.language import codes
from policyengine.language.codes import Code
from policyengine.lint.model import Lint

LINTS: tuple[Lint, ...] = (
    # PE0xx: what stands in a file
    Lint("PE006", "edge-whitespace", "warning", "unsafe"),
    Lint("PE007", "invisible-character", "warning", "safe"),
    Lint("PE008", "swallowed-comment", "warning", "unsafe"),
    Lint("PE050", "homoglyph-in-phrase", "warning", "unsafe"),
    Lint("PE051", "undeclared-variable", "warning"),
    # PE1xx: what policies mean
    Lint("PE101", "shadowed-phrase", "warning", "safe"),
    Lint("PE102", "duplicate-phrase", "warning", "safe"),
    Lint("PE104", "replacement-feeds-ban", "warning"),
    Lint("PE105", "exception-without-effect", "warning", "safe"),
    Lint("PE106", "overbroad-phrase", "warning"),
    Lint("PE107", "zero-bias", "warning"),
    Lint("PE108", "bias-on-banned", "warning"),
    Lint("PE109", "unused-parameter", "warning"),
    Lint("PE150", "unused-variable", "warning"),
    Lint("PE151", "apostrophe-edge", "warning"),
    Lint("PE152", "avoid-on-secret-pattern", "warning"),
    # PE2xx: tokens and targets
    Lint("PE201", "eager-blocks-common-word", "warning", needs="vocabulary"),
    Lint("PE202", "token-id-without-vocabulary", "warning"),
    Lint("PE203", "unspellable-phrase", "warning", needs="vocabulary"),
    Lint("PE211", "redact-before-parsers", "warning"),
    # PE3xx: who is responsible
    Lint("PE301", "no-owner", "warning"),
    Lint("PE302", "no-description", "info"),
    Lint("PE303", "ignore-without-reason", "warning"),
    Lint("PE304", "unused-ignore", "warning", "safe"),
    # PE4xx: tests
    Lint("PE401", "untested-rule", "info"),
    Lint("PE402", "never-tested-clean", "info"),
)

FAMILIES = {"PE0": "file", "PE1": "logic", "PE2": "target", "PE3": "governance", "PE4": "tests"}

_BY_NAME = {lint.name: lint for lint in LINTS}


def lint(name: str) -> Lint:
    """The lint of this name."""
    return _BY_NAME[name]


@cache
def every_code() -> tuple[Code, ...]:
    """The pages of all diagnostics, by code: what is refused and what is advised."""
    return tuple(sorted((*codes.ALL, *(one.page for one in LINTS)), key=lambda code: code.code))


@cache
def names() -> dict[str, str]:
    """Code to name, of all diagnostics."""
    return {one.code: one.name for one in codes.ALL} | {one.code: one.name for one in LINTS}


def find(code_or_name: str) -> Code | None:
    """A diagnostic by its code or name, in any case; None if there is none."""
    text = code_or_name.lower()
    found = next((one for one in LINTS if text in (one.name, one.code.lower())), None)
    return found.page if found else codes.find(code_or_name)


def matching(text: str) -> frozenset[str]:
    """The names that a code, a name or a family stands for; a family is `PE1`, `PE1xx` or its word. Nothing: none."""
    wanted = text.strip().lower()
    family = next((key for key, word in FAMILIES.items() if wanted in (key.lower(), f"{key.lower()}xx", word)), None)
    if wanted == "all":
        return frozenset(names().values())
    return frozenset(
        name for code, name in names().items() if wanted in (code.lower(), name) or (family and code.startswith(family))
    )
