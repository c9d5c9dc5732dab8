"""Named arrays in one file, mapped into memory when read: what an index or bound tables are kept in.

One file, since one file is replaced by one rename: readers see all of the old one or all of the new one. Not
safetensors, whose reader copies every array and whose checks leave the data out. A file is used whole or not at all:
its checksum covers every byte after it, so that a flipped bit, a cut file and a file for another key all read as none.

    MAGIC (32 bytes) · sha256 of the rest (32) · length of the header (8, little endian) · header · padding · arrays

The header is JSON: `key`, and for each array its name, dtype (numpy's name, little endian), shape and place. Arrays
begin at multiples of 64 bytes from the beginning of the file.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

MAGIC = b"policyengine tables 1\n".ljust(32, b"\0")
_SUM = 32
_START = len(MAGIC) + _SUM + 8  # where the header begins
_ALIGN = 64
_MOST_HEADER = 1 << 20


class TableFileError(ValueError):
    """The file is none of ours, damaged, or for another key. The message never holds its content."""


def write(file: BinaryIO, key: str, arrays: Mapping[str, Array]) -> int:
    """Write a file from its beginning (seekable, empty). Returns its length in bytes; raises OSError as the file does.

    arrays: bools and integers of any shape. The key may be any text that tells what they were made from.
    """
    digest, size = hashlib.sha256(), len(MAGIC) + _SUM
    file.write(MAGIC + bytes(_SUM))
    for chunk in _chunks(key, arrays):
        digest.update(chunk)
        size += file.write(chunk)
    file.seek(len(MAGIC))
    file.write(digest.digest())
    return size


def _chunks(key: str, arrays: Mapping[str, Array]) -> Iterator[bytes | memoryview]:
    plain = {name: _little(array) for name, array in arrays.items()}
    entries, at = [], 0
    for name, array in plain.items():
        at = _aligned(at)
        entries.append({"name": name, "dtype": array.dtype.str, "shape": array.shape, "at": at})
        at += array.nbytes
    header = json.dumps({"key": key, "arrays": entries}).encode()
    header += b" " * (_aligned(_START + len(header)) - _START - len(header))
    yield len(header).to_bytes(8, "little")
    yield header
    at = 0
    for array in plain.values():
        yield bytes(_aligned(at) - at)
        if array.nbytes:
            yield array.data.cast("B")
        at = _aligned(at) + array.nbytes


def _little(array: Array) -> Array:
    if array.dtype.kind not in "biu":
        raise TypeError(f"a table holds bools and integers, not {array.dtype}")
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(array.shape)


def _aligned(at: int) -> int:
    return -(-at // _ALIGN) * _ALIGN


def read(file: BinaryIO, key: str) -> dict[str, Array]:
    """The arrays of an open file, read-only and mapped: they stay valid when the file is replaced or removed.

    Every byte is read once to check it. Raises `TableFileError`, and OSError as the file does. (A file that is cut
    while it is mapped ends the process, as for every mapped file; whoever replaces ours does so by renaming.)
    """
    size = os.fstat(file.fileno()).st_size
    if size < _START:
        raise TableFileError("too short")
    content = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    if content[: len(MAGIC)] != MAGIC:
        raise TableFileError("not a file of tables, or of another format")
    with memoryview(content) as view:
        if hashlib.sha256(view[len(MAGIC) + _SUM :]).digest() != bytes(view[len(MAGIC) : len(MAGIC) + _SUM]):
            raise TableFileError("damaged")
    length = int.from_bytes(content[_START - 8 : _START], "little")
    if length > min(_MOST_HEADER, size - _START):
        raise TableFileError("a header longer than the file")
    try:
        header = json.loads(content[_START : _START + length])
        if header["key"] != key:
            raise TableFileError("made from something else")
        return {entry["name"]: _mapped(content, _START + length, entry) for entry in header["arrays"]}
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise error if isinstance(error, TableFileError) else TableFileError("a header of another form") from error


def _mapped(content: mmap.mmap, start: int, entry: dict[str, Any]) -> Array:
    dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
    if dtype.kind not in "biu" or entry["at"] < 0:
        raise TableFileError("a header of another form")
    count = int(np.prod(shape, dtype=np.int64))
    if not count:
        return np.zeros(shape, dtype)
    flat: Array = np.frombuffer(content, dtype, count, start + entry["at"])
    return flat.reshape(shape)


__all__ = ["MAGIC", "TableFileError", "read", "write"]
