"""A model small enough to make in a test: a Llama with random weights and a tokenizer trained on the standard library.

At temperature 1 its answers visit every corner of a policy. `path()` makes the folder once per machine and keeps it
in the temporary directory under a key of everything that decides its content.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import sys
import sysconfig
import tempfile
from importlib.metadata import version
from pathlib import Path

VOCABULARY = 4096
EOS = "<eos>"  # ends an answer
END_OF_TURN = "<end>"  # ends an answer too, as in chat models: two ids in generation_config.json
SPECIAL = (EOS, END_OF_TURN, "<bos>", "<pad>")

# Several times the usual spread: the next token still varies, but some are frequent enough to be worth a ban.
_HEAD_SPREAD = 0.12

_CHAT_TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


@functools.cache
def path() -> Path:
    """The model folder, made if it is not there yet. Safe when several test runs start at once."""
    key = hashlib.sha256(Path(__file__).read_bytes())
    for part in (sys.version, version("transformers"), version("tokenizers"), version("torch")):
        key.update(part.encode())
    root = Path(tempfile.gettempdir()) / f"policyengine-tests-{os.getuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    folder = root / f"tiny-{key.hexdigest()[:16]}"
    if not folder.exists():
        making = Path(tempfile.mkdtemp(dir=root))
        try:
            _make(making)
            making.rename(folder)
        except OSError:
            if not folder.exists():
                raise
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return folder


def _make(folder: Path) -> None:
    _make_tokenizer(folder)
    _make_weights(folder)


def _make_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    sources = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    tokenizer.train([str(s) for s in sources], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": EOS,
        "bos_token": "<bos>",
        "pad_token": "<pad>",
        "clean_up_tokenization_spaces": False,
        "model_max_length": 512,
        "chat_template": _CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def _make_weights(folder: Path) -> None:
    import torch
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=512,
        bos_token_id=SPECIAL.index("<bos>"),
        eos_token_id=SPECIAL.index(EOS),
        pad_token_id=SPECIAL.index("<pad>"),
        tie_word_embeddings=False,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = LlamaForCausalLM(config).to(torch.float32)
        torch.nn.init.normal_(model.lm_head.weight, std=_HEAD_SPREAD)
    model.generation_config = GenerationConfig(
        eos_token_id=[SPECIAL.index(EOS), SPECIAL.index(END_OF_TURN)], pad_token_id=SPECIAL.index("<pad>")
    )
    model.save_pretrained(folder)
