"""Opening a compiled bundle: the format (`runtime.bundle`) joined with the request parser (`requests`)."""

from __future__ import annotations

from pathlib import Path

from policyengine.requests import build_parser
from policyengine.runtime.bundle import read
from policyengine.runtime.program import Program


def open_bundle(directory: str | Path) -> Program:
    """Load and verify the bundle in a directory; raises `BundleError` where it is damaged or of an unknown format."""
    return read(directory, build_parser)
