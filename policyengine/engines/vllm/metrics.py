"""Counts by rule as metrics of prometheus_client, where the server's own `/metrics` page can show them.

Policies run in the engine's process, and the page is made by the one that answers HTTP. The two share metrics only
through the files of prometheus_client's multiprocess mode, that is if `PROMETHEUS_MULTIPROC_DIR` is set for both: vLLM
sets it itself where it runs several API servers, and an operator may. Without it there is the log alone.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from policyengine.runtime.counts import RuleCounts

_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
_LABELS = ("policy", "rule", "mode")
_SAID = {
    "outputs": "Outputs in which anything was counted of the rule",
    "steps": "Tokens that were chosen although the rule masks them, or would mask them",
    "dead_ends": "Steps at which the rules left nothing but the end",
}

# A metric is registered once a process, whoever counts.
_registered: dict[str, Any] = {}


class RuleMetrics:
    """Counters `policyengine_rule_{outputs,steps,dead_ends}_total{policy, rule, mode}`; nothing where nobody reads."""

    def __init__(self, counts: RuleCounts) -> None:
        self._counts = counts
        self._metrics = _metrics() if os.environ.get(_DIRECTORY) else {}
        self._told: dict[tuple[str, int], int] = {}

    def update(self) -> None:
        """Bring the metrics up to the counts."""
        for what, metric in self._metrics.items():
            for rank, value in enumerate(self._counts.columns[what]):
                more = value - self._told.get((what, rank), 0)
                if more:
                    policy, _, rule = self._counts.names[rank].partition("/")
                    metric.labels(policy, rule, self._counts.modes[rank]).inc(more)
                    self._told[what, rank] = value


def _metrics() -> dict[str, Any]:
    try:
        from prometheus_client import Counter, values
    except ImportError:
        return {}
    if not getattr(values.ValueClass, "_multiprocess", False) or not _is_first():
        return {}  # imported before the variable was set, or another process counts the same
    for what, said in _SAID.items():
        if what not in _registered:
            _registered[what] = Counter(f"policyengine_rule_{what}", said, _LABELS)
    return _registered


def _is_first() -> bool:
    """Whether this process is the one of its tensor-parallel group that counts: all of them see the same tokens."""
    try:
        from vllm.distributed import get_tensor_model_parallel_rank

        return int(get_tensor_model_parallel_rank()) == 0
    except (ImportError, AssertionError):  # no engine around it
        return True
