"""Any bytes as a policy file end in a policy or in diagnostics, never in a traceback."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policyengine.language import PolicyError, PolicySet, load
from policyengine.language.render import Lines

ROOT = Path(__file__).parents[3]

VALID = b"""\
# a policy
version: 1
policy: brand-safety
description: "Keep {{ name }} out."
owner: trust
activation: always
targets: [vllm, trtllm]
mode: enforce
parameters:
  target_token: {type: token_id}
  min_len: {type: integer, ge: 0, le: 4096, default: 0}
  w: {type: number, default: .5}
  s: {type: string, choices: ["a", b], max_length: 4}
rules:
  codenames:
    ban:
      phrases: [Project Titan, '{{ name }}', "a\\u00e9"]
      phrases_from: list.txt
      match: word
      case: insensitive
      gaps: spaces
      normalize: [nfkc, invisible]
      word_end: eager
    action: {terminate: {reason: r, message: "m"}}
  reserved:
    ban: {token_ids: [128, 0x10]}
  opening:
    force: {text: "Answer: ", at: start}
  pinned:
    force: {token_id: {param: target_token}, at: every}
    when: {device: [cuda]}
  least:
    min_tokens: {param: min_len}
  tone:
    bias:
      phrases:
        delve: -4
        ? in conclusion
        : {param: w}
      token_ids: {1234: 1.5}
  loud:
    rewrite: {to: upper}
"""

PIECES = [
    *(
        b":",
        b": ",
        b"- ",
        b"\n",
        b"  ",
        b"\t",
        b"[",
        b"]",
        b"{",
        b"}",
        b",",
        b'"',
        b"'",
        b"#",
        b"&a ",
        b"*a",
        b"!t ",
        b"|",
        b">",
    ),
    *(
        b"? ",
        b"%",
        b"@",
        b"~",
        b"null",
        b"true",
        b"42",
        b"1e999",
        b".nan",
        b"0x",
        b"---\n",
        b"...\n",
        b"\x00",
        b"\xff",
        b"\xc2\x85",
    ),
    *(
        b"\xe2\x80\xa8",
        b"\xe2\x80\x8b",
        b"\xef\xbb\xbf",
        b"\r",
        b"\\ud800",
        b"{{ name }}",
        b"<<: ",
        b"ban",
        b"phrases",
        b"param",
    ),
    *(b"except", b"allow", b"regex", b"version", b"policy", b"rules", b"9" * 50, b"[[]]", b"{}", b"[~]", b"{? {} : x}"),
]

mutations = st.lists(
    st.tuples(st.integers(0, len(VALID)), st.integers(0, 12), st.sampled_from([b"", *PIECES]) | st.binary(max_size=3)),
    min_size=1,
    max_size=4,
)


def read(content: bytes, project: bytes | None = None) -> PolicySet | PolicyError:
    """Load bytes as a policy file; anything but these two outcomes is a failed test."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "policy.yaml").write_bytes(content)
        (Path(folder) / "list.txt").write_bytes(b"bluebird\n")
        if project is not None:
            (Path(folder) / "policyengine.yaml").write_bytes(project)
        try:
            return load(folder, variables={"name": "x: [y]"})
        except PolicyError as error:
            check(error)
            return error


def check(error: PolicyError) -> None:
    """Every diagnostic has words and a place that exists, and they come in order."""
    assert error.diagnostics
    text = str(error)
    text.encode()
    sources = {name: Lines(source) for name, source in error.sources.items()}
    for one in error.diagnostics:
        assert one.message
        assert f"{one.span.file}:{one.span.line}:{one.span.column}" in text or len(error.diagnostics) > 50
        for span in (one.span, *(label.span for label in one.labels)):
            assert 1 <= span.line <= span.end_line
            assert span.column >= 1
            assert (span.end_line, span.end_column) >= (span.line, span.column)
            if lines := sources.get(span.file):
                assert span.line <= len(lines)
                assert span.column <= len(lines[span.line]) + 2
    assert list(error.diagnostics) == sorted(error.diagnostics, key=lambda one: one.sort_key)


def test_the_valid_policy_is_valid() -> None:
    """Else the mutations would show little."""
    assert isinstance(read(VALID), PolicySet)


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_random_bytes(content: bytes) -> None:
    """Nearly all are refused as they stand."""
    read(content)
    read(VALID, project=content)


@given(st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_random_pieces_of_yaml(content: bytes) -> None:
    """More of these get past the parser."""
    read(content)
    read(b"version: 1\npolicy: p\nrules:\n  a: " + content + b"\n")
    read(b"version: 1\npolicy: p\nrules: {a: {ban: {phrases: [" + content + b"]}}}\n")


@given(mutations)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_mutated_policies(changes: list[tuple[int, int, bytes]]) -> None:
    """Cuts and insertions anywhere in a policy that uses everything."""
    content = VALID
    for start, length, piece in changes:
        content = content[:start] + piece + content[start + length :]
    read(content)


@pytest.mark.parametrize("seed", range(8))
def test_values_of_every_type_in_every_place(seed: int) -> None:
    """Each scalar and collection of the valid policy replaced by something else."""
    import yaml

    choice = random.Random(seed)
    others = [
        "null",
        "true",
        "3",
        "-1",
        "1.5",
        ".nan",
        "x",
        '""',
        "[]",
        "{}",
        "[1, x]",
        "{param: w}",
        "{a: {b: c}}",
        "9" * 99,
    ]
    nodes = []

    def walk(node: yaml.Node) -> None:
        nodes.append(node)
        children = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        for child in children if not isinstance(node, yaml.ScalarNode) else ():
            walk(child)

    walk(yaml.compose(VALID.decode()))
    for node in nodes[1:]:
        start, end = node.start_mark.index, node.end_mark.index
        read(
            (VALID.decode()[:start] + choice.choice(others) + "\n" * (end - start > 60) + VALID.decode()[end:]).encode()
        )


# Each is a construct repeated until something would give way.
ONE_THING = [
    b"[" * 1_000_000,
    b"{" * 1_000_000,
    b"- " * 1_000_000,
    b"? " * 500_000,
    b"a: " * 500_000,
    b"&a " * 500_000,
    b"*a , " * 500_000,
    b"[" + b"*a, " * 500_000 + b"]",
    b"!" * 1_000_000,
    b"'" * 1_000_001,
    b'"' + b"\\x" * 500_000,
    b"\xef\xbb\xbf" * 300_000,
    b"\n" * 1_000_000,
    b" " * 1_000_000 + b"a: b",
    b"---\n" * 250_000,
    b"a: 1\n" * 200_000,
    b"#" * 1_000_000,
    b"a: |\n" + b" \n" * 500_000,
    b"\x00" * 1_000_000,
    b"\xff" * 1_000_000,
    b"version: 1\npolicy: p\nrules: {a: {ban: {phrases: [" + b"1, " * 300_000 + b"]}}}\n",
    b"version: 1\npolicy: p\nrules: {a: {ban: {phrases: [" + b'"", ' * 200_000 + b"]}}}\n",
]


@pytest.mark.parametrize("content", ONE_THING, ids=range(len(ONE_THING)))
def test_a_megabyte_of_one_thing(content: bytes) -> None:
    """Every one is refused, with a bounded number of diagnostics."""
    found = read(content)
    assert isinstance(found, PolicyError)
    assert len(found.diagnostics) <= 1_001


def test_a_file_over_the_limit() -> None:
    """It is not even parsed."""
    found = read(VALID + b"#" * 2**24)
    assert isinstance(found, PolicyError)
    assert [one.name for one in found.diagnostics] == ["over-limit"]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak of its memory from /proc")
def test_memory_and_time_stay_bounded() -> None:
    """All of them in one process of their own: far from what a machine that checks pull requests has."""
    code = (
        "from tests.unit.language.test_any_bytes import ONE_THING, read\n"
        "for content in ONE_THING:\n"
        "    read(content)\n"
        # Not ru_maxrss: that counts what the process was before it became this one, the whole test run.
        "print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300, check=True
    )
    assert int(done.stdout) < 1_000_000  # KiB; the test's own imports and files are about 150,000 of them
