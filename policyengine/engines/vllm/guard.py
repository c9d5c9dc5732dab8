"""Stops vLLM where it would leave out, without a word, policies that came through an entry point.

A bundle compiled with `--activate installed` has vLLM call `watch` in each of its processes, before it has made its
configuration. Where vLLM then drops such processors (speculative decoding in the V1 runner, pooling models, TPUs), it
constructs none, so that none can refuse. Standard library only: a plugin that vLLM cannot import is one line in a log.
"""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

from policyengine.engines.vllm.refusals import Runner, refusal
from policyengine.runtime.errors import BindError

_MODULE, _CLASS, _METHOD = "vllm.engine.arg_utils", "EngineArgs", "create_engine_config"
_MARK = "policyengine_watched"


def watch(package: str) -> None:
    """Let vLLM's configuration be judged as soon as it is made, on whatever way the engine is started.

    May be called any number of times. package: the bundle's, for the message. Raises BindError where this vLLM makes
    its configuration in another way: nothing could be judged there.
    """
    arguments = getattr(import_module(_MODULE), _CLASS, None)
    make = getattr(arguments, _METHOD, None)
    if arguments is None or make is None:
        raise BindError(
            f"the policies of `{package}` are installed, and cannot ask this vLLM how it is set up (it has no "
            f"{_MODULE}.{_CLASS}.{_METHOD}): compile them with --activate named, and name the processor"
        )
    if getattr(make, _MARK, False):
        return

    @functools.wraps(make)
    def judged(*given: Any, **named: Any) -> Any:
        config = make(*given, **named)
        refuse(config, package)
        return config

    setattr(judged, _MARK, True)
    setattr(arguments, _METHOD, judged)


def refuse(vllm_config: Any, package: str) -> None:
    """Raise BindError if installed policies would not run under this configuration."""
    runner: Runner = "v2" if vllm_config.use_v2_model_runner else "v1"
    found = refusal(vllm_config, runner, f"{package}.vllm:PolicyLogitsProcessor")
    if found is not None:
        raise BindError(
            f"the policies of `{package}` are installed, and would not run on this engine: {found}. To start without "
            "them, take the package out of this environment"
        )
