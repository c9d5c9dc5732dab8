"""The hook that `trtllm-serve` calls with every piece of text before a client sees it.

The engine shows token ids and logprobs beside the text, and a verdict with `emit` shows those of the chunk as they are.
So a chunk leaves with `emit` only if all of its text may leave and none of it was redacted. Otherwise it is withheld on
every surface, and what may be shown of its text leaves with the next such chunk, or at the end.
"""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar, Protocol

from policyengine.bundles import open_bundle
from policyengine.engines.trtllm.outputs import Output, Outputs
from policyengine.engines.trtllm.verdicts import StandInVerdict, engine_verdicts
from policyengine.runtime.counts import BUSY, RuleCounts, RuleLog
from policyengine.runtime.text_session import TextSession, Verdict

TARGET = "trtllm"
FAILED = "policyengine-error"  # stop_reason of a request that failed inside the hook
LOST = "policyengine-state-lost"  # and of one whose state had been dropped for want of room

_INCOMPLETE = "\N{REPLACEMENT CHARACTER}"
_MOST_INCOMPLETE = 3  # bytes of a character that may stand there one by one
_RECENT = 16

logger = logging.getLogger(__name__)


class Chunk(Protocol):
    """The engine's `PostProcessorHookChunk`, as far as it is used here."""

    request_id: int
    output_index: int
    text_diff: str
    text: str
    token_ids_diff: list[int]
    is_final: bool
    aborted: bool
    streaming: bool


class PolicyHookBase:
    """The text level of a bundle as a hook. A generated module derives `PolicyHook` from it and sets `bundle`.

    One instance serves all requests of a process. Whatever fails inside ends the one request, and shows nothing of it.

    Attributes:
        bundle: the directory of `manifest.json`.
        max_outputs, max_idle_seconds: bounds of what is remembered; beyond them the output that was called least
            recently is dropped, and ended should it go on after all.
        counters: "failed", "evicted", "lost" (calls for an output that was dropped), "terminated", "withheld" (chunks).
        rules: what is counted by rule, in shadow or not.
    """

    bundle: ClassVar[Path]
    max_outputs: ClassVar[int] = 16_384
    max_idle_seconds: ClassVar[float] = 3_600.0

    def __init__(self) -> None:
        """Load the bundle. Raises `BundleError`, or RuntimeError for an engine whose hook interface is not known."""
        self._program = open_bundle(self.bundle)
        self._request = self._program.parse_request(None)
        session = self._session()
        self._idle, self._acts = session.idle, session.acts
        self.rules = RuleCounts(self._program)
        self._log = RuleLog(self.rules, self._program.digest, logger.info)
        self._outputs = Outputs(self.max_outputs, self.max_idle_seconds)
        self._verdicts = engine_verdicts()
        self.counters: Counter[str] = Counter()

    def __reduce__(self) -> tuple[type[PolicyHookBase], tuple[()]]:
        # A copy in another process starts without outputs, as the engine wants it.
        return type(self), ()

    def __call__(self, chunk: Chunk) -> Any:
        """Decide on one chunk of one output; returns the engine's verdict."""
        try:
            verdict = self._decide(chunk) if self._acts else self._pass(chunk)
        except Exception as error:
            verdict = self._fail(chunk, error)
        if verdict.action != "emit":
            self.counters["terminated" if verdict.action == "terminate" else "withheld"] += 1
        verdicts = self._verdicts or engine_verdicts() or StandInVerdict
        return verdicts(action=verdict.action, text=verdict.text, reason=verdict.reason)

    def _session(self) -> TextSession:
        return TextSession(self._program, self._request, TARGET)

    def _fail(self, chunk: Chunk, error: Exception) -> Verdict:
        self._note(chunk, error, "is ended")
        return Verdict("terminate", "", FAILED, ())

    def _note(self, chunk: Chunk, error: Exception, what: str) -> None:
        self.counters["failed"] += 1
        request = getattr(chunk, "request_id", None)
        # The error's own words may quote the text, which must not reach a log.
        place = traceback.extract_tb(error.__traceback__)[-1]
        logger.error(
            "policy hook failed for request %s, which %s: %s in %s, line %s",
            *(request, what, type(error).__name__, place.filename, place.lineno),
        )
        if isinstance(request, int):
            self._outputs.close(request)

    def _pass(self, chunk: Chunk) -> Verdict:
        """A chunk where no rule acts."""
        if not self._idle:
            self._watch(chunk)
        return Verdict("emit", chunk.text_diff, None, ())

    def _watch(self, chunk: Chunk) -> None:
        """Read a chunk where all rules are in shadow: nothing depends on it, whatever happens."""
        try:
            request, index = chunk.request_id, chunk.output_index
            output = self._outputs.get(request, index)
            if output is None:
                if self._outputs.fate(request) is not None or len(chunk.text) > len(chunk.text_diff):
                    return
                output = self._add(request, index)
            _read(output, _new_text(output, chunk))
            output.pending.clear()
            if chunk.is_final:
                output.counts.verdict(output.session.finish())
                self._end(request, index)
            elif chunk.aborted:
                self._outputs.close(request)
        except Exception as error:
            self._note(chunk, error, "is no longer watched")

    def _add(self, request: int, index: int) -> Output:
        output = self._outputs.add(request, index, self._session(), self.rules.output())
        self.counters["evicted"] = self._outputs.evicted
        return output

    def _end(self, request: int, index: int) -> None:
        self._outputs.end(request, index)
        self._log.tell(BUSY)

    def _decide(self, chunk: Chunk) -> Verdict:
        request, index = chunk.request_id, chunk.output_index
        output = self._outputs.get(request, index)
        if output is None:
            fate = self._outputs.fate(request)
            if fate == "closed":
                return _WITHHOLD
            if fate == "lost" or len(chunk.text) > len(chunk.text_diff):
                self.counters["lost"] += 1
                self._outputs.close(request)
                return Verdict("terminate", "", LOST, ())
            output = self._add(request, index)
        if chunk.is_final:
            self._end(request, index)
            return _last(output, chunk)
        if chunk.aborted:
            self._outputs.close(request)
            return _WITHHOLD
        verdict = _next(output, chunk)
        if verdict.action == "terminate":
            self._outputs.close(request)
        return verdict


_WITHHOLD = Verdict("suppress", "", None, ())


def _next(output: Output, chunk: Chunk) -> Verdict:
    """A chunk after which more may follow."""
    text = _new_text(output, chunk)
    verdict, clean = _read(output, text)
    if verdict.action == "terminate":
        return verdict
    if output.session.held or output.tail or not clean:
        return _WITHHOLD
    if not text and chunk.token_ids_diff and chunk.streaming:
        return _WITHHOLD  # ids of a character that is not complete, and that may turn out to be banned
    ready = "".join(output.pending)
    if not chunk.streaming and ready != text:
        return _WITHHOLD  # the engine decodes this output anew for its last call, which would overwrite the text
    output.pending.clear()
    return _show(output, chunk, text, ready)


def _last(output: Output, chunk: Chunk) -> Verdict:
    """The last call of an output: everything leaves."""
    text = _new_text(output, chunk)
    start = output.read
    verdict, clean = _read(output, text)
    if verdict.action == "terminate":
        return verdict
    end = output.session.finish()
    output.counts.verdict(end)
    ready = "".join((*output.pending, end.text))
    if end.action == "terminate":
        return Verdict("terminate", ready, end.reason, ())
    if clean and output.session.replaced <= start:
        return _show(output, chunk, text, ready)
    # Only a terminate shows text without the ids behind it. Without a reason it looks like any other end.
    return Verdict("terminate", ready, None, ())


def _show(output: Output, chunk: Chunk, text: str, ready: str) -> Verdict:
    """Let text leave with the ids of its chunk; ids behind which there is no text stay."""
    # Not streaming, the ids of all calls leave at the end, and a withheld call takes back those of earlier ones.
    if ready or (not chunk.streaming and output.read and not text):
        return Verdict("emit", ready, None, ())
    return _WITHHOLD


def _read(output: Output, text: str) -> tuple[Verdict, bool]:
    """Feed the session. Returns its verdict and whether all of this text, if it leaves, leaves as it was written."""
    start = output.read
    output.read += len(text)
    output.recent = (output.recent + text)[-_RECENT:]
    verdict = output.session.feed(text)
    output.counts.verdict(verdict)
    output.pending.append(verdict.text)
    if verdict.action == "terminate":
        verdict = Verdict("terminate", "".join(output.pending), verdict.reason, verdict.matches)
    return verdict, output.session.replaced <= start


def _new_text(output: Output, chunk: Chunk) -> str:
    """What this chunk adds to the text that was read, without a character at its end that may not be complete.

    Such a character shows as U+FFFD. Engines that decode incrementally keep it back; those that decode everything anew
    give it, and then, in the next diff, what it has become together with all that they were told to withhold.
    """
    diff, tail, output.tail = chunk.text_diff, output.tail, ""
    if tail or output.redecodes:
        whole = chunk.text
        if len(whole) >= output.read and whole[max(0, output.read - _RECENT) : output.read] == output.recent:
            output.redecodes = True
            diff = whole[output.read :]
        elif not diff:
            if chunk.token_ids_diff or chunk.is_final:
                return tail  # nothing came in its place
            output.tail = tail
    if not chunk.is_final and diff.endswith(_INCOMPLETE):
        kept = max(len(diff.rstrip(_INCOMPLETE)), len(diff) - _MOST_INCOMPLETE)
        diff, output.tail = diff[:kept], diff[kept:]
    return diff
