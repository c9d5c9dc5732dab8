"""What a processor counts. Numbers only: neither texts nor tokens reach a log."""

from __future__ import annotations

import logging
import time

import torch

from policyengine.engines.vllm.metrics import RuleMetrics
from policyengine.runtime.counts import BUSY, RuleCounts, RuleLog

_log = logging.getLogger("vllm.policyengine")
_INTERVAL = 10.0  # seconds between two looks at the counts


class Counters:
    """Events of one processor since it started.

    refused: requests that asked for what the vocabulary does not have (they end at once).
    failed: requests that failed closed because of an error inside.
    overruled: choices that a mask should have prevented (something after the policies changed the logits).
    dead_ends: choices where nothing was left but EOS; counted on the device, so that counting never waits.
    rules: what is counted by rule, in shadow or not.
    """

    def __init__(self, device: torch.device, rules: RuleCounts, digest: str) -> None:
        """digest: of the bundle."""
        self.rules = rules
        self._metrics = RuleMetrics(rules)
        self._rule_log = RuleLog(rules, digest, _log.info)
        self.refused = self.failed = self.overruled = 0
        self._dead_ends = torch.zeros((), dtype=torch.int64, device=device)
        self._reported: tuple[int, ...] = (0, 0, 0, 0)
        self._next_look = 0.0

    @property
    def dead_ends(self) -> torch.Tensor:
        """The count on the device, int64 scalar: steps add to it there."""
        return self._dead_ends

    def snapshot(self, dead_ends: int | None = None) -> dict[str, int]:
        """All counts. Waits for the device, unless `dead_ends` is known."""
        return {
            "refused": self.refused,
            "failed": self.failed,
            "overruled": self.overruled,
            "dead_ends": int(self._dead_ends.item()) if dead_ends is None else dead_ends,
        }

    def report(self) -> None:
        """Log what changed. Meant for idle moments, since it may wait for the device; looks once in ten seconds."""
        if self._tell(None):
            self._rule_log.tell(0.0)
            self._metrics.update()

    def report_known(self, dead_ends: int) -> None:
        """The same for an engine that does not say when it is idle, with a count of before: waits for nothing."""
        if self._tell(dead_ends):
            self.look()

    def _tell(self, dead_ends: int | None) -> bool:
        """Log the counts of the whole engine if they changed; False: it is too soon to look."""
        now = time.monotonic()
        if now < self._next_look:
            return False
        self._next_look = now + _INTERVAL
        counts = self.snapshot(dead_ends)
        if tuple(counts.values()) != self._reported:
            self._reported = tuple(counts.values())
            _log.info("policy counters: %s", ", ".join(f"{name} {value}" for name, value in counts.items()))
        return True

    def look(self) -> None:
        """Report what is counted by rule, for an engine that is never idle: once a minute, waiting for nothing."""
        if self._rule_log.tell(BUSY):
            self._metrics.update()
