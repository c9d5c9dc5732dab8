"""The hook in a contract double of TensorRT-LLM: what a client gets, on every surface."""

from __future__ import annotations

import itertools
import logging
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import policyengine
from policyengine import Program
from policyengine.engines.trtllm import hook as hooks
from policyengine.engines.trtllm.hook import FAILED, LOST, PolicyHookBase
from policyengine.runtime.counts import Tally
from tests.cases.text_streams import CASES, EMAIL, Case
from tests.engines import trtllm_double
from tests.engines.trtllm_double import PostProcessorHookChunk, Request, installed, load_post_processor_hook
from tests.shadows import in_shadow, side_by_side
from tests.streams import cut, run, splits
from tests.text_programs import ban, program

_MODULE = '''"""What `policyengine compile` writes."""
from pathlib import Path
from policyengine.engines.trtllm.hook import PolicyHookBase

class PolicyHook(PolicyHookBase):
    bundle = Path(__file__).parent
'''

Load = Callable[[Program], Any]
_packages = itertools.count()


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Saves a program as a package and loads its hook as the engine does."""
    monkeypatch.syspath_prepend(tmp_path)

    def load_program(policies: Program) -> Any:
        name = f"bundle_{next(_packages)}"
        policies.save(tmp_path / name)
        (tmp_path / name / "__init__.py").touch()
        (tmp_path / name / "trtllm.py").write_text(_MODULE)
        return load_post_processor_hook(f"{name}.trtllm.PolicyHook")

    with installed():
        yield load_program


_request_ids = itertools.count(1)


def stream(hook: Any, chunks: Sequence[str | bytes], *, eos: bool = True, **options: Any) -> Request:
    """One answer with one token a chunk; with `eos` its last step is a token without text."""
    tokens = [chunk.encode() if isinstance(chunk, str) else chunk for chunk in chunks] + [b""] * eos
    request = Request(hook, tokens, request_id=next(_request_ids), **options)
    if not request.streaming:
        request.step(0, range(len(tokens)), last=True)
    for i in range(len(tokens)):
        request.step(0, [i], last=i == len(tokens) - 1)
    return request


def assert_nothing_withheld_is_shown(case: Case, chunks: Sequence[str], request: Request) -> None:
    """No id or logprob of a token that holds a redacted character, or lies at or behind the end."""
    answer = request.answers[0]
    assert answer.ids == answer.logprobs
    whole = run(case.program, [case.text])
    ended = len(case.text) if whole.reason is None else 0 if whole.reason == "blocked" else whole.matches[-1].start
    starts = [0, *itertools.accumulate(map(len, chunks))]
    for i in answer.ids:
        if i < len(chunks) and chunks[i]:
            assert starts[i + 1] <= ended
            assert all(m.end <= starts[i] or m.start >= starts[i + 1] for m in whole.matches)


HOOK_CASES = [case for case in CASES if "surrogate" not in case.name]  # no engine decodes ids to one


@pytest.mark.parametrize("case", HOOK_CASES, ids=lambda case: case.name)
def test_every_split_gives_a_client_the_result_of_the_whole(case: Case, load: Load) -> None:
    """Streaming: whether the last text comes with the last call or before it."""
    hook = load(case.program)
    for chunks in splits(case.text, exhaustive=7):
        for eos in (True, False):
            request = stream(hook, chunks, eos=eos)
            answer = request.answers[0]
            assert (answer.text, answer.stop_reason) == (case.output, case.reason), chunks
            assert answer.finish_reason == "stop"
            for count in range(len(answer.diffs)):
                assert case.output.startswith("".join(answer.diffs[:count]))
            assert_nothing_withheld_is_shown(case, chunks, request)


@pytest.mark.parametrize("case", HOOK_CASES, ids=lambda case: case.name)
def test_not_streaming_gives_the_same(case: Case, load: Load) -> None:
    hook = load(case.program)
    request = stream(hook, list(case.text), streaming=False)
    answer = request.answers[0]
    assert (answer.text, answer.stop_reason) == (case.output, case.reason)
    assert_nothing_withheld_is_shown(case, list(case.text), request)
    if case.output == case.text:
        assert answer.ids == list(range(len(case.text) + 1))


@pytest.mark.parametrize("case", HOOK_CASES, ids=lambda case: case.name)
def test_characters_in_pieces(case: Case, load: Load) -> None:
    """Every byte a token: engines keep a character back until it is complete."""
    pieces = [bytes([byte]) for byte in case.text.encode()]
    answer = stream(load(case.program), pieces).answers[0]
    assert (answer.text, answer.stop_reason) == (case.output, case.reason)


def test_a_character_that_is_rewritten(load: Load) -> None:
    """Engines that decode all ids anew show it as U+FFFD first; it stays hidden with its ids until it is whole."""
    hook = load(program(ban("noir"), ban("🤬")))
    face = "🤬".encode()
    tokens = [b"caf", b"\xc3", b"\xa9", b" au lait ", face[:2], face[2:], b""]
    request = Request(hook, tokens, redecodes=True)
    texts = []
    for i in range(7):
        request.step(0, [i], last=i == 6)
        texts.append(request.answers[0].text)
    assert texts == ["caf", "caf", "café", *["café au lait "] * 3, "café au lait [redacted]"]
    assert request.answers[0].ids == [0, 2, 3, 6]


def test_bytes_that_never_become_a_character_are_not_lost(load: Load) -> None:
    hook = load(program(ban("secret")))
    for redecodes in (False, True):
        answer = stream(hook, [b"a\xff", b" b\xe2\x82", b""], redecodes=redecodes).answers[0]
        assert answer.text == "a\ufffd b\ufffd"


def test_ids_behind_which_there_is_no_text_are_not_shown(load: Load) -> None:
    """The first bytes of a character that is banned, and an output without any text (drafts with detokenize=false)."""
    hook = load(program(ban("🤬")))
    face = "🤬".encode()
    assert stream(hook, [b"a ", face[:1], face[1:], b" b"]).answers[0].ids == [0, 3]
    for streaming in (True, False):
        request = Request(hook, [b""] * 3, request_id=next(_request_ids), streaming=streaming)
        request.step(0, [0, 1])
        request.step(0, [2], last=True)
        assert (request.answers[0].ids, request.answers[0].text) == ([], "")


def test_clean_chunks_keep_their_ids(load: Load) -> None:
    hook = load(program(ban(EMAIL)))
    answer = stream(hook, ["some ", "text ", f"to {EMAIL} now", " and ", "more"]).answers[0]
    assert answer.text == "some text to [redacted] now and more"
    assert answer.diffs == ["some ", "text ", "to [redacted] now and ", "more"]
    assert answer.ids == [0, 1, 3, 4]


def test_a_redaction_at_the_very_end_hides_its_ids(load: Load) -> None:
    """The last chunk ends in a redaction: its text leaves without its ids, and the answer ends like any other."""
    hook = load(program(ban("secret")))
    answer = stream(hook, ["a ", "clean secret"], eos=False).answers[0]
    assert (answer.text, answer.ids) == ("a clean [redacted]", [0])
    assert (answer.finish_reason, answer.stop_reason) == ("stop", None)


def test_one_event_then_silence(load: Load) -> None:
    """Case 14, should the engine call on."""
    hook = load(program(ban("secret", terminate="s")))

    def call(text: str, before: str) -> Any:
        return hook(PostProcessorHookChunk(7, 0, text, before + text, [1], False, False, True))

    actions = [str(call(text, before).action) for text, before in [("a secret ", ""), ("more", "a "), ("!", "a ")]]
    assert actions == ["terminate", "suppress", "suppress"]
    assert len(hook._outputs) == 0


def test_outputs_of_one_request_are_apart(load: Load) -> None:
    """Case 13, with `n=2`: "sec" in one and "ret" in the other are no match; both in the same one are."""
    hook = load(program(ban("secret")))
    request = Request(hook, [b"sec", b"ret", b" ", b""], n=2)
    for index, token in ((0, 0), (1, 1), (1, 2), (1, 0), (0, 2), (1, 1)):
        request.step(index, [token])
    request.step(0, [3], last=True)
    assert [answer.text for answer in request.answers] == ["sec ", "ret [redacted]"]


def test_terminate_ends_all_outputs_of_a_request(load: Load) -> None:
    hook = load(program(ban("secret", terminate="s")))
    request = Request(hook, [b"clean ", b"secret ", b"more"], n=3)
    for index in range(3):
        request.step(index, [0])
    request.step(1, [1])
    request.step(0, [2], last=True)
    assert [answer.text for answer in request.answers] == ["clean "] * 3
    assert [answer.stop_reason for answer in request.answers] == [None, "s", None]
    assert len(hook._outputs) == 0


def test_several_outputs_not_streaming(load: Load) -> None:
    """The engine hands over one output after the other, and decodes the earlier ones again at each call."""
    hook = load(program(ban("secret"), ban("green")))
    request = Request(hook, [b"a clean one.", b"the secret of it", b"maybe gre", b""], n=3, streaming=False)
    request.step(1, [1])
    request.step(0, [0])
    request.step(2, [2, 3], last=True)
    assert [answer.text for answer in request.answers] == ["a clean one.", "the [redacted] of it", "maybe gre"]
    assert [answer.ids for answer in request.answers] == [[0], [], [2, 3]]


def test_several_rewritten_outputs_not_streaming(load: Load) -> None:
    hook = load(program("upper"))
    request = Request(hook, ["straße".encode(), b"b"], n=2, streaming=False)
    request.step(0, [0])
    request.step(1, [1], last=True)
    assert [answer.text for answer in request.answers] == ["STRASSE", "B"]


def test_a_stop_string_is_an_end(load: Load) -> None:
    """Case 22: what the engine cuts before us is searched as it is cut."""
    hook = load(program(ban("lis")))
    answer = stream(hook, ["see ", "lists"], stop=["ts"]).answers[0]
    assert (answer.text, answer.ids) == ("see [redacted]", [0])


def test_without_policies_for_this_engine_everything_passes(load: Load) -> None:
    hook = load(program())
    answer = stream(hook, ["any ", "secret"]).answers[0]
    assert (answer.text, answer.ids) == ("any secret", [0, 1, 2])


def test_withhold_everything(load: Load) -> None:
    hook = load(program("nothing"))
    for streaming in (True, False):
        answer = stream(hook, ["any ", "text"], streaming=streaming).answers[0]
        assert (answer.text, answer.ids) == ("", [])


@pytest.mark.parametrize(
    ("policy", "chunks", "text", "reason"),
    [
        ("upper-case", ["some ", "straße"], "SOME STRASSE", None),
        ("stop-phrase", ["this is a for", "bidden phr", "ase indeed"], "this is a ", "forbidden-phrase"),
        ("withhold", ["any ", "text"], "", None),
    ],
)
def test_the_classic_examples(policy: str, chunks: list[str], text: str, reason: str | None, load: Load) -> None:
    """The examples of the hook's documentation, as the policies of this repository."""
    file = Path(__file__).parents[2] / "policies" / f"{policy}.yaml"
    hook = load(policyengine.compile(policyengine.load(file)))
    for streaming in (True, False):
        answer = stream(hook, chunks, streaming=streaming).answers[0]
        assert (answer.text, answer.stop_reason) == (text, reason)


@settings(max_examples=60)
@given(st.data())
def test_interleaved_outputs_equal_each_alone(data: st.DataObject) -> None:
    """Requests of several outputs in any order; some are given up and never finish."""
    policies = program(ban("abc", match="substring"), ban("ca", redact="", match="substring"))
    texts = data.draw(st.lists(st.lists(st.text("abc ", max_size=8), min_size=1, max_size=3), min_size=1, max_size=4))
    pieces = [
        [cut(t, sorted(data.draw(st.sets(st.integers(1, 7)))) if t else []) for t in outputs] for outputs in texts
    ]
    hook = _unsaved(policies)
    requests = []
    for number, outputs in enumerate(pieces):
        tokens = [piece.encode() for chunks in outputs for piece in chunks] + [b""]
        requests.append(Request(hook, tokens, request_id=number, n=len(outputs)))
    todo = []
    for number, outputs in enumerate(pieces):
        ids = iter(range(100))
        todo += [[(number, index, next(ids)) for _ in chunks] for index, chunks in enumerate(outputs)]
    while any(todo):
        steps = data.draw(st.sampled_from([steps for steps in todo if steps]))
        number, index, token = steps.pop(0)
        requests[number].step(index, [token])
    given_up = data.draw(st.sets(st.integers(0, len(texts) - 1)))
    for number, request in enumerate(requests):
        if number not in given_up:
            request.step(0, [len(request.tokens) - 1], last=True)
            assert [answer.text for answer in request.answers] == [run(policies, [t]).text for t in texts[number]]
    assert len(hook._outputs) == sum(len(texts[number]) for number in given_up)


def _unsaved(policies: Program, **bounds: Any) -> Any:
    """A hook of a program that lies in no directory."""

    class Hook(PolicyHookBase):
        bundle = Path()

    for name, value in bounds.items():
        setattr(Hook, name, value)
    with installed(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(hooks, "open_bundle", lambda directory: policies)
        return Hook()


def test_requests_that_never_finish_are_bounded() -> None:
    """100,000 requests, a third of them given up; the others are served right all the same."""
    hook = _unsaved(program(ban("secret")), max_outputs=1_000)
    tokens = [b"a sec", b"ret", b""]
    rng = random.Random(1)
    running: list[Request] = []
    for number in range(100_000):
        running.append(Request(hook, tokens, request_id=number))
        running[-1].step(0, [0])
        if len(running) > 50:
            request = running.pop(rng.randrange(len(running)))
            if request.id % 3:
                request.step(0, [1])
                request.step(0, [2], last=True)
                assert request.answers[0].text == "a [redacted]"
        assert len(hook._outputs) <= 1_000
    assert len(hook._outputs._requests) <= 1_000
    assert len(hook._outputs._fates) <= 1_000
    assert hook.counters["evicted"] > 30_000
    assert hook.counters["lost"] == 0


def test_what_was_dropped_does_not_go_on() -> None:
    """An output whose state is gone could be in the middle of a match: it is ended, and nothing more is shown."""
    hook = _unsaved(program(ban("secret")), max_outputs=2)
    tokens = [b"a sec", b"ret", b""]
    first = Request(hook, tokens, request_id=1)
    first.step(0, [0])
    for number in (2, 3):
        Request(hook, tokens, request_id=number).step(0, [0])
    first.step(0, [1])
    assert (first.answers[0].text, first.answers[0].ids) == ("", [])
    assert first.answers[0].stop_reason == LOST
    assert hook.counters["lost"] == 1


def test_outputs_grow_old(monkeypatch: pytest.MonkeyPatch) -> None:
    hook = _unsaved(program(ban("secret")), max_idle_seconds=60.0)
    now = [0.0]
    monkeypatch.setattr(hook._outputs, "_clock", lambda: now[0])
    Request(hook, [b"a"], request_id=1).step(0, [0])
    now[0] = 50.0
    Request(hook, [b"a"], request_id=2).step(0, [0])
    assert len(hook._outputs) == 2
    now[0] = 70.0
    Request(hook, [b"a"], request_id=3).step(0, [0])
    assert len(hook._outputs) == 2
    assert hook.counters["evicted"] == 1


def test_an_aborted_request_is_forgotten(load: Load) -> None:
    hook = load(program(ban("secret")))
    request = Request(hook, [b"a sec", b"ret", b"more"])
    request.step(0, [0])
    request.aborted = True
    request.step(0, [1])
    assert len(hook._outputs) == 0
    request.step(0, [2])
    assert request.answers[0].text == ""


def test_a_failure_inside_ends_the_request_and_shows_nothing(
    load: Load, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also in an engine that lets text pass when a hook raises."""
    hook = load(program(ban("secret")))

    class Broken:
        idle = False

        def feed(self, text: str) -> None:
            raise ValueError(f"cannot read {text!r}")

    monkeypatch.setattr(hook, "_session", Broken)
    with caplog.at_level(logging.ERROR):
        answer = stream(hook, ["a secret", " text"], fails_open=True).answers[0]
    assert (answer.text, answer.ids, answer.stop_reason) == ("", [], FAILED)
    assert hook.counters["failed"] == 1
    assert "ValueError" in caplog.text
    assert "secret" not in caplog.text
    monkeypatch.undo()
    assert stream(hook, ["a secret", " text"]).answers[0].text == "a [redacted] text"


def test_a_hook_crosses_processes(load: Load) -> None:
    hook = load(program(ban("secret")))
    Request(hook, [b"a sec"]).step(0, [0])
    copy = pickle.loads(pickle.dumps(hook))
    assert len(copy._outputs) == 0
    assert stream(copy, ["a secret", " text"]).answers[0].text == "a [redacted] text"


def test_the_names_of_the_drafts(load: Load) -> None:
    with installed(draft=True):
        hook = load(program(ban("secret", terminate="s", message="end")))
        answer = stream(hook, ["a secret", " text"], fails_open=True).answers[0]
    assert (answer.text, answer.stop_reason) == ("a end", "s")


def test_an_engine_whose_interface_is_not_known_is_refused(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server must not start without the policies."""
    hook = load(program(ban("secret")))
    with installed() as module:
        del module.PostProcessorHookVerdict
        with pytest.raises(RuntimeError, match="not known"):
            type(hook)()
    monkeypatch.setitem(sys.modules, trtllm_double.MODULE, None)
    with pytest.raises(RuntimeError, match="no text hook"):
        type(hook)()


def test_the_hook_can_be_tried_without_the_engine(tmp_path: Path) -> None:
    """For inspection: no engine, yet the same decisions."""
    program(ban("secret", terminate="s")).save(tmp_path)

    class Hook(PolicyHookBase):
        bundle = tmp_path

    verdict = Hook()(PostProcessorHookChunk(1, 0, "a secret.", "a secret.", [1], False, False, True))
    assert (verdict.action, verdict.text, verdict.reason) == ("terminate", "a ", "s")


@settings(max_examples=200)
@given(
    st.lists(st.sampled_from(["abc", "ab", "c", " ", "x", "cab", "é", "🤬"]), min_size=1, max_size=8).map("".join),
    st.data(),
    st.booleans(),
    st.booleans(),
)
def test_what_ids_and_logprobs_spell_is_in_the_text_that_is_shown(
    text: str, data: st.DataObject, streaming: bool, eos: bool
) -> None:
    """Whatever is cut where, inside characters too: no id or logprob stands for a character that is held or replaced.

    That holds for a client that gets ids and no text as well (`detokenize=false`).
    """
    policies = program(
        ban("abc", match="substring"),
        ban("ca", redact="", match="substring"),
        ban("🤬", redact="*", match="substring"),
        ban("x x", terminate="s"),
    )
    whole = text.encode()
    places = sorted(data.draw(st.sets(st.integers(1, max(1, len(whole) - 1)), max_size=8)))
    pieces = [whole[a:b] for a, b in itertools.pairwise((0, *places, len(whole)))]
    hook = _unsaved(policies)
    answer = stream(hook, pieces, eos=eos, streaming=streaming).answers[0]
    assert answer.text == run(policies, [text]).text
    assert answer.ids == answer.logprobs
    spelled = b"".join(pieces[i] for i in answer.ids if i < len(pieces)).decode("utf-8", "ignore")
    shown = iter(answer.text)
    assert all(ch in shown for ch in spelled)
    assert len(hook._outputs) == 0


def test_workers_share_the_requests_by_id(load: Load) -> None:
    """Every worker has a copy of its own; all chunks of a request go to the one of its id modulo their number."""
    hook = load(program(ban("secret")))
    workers = [pickle.loads(pickle.dumps(hook)) for _ in range(3)]
    assert len({id(worker._outputs) for worker in workers}) == 3

    def pool(chunk: Any) -> Any:
        return workers[chunk.request_id % 3](chunk)

    tokens = [b"a sec", b"ret ", b"and more", b""]
    requests = [Request(pool, tokens, request_id=number, n=2) for number in range(9)]
    for index, token in ((0, 0), (1, 2), (0, 1), (1, 0)):
        for request in requests:
            request.step(index, [token])
    for request in requests:
        request.step(1, [1], last=True)
        assert [answer.text for answer in request.answers] == ["a [redacted] ", "and morea [redacted] "]
    assert [len(worker._outputs) for worker in workers] == [0, 0, 0]


def test_a_worker_process_makes_its_own_hook(load: Load) -> None:
    """By name, as the engine's workers do; none of this process's state goes with it."""
    hook = load(program(ban("secret", terminate="s")))
    Request(hook, [b"a sec"]).step(0, [0])
    code = (
        "import pickle, sys; from tests.engines.trtllm_double import PostProcessorHookChunk as Chunk, installed\n"
        "with installed():\n"
        "    hook = pickle.loads(sys.stdin.buffer.read())\n"
        "    verdict = hook(Chunk(1, 0, 'a secret.', 'a secret.', [1], False, False, True))\n"
        "print(len(hook._outputs), verdict.action, repr(verdict.text), verdict.reason)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, input=pickle.dumps(hook), capture_output=True, check=False, env=environment)
    assert done.stdout.decode() == "0 terminate 'a ' s\n", done.stderr.decode()


# -- rules in shadow ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("redecodes", [False, True])
@pytest.mark.parametrize("streaming", [False, True])
def test_all_in_shadow_every_call_leaves_as_it_came(load: Load, streaming: bool, redecodes: bool) -> None:
    """Text, ids and events are those of a server without a hook; characters in pieces too."""
    policies = program(ban("titan", terminate="t"), ban("noir", redact="*"), ban("x", block="no"))
    hook, none = load(in_shadow(policies)), load(program())
    for chunks in (["my Ti", "tan no", "ir"], [b"caf\xc3", b"\xa9 no", b"ir"], ["clean"], list("a x noir")):
        mine, other = (stream(one, chunks, streaming=streaming, redecodes=redecodes).answers[0] for one in (hook, none))
        assert mine == other
    assert {name: tally.matches for name, tally in hook.rules.snapshot().items()} == {
        "test/r0": 1,
        "test/r1": 3,
        "test/r2": 1,
    }
    assert not hook.counters["withheld"]
    assert not hook.counters["terminated"]


def test_rules_that_act_and_rules_in_shadow(load: Load, caplog: pytest.LogCaptureFixture) -> None:
    """What leaves is as without the one in shadow; both are counted, behind the end nothing."""
    both = side_by_side([program(ban("noir", terminate="n")), program(ban("titan", redact="*"))])
    hook = load(in_shadow(both, {1}))
    answer = stream(hook, ["a titan", " and titan", " noir titan"]).answers[0]
    assert (answer.text, answer.stop_reason) == ("a titan and titan ", "n")
    assert hook.rules.snapshot() == {"test/r0": Tally(1, 1), "test/r1": Tally(1, 2)}
    with caplog.at_level(logging.INFO):
        hook._log.tell(0.0)
    assert "test/r1 (shadow): outputs 1, matches 2" in caplog.text
    assert "titan" not in caplog.text


def test_a_hook_that_only_watches_ends_nothing(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure inside, and an output whose state was dropped for want of room."""
    hook = load(in_shadow(program(ban("noir"))))
    hook._outputs.limit = 1
    first, second = (Request(hook, [b"no", b"ir", b""], request_id=i) for i in (901, 902))
    for i in range(3):
        for request in (first, second):
            request.step(0, [i], last=i == 2)
    assert [request.answers[0].text for request in (first, second)] == ["noir", "noir"]
    assert hook.counters["evicted"]

    def fail(*_: Any) -> None:
        raise RuntimeError("noir")

    monkeypatch.setattr(hook._outputs, "get", fail)
    assert stream(hook, ["no", "ir"]).answers[0].text == "noir"
    assert hook.counters["failed"] == 3
