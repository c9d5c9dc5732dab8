"""Every policy in `policies/` compiles by itself through the command, and does what its description says.

A policy without a scenario here fails the test. The real vLLM server runs the same files in
`tests/engines/vllm/test_server.py`, and the hook in its engine's double in `tests/engines/test_trtllm_hook.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import policyengine as pe
from policyengine.cli.app import app

POLICIES = Path(__file__).parents[1] / "policies"
EOS = 256


def letters() -> pe.Vocabulary:
    """A token for each byte, and EOS."""
    return pe.Vocabulary.from_bytes([*(bytes([b]) for b in range(256)), b""], [EOS], lambda text: list(text.encode()))


def answer(program: pe.Program, *chunks: str) -> tuple[str, str | None]:
    """What a client sees of an answer, and the reason if it was ended."""
    session = program.text_session(target="trtllm")
    shown = ""
    for chunk in chunks:
        verdict = session.feed(chunk)
        shown += verdict.text
        if verdict.action == "terminate":
            return shown, verdict.reason
    last = session.finish()
    return shown + last.text, last.reason


def writes(program: pe.Program, wanted: str, request: dict[str, Any] | None = None, device: str = "cpu") -> list[int]:
    """The bytes of `wanted` that a model which insists on it is refused, by position."""
    session = program.bind(letters(), device=device, target="vllm").token_session(request)
    refused = []
    for place, token in enumerate(wanted.encode()):
        if token in session.masked():
            refused.append(place)
        session.advance(token)
    return refused


def brand_safety(program: pe.Program) -> None:
    assert answer(program, "Ask about project  TI", "TAN now.") == ("Ask about [unreleased] now.", None)
    assert answer(program, "A silver", " lantern.") == ("A [unreleased].", None)
    assert writes(program, "bluebird") == [7]
    assert writes(program, "Operation\tQUILLFEATHER") == [21]
    assert writes(program, "bluebirds, Projects of Titan") == [
        7
    ]  # eager: the word may not even stand before its plural


def private_keys(program: pe.Program) -> None:
    shown, reason = answer(program, "Here: -----BEGIN RSA PRI", "VATE KEY-----\nMIIE")
    assert shown == "Here: This answer was stopped because it contained a private key."
    assert reason == "private-key"


def contact_details(program: pe.Program) -> None:
    shown = answer(program, "Write to oncall@exam", "ple.com, or ESCALATIONS@example.com.")
    assert shown == ("Write to support@example.com, or support@example.com.", None)


def house_style(program: pe.Program) -> None:
    session = program.bind(letters(), target="vllm").token_session()
    assert session.biases() == {}
    for token in b"In  conclusio":
        session.advance(token)
    assert session.biases() == {ord("n"): -2.5, ord("N"): -2.5}
    assert not len(session.masked())


def minimum_length(program: pe.Program) -> None:
    tokens = program.bind(letters(), target="vllm")
    session = tokens.token_session({"min_len": 2})
    for _ in range(2):
        assert session.masked().tolist() == [EOS]
        session.advance(ord("x"))
    assert session.masked().tolist() == []
    assert tokens.token_session().masked().tolist() == []
    with pytest.raises(pe.RequestError, match="min_len"):
        tokens.token_session({"min_len": 5000})


def answer_prefix(program: pe.Program) -> None:
    tokens = program.bind(letters(), target="vllm")
    session = tokens.token_session({"policies": ["answer-prefix"]})
    written = ""
    for _ in range(len("Answer: ")):
        (left,) = set(range(257)) - set(session.masked().tolist())
        written += chr(left)
        session.advance(left)
    assert written == "Answer: "
    assert session.masked().tolist() == []
    assert tokens.token_session().masked().tolist() == []


def _pins(program: pe.Program, request: dict[str, Any], device: str) -> None:
    session = program.bind(letters(), device=device, target="vllm").token_session(request)
    for _ in range(3):
        assert session.masked().tolist() == [i for i in range(257) if i != 128]
        session.advance(128)


def pin_token(program: pe.Program) -> None:
    _pins(program, {"target_token": 128}, "cpu")
    assert writes(program, "free") == []


def pin_token_on_request(program: pe.Program) -> None:
    _pins(program, {"policies": ["pin-token-on-request"], "target_token": 128}, "cpu")
    with pytest.raises(pe.RequestError, match="target_token"):
        writes(program, "free", {"target_token": 128})


def pin_token_on_cuda(program: pe.Program) -> None:
    _pins(program, {"target_token": 128}, "cuda")
    assert writes(program, "free", {"target_token": 128}, "cpu") == []


def stop_phrase(program: pe.Program) -> None:
    assert answer(program, "This is a forbid", "den Phrase. More") == ("This is a ", "forbidden-phrase")
    assert answer(program, "a forbidden phrasebook") == ("a forbidden phrasebook", None)


def upper_case(program: pe.Program) -> None:
    assert answer(program, "Die Stra", "ße") == ("DIE STRASSE", None)


def withhold(program: pe.Program) -> None:
    assert answer(program, "any", "thing") == ("", None)


def disguised_names(program: pe.Program) -> None:
    assert answer(program, "Hy", "perion, H.Y.P.E.R.I.O.N") == ("[unreleased], [unreleased]", None)
    assert answer(program, "H y p é r i o n; the Нурerion press") == ("[unreleased]; the [unreleased] press", None)
    assert answer(program, "The Hyperion press", " kit is out.") == ("The Hyperion press kit is out.", None)
    assert answer(program, "Hyperions") == ("Hyperions", None)
    assert writes(program, "Hyperion press kit") == []
    assert writes(program, "a hyperion is") == [11]  # until then it could have become the press kit


def api_keys(program: pe.Program) -> None:
    assert answer(program, "Use AKIA01234567", "89ABCDEF, then") == ("Use ", "leaked-key")
    assert answer(program, "Use AKIA0123456789abcdef") == ("Use AKIA0123456789abcdef", None)
    assert answer(program, "a ghp_", "a" * 36) == ("a ", "leaked-key")


def loops(program: pe.Program) -> None:
    assert answer(program, "It is very very", " Very very very", " good") == ("It is ", "repetition")
    assert answer(program, "It is very very very very good") == ("It is very very very very good", None)


def no_han(program: pe.Program) -> None:
    assert answer(program, "Say 你", "好, or hello.") == ("Say □□, or hello.", None)


def latin_script(program: pe.Program) -> None:
    request = {"policies": ["latin-script"]}
    assert writes(program, "Naïve – 42!", request) == []
    assert writes(program, "Say да", request)[0] == 4
    assert writes(program, "Say да") == []


def written(program: pe.Program, text: str, request: dict[str, Any], wish: str = "") -> str:
    """What a model goes on to write after a text, if it wishes for another one and then for the end."""
    session = program.bind(letters(), target="vllm").token_session(request)
    for token in text.encode():
        assert token not in session.masked()
        session.advance(token)
    wishes = [*wish.encode(), EOS]
    made: list[int] = []
    while len(made) < 100:
        stand_in, masked = session.stand_in, set(session.masked().tolist())
        token = stand_in.token if stand_in and wishes[0] == EOS else wishes[0]
        if token in masked:
            (token,) = set(range(257)) - masked  # all that is left
        elif token == wishes[0] and token != EOS:
            wishes = wishes[1:]
        session.advance(token)
        if token == EOS:
            return bytes(made).decode()
        made.append(token)
    raise AssertionError("no end")


def verdict(program: pe.Program) -> None:
    request = {"policies": ["verdict"]}
    assert writes(program, "maybe", request) == []
    assert writes(program, "yes, sir", request)[0] == 3
    assert written(program, "m", request) == "aybe"
    assert written(program, "yes", request) == ""


def disclaimer(program: pe.Program) -> None:
    request = {"policies": ["disclaimer"]}
    assert written(program, "Drink tea.", request) == "⚕ This is no medical advice."
    assert written(program, "Drink", {}, " tea.") == " tea."


def hotline(program: pe.Program) -> None:
    request = {"policies": ["hotline"]}
    assert written(program, "Please call us at", request, ".") == " 0800 123 456."
    assert written(program, "Please write to us", request, " now") == " now"


def greeting(program: pe.Program) -> None:
    request = {"policies": ["greeting"], "greeting": "Grüezi! "}
    assert written(program, "", request, "Ja.") == "Grüezi! Ja."
    assert written(program, "", {"policies": ["greeting"]}, "Ja.") == "Ja."
    with pytest.raises(pe.RequestError, match="greeting"):
        written(program, "", {"policies": ["greeting"], "greeting": "x" * 101})


def model_habits(program: pe.Program) -> None:
    for model, value in (("acme-7b-chat", {ord("y"): -5.0, ord("Y"): -5.0}), ("acme-70b", {}), (None, {})):
        session = program.bind(letters(), model=model, target="vllm").token_session()
        for token in b"Certainl":
            session.advance(token)
        assert session.biases() == value


SCENARIOS: dict[str, Callable[[pe.Program], None]] = {
    "answer-prefix.yaml": answer_prefix,
    "api-keys.yaml": api_keys,
    "brand-safety.yaml": brand_safety,
    "contact-details.yaml": contact_details,
    "disclaimer.yaml": disclaimer,
    "disguised-names.yaml": disguised_names,
    "greeting.yaml": greeting,
    "hotline.yaml": hotline,
    "house-style.yaml": house_style,
    "latin-script.yaml": latin_script,
    "loops.yaml": loops,
    "minimum-length.yaml": minimum_length,
    "model-habits.yaml": model_habits,
    "no-han.yaml": no_han,
    "pin-token-on-cuda.yaml": pin_token_on_cuda,
    "pin-token-on-request.yaml": pin_token_on_request,
    "pin-token.yaml": pin_token,
    "private-keys.yaml": private_keys,
    "stop-phrase.yaml": stop_phrase,
    "upper-case.yaml": upper_case,
    "verdict.yaml": verdict,
    "withhold.yaml": withhold,
}


def test_every_policy_has_a_scenario_and_tests() -> None:
    names = {path.name for path in POLICIES.glob("*.yaml")}
    tests = {name for name in names if name.endswith(".test.yaml")}
    assert names - tests == set(SCENARIOS)
    assert tests == {name.replace(".yaml", ".test.yaml") for name in SCENARIOS}


def test_the_tests_beside_the_policies_pass_and_cover_every_rule() -> None:
    done = CliRunner().invoke(app, ["test", str(POLICIES), "--threshold", "100"])
    assert done.exit_code == 0, done.output
    assert "(100 %)" in done.output


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_policy(name: str, tmp_path: Path) -> None:
    """Through the files that an engine would load."""
    target = "trtllm" if "targets: [trtllm]" in (POLICIES / name).read_text() else "vllm"
    done = CliRunner().invoke(app, ["compile", str(POLICIES / name), "-o", str(tmp_path / "build"), "--target", target])
    assert done.exit_code == 0, done.output
    SCENARIOS[name](pe.open_bundle(tmp_path / "build" / "policy_bundle"))
