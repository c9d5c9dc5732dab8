"""A contract double of TensorRT-LLM's text hook: what the engine does around a hook, and what a client then gets.

The facts come from public sources of TensorRT-LLM, read in November 2026; the code is ours:

- `tensorrt_llm/executor/postprocessor_hook.py` of the 1.3 release candidates (names, the loader, how a verdict is put
  into effect, what is withheld with it, when a request is final), and its first drafts (`PostProcChunk`,
  `PostProcVerdict`, any action accepted until it is put into effect).
- `tensorrt_llm/executor/result.py` (when outputs are decoded, what the diffs are, stop strings, `n > 1`) and
  `tensorrt_llm/llmapi/tokenizer.py` (decoding step by step keeps incomplete characters back, until the last step).
- `docs/source/features/post-processor-hook.md` (what the engine promises of all this).

Left out, as the hook sees nothing of it: scheduling, tensors, HTTP, the parsers behind the hook.
"""

from __future__ import annotations

import enum
import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

MODULE = "tensorrt_llm.executor.postprocessor_hook"


# -- the module --------------------------------------------------------------------------------------------------------


@dataclass
class PostProcessorHookChunk:
    request_id: int
    output_index: int
    text_diff: str
    text: str
    token_ids_diff: list[int]
    is_final: bool
    aborted: bool
    streaming: bool
    disagg_request_id: int | None = None


class PostProcessorHookAction(enum.StrEnum):
    EMIT = "emit"
    SUPPRESS = "suppress"
    TERMINATE = "terminate"


@dataclass
class PostProcessorHookVerdict:
    action: PostProcessorHookAction
    text: str = ""
    reason: str | None = None

    def __post_init__(self) -> None:
        self.action = PostProcessorHookAction(self.action)


@dataclass
class PostProcVerdict:
    action: str
    text: str = ""
    reason: str | None = None


def load_post_processor_hook(path: str) -> Any:
    """The class at `package.module.Class`, called without arguments; raises ValueError for whatever fails."""
    try:
        module, name = path.rsplit(".", 1)
        hook = getattr(importlib.import_module(module), name)()
    except (ValueError, ImportError, AttributeError, TypeError) as error:
        raise ValueError(f"Failed to load post-processor hook '{path}': {error}") from error
    if not callable(hook):
        raise ValueError(f"Failed to load post-processor hook '{path}': not callable")
    return hook


@contextmanager
def installed(*, draft: bool = False) -> Iterator[ModuleType]:
    """Make the module importable, as a current engine or a draft has it."""
    names = [MODULE.rsplit(".", 2)[0], MODULE.rsplit(".", 1)[0], MODULE]
    modules = {name: ModuleType(name) for name in names}
    for package in names[:2]:
        modules[package].__path__ = []  # type: ignore[attr-defined]
    contents = (
        [PostProcVerdict] if draft else [PostProcessorHookChunk, PostProcessorHookVerdict, PostProcessorHookAction]
    )
    for content in contents:
        setattr(modules[MODULE], content.__name__, content)
    before = {name: sys.modules.get(name) for name in names}
    sys.modules.update(modules)
    try:
        yield modules[MODULE]
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module


# -- the engine --------------------------------------------------------------------------------------------------------


@dataclass
class Output:
    """The engine's record of one output; what a client is shown of a step is what lies behind the `last_` marks."""

    index: int
    text: str = ""
    ids: list[int] = field(default_factory=list)
    logprobs: list[int] = field(default_factory=list)  # the id stands for its logprob, which names it all the same
    finish_reason: str | None = None
    stop_reason: str | None = None
    last_text: int = 0
    last_ids: int = 0
    pending: bytes = b""


@dataclass
class Answer:
    """What the client got of one output."""

    diffs: list[str] = field(default_factory=list)  # streaming: one a chunk that showed anything; else one in all
    ids: list[int] = field(default_factory=list)
    logprobs: list[int] = field(default_factory=list)
    finish_reason: str | None = None
    stop_reason: str | None = None

    @property
    def text(self) -> str:
        return "".join(self.diffs)


class Request:
    """One request on its way through the engine. `step` does what the engine does with one response of its model."""

    def __init__(
        self,
        hook: Any,
        tokens: Sequence[bytes],
        *,
        request_id: int = 1,
        n: int = 1,
        streaming: bool = True,
        stop: Sequence[str] = (),
        redecodes: bool = False,
        fails_open: bool = False,
    ) -> None:
        self.hook, self.tokens, self.stop = hook, tokens, stop
        self.id, self.streaming = request_id, streaming
        self.redecodes = redecodes or not streaming  # all ids are decoded anew at each step
        self.fails_open = fails_open  # first drafts
        self.outputs = [Output(i) for i in range(n)]
        self.answers = [Answer() for _ in range(n)]
        self.done = self.aborted = False
        self.calls = 0

    def step(self, index: int, ids: Sequence[int], *, last: bool = False, finish: str = "stop") -> None:
        """New tokens of one output; `last`: the request has no more. Nothing happens once it is done."""
        if self.done:
            return
        self.done = last
        for output in self.outputs:
            output.last_ids = len(output.ids)
            if output.index == index:
                output.ids += ids
                output.logprobs += ids
            if last:
                output.finish_reason = finish
            output.last_text = len(output.text)
            self._decode(output)
            self._cut(output)
        self._call_hook()
        self._show()

    def _decode(self, output: Output) -> None:
        if self.redecodes:
            output.text = b"".join(self.tokens[i] for i in output.ids).decode("utf-8", "replace")
            return
        data = output.pending + b"".join(self.tokens[i] for i in output.ids[output.last_ids :])
        text = data.decode("utf-8", "replace")
        if text.endswith("\ufffd") and not self.done:
            output.pending = data
        else:
            output.pending = b""
            output.text += text

    def _cut(self, output: Output) -> None:
        for stop in self.stop:
            if stop in output.text:
                output.text = output.text[: output.text.find(stop)]
                output.finish_reason, output.stop_reason = "stop", stop
                self.done = True

    def _call_hook(self) -> None:
        final = self.done
        for output in self.outputs:
            chunk = PostProcessorHookChunk(
                request_id=self.id,
                output_index=output.index,
                text_diff=output.text[output.last_text :],
                text=output.text,
                token_ids_diff=output.ids[output.last_ids :] if self.streaming else list(output.ids),
                is_final=final,
                aborted=self.aborted,
                streaming=self.streaming,
            )
            self.calls += 1
            try:
                verdict = self.hook(chunk)
            except Exception:
                if self.fails_open:
                    continue
                self.done = True
                raise
            prefix = output.text[: output.last_text]
            if verdict.action == "emit":
                output.text = prefix + verdict.text
                continue
            if verdict.action not in ("suppress", "terminate"):
                raise ValueError(f"unknown action {verdict.action!r}")
            output.text = prefix + verdict.text
            self._withhold(output)
            if verdict.action == "terminate":
                output.finish_reason, output.stop_reason = "stop", verdict.reason
                self.done = self.aborted = True

    def _withhold(self, output: Output) -> None:
        if self.streaming:
            output.last_ids = len(output.ids)
        else:
            # Without streaming nothing was sent before, so the mark stays at 0 and all ids go.
            output.ids, output.logprobs, output.last_ids = [], [], 0

    def _show(self) -> None:
        if not self.streaming and not self.done:
            return
        for output, answer in zip(self.outputs, self.answers, strict=True):
            start = output.last_ids if self.streaming else 0
            text = output.text[output.last_text :] if self.streaming else output.text
            if text:
                answer.diffs.append(text)
            answer.ids += output.ids[start:]
            answer.logprobs += output.logprobs[start:]
            answer.finish_reason, answer.stop_reason = output.finish_reason, output.stop_reason
