"""A real vLLM server under every kind of rule that a request may ask for, asked through the real OpenAI client.

Each policy is on request, so that one server shows them all, alone and side by side in one batch.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
import regex

from tests.engines.vllm.server import MODEL_NAME, Server, compiled, running
from tests.engines.vllm.traffic import Ask, answers

pytestmark = pytest.mark.engine

PROJECT = """\
version: 1
targets: [vllm]
reasoning: {start: "<think>", end: "</think>"}
"""

# The tiny model writes pieces of Python in which letters, digits, dots and brackets are frequent.
POLICIES = {
    "no-digits": "rules: {digits: {ban: {regex: ['[0-9]', '(?i)e[a-z]']}}}",
    "no-spaced": "rules: {spaced: {ban: {phrases: [se, ti, in, re], gaps: letters, match: substring}}}",
    "no-calls": "rules: {calls: {ban: {phrases: [e c, e s, e p, t s, s p, d c, r s, t p], gaps: punctuation, "
    "match: substring}}}",
    "no-ex": "rules: {ex: {ban: {phrases: [e], except: [ed, es, re], match: substring}}}",
    "latin": "rules: {latin: {allow: {scripts: [Latin]}}}",
    "verdict": "rules: {verdict: {allow: {choices: ['yes', 'no', 'maybe so']}}}",
    "few": "rules: {few: {allow: {token_ids: [300, 301, 302, 303]}}}",
    "closing": "rules: {closing: {force: {text: ' The end.', at: end}}, soon: {bias: {token_ids: {0: 6}}}}",
    "reply": "rules: {reply: {force: {text: '42', after: 'e'}}}",
    "opened": "rules: {opened: {force: {text: {param: opening}, at: start}}}",
    "calm": "rules: {calm: {ban: {phrases: [e], match: substring}, channel: answer}, "
    "open: {force: {text: '<think>', at: start}, channel: all}}",
}


def _policy(name: str, rules: str) -> str:
    parameters = "parameters: {opening: {type: string, max_length: 40}}\n" if name == "opened" else ""
    return f"version: 1\npolicy: {name}\nactivation: on_request\n{parameters}{rules}\n"


@pytest.fixture(scope="module")
def server(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server with all of them, compiled by the command."""
    folder = tmp_path_factory.mktemp("rules")
    (folder / "policies").mkdir()
    (folder / "policies" / "policyengine.yaml").write_text(PROJECT)
    for name, rules in POLICIES.items():
        (folder / "policies" / f"{name}.yaml").write_text(_policy(name, rules))
    build = compiled(folder / "policies", folder / "build")
    flags = ["--config", str(build / "vllm" / "config.yaml")]
    with running(tiny_model, folder, python_path=build, flags=flags) as server:
        yield server


def ask(server: Server, *policies: str, count: int = 40, **values: str) -> tuple[list[str], list[str]]:
    """The texts of that many requests under these policies, and those of the same ones without, in one batch."""
    xargs = {"policies": list(policies), **values}
    found = answers(server, [Ask(seed, xargs if half else None) for seed in range(count) for half in (1, 0)])
    return [answer.text for answer in found[::2]], [answer.text for answer in found[1::2]]


def hits(pattern: str, texts: list[str]) -> int:
    """How many of the texts hold the pattern."""
    return sum(regex.search(pattern, text) is not None for text in texts)


def folded(text: str) -> str:
    """The text as phrases are compared with it."""
    plain = "".join(part.casefold() for part in unicodedata.normalize("NFKD", text))
    return str(regex.sub(r"[\p{Cf}\p{Default_Ignorable_Code_Point}]", "", plain))


@pytest.mark.parametrize(
    ("policy", "pattern"),
    [
        ("no-digits", r"[0-9]|(?i:e[a-z])"),
        ("no-spaced", r"(?i)(s[\s\p{P}\p{S}]*e|t[\s\p{P}\p{S}]*i|i[\s\p{P}\p{S}]*n|r[\s\p{P}\p{S}]*e)"),
        (
            "no-calls",
            r"(?i)(e[\s\p{P}\p{S}]+[csp]|t[\s\p{P}\p{S}]+[sp]|s[\s\p{P}\p{S}]+p|d[\s\p{P}\p{S}]+c|r[\s\p{P}\p{S}]+s)",
        ),
        # An `e` before a last, incomplete character (shown or not) waited for an exception: the limit cut it.
        ("no-ex", r"(?i)(?<!r)e(?![ds]|\ufffd*$)"),
        ("latin", r"[^\p{Latin}\p{Common}\p{Inherited}]"),
    ],
)
def test_bans_hold(server: Server, policy: str, pattern: str) -> None:
    """No answer holds what the policy bans; the same requests without it do, in the same batches."""
    banned, plain = ask(server, policy)
    if policy not in ("no-digits", "latin"):  # which read the text as it is
        banned, plain = list(map(folded, banned)), list(map(folded, plain))
    assert hits(pattern, banned) == 0
    if policy != "latin":  # the model knows no other script, but bytes of which it could make one
        assert hits(pattern, plain) > 20
    assert sum(map(len, banned)) > 40 * 20


def test_answers_are_one_of_the_choices(server: Server) -> None:
    """And more than one of them comes up. A model may think first; then what it thinks is free."""
    texts, plain = ask(server, "verdict")
    answered = {text for text in texts if not text.startswith("<think>")}
    assert {"yes", "no"} <= answered <= {"yes", "no", "maybe so"}
    assert sum(text.startswith("<think>") for text in texts) < 10
    assert not set(plain) & {"yes", "no", "maybe so"}


def test_only_the_allowed_ids_are_chosen(server: Server) -> None:
    """Those, and the end."""
    found = answers(server, [Ask(seed, {"policies": ["few"]}) for seed in range(10)])
    assert {i for answer in found for i in answer.ids} <= {300, 301, 302, 303, 0, 1}
    assert len({i for answer in found for i in answer.ids} & {300, 301, 302, 303}) > 1


def test_the_closing_text_stands_at_each_end_that_the_model_chose(server: Server) -> None:
    """Once, and nothing behind it. An answer that the length limit cuts has none, or the head of it."""
    found = answers(server, [Ask(seed, {"policies": ["closing"]}) for seed in range(40)])
    ended = [answer.text for answer in found if answer.finish_reason == "stop"]
    assert len(ended) > 20
    assert all(text.endswith(" The end.") and text.count(" The end.") == 1 for text in ended)


def test_a_text_follows_the_phrase_once(server: Server) -> None:
    """Right behind the token that completed it."""
    texts, _ = ask(server, "reply")
    with_phrase = [text for text in texts if regex.search(r"(?i)(?<![\p{L}\p{M}\p{Nd}_])e", text[:-8])]
    assert with_phrase
    assert all(text.count("42") >= 1 for text in with_phrase)


def test_text_from_a_request(server: Server) -> None:
    """It is text, whatever it holds; one that is too long is refused."""
    texts, _ = ask(server, "opened", count=6, opening="{{ x }} $5 {# y #}")
    assert all(text.startswith("{{ x }} $5 {# y #}") for text in texts)
    with pytest.raises(openai.BadRequestError):
        ask(server, "opened", count=1, opening="x" * 41)


def test_a_rule_of_the_answer_leaves_reasoning_alone(server: Server) -> None:
    """The model, made to begin its reasoning and never ending it, may write there what its answer may not hold."""
    texts, _ = ask(server, "calm", count=20)
    assert all(text.startswith("<think>") for text in texts)
    assert sum("e" in text.removeprefix("<think>") for text in texts) > 15


def test_all_kinds_in_one_batch_do_what_each_does_alone(server: Server) -> None:
    """Neighbours change nothing."""
    names = [name for name in POLICIES if name != "opened"]
    asks = [Ask(seed, {"policies": [name]}) for seed in range(3) for name in names]
    together = answers(server, asks)
    alone = [answers(server, [one])[0] for one in asks[: len(names)]]
    assert together[: len(names)] == alone


def test_two_of_a_kind_intersect(server: Server) -> None:
    """Choices that another policy bans are left out; a request that leaves nothing is refused."""
    texts, _ = ask(server, "verdict", "no-ex", count=20)
    assert {text for text in texts if not text.startswith("<think>")} <= {"yes", "no"}
    reply = server.client().completions.create(
        model=MODEL_NAME, prompt="a", max_tokens=5, extra_body={"vllm_xargs": {"policies": ["verdict", "few"]}}
    )
    assert re.fullmatch("|yes|no", reply.choices[0].text)
    assert server.healthy()


def test_nothing_failed_inside(server: Server) -> None:
    """No request ended for a fault of ours."""
    assert "failed closed" not in server.log()
