"""`--fix`: what it writes, byte by byte; what it leaves alone; and that safe fixes change nothing that is caught."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import policyengine as pe
from policyengine.lint import fixing
from policyengine.lint.fixing import fix_all
from policyengine.lint.run import Result, check
from tests.unit.lint.conftest import HEAD, Put


def fixed(folder: Path, *, unsafe: bool = False) -> tuple[Result, list[str]]:
    """What is left, and what was done."""
    mended = fix_all(lambda: check([folder]), unsafe=unsafe)
    assert mended.failed == []
    return mended.result, [one.done for one in mended.done]


def ban(*lines: str) -> str:
    """A rule with its phrases a line each."""
    return "rules:\n  r:\n    ban:\n      phrases:\n" + "".join(f"        {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (ban("- titan", "- TITAN", "- bluebird # why"), ban("- titan", "- bluebird # why")),
        (
            ban("- titan", "# of these two", '- "TITAN"', "- 'bluebird'"),
            ban("- titan", "# of these two", "- 'bluebird'"),
        ),
        (
            "rules: {r: {ban: {phrases: [titan, TITAN, bluebird]}}}\n",
            "rules: {r: {ban: {phrases: [titan, bluebird]}}}\n",
        ),
        ("rules: {r: {ban: {phrases: [titan , TITAN]}}}\n", "rules: {r: {ban: {phrases: [titan]}}}\n"),
        ("rules: {r: {ban: {phrases: [titan, TITAN, Titan]}}}\n", "rules: {r: {ban: {phrases: [titan]}}}\n"),
        (
            "rules: {r: {ban: {phrases: [titan, titan b, bird]}}}\n",
            "rules: {r: {ban: {phrases: [titan, bird]}}}\n",
        ),
        (
            "rules: {r: {ban: {phrases: [titan], except: [none, titan kit]}}}\n",
            "rules: {r: {ban: {phrases: [titan], except: [titan kit]}}}\n",
        ),
        (
            "rules: {r: {ban: {phrases: [ti\u200btan]}}}  # policyengine: ignore[zero-bias] x\n",
            "rules: {r: {ban: {phrases: [titan]}}}\n",
        ),
        (
            "# policyengine: ignore[zero-bias] x\nrules: {r: {ban: {phrases: [titan]}}}\n",
            "rules: {r: {ban: {phrases: [titan]}}}\n",
        ),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_safe_fixes(put: Put, before: str, after: str, end: str) -> None:
    folder = put(before.replace("\n", end))
    head = HEAD
    result, done = fixed(folder)
    assert (folder / "p.yaml").read_bytes().decode() == head + after.replace("\n", end)
    assert done
    assert not [one for one in result.found if one in result.fixes]
    assert fixed(folder)[1] == []


@pytest.mark.parametrize(
    "text",
    [
        ban("- titan", "- TITAN  # of the moons"),  # the comment would go with it
        ban("- titan", "-\n          TITAN"),
        "rules: {r: {ban: {phrases: [titan, # one\n  TITAN]}}}\n",
        ban("- titan", "- |-\n          TITAN"),
        "rules: {r: {ban: {phrases: [titan], except: [none]}}}\n",  # nothing would be left
        "targets: [vllm]\nrules: {r: {bias: {phrases: {titan: 1, TITAN: 1}}}}\n",
    ],
)
def test_what_is_left_to_people(put: Put, text: str) -> None:
    folder = put(text)
    result, done = fixed(folder, unsafe=True)
    assert (folder / "p.yaml").read_text() == HEAD + text
    assert (bool(result.found), done) == (True, [])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (ban("- ' Sure'"), ban("- 'Sure'")),
        (ban('- " Sure  "  # so'), ban('- "Sure"  # so')),
        (ban("- room #4"), ban("- 'room #4'")),
        (ban("- Jim's #4  "), ban("- 'Jim''s #4'  ")),
        (ban("- р\u0430ypal"), ban("- paypal")),
        ("rules: {r: {ban: {regex: ['ti\u200btan']}}}\n", "rules: {r: {ban: {regex: ['titan']}}}\n"),
    ],
)
def test_fixes_that_change_what_is_caught_are_unsafe(put: Put, before: str, after: str) -> None:
    folder = put(before)
    assert fixed(folder)[1] == []
    assert (folder / "p.yaml").read_text() == HEAD + before
    assert fixed(folder, unsafe=True)[1]
    assert (folder / "p.yaml").read_text() == HEAD + after


@pytest.mark.parametrize(
    ("rules", "files"),
    [
        # a list that another rule reads too, by options of its own
        (
            "r: {ban: {phrases: [titan], phrases_from: l.txt}, mode: shadow}\n  q: {ban: {phrases_from: l.txt}}",
            {"l__txt": "TITAN b\nTITAN\nbird\n"},
        ),
        (
            "r: {ban: {phrases_from: l.txt}}\n  q: {ban: {phrases_from: l.txt, normalize: []}}",
            {"l__txt": "ti\u200btan\nbird\n"},
        ),
        # variables have other values tomorrow
        (
            'r: {ban: {phrases: [titan, "{{ it }}", "the {{ it }}"], except: [titan press, bird nest]}}\n'
            '  q: {ban: {phrases: ["{{ it }}"], except: [bird nest, titan press]}}',
            {"policyengine__yaml": "version: 1\nvariables: {it: titan}\n"},
        ),
        (
            'r: {ban: {phrases: [bird, "{{ \u200bit }}"]}}',
            {"policyengine__yaml": "version: 1\nvariables: {it: titan}\n"},
        ),
        # what does not show keeps a text from being read as something else
        ("r: {ban: {phrases_from: l.txt}}", {"l__txt": "bird\n\u200b#1 choice\n"}),
        ("r: {ban: {phrases_from: l.txt}}", {"l__txt": "bird\n\u200b\\#1 choice\n"}),
        ("r: {ban: {phrases_from: l.txt, match: substring}}", {"l__txt": "bird\nfoo \u200b\n"}),
        ("r:\n    ban:\n      phrases:\n      - room \u200b#4", {}),
        ("r:\n    ban:\n      match: substring\n      phrases:\n      - room \u200b\n      - bird", {}),
    ],
)
def test_what_only_seems_to_do_nothing_is_no_safe_fix(put: Put, rules: str, files: dict[str, str]) -> None:
    folder = put(f"rules:\n  {rules}\n", **files)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    result, done = fixed(folder)
    assert result.fixes
    assert done == []
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_list_of_phrases_keeps_its_mark_its_line_ends_and_its_last_line(put: Put) -> None:
    folder = put("rules: {r: {ban: {phrases_from: l.txt}}}\n")
    (folder / "l.txt").write_bytes(b"\xef\xbb\xbf# names\r\ntitan\r\n  TITAN \r\nbird\r\ntitan b")
    assert len(fixed(folder)[1]) == 2
    assert (folder / "l.txt").read_bytes() == b"\xef\xbb\xbf# names\r\ntitan\r\nbird\r\n"


def test_only_what_is_selected_is_mended(put: Put) -> None:
    folder = put("rules: {r: {ban: {phrases: [titan, TITAN, titan a]}}}\n")
    mended = fix_all(lambda: check([folder]).selected(["shadowed-phrase"]), unsafe=True)
    assert [one.name for one in mended.done] == ["shadowed-phrase"]
    assert "[titan, TITAN]" in (folder / "p.yaml").read_text()


def test_what_a_comment_ignores_is_not_mended(put: Put) -> None:
    text = "rules: {r: {ban: {phrases: [titan, TITAN]}}}  # policyengine: ignore[duplicate-phrase] on purpose\n"
    folder = put(text)
    assert fixed(folder)[1] == []


def test_a_fix_that_breaks_a_file_is_taken_back(put: Put) -> None:
    """Without its space the key of a bias is one that is there already."""
    text = 'targets: [vllm]\nrules: {r: {bias: {phrases: {"zz ": 1, "zz": 2}}}}\n'
    folder = put(text)
    result, done = fixed(folder, unsafe=True)
    assert (folder / "p.yaml").read_text() == HEAD + text
    assert done == []
    assert result.refused == ()


def test_modes_and_links_stay(put: Put, tmp_path: Path) -> None:
    folder = put("rules: {r: {ban: {phrases: [titan, TITAN]}}}\n")
    path, real = folder / "p.yaml", tmp_path / "elsewhere.txt"
    path.rename(real)
    real.chmod(0o640)
    path.symlink_to(real)
    assert fixed(folder)[1]
    assert path.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sorted(os.listdir(folder)) == ["elsewhere.txt", "p.yaml"]


def test_a_file_that_changed_meanwhile_is_not_written(put: Put) -> None:
    folder = put("rules: {r: {ban: {phrases: [titan, TITAN]}}}\n")
    result = check([folder])
    (folder / "p.yaml").write_text(HEAD + "rules: {r: {ban: {phrases: [mine, MINE, titan]}}}\n")
    [problem] = fix_all(lambda: result, unsafe=False).failed
    assert "changed while it was checked" in problem
    assert "mine, MINE" in (folder / "p.yaml").read_text()


def test_a_write_that_fails_leaves_the_file_whole(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = put("rules: {r: {ban: {phrases: [titan, TITAN]}}}\n")
    before = (folder / "p.yaml").read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fixing.os, "fsync", full)
    [problem] = fix_all(lambda: check([folder]), unsafe=False).failed
    assert "No space left" in problem
    assert (folder / "p.yaml").read_bytes() == before
    assert os.listdir(folder) == ["p.yaml"]


def test_files_beside_one_that_cannot_be_written_are_mended_and_told_of(
    put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = "rules: {r: {ban: {phrases: [titan, TITAN]}}}\n"
    folder = put(rules)
    for name in ("a", "z"):
        (folder / f"{name}.yaml").write_text(HEAD.replace("policy: p", f"policy: {name}") + rules)
    replace = os.replace

    def refuse(source: str, target: Path) -> None:
        if Path(target).name == "p.yaml":
            raise PermissionError(13, "Permission denied")
        replace(source, target)

    monkeypatch.setattr(fixing.os, "replace", refuse)
    mended = fix_all(lambda: check([folder]), unsafe=False)
    assert mended.failed == [f"cannot write `{folder}/p.yaml`: Permission denied"]
    assert [Path(one.span.file).name for one in mended.done] == ["a.yaml", "z.yaml"]
    assert [Path(one.span.file).name for one in mended.result.found if one.name == "duplicate-phrase"] == ["p.yaml"]
    assert sorted(os.listdir(folder)) == ["a.yaml", "p.yaml", "z.yaml"]


# -- safe fixes keep what is caught -----------------------------------------------------------------------------------

WORDS = st.sampled_from(["a", "b", "ab", "ba", "aB", "A", "é", "-", "a-b", "b'a"])
PHRASES = st.lists(st.lists(WORDS, min_size=1, max_size=3).map(" ".join), min_size=2, max_size=6)
OPTIONS = st.fixed_dictionaries(
    {
        "match": st.sampled_from(["word", "prefix", "substring"]),
        "case": st.sampled_from(["insensitive", "sensitive"]),
        "gaps": st.sampled_from(["spaces", "punctuation", "letters", "literal"]),
        "word_end": st.sampled_from(["eager", "exact"]),
    }
)
ACTIONS = st.sampled_from(["avoid", "terminate", "{redact: …}", "{block: …}"])
RULES = st.lists(st.tuples(PHRASES, OPTIONS, ACTIONS), min_size=1, max_size=2)
TEXTS = st.lists(st.lists(st.sampled_from([*"abAB- é'", "  "]), max_size=10).map("".join), min_size=4, max_size=6)


def caught(folder: Path, texts: list[str]) -> list[object]:
    """What clients see of each text, and which bytes are masked while the first is written, until one is refused."""
    program = pe.compile(pe.load(folder))
    seen: list[object] = []
    for text in texts:
        session = program.text_session()
        verdicts = [*(session.feed(ch) for ch in text), session.finish()]
        ended = next((one.reason for one in verdicts if one.action == "terminate"), None)
        seen.append(("".join(one.text for one in verdicts), ended))
    letters = pe.Vocabulary.from_bytes([*(bytes([b]) for b in range(128)), b""], [128])
    writing = program.bind(letters, target="vllm").token_session()
    for byte in texts[0].encode("ascii", errors="replace"):
        masked = writing.masked().tolist()
        seen.append(masked)
        if byte in masked:
            break
        writing.advance(byte)
    return seen


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(RULES, TEXTS)
@example([(["a", "b a"], {"match": "word"}, "avoid"), (["b a"], {"match": "word"}, "avoid")], ["b a", "xb a"])
def test_safe_fixes_change_nothing_that_is_caught(
    put: Put, rules: list[tuple[list[str], dict[str, str], str]], texts: list[str]
) -> None:
    """Rules of all kinds, before and after; the texts are written letter by letter."""
    lines = []
    for number, (phrases, options, action) in enumerate(rules):
        given = [f"phrases: {json.dumps(phrases)}", *(f"{key}: {value}" for key, value in options.items())]
        lines.append(f"  r{number}: {{ban: {{{', '.join(given)}}}, action: {action}}}\n")
    folder = put("rules:\n" + "".join(lines))
    before = caught(folder, texts)
    fixed(folder)
    assert caught(folder, texts) == before
