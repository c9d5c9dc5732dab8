"""An operator's own configuration with our keys in it: nothing of theirs is lost or overruled in silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import policyengine as pe
from policyengine.compiler.merging import merge
from policyengine.language.diagnostics import PolicyError
from tests.text_programs import ban, program

HOOK = b"# how to start it\npost_processor_hook: policy_bundle.trtllm.PolicyHook\n"
VLLM = (
    b'# how to start it\nlogits-processors: ["policy_bundle.vllm:PolicyLogitsProcessor"]\n'
    b"# about logprobs\nlogprobs-mode: processed_logprobs\n"
)
OURS = "policy_bundle.vllm:PolicyLogitsProcessor"
REDACTS = program(ban("secret"))
ENDS = program(ban("secret", terminate="s"))


def merged(tmp_path: Path, text: str, target: str = "trtllm", policies: pe.Program = ENDS) -> str:
    path = tmp_path / "options.yaml"
    path.write_text(text, encoding="utf-8")
    return merge(HOOK if target == "trtllm" else VLLM, str(path), target, policies).content.decode("utf-8")


def refused(tmp_path: Path, text: str, target: str = "trtllm") -> list[tuple[str, int, int, str]]:
    with pytest.raises(PolicyError) as caught:
        merged(tmp_path, text, target)
    assert str(caught.value)
    return [(one.name, one.span.line, one.span.column, one.message) for one in caught.value.diagnostics]


# -- what is kept ------------------------------------------------------------------------------------------------------


def test_the_files_own_text_stays_as_it_is(tmp_path: Path) -> None:
    text = "# since 2025\nkv_cache_config:   # tuned\n  free_gpu_memory_fraction: 0.8\n\nmax_batch_size: 64  # hot\n"
    assert merged(tmp_path, text) == text + HOOK.decode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", HOOK.decode()),
        ("# nothing yet\n", "# nothing yet\n" + HOOK.decode()),
        ("a: 1", "a: 1\n" + HOOK.decode()),
        ("a: 1\n...\n", f"a: 1\n{HOOK.decode()}...\n"),
        ("  a: 1\n  b: 2\n", "  a: 1\n  b: 2\n" + "".join(f"  {line}\n" for line in HOOK.decode().splitlines())),
        ("{a: 1, b: [2]}\n", "{post_processor_hook: policy_bundle.trtllm.PolicyHook, a: 1, b: [2]}\n"),
        ("{}\n", "{post_processor_hook: policy_bundle.trtllm.PolicyHook}\n"),
        ("a: &x {b: 1}\nc: *x\n", "a: &x {b: 1}\nc: *x\n" + HOOK.decode()),
        ("text: |\n  one\n  two\n", "text: |\n  one\n  two\n" + HOOK.decode()),
        ("größe: '大'\n", "größe: '大'\n" + HOOK.decode()),
        ("a: 1\r\nb: 2\r\n", "a: 1\r\nb: 2\r\n" + HOOK.decode()),
    ],
)
def test_files_of_many_shapes(tmp_path: Path, text: str, expected: str) -> None:
    assert merged(tmp_path, text) == expected


@pytest.mark.parametrize("text", [HOOK.decode(), "post_processor_hook: 'policy_bundle.trtllm.PolicyHook'  # ours\n"])
def test_what_is_there_already_is_not_added_again(tmp_path: Path, text: str) -> None:
    assert merged(tmp_path, text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("logits-processors: [acme:P]\n", f'logits-processors: [acme:P, "{OURS}"]\n'),
        ("logits-processors: []\n", f'logits-processors: ["{OURS}"]\n'),
        ("logits-processors: acme:P\n", f'logits-processors: [acme:P, "{OURS}"]\n'),
        ("logits_processors:\n- acme:P\n", f'logits_processors:\n- acme:P\n- "{OURS}"\n'),
        (
            "logits-processors:\n  - acme:P  # theirs\n  - acme:Q\nport: 1\n",
            f'logits-processors:\n  - acme:P  # theirs\n  - acme:Q\n  - "{OURS}"\nport: 1\n',
        ),
        ("logits-processors:\n  - acme:P", f'logits-processors:\n  - acme:P\n  - "{OURS}"\n'),
        (f"logits-processors: ['{OURS}', acme:P]\n", f"logits-processors: ['{OURS}', acme:P]\n"),
    ],
)
def test_a_list_of_theirs_is_extended(tmp_path: Path, text: str, expected: str) -> None:
    """A second list would replace the first: vLLM keeps one."""
    mode = "# how to start it\n# about logprobs\nlogprobs-mode: processed_logprobs\n"
    assert merged(tmp_path, text, "vllm") == expected + mode


def test_a_logprobs_mode_after_the_policies_is_as_good(tmp_path: Path) -> None:
    text = "logprobs_mode: processed_logits\n"
    assert "processed_logprobs" not in merged(tmp_path, text, "vllm")


_VALUES = st.recursive(
    st.one_of(st.integers(), st.booleans(), st.none(), st.text(max_size=8), st.floats(allow_nan=False)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=200)
@given(
    st.dictionaries(st.text("abc_-", min_size=1, max_size=6), _VALUES, max_size=4),
    st.sampled_from([True, False, None]),
    st.lists(st.text("abc:.", min_size=1, max_size=6), max_size=3),
    st.booleans(),
    st.booleans(),
)
def test_the_result_reads_as_theirs_and_ours(
    tmp_path_factory: pytest.TempPathFactory, theirs: Any, flow: bool | None, names: list[str], last: bool, cut: bool
) -> None:
    """Whatever the file says and however it is laid out."""
    given_names = {"logits-processors": names} if names else {}
    content = {**theirs, **given_names} if last else {**given_names, **theirs}
    text = yaml.safe_dump(content, default_flow_style=flow, sort_keys=False, allow_unicode=True)
    text = text.rstrip("\n") if cut else text
    if yaml.safe_load(text) != content:
        return
    result = merged(tmp_path_factory.mktemp("merge"), text, "vllm")
    assert yaml.safe_load(result) == {
        **content,
        "logits-processors": [*names, OURS],
        "logprobs-mode": "processed_logprobs",
    }
    kept = iter(result)
    assert all(ch in kept for ch in text)  # every character of theirs is there, in order


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_another_hook_is_a_conflict_at_its_place(tmp_path: Path) -> None:
    assert refused(tmp_path, "max_batch_size: 64\npost_processor_hook: acme.Hook\n") == [
        (
            "config-conflict",
            2,
            22,
            "`post_processor_hook` must be `policy_bundle.trtllm.PolicyHook` for the policies to hold",
        )
    ]


@pytest.mark.parametrize(
    ("text", "target", "name", "place"),
    [
        ("logprobs-mode: raw_logprobs\n", "vllm", "config-conflict", (1, 16)),
        ("logprobs_mode: raw_logits\n", "vllm", "config-conflict", (1, 16)),
        ("logits-processors: 3\n", "vllm", "config-conflict", (1, 20)),
        ("logits-processors: [a:B]\nlogits_processors: [c:D]\n", "vllm", "config-conflict", (2, 1)),
        ("skip-tokenizer-init: true\n", "vllm", "config-unsafe", (1, 1)),
        ("a: 1\nskip_tokenizer_init: true\n", "trtllm", "config-unsafe", (2, 1)),
        ("post_processor: acme.Hook\n", "trtllm", "config-unsafe", (1, 1)),
        ("a: [1\n", "trtllm", "yaml-syntax", (2, 1)),
        ("a: 1\n---\nb: 2\n", "trtllm", "yaml-syntax", (2, 1)),
        ("- a\n", "trtllm", "wrong-type", (1, 1)),
        ("a: !!python/object:os.system x\n", "trtllm", "yaml-syntax", (1, 4)),
    ],
)
def test_what_no_policy_would_survive_is_refused(
    tmp_path: Path, text: str, target: str, name: str, place: tuple[int, int]
) -> None:
    assert [(found, line, column) for found, line, column, _ in refused(tmp_path, text, target)] == [(name, *place)]


def test_a_file_that_is_not_there_or_not_utf8(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="cannot read"):
        merge(HOOK, str(tmp_path / "gone.yaml"), "trtllm", ENDS)
    (tmp_path / "latin.yaml").write_bytes(b"a: caf\xe9\n")
    with pytest.raises(PolicyError, match="UTF-8"):
        merge(HOOK, str(tmp_path / "latin.yaml"), "trtllm", ENDS)


@pytest.mark.parametrize(
    ("text", "policies", "warns"),
    [
        ("reasoning_parser: deepseek-r1\n", REDACTS, True),
        ("tool_parser: qwen3\n", program("upper"), True),
        ("reasoning_parser: deepseek-r1\n", ENDS, False),
        ("reasoning_parser: null\n", REDACTS, False),
        ("cache_transceiver_config: {backend: UCX}\n", ENDS, True),
        ("cache_transceiver_config: {backend: null}\n", ENDS, False),
        ("skip_tokenizer_init: false\n", ENDS, False),
    ],
)
def test_what_weakens_policies_is_a_warning(tmp_path: Path, text: str, policies: pe.Program, warns: bool) -> None:
    path = tmp_path / "options.yaml"
    path.write_text(text)
    result = merge(HOOK, str(path), "trtllm", policies)
    found = [(one.name, one.severity, one.span.line, one.span.column) for one in result.found]
    assert found == [("config-unsafe", "warning", 1, 1)] * warns
    assert yaml.safe_load(result.content) == {**yaml.safe_load(text), **yaml.safe_load(HOOK)}
