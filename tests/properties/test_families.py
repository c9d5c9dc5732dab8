"""Ten thousand random trials (policy, vocabulary, segmentation) over four families of tokenizers and pieces of text.

`python -m tests.long_run` runs the same by the million; `docs/testing.md` has the results.
"""

from __future__ import annotations

import pytest

from tests.properties import trials

CASES = 50  # a kind of vocabulary, times 40 segmentations, times 5 kinds


@pytest.mark.parametrize("kind", trials.KINDS)
def test_every_trial_agrees_with_the_oracle(kind: str) -> None:
    done = sum(trials.run_case(trials.case(f"ci {kind}/{index}", kinds=[kind])) for index in range(CASES))
    assert done == CASES * trials.TRIALS_A_CASE
