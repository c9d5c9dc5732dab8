"""The vocabulary of the model that an engine serves, from the engine's own tokenizer."""

from __future__ import annotations

from typing import Any

from vllm.tokenizers import cached_tokenizer_from_config

from policyengine.automata.vocabulary import Vocabulary
from policyengine.runtime.errors import BindError


def of_model(model_config: Any) -> Vocabulary:
    """The tokens of vLLM's `ModelConfig`, as wide as its logits; raises BindError where they cannot be read.

    EOS ids are those that end a request in vLLM: the tokenizer's own first, then all that the generation
    configuration names.
    """
    tokenizer = cached_tokenizer_from_config(model_config)
    if tokenizer is None:
        raise BindError("policies need the model's tokenizer: start without --skip-tokenizer-init")
    size = model_config.get_vocab_size()
    named = model_config.try_get_generation_config().get("eos_token_id")
    ends = [getattr(tokenizer, "eos_token_id", None), *(named if isinstance(named, list | tuple) else [named])]
    eos = list(dict.fromkeys(token for token in ends if token is not None and 0 <= token < size))
    if not eos:
        raise BindError("the model names no end-of-sequence token, which policies need where nothing else is left")
    try:
        return Vocabulary.from_transformers(tokenizer, size, eos)
    except ValueError as error:
        raise BindError(f"the model's vocabulary cannot be read: {error}") from error
