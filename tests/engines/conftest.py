"""What the tests of all engines share: the tiny model, made once a machine."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tiny_model() -> Path:
    """The folder of a model small enough for a test."""
    from tests.engines import tiny_model as tiny

    return tiny.path()
