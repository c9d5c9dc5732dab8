"""The registry of lints: stable, complete, and each with a page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import policyengine.lint
from policyengine.language import codes
from policyengine.lint.model import Lint
from policyengine.lint.registry import LINTS, every_code, find, matching
from policyengine.lint.run import check

# What was published once. Codes and names are stable and never reused: this table only grows.
PUBLISHED = {
    "PE006": "edge-whitespace",
    "PE007": "invisible-character",
    "PE008": "swallowed-comment",
    "PE050": "homoglyph-in-phrase",
    "PE051": "undeclared-variable",
    "PE101": "shadowed-phrase",
    "PE102": "duplicate-phrase",
    "PE104": "replacement-feeds-ban",
    "PE105": "exception-without-effect",
    "PE106": "overbroad-phrase",
    "PE107": "zero-bias",
    "PE108": "bias-on-banned",
    "PE109": "unused-parameter",
    "PE150": "unused-variable",
    "PE151": "apostrophe-edge",
    "PE152": "avoid-on-secret-pattern",
    "PE201": "eager-blocks-common-word",
    "PE202": "token-id-without-vocabulary",
    "PE203": "unspellable-phrase",
    "PE211": "redact-before-parsers",
    "PE301": "no-owner",
    "PE302": "no-description",
    "PE303": "ignore-without-reason",
    "PE304": "unused-ignore",
    "PE401": "untested-rule",
    "PE402": "never-tested-clean",
}


def test_lints_are_what_was_published() -> None:
    """A new lint is added to the table above; none changes or goes."""
    assert {lint.code: lint.name for lint in LINTS if lint.code in PUBLISHED} == PUBLISHED


def test_no_code_or_name_is_used_twice() -> None:
    """Among what is refused and what is advised together."""
    assert len({one.code for one in every_code()}) == len({one.name for one in every_code()}) == len(every_code())
    assert len(every_code()) == len(codes.ALL) + len(LINTS)


def test_every_module_that_finds_something_is_registered() -> None:
    """A file that nobody lists is a lint that nobody runs."""
    folder = Path(policyengine.lint.__path__[0])
    written = {path.stem for path in folder.glob("*.py") if "\ndef findings(checked: Checked)" in path.read_text()}
    assert written == {lint.name.replace("-", "_") for lint in LINTS}


@pytest.mark.parametrize("lint", LINTS, ids=lambda lint: lint.name)
def test_form_of_a_page(lint: Lint) -> None:
    """The docstring is read whole: a summary, a text, examples of both kinds."""
    page = lint.page
    assert re.fullmatch(r"PE[0-4]\d\d", lint.code)
    assert lint.severity != "error"
    assert "\n" not in page.summary
    assert len(page.why) > 80
    assert "Wrong" not in page.why
    assert "Right" not in page.why
    assert page.bad
    assert page.good
    assert find(lint.code.lower()) is find(lint.name.upper()) is page


@pytest.mark.parametrize(
    ("text", "some", "count"),
    [
        ("PE3xx", "no-owner", 4),
        ("pe3", "no-owner", 4),
        ("Governance", "unused-ignore", 4),
        ("PE401", "untested-rule", 1),
        ("untested-rule", "untested-rule", 1),
    ],
)
def test_what_a_word_stands_for(text: str, some: str, count: int) -> None:
    """Families grow; these two are small."""
    assert some in matching(text)
    assert len(matching(text)) == count


def test_a_word_that_stands_for_nothing() -> None:
    """An empty one too, which an unset variable of a shell would be."""
    assert matching("") == matching("PE9xx") == matching("owner") == frozenset()


@pytest.mark.parametrize("lint", LINTS, ids=lambda lint: lint.name)
def test_what_the_registry_says_of_fixes_is_true(lint: Lint, tmp_path: Path) -> None:
    """Of its own example. Where it says that fixes are unsafe, none is safe."""
    for name, text in lint.page.bad:
        (tmp_path / name).write_text(text, encoding="utf-8")
    fixes = [fix for one, fix in check([tmp_path]).fixes.items() if one.name == lint.name]
    assert bool(fixes) is bool(lint.fix)
    assert not (lint.fix == "unsafe" and any(fix.safe for fix in fixes))
    assert ("`--fix" in lint.page.why) is bool(lint.fix)
