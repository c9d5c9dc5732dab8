"""Settings and vocabularies that every test shares."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from policyengine.automata.vocabulary import Vocabulary

# Tests leave nothing behind in the home folder, and find nothing there: what is tested is built.
os.environ["POLICYENGINE_CACHE_DIR"] = "off"

# Machines differ and are shared: how long an example takes is never a reason to fail.
# The same examples each time, so that what lands does not hang on luck; `--hypothesis-profile=search` draws new ones.
_SAME = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("same", _SAME)
settings.register_profile("search", _SAME, derandomize=False)
settings.load_profile("same")


@pytest.fixture(scope="session")
def toy() -> Vocabulary:
    """The 24 ids of the cases, 17 to 23 of them padding."""
    from tests import vocabularies

    return vocabularies.toy()


@pytest.fixture(scope="session")
def small() -> Vocabulary:
    """A byte-level BPE of 4,096 ids."""
    from tests import vocabularies

    return vocabularies.small()


@pytest.fixture(scope="session")
def real() -> Vocabulary:
    """A real vocabulary of 131,072 ids."""
    from tests import vocabularies

    return vocabularies.real()
