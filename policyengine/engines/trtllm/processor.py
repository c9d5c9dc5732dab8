"""The logits processor of TensorRT-LLM's LLM API: one object a request, the policies' token level.

The engine calls it with the logits of one request's beams just before a token is chosen. It gives no sampling
parameters and never says that a request has ended; what a processor cannot see, its maker tells it (`attach`).
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from policyengine.engines.trtllm import binding, rows
from policyengine.engines.trtllm.sequences import LostSequenceError, Requests, StaleTokensError
from policyengine.runtime.counts import BUSY, Tally
from policyengine.runtime.errors import BindError, RequestError
from policyengine.runtime.forces import conflict, value_of
from policyengine.runtime.program import AllowPlan, BanPlan, ForcePlan, MinTokensPlan, RulePlan

if TYPE_CHECKING:
    from policyengine.engines.trtllm.binding import Bound
    from policyengine.runtime.token_session import TokenSession

_DEVICE = "cuda"  # TensorRT-LLM runs nowhere else

_BEAMS = (
    "beam search without streaming: the engine does not tell what each beam has written, so that policies cannot hold; "
    "stream the request, and give streaming=True to the processor"
)

logger = logging.getLogger(__name__)


class PolicyLogitsProcessorBase:
    """The token level of a bundle for one request. A generated module derives from it and sets `bundle`.

        processor = PolicyLogitsProcessor(llm)
        llm.generate(prompt, processor.attach(SamplingParams(max_tokens=64)))

    One object may serve many requests with the same parameters; each is known by its `req_id`.

    Attributes:
        bundle: the directory of `manifest.json`.
        max_requests: how many requests one object remembers; beyond them the one that was called least recently is
            read anew should it go on.
    """

    bundle: ClassVar[Path]
    max_requests: ClassVar[int] = 4_096

    def __init__(
        self,
        model: Any,
        request: Mapping[str, Any] | None = None,
        *,
        stop_token_ids: Iterable[int] = (),
        max_tokens: int | None = None,
        ignore_eos: bool = False,
        end_id: int | None = None,
        served_model: str | None = None,
        eos_token_ids: Iterable[int] | None = None,
        chunked_prefill: bool = False,
        streaming: bool = False,
    ) -> None:
        """Check everything that can be checked before the engine sees the request.

        model: the `LLM`, its tokenizer, the folder of the model, or a `policyengine.Vocabulary`. With the `LLM`, what
            its arguments say is checked too. A folder is quickest to hand to the engine's workers.
        request: the policies selected and their parameters, as in `vllm_xargs`; None: the defaults.
        stop_token_ids, max_tokens, ignore_eos, end_id: as in the request's `SamplingParams` (`attach` reads them).
        served_model: the name that `when: {model}` asks for; None: that of the LLM or the folder.
        eos_token_ids: the ids that end an output; None: those that the model names.
        chunked_prefill: whether the engine reads prompts in chunks (an `LLM` tells it itself).
        streaming: whether the request is streamed, which beam search needs: only then does the engine tell, at every
            step, what each beam has written.

        Raises BundleError, BindError where the policies cannot hold on this model or LLM, and RequestError for a
        request that they do not allow.
        """
        refusal = _refusal(model)
        if refusal is not None:
            raise BindError(f"policies do not hold on this LLM: {refusal}")
        self._program = binding.program_at(Path(self.bundle))
        self._request = dict(request or {})
        self._stops = tuple(int(token) for token in stop_token_ids)
        self._max_tokens, self._ignore_eos = max_tokens, ignore_eos
        self._end_id = None if end_id is None or end_id < 0 else end_id
        vocabulary, folder = binding.vocabulary_of(model, eos_token_ids)
        self._ref: binding.Ref = folder or binding.pack(
            vocabulary, binding.forced_texts(self._program, self._request.values())
        )
        binding.remember(self._ref, vocabulary)
        self._served = served_model or _name(model)
        self._chunked = chunked_prefill or bool(getattr(getattr(model, "args", None), "enable_chunked_prefill", False))
        self._streaming = streaming
        self._check()
        self._reset()

    def _check(self) -> None:
        bound = binding.bound(self._program, self._ref, device=_DEVICE, model=self._served)
        parsed = self._program.parse_request(self._request)
        rules = [rule for rule in bound.program.rules if rule.policy in parsed.policies]
        for channel in ("all", "answer", "reasoning"):
            own = [rule for rule in rules if rule.channel == channel]
            forces = [(bound.program.name(rule), rule.body) for rule in own if isinstance(rule.body, ForcePlan)]
            clash = conflict(forces, parsed)
            if clash is not None:
                raise RequestError(clash)
        self._start(bound)

    def _reset(self) -> None:
        """What belongs to one process."""
        self._bound: Bound | None = None
        self._requests: Requests | None = None

    # -- before the request ------------------------------------------------------------------------------------------

    def attach(self, params: Any) -> Any:
        """Add the policies to a request's `SamplingParams`, which come back.

        Reads `stop_token_ids`, `max_tokens`, `ignore_eos` and `end_id`, so that policies know every end of the output,
        and raises `min_tokens` to what they ask (not above `max_tokens`), so that the engine holds its stop strings
        back as long. Raises RequestError for parameters under which policies would not hold.
        """
        present = params.logits_processor
        others = [] if present is None else list(present) if isinstance(present, list | tuple) else [present]
        if any(isinstance(other, PolicyLogitsProcessorBase) for other in others):
            raise RequestError("these sampling parameters have policies already")
        if getattr(params, "use_beam_search", False) and not self._streaming:
            raise RequestError(
                "with beam search the engine tells what each beam has written only if the request is streamed: give "
                "the processor streaming=True and stream it, or leave `use_beam_search` out"
            )
        own = copy(self)
        own._stops = tuple(dict.fromkeys((*self._stops, *(getattr(params, "stop_token_ids", None) or ()))))
        own._max_tokens = params.max_tokens if params.max_tokens is not None else self._max_tokens
        own._ignore_eos = self._ignore_eos or bool(getattr(params, "ignore_eos", False))
        end_id = getattr(params, "end_id", None)
        own._end_id = self._end_id if end_id is None or end_id < 0 else end_id
        own._check()
        own._reset()
        rules = self._rules()
        if getattr(params, "lookahead_config", None) is not None:
            raise RequestError("policies do not hold with speculative decoding: leave `lookahead_config` out")
        if getattr(params, "guided_decoding", None) is not None and any(_masks(rule) for rule in rules):
            raise RequestError(
                "the engine applies guided decoding after the policies, and may be left with no token at all: leave "
                "`guided_decoding` out"
            )
        least = self._least(rules)
        if own._max_tokens is not None:
            least = min(least, own._max_tokens)
        if least > (params.min_tokens or 0):
            params.min_tokens = least
        params.logits_processor = [*others, own] if others else own
        return params

    def _rules(self) -> list[RulePlan]:
        parsed = self._program.parse_request(self._request)
        bound = binding.bound(self._program, self._ref, device=_DEVICE, model=self._served)
        return [rule for rule in bound.program.rules if rule.policy in parsed.policies]

    def _least(self, rules: Iterable[RulePlan]) -> int:
        parsed = self._program.parse_request(self._request)
        # An output that does not reason has no minimum for its reasoning.
        plans = [rule.body for rule in rules if rule.channel != "reasoning"]
        values = [value_of(plan.n, parsed) for plan in plans if isinstance(plan, MinTokensPlan)]
        return max((int(value) for value in values if isinstance(value, int | float)), default=0)

    # -- across processes --------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        left_out = ("_program", "_bound", "_requests")
        return {name: value for name, value in self.__dict__.items() if name not in left_out} | {
            "digest": self._program.digest
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        digest = state.pop("digest")
        self.__dict__.update(state)
        self._program = binding.program_at(Path(self.bundle))
        self._reset()
        if self._program.digest != digest:
            raise BindError(
                f"the bundle in {self.bundle} changed after this request's processor was made: make it again"
            )

    # -- a step ------------------------------------------------------------------------------------------------------

    @property
    def counters(self) -> dict[str, int]:
        """What was counted in this process under this bundle and model: see `binding.Bound`. Waits for the device."""
        bound = self._bound or binding.bound(self._program, self._ref, device=_DEVICE, model=self._served)
        return bound.snapshot()

    @property
    def rule_counters(self) -> dict[str, Tally]:
        """What was counted by rule in this process under this bundle and model, by `policy/rule`."""
        bound = self._bound or binding.bound(self._program, self._ref, device=_DEVICE, model=self._served)
        return bound.rules.snapshot()

    def __call__(
        self,
        req_id: int,
        logits: Any,
        token_ids: Sequence[Sequence[int]],
        stream_ptr: int | None,
        client_id: int | None,
    ) -> None:
        """Change the logits (tensor [beams, 1, vocabulary]) in place. token_ids: a sequence a beam, prompt included.

        Nothing is raised: an exception would end the other requests of the batch as well. A request that fails gets
        the end-of-sequence token and nothing else.
        """
        with rows.on_stream(logits, stream_ptr):
            beams = logits[:, 0, :] if logits.dim() == 3 else logits
            try:
                self._apply(req_id, beams, token_ids)
            except Exception as error:
                self._fail(req_id, beams, error)

    def _apply(self, req_id: int, logits: Any, token_ids: Sequence[Sequence[int]]) -> None:
        """`__call__` with logits [beams, vocabulary]."""
        bound, requests = self._at(logits)
        request = requests.get(req_id, token_ids)
        if len(token_ids) != len(logits):
            raise ValueError(f"{len(logits)} rows of logits for {len(token_ids)} beams")
        if len(token_ids) > 1 and not self._streaming:
            request.closed = True
            raise StaleTokensError(_BEAMS)
        if request.closed:
            rows.close(logits, self._eos(bound))
            return
        try:
            beams = request.follow(token_ids, may_repeat=self._chunked)
        except Exception:
            request.closed = True
            raise
        bound.counters["overruled"] += request.overruled
        request.overruled = 0
        bound.log.tell(BUSY)
        for beam in beams:
            request.counts.dead_ends(beam.session.dead_ends())
        if not beams[0].session.is_idle:
            rows.edit(logits, [beam.session for beam in beams], bound, self._eos(bound))

    def _at(self, logits: Any) -> tuple[Bound, Requests]:
        """This process's tables, made at the first call; the logits tell how wide they are and where they lie."""
        if self._bound is None or self._requests is None:
            width, device = logits.shape[1], logits.device.type
            bound = binding.bound(self._program, self._ref, device=device, model=self._served, width=width)
            self._bound = bound
            self._requests = Requests(self.max_requests, lambda prompt: self._start(bound, prompt), bound.rules)
        if logits.shape[1] < self._bound.program.vocabulary.size:
            raise ValueError(f"the logits became narrower: {logits.shape[1]} ids")
        return self._bound, self._requests

    def _start(self, bound: Bound, prompt: Sequence[int] = ()) -> TokenSession:
        ends = set(bound.program.vocabulary.eos_token_ids)
        stops = [*self._stops, *([self._end_id] if self._end_id is not None and self._end_id not in ends else [])]
        markers = bound.program.markers
        reasoning = None if markers is None else markers.after(prompt)
        return bound.program.token_session(
            self._request, stops, self._max_tokens, self._ignore_eos, reasoning=reasoning
        )

    def _eos(self, bound: Bound) -> int:
        return bound.eos if self._end_id is None else self._end_id

    def _fail(self, req_id: int, logits: Any, error: Exception) -> None:
        stale, lost = isinstance(error, StaleTokensError), isinstance(error, LostSequenceError)
        if self._bound is not None:
            refused = isinstance(error, RequestError)
            self._bound.counters["stale" if stale else "lost" if lost else "refused" if refused else "failed"] += 1
        # The error's own words may quote a text, which must not reach a log.
        place = traceback.extract_tb(error.__traceback__)[-1]
        what = str(error) if stale else f"{type(error).__name__} at {place.filename}:{place.lineno}"
        logger.error("request %s fails closed: %s", req_id, what)
        if self._requests is not None and not lost:
            self._requests.close(req_id)
        rows.close(logits, self._last_resort(logits.shape[1]))

    def _last_resort(self, width: int) -> int:
        """The end of an output, even where nothing could be bound. Raises RuntimeError where none is known."""
        if self._bound is not None:
            return self._eos(self._bound)
        ends = self._ref.eos or ()
        known = [token for token in (self._end_id, *ends) if token is not None and 0 <= token < width]
        if not known:
            raise RuntimeError("policies cannot hold here, and no end-of-sequence token is known")
        return known[0]


def _masks(rule: RulePlan) -> bool:
    """Whether a rule may leave tokens out."""
    body = rule.body
    return isinstance(body, AllowPlan | ForcePlan) or (
        isinstance(body, BanPlan) and (body.avoid or bool(body.token_ids))
    )


def _name(model: Any) -> str | None:
    """What a model is called where nobody says it."""
    if isinstance(model, str | Path):
        return str(model)
    named = getattr(getattr(model, "args", None), "model", None)
    return str(named) if isinstance(named, str | Path) else None


def _refusal(model: Any) -> str | None:
    """Why policies cannot hold on an `LLM`; None if they can, or if this is none."""
    if not binding.is_llm(model):
        return None
    args = model.args
    # Engines without that scheduler have no such argument.
    if not getattr(args, "disable_overlap_scheduler", True):
        return (
            "with the overlap scheduler, logits processors are not told the token that was chosen last; make it with "
            "disable_overlap_scheduler=True"
        )
    if getattr(args, "speculative_config", None) is not None:
        return "logits processors do not run with speculative decoding; leave speculative_config out"
    if getattr(args, "skip_tokenizer_init", False):
        return "policies need the model's tokenizer; make it without skip_tokenizer_init"
    return None
