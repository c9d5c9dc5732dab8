"""A contract double of TensorRT-LLM's LLM API: what the engine does around a request's logits processor.

The facts come from public sources of TensorRT-LLM, read in November 2026; the code is ours:

- `tensorrt_llm/sampling_params.py`: the fields of `SamplingParams`, and how a processor is called.
- the model runner of the PyTorch backend: processors run after the forward pass, on a view `(beams, 1, vocabulary)` of
  the rows of their request in the logits of the whole batch, with the sequences of its beams, prompt included; stream
  and client id are None. While a prompt is read there is one row, and one call for each chunk of it, all but the last
  for nothing. With the overlap scheduler the sequences lack the token that was chosen last. An exception ends all
  requests of the batch.
- the sampler of the PyTorch backend: the tokens of beams are put in order at every step only for requests that are
  streamed (or have stop strings of several tokens); this double does so always.
- the executor: a processor is pickled with its request and lives in a worker; with `n > 1` each output is a request of
  its own there, with an id of its own.

Left out, as a processor sees nothing of it: scheduling, memory, what is done with the chosen tokens.
"""

from __future__ import annotations

import itertools
import pickle
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch

Model = Callable[[Sequence[int]], torch.Tensor]  # a sequence to the logits of its next token, float32 [width]


@dataclass
class SamplingParams:
    """The fields of the engine's own that matter here, with its defaults."""

    end_id: int | None = None
    max_tokens: int = 32
    stop_token_ids: list[int] | None = None
    logits_processor: Any = None
    n: int = 1
    use_beam_search: bool = False
    min_tokens: int | None = None
    ignore_eos: bool = False
    guided_decoding: Any = None
    lookahead_config: Any = None


@dataclass
class Running:
    """One request in a worker: its beams (sequences with their prompt) and their scores."""

    id: int
    prompt: list[int]
    params: SamplingParams
    beams: list[list[int]]
    scores: list[float]
    late: list[list[int]] = field(default_factory=list)  # the beams as of the step before
    done: bool = False

    @property
    def width(self) -> int:
        return self.params.n if self.params.use_beam_search else 1


class LLM:
    """The engine with a model of your own. `args` are those that matter to policies."""

    def __init__(
        self, forward: Model, eos: int, tokenizer: Any = None, *, dtype: torch.dtype = torch.float32, **args: Any
    ):
        defaults = {
            "model": "a-model",
            "tokenizer": None,
            "disable_overlap_scheduler": True,
            "enable_chunked_prefill": False,
            "speculative_config": None,
            "skip_tokenizer_init": False,
        }
        self.args = SimpleNamespace(**(defaults | args))
        self.tokenizer = tokenizer
        self.chunks = 3 if self.args.enable_chunked_prefill else 1
        self.late = not self.args.disable_overlap_scheduler
        self.steps: list[tuple[torch.Tensor, torch.Tensor]] = []  # the logits of each step, before and after
        self._model, self._eos, self._dtype = forward, eos, dtype
        self._ids = itertools.count(2048)

    def generate(self, prompts: Sequence[Sequence[int]], params: Sequence[SamplingParams], seed: int = 0) -> list[Any]:
        """The outputs (ids, the end included) of each request: one list a beam, or one of `n` samples."""
        rng = random.Random(seed)
        requests: list[list[Running]] = []
        for prompt, given in zip(prompts, params, strict=True):
            copies = 1 if given.use_beam_search else given.n
            worker = pickle.loads(pickle.dumps(given))
            requests.append(
                [Running(next(self._ids), list(prompt), worker, [list(prompt)], [0.0]) for _ in range(copies)]
            )
        running = [one for request in requests for one in request]
        for _ in range(1, self.chunks):
            self._forward(running, rng, discard=True)
        while running:
            self._forward(running, rng)
            running = [one for one in running if not one.done]
        return [[beam[len(one.prompt) :] for one in request for beam in one.beams] for request in requests]

    def _forward(self, running: list[Running], rng: random.Random, *, discard: bool = False) -> None:
        rows = [self._model(beam) for one in running for beam in one.beams]
        logits = torch.stack(rows).to(self._dtype)
        before, at = logits.clone(), 0
        for one in running:
            own = logits[at : at + len(one.beams)]
            at += len(one.beams)
            processors = one.params.logits_processor
            for processor in processors if isinstance(processors, list) else [processors] * (processors is not None):
                told = one.late if self.late and one.late else one.beams
                processor(one.id, own.view(len(one.beams), 1, -1), [list(beam) for beam in told], None, None)
            if not discard:
                self._choose(one, own.float(), rng)
        self.steps.append((before, logits))

    def _choose(self, one: Running, logits: torch.Tensor, rng: random.Random) -> None:
        one.late = [list(beam) for beam in one.beams] if len(one.beams) == one.width else [one.prompt] * one.width
        scores = torch.log_softmax(logits, dim=-1)
        assert not torch.isnan(scores).any()
        if one.params.use_beam_search:
            self._choose_beams(one, scores)
        else:
            weights = scores[0].exp().tolist()
            one.beams[0].append(rng.choices(range(len(weights)), weights)[0])
        if len(one.beams[0]) - len(one.prompt) >= one.params.max_tokens or all(self._ended(one, b) for b in one.beams):
            one.done = True

    def _choose_beams(self, one: Running, scores: torch.Tensor) -> None:
        """The best continuations of all beams together; a beam may be continued twice, or not at all."""
        found: list[tuple[float, int, int | None]] = []
        for row, beam in enumerate(one.beams):
            if self._ended(one, beam):
                found.append((one.scores[row], row, None))
                continue
            best = scores[row].topk(min(2 * one.width, scores.shape[1]))
            for value, token in zip(best.values.tolist(), best.indices.tolist(), strict=True):
                if value > float("-inf"):
                    found.append((one.scores[row] + value, row, token))
        found = sorted(found, key=lambda entry: -entry[0])[: one.width]
        while len(found) < one.width:
            found.append(found[-1])
        one.beams = [[*one.beams[row], *([] if token is None else [token])] for _, row, token in found]
        one.scores = [score for score, _, _ in found]

    def _ended(self, one: Running, beam: list[int]) -> bool:
        params = one.params
        eos = self._eos if params.end_id is None else params.end_id
        ends = {*(params.stop_token_ids or ()), *([] if params.ignore_eos else [eos])}
        return len(beam) > len(one.prompt) and beam[-1] in ends
