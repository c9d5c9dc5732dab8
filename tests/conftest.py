"""Settings and vocabularies that every test shares."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from policyengine.automata.vocabulary import Vocabulary

# Tests leave nothing behind in the home folder, and find nothing there: what is tested is built.
os.environ["POLICYENGINE_CACHE_DIR"] = "off"

# Machines differ and are shared: how long an example takes is never a reason to fail.
# In CI the same examples each time, so that what lands does not hang on luck; new ones are for everybody else's runs.
settings.register_profile(
    "policyengine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("policyengine")


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
