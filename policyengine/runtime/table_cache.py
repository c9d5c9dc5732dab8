"""Where indexes and bound tables are kept between starts: files by the digest of all that they were made from.

A cache and nothing more: whatever is wrong with it (no room, a read-only or missing folder, a damaged file, two
processes at once) costs time, and a line in the debug log. It is trusted with what is masked, so nobody else may be
able to write to it: the folder and its files belong to this user or to root, and others have no right to write them.

`POLICYENGINE_CACHE_DIR` says where; without it `$XDG_CACHE_HOME/policyengine`, or `~/.cache/policyengine`. Empty or
`off`: nothing is read or written.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from policyengine.automata import table_files
from policyengine.automata.folding import FoldSpec
from policyengine.automata.phrases import PhraseAutomaton
from policyengine.automata.table_files import Array
from policyengine.automata.token_tables import TokenTables, digest_of
from policyengine.automata.vocabulary import Vocabulary
from policyengine.automata.vocabulary_trie import VocabularyTrie

_log = logging.getLogger("policyengine.cache")

VARIABLE = "POLICYENGINE_CACHE_DIR"
MOST_FILES = 64
MOST_BYTES = 2 << 30
_SUFFIX, _UNFINISHED = ".tables", ".unfinished"
_ABANDONED = 3600.0  # seconds after which an unfinished file is nobody's any more
_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def index(vocabulary: Vocabulary, spec: FoldSpec) -> VocabularyTrie:
    """The index of a vocabulary under a folding: from the cache, or built and left there."""
    place = folder()
    if place is None:
        return VocabularyTrie(vocabulary, spec)
    key = _index_key(vocabulary, spec)
    arrays = load(place, key)
    if arrays is not None:
        with _or_anew(key):
            return VocabularyTrie.from_arrays(vocabulary, spec, arrays)
    trie = VocabularyTrie(vocabulary, spec)
    store(place, key, trie.to_arrays())
    return trie


def tables(automaton: PhraseAutomaton, trie: VocabularyTrie) -> TokenTables:
    """The tables of an automaton on an index of a vocabulary: from the cache, or built and left there."""
    place = folder()
    if place is None:
        return TokenTables(automaton, trie)
    key = f"{_index_key(trie.vocabulary, automaton.spec)} with automaton {digest_of(automaton)}"
    arrays = load(place, key)
    if arrays is not None:
        with _or_anew(key):
            return TokenTables.from_arrays(automaton, trie, arrays)
    bound = TokenTables(automaton, trie)
    store(place, key, bound.to_arrays())
    return bound


@contextlib.contextmanager
def _or_anew(key: str) -> Iterator[None]:
    """Go on behind the block where the arrays of a file do not fit what they are for."""
    try:
        yield
    except ValueError as error:
        _log.debug("not used: %s: %s", key, error)


def _index_key(vocabulary: Vocabulary, spec: FoldSpec) -> str:
    """What an index is made from, and by which code."""
    steps = " ".join(name for name, on in spec.to_json().items() if on)
    return f"code {_code_digest()} vocabulary {vocabulary.digest} folded ({steps})"


@cache
def _code_digest() -> str:
    """sha256, hex, of the code and the data that make indexes and tables: with other code, old files are no match.

    So nobody has to remember to count a version up. Empty where the sources are not there to be read.
    """
    digest = hashlib.sha256()
    here = Path(table_files.__file__).parent
    sources = sorted(here.glob("*.py"))
    if not sources:
        return ""
    for path in [*sources, *sorted(here.glob("*.bin"))]:
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


# -- files -------------------------------------------------------------------------------------------------------------


def folder() -> Path | None:
    """Where the files are; made if it is missing. None: there is no cache, for a reason that the debug log tells."""
    named = os.environ.get(VARIABLE)
    if named is not None and named.strip().lower() in ("", "off"):
        return None
    if os.name != "posix" or not _code_digest():
        _log.debug("no cache of tables: not on a system, or in a package, of this kind")
        return None
    try:
        base = Path(named) if named else _home()
        place = base.expanduser().absolute() / "tables"
        try:
            found = place.lstat()
        except FileNotFoundError:
            base.expanduser().mkdir(mode=0o700, parents=True, exist_ok=True)
            place.mkdir(mode=0o700, exist_ok=True)
            found = place.lstat()
    except (OSError, RuntimeError) as error:  # RuntimeError: no home directory
        _log.debug("no cache of tables: %s", error)
        return None
    if not stat.S_ISDIR(found.st_mode) or not _is_ours(found):
        _log.debug("no cache of tables: %s is no folder that only this user can write to", place)
        return None
    return place


def _home() -> Path:
    named = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(named) if Path(named).is_absolute() else Path.home() / ".cache") / "policyengine"


def _is_ours(found: os.stat_result) -> bool:
    """Whether nobody but this user and root can write there."""
    return found.st_uid in (os.geteuid(), 0) and not found.st_mode & _BY_OTHERS


def _name(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:40] + _SUFFIX


def load(place: Path, key: str) -> dict[str, Array] | None:
    """The arrays kept under a key, mapped and read-only; None where there are none that can be used."""
    path = place / _name(key)
    try:
        with open(path, "rb", opener=_open_plain) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or not _is_ours(found):
                _log.debug("not used: %s can be written by others", path)
                return None
            arrays = table_files.read(file, key)
    except FileNotFoundError:
        return None
    except (OSError, table_files.TableFileError) as error:
        _log.debug("not used: %s: %s", path, error)
        return None
    with contextlib.suppress(OSError):
        os.utime(path)  # used now, so not the next to go
    return arrays


def _open_plain(path: str, flags: int) -> int:
    # No links, and no waiting should it be a pipe.
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def store(place: Path, key: str, arrays: Mapping[str, Array]) -> None:
    """Keep arrays under a key, for the next start; whole or not at all. Who has an older file mapped keeps that."""
    unfinished = None
    try:
        number, unfinished = tempfile.mkstemp(suffix=_UNFINISHED, dir=place)  # 0600
        with os.fdopen(number, "wb") as file:
            size = table_files.write(file, key, arrays)
            if size > MOST_BYTES:
                return
        os.replace(unfinished, place / _name(key))
        unfinished = None
    except OSError as error:
        _log.debug("not kept in %s: %s", place, error)
    finally:
        if unfinished is not None:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)
    make_room(place)


def make_room(place: Path) -> None:
    """Remove what was not used for longest until the rest is within `MOST_FILES` and `MOST_BYTES`."""
    try:
        found = [(entry.name, entry.stat(follow_symlinks=False)) for entry in os.scandir(place)]
    except OSError as error:  # another process may have removed one meanwhile: it makes room itself
        _log.debug("no look at the size of %s: %s", place, error)
        return
    gone = [name for name, s in found if name.endswith(_UNFINISHED) and time.time() - s.st_mtime > _ABANDONED]
    kept = sorted(((s.st_mtime_ns, name, s.st_size) for name, s in found if name.endswith(_SUFFIX)), reverse=True)
    total = 0
    for place_in_line, (_, name, size) in enumerate(kept):
        total += size
        if place_in_line and (place_in_line >= MOST_FILES or total > MOST_BYTES):
            gone.append(name)
    for name in gone:
        with contextlib.suppress(OSError):
            os.unlink(place / name)


__all__ = ["VARIABLE", "folder", "index", "load", "make_room", "store", "tables"]
