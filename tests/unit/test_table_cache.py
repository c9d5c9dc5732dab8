"""The cache of indexes and tables: what is read equals what is built, and whatever is wrong only costs time."""

from __future__ import annotations

import errno
import io
import json
import mmap
import os
import random
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from policyengine.automata import table_files
from policyengine.automata.folding import FoldSpec
from policyengine.automata.token_matcher import TokenMatcher
from policyengine.automata.token_tables import TokenTables, digest_of
from policyengine.automata.vocabulary import Vocabulary
from policyengine.automata.vocabulary_trie import VocabularyTrie
from policyengine.runtime import table_cache, token_program
from policyengine.runtime.program import Program
from policyengine.runtime.token_program import TokenProgram
from tests import vocabularies
from tests.oracle import Phrase
from tests.programs import program

BANS = [
    *(Phrase("rice"), Phrase("in time"), Phrase("über", "prefix"), Phrase("import", "substring")),
    *(Phrase("\N{REPLACEMENT CHARACTER}", "substring"), Phrase("项目"), Phrase("return", case="sensitive")),
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache; the folder of its files, which is not there yet."""
    monkeypatch.setenv(table_cache.VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache" / "tables"


@pytest.fixture(autouse=True)
def new_process() -> Iterator[None]:
    """Indexes that this process holds already are not what is asked about here."""
    token_program._trie.cache_clear()
    yield
    token_program._trie.cache_clear()


def bind(policies: Program, vocabulary: Vocabulary) -> TokenProgram:
    """As a process that has just started."""
    token_program._trie.cache_clear()
    return policies.bind(vocabulary)


def is_mapped(array: np.ndarray[Any, Any]) -> bool:
    """Whether the array's memory is a mapped file."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    return (isinstance(base, memoryview) and isinstance(base.obj, mmap.mmap)) or isinstance(base, mmap.mmap)


def arrays_of(bound: TokenProgram) -> list[np.ndarray[Any, Any]]:
    """Every array of every index and table."""
    return [
        array
        for component in bound.avoid
        for part in (component.matcher.trie, component.matcher.tables)
        for array in part.to_arrays().values()
    ]


def assert_alike(one: TokenProgram, other: TokenProgram, seed: int) -> None:
    """Random walks: the same masks and the same states, the last step and open characters included."""
    rng = random.Random(seed)
    texts = ["the price of rice is in  time", "ÜBERALL 项目 return imports", "a � b \U0001f35a rice"]
    segmenter = vocabularies.Segmenter(one.vocabulary)
    for text in texts * 4:
        a, b = one.token_session(max_tokens=64), other.token_session(max_tokens=64)
        ids = segmenter.random(text, rng) or []
        for token in [*ids, *rng.choices(range(one.vocabulary.size), k=6)]:
            assert a.masked().tolist() == b.masked().tolist()
            assert a.state == b.state
            a.advance(token)
            b.advance(token)


def files(place: Path) -> list[Path]:
    """What the cache holds."""
    return sorted(place.iterdir()) if place.exists() else []


def test_what_is_read_answers_as_what_is_built(place: Path, small: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second start reads files, builds nothing, and masks the same tokens."""
    policies = program(bans=BANS)
    built = bind(policies, small)
    assert len(files(place)) == 4  # an index and tables, case-sensitive and not
    assert not any(map(is_mapped, arrays_of(built)))

    def never(*_: object) -> NoReturn:
        raise AssertionError("built again")

    monkeypatch.setattr(VocabularyTrie, "_grow", never)
    monkeypatch.setattr(TokenTables, "_walk_nodes", never)
    read = bind(policies, small)
    assert_alike(built, read, 1)
    monkeypatch.setenv(table_cache.VARIABLE, "off")
    monkeypatch.undo()
    monkeypatch.setenv(table_cache.VARIABLE, "off")
    assert_alike(read, bind(policies, small), 2)


def test_arrays_are_mapped_and_read_only(place: Path, small: Vocabulary) -> None:
    """No array is copied into the process, and none can be written to."""
    policies = program(bans=BANS)
    bind(policies, small)
    found = arrays_of(bind(policies, small))
    large = [array for array in found if array.nbytes > 4096 and array.dtype != np.uint8]
    assert len(large) > 20
    assert all(map(is_mapped, large))
    assert not any(array.flags.writeable for array in large)


def test_several_processes_bind_at_once(place: Path) -> None:
    """Four start on an empty cache; all get the same answers, and what they leave is whole."""
    code = """
import sys
from tests import vocabularies
from tests.unit.test_table_cache import BANS
from tests.programs import program
bound = program(bans=BANS).bind(vocabularies.small())
session = bound.token_session()
print(hash(tuple(session.masked().tolist())), len(session.masked()))
"""
    vocabularies.small()
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), table_cache.VARIABLE: str(place.parent)}
    running = [
        subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    answers = [process.communicate(timeout=120)[0] for process in running]
    assert [process.returncode for process in running] == [0] * 4
    assert len(set(answers)) == 1
    assert answers[0].strip()
    assert [path.suffix for path in files(place)] == [".tables"] * 4
    again = subprocess.run([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, text=True, check=True)
    assert again.stdout == answers[0]


def test_a_forked_process_goes_on_with_what_is_mapped(place: Path, toy: Vocabulary) -> None:
    """Engines fork workers; the files may be gone by then."""
    policies = program(bans=[Phrase("rice")])
    bind(policies, toy)
    bound = bind(policies, toy)
    wanted = bound.token_session().masked().tolist()
    for path in files(place):
        path.unlink()
    child = os.fork()
    if not child:
        same = bound.token_session().masked().tolist() == wanted
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0


# -- no cache ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", ["off", "", " OFF "])
def test_switched_off(named: str, tmp_path: Path, toy: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written anywhere."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(table_cache.VARIABLE, named)
    bind(program(bans=[Phrase("rice")]), toy)
    assert files(tmp_path) == []


def test_where_it_is_without_a_name(tmp_path: Path, toy: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    """XDG_CACHE_HOME, and ~/.cache where that is not set or not absolute; only this user may look into it."""
    monkeypatch.delenv(table_cache.VARIABLE, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    bind(program(bans=[Phrase("rice")]), toy)
    assert len(files(tmp_path / "xdg" / "policyengine" / "tables")) == 2
    for other in ("", "relative/path"):
        monkeypatch.setenv("XDG_CACHE_HOME", other)
        bind(program(bans=[Phrase("rice")]), toy)
    place = tmp_path / "home" / ".cache" / "policyengine" / "tables"
    assert len(files(place)) == 2
    for path in (place, place.parent):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in files(place)} == {0o600}


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC, errno.EACCES, errno.EDQUOT])
def test_a_place_that_cannot_be_written(
    number: int, place: Path, toy: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read-only or full file system: built each time, without a word to the user."""

    def refuse(*_: object, **__: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(table_cache.tempfile, "mkstemp", refuse)
    assert bind(program(bans=[Phrase("rice")]), toy).token_session().masked().size
    assert files(place) == []


def test_a_filled_place_that_is_read_only_now_is_used(
    place: Path, toy: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache that an image brings along: the time of use cannot be noted, the files can be read."""
    policies = program(bans=[Phrase("rice")])
    bind(policies, toy)

    def refuse(*_: object, **__: object) -> NoReturn:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "utime", refuse)
    assert is_mapped(bind(policies, toy).avoid[0].matcher.trie.keys)


def test_a_disk_that_fills_up_meanwhile(place: Path) -> None:
    """The write fails half way: nothing is left behind, and binding goes on."""
    code = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
from tests import vocabularies
from tests.oracle import Phrase
from tests.programs import program
print(len(program(bans=[Phrase("rice")]).bind(vocabularies.toy()).token_session().masked()))
"""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), table_cache.VARIABLE: str(place.parent)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert int(done.stdout)
    assert done.stderr == ""
    assert files(place) == []


def test_no_folder_can_be_made(tmp_path: Path, toy: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path leads through a file; or there is no home."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(table_cache.VARIABLE, str(tmp_path / "file" / "cache"))
    assert table_cache.folder() is None
    assert bind(program(bans=[Phrase("rice")]), toy).token_session().masked().size


# -- whom to trust -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_can_write_is_refused(mode: int, place: Path, toy: Vocabulary) -> None:
    """Whoever can write tables decides what is masked."""
    policies = program(bans=[Phrase("rice")])
    bind(policies, toy)
    place.chmod(mode)
    assert table_cache.folder() is None
    assert not is_mapped(bind(policies, toy).avoid[0].matcher.trie.keys)
    place.chmod(0o700)
    assert table_cache.folder() == place


def test_a_folder_of_somebody_else_is_refused(place: Path, toy: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made by another user before we came; a folder of root, which an image brings along, is fine."""
    bind(program(bans=[Phrase("rice")]), toy)
    owner = place.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert table_cache.folder() == (place if owner == 0 else None)
    if owner == 0:
        os.chown(place, 12345, 12345)
        assert table_cache.folder() is None


def test_links_are_refused(place: Path, toy: Vocabulary, tmp_path: Path) -> None:
    """A folder or a file that leads elsewhere."""
    policies = program(bans=[Phrase("rice")])
    bind(policies, toy)
    for path in files(place):
        path.rename(tmp_path / path.name)
        path.symlink_to(tmp_path / path.name)
    assert not is_mapped(bind(policies, toy).avoid[0].matcher.trie.keys)
    assert not any(path.is_symlink() for path in files(place))  # replaced, not followed
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    assert table_cache.folder() is None


def test_a_file_that_others_can_write_is_refused(place: Path, toy: Vocabulary) -> None:
    """Also one that is no plain file, on which reading would wait for ever."""
    policies = program(bans=[Phrase("rice")])
    bind(policies, toy)
    for path in files(place):
        path.chmod(0o666)
    assert not is_mapped(bind(policies, toy).avoid[0].matcher.trie.keys)
    assert {stat.S_IMODE(path.stat().st_mode) for path in files(place)} == {0o600}  # written anew
    for path in files(place):
        path.unlink()
        os.mkfifo(path, 0o600)
    assert not is_mapped(bind(policies, toy).avoid[0].matcher.trie.keys)


# -- damage ------------------------------------------------------------------------------------------------------------


def test_every_damage_is_seen(tmp_path: Path) -> None:
    """Each byte of a small file flipped, each length cut: never read."""
    content = io.BytesIO()
    arrays = {
        "a": np.arange(5, dtype=np.int64),
        "b": np.zeros((2, 0, 3), bool),
        "c": np.array([[1, 0]], dtype=np.uint8),
    }
    size = table_files.write(content, "key", arrays)
    whole = content.getvalue()
    assert size == len(whole)
    path = tmp_path / "file"

    def read() -> dict[str, np.ndarray[Any, Any]]:
        with path.open("rb") as file:
            return table_files.read(file, "key")

    path.write_bytes(whole)
    for name, array in read().items():
        assert array.dtype == arrays[name].dtype
        assert np.array_equal(array, arrays[name])
        assert array.shape == arrays[name].shape
    for place in range(size):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        with pytest.raises(table_files.TableFileError):
            read()
    for length in range(size):
        path.write_bytes(whole[:length])
        with pytest.raises(table_files.TableFileError):
            read()
    path.write_bytes(whole + b"\0")
    with pytest.raises(table_files.TableFileError):
        read()


def test_a_file_for_another_key_is_not_used(tmp_path: Path) -> None:
    """Whole, but made from something else."""
    path = tmp_path / "file"
    with path.open("wb") as file:
        table_files.write(file, "one", {"a": np.arange(3)})
    with path.open("rb") as file, pytest.raises(table_files.TableFileError, match="something else"):
        table_files.read(file, "two")


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"[]",
        b"{}",
        b'{"key": "key", "arrays": [{}]}',
        b'{"key": "key", "arrays": [{"name": "a", "dtype": "<i8", "shape": [99999], "at": 0}]}',
        b'{"key": "key", "arrays": [{"name": "a", "dtype": "O", "shape": [1], "at": 0}]}',
        b'{"key": "key", "arrays": [{"name": "a", "dtype": "<i8", "shape": [1], "at": -8}]}',
        b"\xff",
    ],
)
def test_a_header_that_a_checksum_covers_but_makes_no_sense(header: bytes, tmp_path: Path) -> None:
    """Written by something that is not this code."""
    import hashlib

    rest = len(header).to_bytes(8, "little") + header + bytes(64)
    path = tmp_path / "file"
    path.write_bytes(table_files.MAGIC + hashlib.sha256(rest).digest() + rest)
    with path.open("rb") as file, pytest.raises(table_files.TableFileError):
        table_files.read(file, "key")


def test_only_bools_and_integers() -> None:
    """Objects would need pickle, which runs code."""
    with pytest.raises(TypeError):
        table_files.write(io.BytesIO(), "key", {"a": np.array([object()])})


@pytest.mark.parametrize("where", [0, 40, 68, 100, 0.5, -1])
def test_damaged_files_are_built_anew(where: float, place: Path, toy: Vocabulary) -> None:
    """Magic, checksum, header, arrays: the bind is as if there were no file, and leaves a good one."""
    policies = program(bans=[Phrase("rice")])
    built = bind(policies, toy)
    for path in files(place):
        content = bytearray(path.read_bytes())
        content[int(where * len(content)) if where == 0.5 else int(where)] ^= 1
        path.write_bytes(content)
    anew = bind(policies, toy)
    assert not any(map(is_mapped, arrays_of(anew)))
    assert_alike(built, anew, 3)
    assert is_mapped(bind(policies, toy).avoid[0].matcher.trie.keys)


def test_a_file_that_is_replaced_stays_with_who_mapped_it(place: Path, toy: Vocabulary) -> None:
    """Replacing is renaming: what a running process has mapped does not change under it."""
    policies = program(bans=[Phrase("rice")])
    bind(policies, toy)
    read = bind(policies, toy)
    before = [array.copy() for array in arrays_of(read)]
    for path in files(place):
        path.chmod(0o666)  # not used any more, so written anew
    bind(policies, toy)
    assert all(np.array_equal(a, b) for a, b in zip(before, arrays_of(read), strict=True))


# -- what belongs together ---------------------------------------------------------------------------------------------


def test_each_vocabulary_folding_automaton_and_code_has_its_own_files(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that decides the tables can change without another file."""
    tokens: list[bytes | None] = [b"", b"rice", b" rice", b"r", b"ice", None]
    base = Vocabulary(tokens, [0])
    others = [
        Vocabulary([b"", b"Rice", *tokens[2:]], [0]),
        Vocabulary(tokens, [0, 5]),
        Vocabulary([*tokens, None], [0]),
        Vocabulary([*tokens[:-1], b""], [0]),
    ]
    expected = 2
    bind(program(bans=[Phrase("rice")]), base)
    assert len(files(place)) == expected
    for vocabulary in others:
        bind(program(bans=[Phrase("rice")]), vocabulary)
        expected += 2
        assert len(files(place)) == expected
    for phrase in (
        Phrase("ice"),
        Phrase("rice", "prefix"),
        Phrase("rice", word_end="exact"),
        Phrase("rice", "substring"),
    ):
        bind(program(bans=[phrase]), base)
        expected += 1  # the index is there already
        assert len(files(place)) == expected
    bind(program(bans=[Phrase("rice", case="sensitive")]), base)
    expected += 2
    assert len(files(place)) == expected
    monkeypatch.setattr(table_cache, "_code_digest", lambda: "other code")
    bind(program(bans=[Phrase("rice")]), base)
    assert len(files(place)) == expected + 2


def test_arrays_of_another_vocabulary_or_automaton_are_refused(toy: Vocabulary, small: Vocabulary) -> None:
    """Should tables and what they are for be mixed up all the same, that is an error, not a mask."""
    spec = FoldSpec()
    index, other = VocabularyTrie(toy, spec), VocabularyTrie(small, spec)
    rice, beans = (program(bans=[Phrase(text)]).components[0].automaton for text in ("rice", "kidney beans"))
    with pytest.raises(ValueError, match="do not fit this vocabulary"):
        VocabularyTrie.from_arrays(small, spec, index.to_arrays())
    tables = TokenTables(rice, index).to_arrays()
    TokenTables.from_arrays(rice, index, tables)
    for automaton, trie in ((rice, other), (beans, index)):
        with pytest.raises(ValueError, match="do not fit"):
            TokenTables.from_arrays(automaton, trie, tables)
    with pytest.raises(ValueError, match="other names"):
        TokenTables.from_arrays(rice, index, {})
    with pytest.raises(ValueError, match="folded otherwise"):
        TokenTables.from_arrays(rice, VocabularyTrie(toy, FoldSpec(nfkc=False)), tables)
    assert digest_of(rice) != digest_of(beans)


def test_arrays_that_do_not_fit_are_built_anew(place: Path, toy: Vocabulary) -> None:
    """A good file, the right key, and other arrays in it: not used."""
    policies = program(bans=[Phrase("rice")])
    built = bind(policies, toy)
    for path in files(place):
        with path.open("rb") as file:
            length = int.from_bytes(file.read(72)[64:], "little")
            key = json.loads(file.read(length))["key"]
        with path.open("wb") as file:
            table_files.write(file, key, {"a": np.arange(3)})
    assert_alike(built, bind(policies, toy), 4)
    assert is_mapped(bind(policies, toy).avoid[0].matcher.trie.keys)


def test_matching_from_files_reads_characters_in_pieces(place: Path, small: Vocabulary) -> None:
    """Rests and tails, which are no plain arrays in the index, come back too."""
    policies = program(bans=[Phrase("项目", "substring"), Phrase("über")])
    bind(policies, small)
    matcher: TokenMatcher = bind(policies, small).avoid[0].matcher
    assert is_mapped(matcher.trie.keys)
    ids = {token: i for i, token in enumerate(small.tokens) if token}
    position = matcher.START
    for byte in "项目".encode()[:-1]:
        position, done = matcher.advance(position, ids[bytes([byte])])
        assert not done
    assert matcher.completes(position, ids["目".encode()[-1:]])


# -- bounds ------------------------------------------------------------------------------------------------------------


def fill(place: Path, count: int, size: int = 10) -> list[Path]:
    """Files that were last used one after the other, long ago."""
    place.mkdir(parents=True, mode=0o700)
    made = []
    for i in range(count):
        path = place / f"{i}.tables"
        path.write_bytes(bytes(size))
        os.utime(path, (1000 + i, 1000 + i))
        made.append(path)
    return made


def test_the_oldest_go_first(place: Path, toy: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    """By number; what was just written stays."""
    old = fill(place, 6)
    monkeypatch.setattr(table_cache, "MOST_FILES", 4)
    bind(program(bans=[Phrase("rice")]), toy)
    assert [path.exists() for path in old] == [False] * 4 + [True] * 2
    assert len(files(place)) == 4


def test_the_largest_sum_of_sizes(place: Path, toy: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    """By bytes; a file larger than everything together is not kept at all."""
    old = fill(place, 5, 1000)
    monkeypatch.setattr(table_cache, "MOST_BYTES", 3500)
    table_cache.make_room(place)
    assert [path.exists() for path in old] == [False, False, True, True, True]
    bind(program(bans=[Phrase("rice")]), toy)
    kept = files(place)
    assert 0 < sum(path.stat().st_size for path in kept) <= 3500
    assert not old[2].exists()


def test_use_keeps_a_file(place: Path, toy: Vocabulary, small: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    """What every start reads is not the next to go, however long ago it was written."""
    policies = program(bans=[Phrase("rice")])
    bind(policies, toy)
    first = set(files(place))
    for path in first:
        os.utime(path, (1000, 1000))
    bind(policies, small)
    second = set(files(place)) - first
    for path in second:
        os.utime(path, (2000, 2000))
    bind(policies, toy)
    monkeypatch.setattr(table_cache, "MOST_FILES", 2)
    table_cache.make_room(place)
    assert set(files(place)) == first


def test_what_a_killed_process_left_goes(place: Path) -> None:
    """Unfinished files of an hour ago; those of now may be somebody's."""
    fill(place, 1)
    old, new = place / "a.unfinished", place / "b.unfinished"
    foreign = place / "notes.txt"
    for path in (old, new, foreign):
        path.write_text("")
    past = time.time() - 7200
    os.utime(old, (past, past))
    os.utime(foreign, (past, past))
    table_cache.make_room(place)
    assert [path.name for path in files(place)] == ["0.tables", "b.unfinished", "notes.txt"]
