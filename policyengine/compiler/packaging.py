"""What makes a folder of modules a distribution: RECORD, and the wheel with fixed times."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Mapping

_WHEEL = b"Wheel-Version: 1.0\nGenerator: policyengine\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can hold
_UNIX, _FILE_MODE = 3, 0o100644


def record(files: Mapping[str, bytes], own: str) -> bytes:
    """The RECORD of these files, by path; `own` is its own path, which has neither hash nor size."""
    lines = [f"{path},sha256={_hash(files[path])},{len(files[path])}" for path in sorted(files)]
    return "".join(f"{line}\n" for line in [*lines, f"{own},,"]).encode("utf-8")


def wheel(files: Mapping[str, bytes], info: str) -> bytes:
    """A wheel of these files, `info` being the folder of its metadata: the same files give the same bytes.

    Nothing is compressed, since what a compressor writes depends on its version.
    """
    content = {**files, f"{info}/WHEEL": _WHEEL}
    content[f"{info}/RECORD"] = record(content, f"{info}/RECORD")
    first = [path for path in content if not path.startswith(info)]  # metadata comes last, as the format advises
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for path in [*sorted(first), *sorted(set(content) - set(first))]:
            entry = zipfile.ZipInfo(path, _EPOCH)
            entry.create_system, entry.external_attr = _UNIX, _FILE_MODE << 16
            archive.writestr(entry, content[path])
    return buffer.getvalue()


def _hash(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode("ascii")
