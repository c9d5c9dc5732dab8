"""What a person sees for each mistake: message, place, underlined text, help. Reviewed as diffs.

A golden holds its files, each under a line `=== NAME`, and what loading them shows under `=== output`. Bytes that are
not UTF-8 are written as `\\xNN`. `UPDATE_GOLDENS=1 pytest tests/unit/language/test_goldens.py` rewrites the outputs.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml

from policyengine.language import PolicyError, codes, load

GOLDENS = sorted((Path(__file__).parent / "goldens").glob("*.txt"))
OUTPUT = "output"

# What loading cannot give: the compiler's codes, and a path that holds nothing (test_discovery.py).
ELSEWHERE = {
    "forced-contains-banned",
    "conflicting-forces",
    "message-contains-banned",
    "conflicting-rewrites",
    "conflicting-defaults",
    "nothing-allowed",
    "config-conflict",
    "config-unsafe",
    "forced-not-allowed",
    "not-enforceable",
    "left-out-everywhere",
    "not-bindable",
    "no-policies",
} | {code.name for code in codes.engine.CODES}  # of `doctor`


def sections(golden: Path) -> dict[str, str]:
    """The parts of a golden by name."""
    parts = re.split(r"^=== (.*)\n", golden.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def content(text: str) -> bytes:
    """A file's bytes."""
    return re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes([int(found[1], 16)]), text.encode())


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: golden.stem)
def test_golden(golden: Path, folder: Path) -> None:
    """Loading the files shows exactly the output."""
    if golden.stem in ("syntax", "surrogates") and not yaml.__with_libyaml__:
        pytest.skip("the pure parser words its errors differently")
    parts = sections(golden)
    for name, text in parts.items():
        if name != OUTPUT:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content(text))
    with pytest.raises(PolicyError) as caught:
        load(".")
    output = str(caught.value) + "\n"
    if os.environ.get("UPDATE_GOLDENS"):
        head = "".join(f"=== {name}\n{text}" for name, text in parts.items() if name != OUTPUT)
        golden.write_text(f"{head}=== {OUTPUT}\n{output}")
    else:
        assert output == parts[OUTPUT]


def test_every_code_of_the_language_has_a_golden() -> None:
    """A code nobody has looked at is not done."""
    shown = "".join(sections(golden)[OUTPUT] for golden in GOLDENS)
    assert {code.name for code in codes.ALL if f"[{code.code} {code.name}]" not in shown} == ELSEWHERE
