"""The rows of a step and what policies do to their logits, whichever runner of vLLM has put them together.

A row is one request for as long as it runs. Its state is brought up to date from the tokens that the engine has chosen
just before the logits change, and rebuilt whenever these are not a continuation of what was read.
"""

from __future__ import annotations

import logging
import traceback
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from policyengine.engines.vllm.counters import Counters
from policyengine.engines.vllm.edits import Edits, PartCache
from policyengine.engines.vllm.memo import Bias, Mask, Memo, More, Spot
from policyengine.engines.vllm.row import Row, UnknownTokenError
from policyengine.engines.vllm.steering import Steering
from policyengine.runtime.counts import RuleCounts
from policyengine.runtime.errors import RequestError

if TYPE_CHECKING:
    from policyengine.runtime.token_program import TokenProgram
    from policyengine.runtime.token_session import StandIn, TokenSession

_log = logging.getLogger("vllm.policyengine")

# Every batch of this process, so that a class which vLLM loads twice finds its twin.
_batches: weakref.WeakSet[Rows] = weakref.WeakSet()


class Rows:
    """What acts on the rows of one engine that run under active rules.

    If vLLM loads the class twice (named and by entry point), both follow the requests, and the second leaves the
    logits alone as long as the first one works: a bias counts once, and nothing depends on which of them lives.
    """

    def __init__(self, program: TokenProgram, device: torch.device, engine: object) -> None:
        """engine: identifies the running engine (its configuration); twins share it."""
        self.program, self.engine = program, engine
        self.counters = Counters(device, RuleCounts(program.program), program.program.digest)
        self.steps = 0
        self._cache, self._memo = PartCache(device), Memo()
        vocabulary = program.vocabulary
        self._width = vocabulary.size
        self._real = int(program.is_real.sum())
        self._padding = np.flatnonzero(~program.is_real)
        self._paddings: dict[int, np.ndarray] = {}  # by the width of the logits
        self._eos = vocabulary.eos_token_ids[0]
        self._twin = self._find_twin()
        self._twin_steps = 0
        _batches.add(self)

    def _find_twin(self) -> weakref.ref[Rows] | None:
        for other in _batches:
            if other.engine is self.engine and other._twin is None and other.digest == self.digest:
                return weakref.ref(other)
        return None

    @property
    def digest(self) -> str:
        """Of the program that acts here."""
        return self.program.program.digest

    @property
    def is_second(self) -> bool:
        """Whether another batch of this engine acts for the same program."""
        return self._twin is not None

    # -- rows that come and go ------------------------------------------------------------------------------------

    def acts(self, row: Row) -> bool:
        """Whether any rule acts on a request that begins; where that depends on its prompt: yes."""
        if self.program.markers is not None:
            return True
        try:
            row.session, row.counts = self._start(row), self.counters.rules.output()
        except Exception as error:
            self._close(row, error)
            return True
        return not row.session.is_idle

    def leave(self, row: Row) -> None:
        """A request is over: count what is left to count."""
        if row.session is not None:
            if not row.closed:
                self._read_last(row)
            self.counters.overruled += row.session.masked_choices

    def _read_last(self, row: Row) -> None:
        """Count the token that ended the request, which no step has read."""
        read = row.output[row.consumed :]
        if len(read) > 1 or -1 in read or not row.fits():
            return  # not what ended it, or not known: then nothing is counted
        try:
            self._caught_up(row)
        except Exception as error:
            _log.error("the last token of a request could not be counted: %s", _where(error))

    # -- one step --------------------------------------------------------------------------------------------------

    def step(
        self,
        logits: torch.Tensor,
        ordered: Sequence[tuple[int, Row]],
        drafts: Mapping[int, Sequence[int]] | None = None,
    ) -> list[int]:
        """Change the logits (float32 [rows, width]) in place. Raises UnknownTokenError rather than guess a token.

        ordered: the rows that take part, by their place in the logits, ascending. drafts: by that place, the tokens
        that a request may go on with; the rows behind its own are for the choices after each of them. Returns the
        places of those on which no rule acts at all; they need not be given again.
        """
        self.steps += 1
        if not ordered or self._twin_acted():
            return []
        last = ordered[-1][0] + (len(drafts.get(ordered[-1][0], ())) if drafts else 0)
        if logits.shape[1] < self._width or last >= logits.shape[0]:
            raise RuntimeError(f"logits of shape {tuple(logits.shape)} do not fit {last + 1} rows of {self._width} ids")
        edits = Edits(self._cache)
        used, finished = False, []
        masked = edits.masked
        for index, row in ordered:
            spot = row.spot if drafts is None else None
            if spot is not None:  # one new token on a way that was gone before: the rest of the loop in short
                output, length = row.output, row.consumed + 1
                if len(output) == length < row.until and output[-2] == row.last:
                    token = output[-1]
                    spot = spot.after.get(token)
                    if spot is not None:
                        row.spot, row.consumed, row.last = spot, length, token
                        if spot.mask is not None:
                            masked.append((index, spot.mask))
                        if spot.more is not None:
                            self._add(index, row, spot.more, edits)
                        used = True
                        continue
            if self._look(index, row, edits):
                used = True
                if drafts:
                    self._look_ahead(index, row, drafts.get(index, ()), edits)
            else:
                finished.append(index)
        if used:
            edits.apply(logits, self._all_padding(logits), self.counters.dead_ends)
        return finished

    def _look(self, index: int, row: Row, edits: Edits) -> bool:
        """Collect what one row needs; one that fails is closed. False: no rule acts on this request at all."""
        try:
            if not row.closed and not self._gather(index, row, edits):
                return False
        except UnknownTokenError:
            raise
        except Exception as error:
            self._close(row, error)
        if row.closed:
            edits.force(index, row.eos, row.eos)
        return True

    def _close(self, row: Row, error: Exception) -> None:
        """Only EOS from here on."""
        row.closed = True
        if isinstance(error, RequestError):
            self.counters.refused += 1
        else:
            self.counters.failed += 1
            _log.error("a request failed closed: %s", _where(error))

    def _look_ahead(self, index: int, row: Row, drafts: Sequence[int], edits: Edits) -> None:
        """Collect what the rows behind drafts need. The session returns to where it was: drafts may be rejected."""
        session = row.session
        if session is None or row.closed:
            for behind in range(index + 1, index + 1 + len(drafts)):
                edits.force(behind, row.eos, row.eos)
            return
        place, length, masked = session.place, session.length, session.masked_choices
        try:
            for ahead, token in enumerate(drafts, 1):
                if not 0 <= token < self._width:
                    break  # no draft: what follows it is never taken
                session.advance(token)
                spot, _ = self._ask(index + ahead, row, session, edits, counting=False)
                if spot.more is not None:
                    self._add(index + ahead, row, spot.more, edits)
                if spot.mask is not None:
                    edits.mask(index + ahead, spot.mask)
        finally:
            session.move(place, length)
            session.masked_choices = masked

    def _twin_acted(self) -> bool:
        """Whether the twin, which runs before this batch in every step, has just done the work."""
        twin = self._twin() if self._twin is not None else None
        if twin is None or twin.steps == self._twin_steps:
            return False
        self._twin_steps = twin.steps
        return True

    def _gather(self, index: int, row: Row, edits: Edits) -> bool:
        """Collect what one row needs. False: no rule acts on this request at all."""
        before, consumed = row.spot, row.consumed
        session = self._caught_up(row)
        if session.is_idle:
            return False
        settled = self._settles(row, session)
        spot = self._memo.find(session) if settled else None
        if spot is None:
            spot, alone = self._ask(index, row, session, edits)
            if settled and alone:
                self._memo.keep(session, spot)
            else:
                settled = False
        if settled:
            row.spot = spot
            quiet = row.overruled == session.masked_choices and not row.noted
            if before is not None and row.consumed == consumed + 1 and quiet:
                self._memo.link(before, row.last, spot)
        row.overruled = session.masked_choices
        if spot.more is not None:
            self._add(index, row, spot.more, edits)
        if spot.mask is not None:
            edits.mask(index, spot.mask)
        return True

    def _ask(
        self, index: int, row: Row, session: TokenSession, edits: Edits, *, counting: bool = True
    ) -> tuple[Spot, bool]:
        """What the session answers now, and whether that is all that this row needs."""
        answers = session.answers()
        parts, forced, only, stand_in = answers
        bias: Bias | None = session.bias_arrays() if session.has_bias else None
        if bias is not None and not len(bias[0]):
            bias = None
        if only is not None and 2 * len(only) > self._width:
            parts, only = (*parts, self._cache.others(only, self._width)), None
        more = None
        if bias is not None or only is not None or stand_in is not None:
            # A force decides for itself what is left.
            none_left = forced is None and only is not None and self._may_be_all(row, parts, len(only), stand_in)
            more = More(bias, only, none_left, stand_in)
        spot = Spot(session.place, Mask(parts) if parts else None, more)
        dead = session.dead_ends(answers) if counting else ()
        if dead and row.counts is not None:
            row.counts.dead_ends(dead)
        if forced is not None:
            edits.force(index, forced, row.eos)
        elif only is None and (parts or stand_in is not None) and self._may_be_all(row, parts, self._real, stand_in):
            edits.check(index, row.eos)
        else:
            return spot, not dead
        return spot, False

    def _add(self, index: int, row: Row, more: More, edits: Edits) -> None:
        if more.bias is not None:
            edits.bias(index, *more.bias)
        if more.only is None and more.stand_in is None:
            return
        if edits.steering is None:
            edits.steering = Steering()
        if more.only is not None:
            edits.steering.only(index, more.only, row.eos if more.may_be_none else None)
        if more.stand_in is not None:
            edits.steering.stand_in(index, *more.stand_in)

    @staticmethod
    def _settles(row: Row, session: TokenSession) -> bool:
        """Whether nothing but the session's place decides from here on until the output is as long as `row.until`."""
        since, row.until = session.settled
        return not row.limited and max(since, row.params.min_tokens, 1) <= row.consumed < row.until

    @staticmethod
    def _may_be_all(row: Row, parts: tuple[np.ndarray, ...], real: int, stand_in: StandIn | None = None) -> bool:
        """Whether masks, those of the engine included, may leave nothing of so many ids."""
        if row.limited:
            return True
        most = sum(map(len, parts)) + (0 if stand_in is None else len(stand_in.sources) + 1)
        if len(row.output) < row.params.min_tokens:
            most += len(row.params.all_stop_token_ids)
        return most >= real

    def _caught_up(self, row: Row) -> TokenSession:
        spot, row.spot = row.spot, None
        session, output = row.session, row.output
        if session is None or not row.fits():
            row.session = session = self._start(row)
            row.counted = max(row.counted, row.consumed)
            row.consumed = row.overruled = 0
            row.counts = row.counts or self.counters.rules.output()
        elif spot is not None:
            session.move(spot.place, row.consumed)
        row.noted = False
        for token in output[row.consumed :]:
            if token < 0:
                raise UnknownTokenError(
                    "vLLM reports a chosen token as -1. With async scheduling it tells chosen tokens only to "
                    "processors named with --logits-processors (or in the --config file): name this one there, "
                    "or start with --no-async-scheduling"
                )
            rules = session.choose(token)
            if rules and row.consumed >= row.counted and row.counts is not None:
                row.counts.steps(rules)
                row.noted = True
            row.consumed += 1
            row.last = token
        return session

    def _start(self, row: Row) -> TokenSession:
        params = row.params
        extra: Mapping[str, Any] | None = params.extra_args
        stop, ignore_eos = tuple(params.stop_token_ids or ()), bool(params.ignore_eos)
        return self.program.token_session(extra, stop, params.max_tokens, ignore_eos, reasoning=row.reasoning)

    def _all_padding(self, logits: torch.Tensor) -> np.ndarray:
        """What stands for no token, the columns beyond the vocabulary among it."""
        width = logits.shape[1]
        if width not in self._paddings:
            self._paddings[width] = np.concatenate((self._padding, np.arange(self._width, width)))
        return self._paddings[width]


def _where(error: BaseException) -> str:
    """The kind and place of a failure, without its message: that may hold text of a policy or an answer."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {last.filename}:{last.lineno}"
