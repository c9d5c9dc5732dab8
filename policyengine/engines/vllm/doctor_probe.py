"""Asks the installed vLLM, in a process of its own, what it is and whether it can load a class. Starts no engine.

Run as a script with the class's name (`module:Class`): it must find what vLLM would find, so nothing of this package is
imported here. The last line of its output is `MARK` and one JSON object.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import entry_points
from typing import Any

MARK = "policyengine doctor: "
GROUPS = ("vllm.logits_processors", "vllm.general_plugins")


def main(name: str) -> None:
    """Print what there is to know."""
    from vllm.platforms import current_platform
    from vllm.triton_utils import HAS_TRITON
    from vllm.version import __version__

    points = [(point.group, point.name, point.value) for group in GROUPS for point in entry_points(group=group)]
    unloadable, digest = _load(name)
    found = {
        "version": __version__,
        "device": "tpu" if current_platform.is_tpu() else current_platform.device_type,
        "triton": bool(HAS_TRITON),
        "entry_points": sorted(set(points)),
        "unloadable": unloadable,
        "digest": digest,
    }
    sys.stdout.write(f"\n{MARK}{json.dumps(found)}\n")


def _load(name: str) -> tuple[dict[str, str], str]:
    """Why vLLM's own loaders do not take the class, by model runner, and the digest of the bundle behind it.

    A runner that takes it is not in the first; the second is empty where none does.
    """
    found: dict[str, str] = {}
    classes: list[Any] = []
    try:
        from vllm.v1.sample.logits_processor import _load_logitsprocs_by_fqcns as load_v1

        classes += load_v1([name])
    except Exception as error:
        found["v1"] = _why(error)
    try:
        from vllm.v1.worker.gpu.sample.logits_processor.loader import _load_v2_logitsprocs_by_fqcns as load_v2

        classes += load_v2([name])
    except Exception as error:
        found["v2"] = _why(error)
    try:
        digest = json.loads((classes[0].bundle / "manifest.json").read_bytes())["digest"]
    except (IndexError, AttributeError, OSError, ValueError, KeyError, TypeError):
        digest = ""
    return found, str(digest)


def _why(error: BaseException) -> str:
    """The first line of what is at the bottom of it."""
    last: Any = error
    while last.__cause__ is not None:
        last = last.__cause__
    lines = str(last).splitlines()
    return f"{type(last).__name__}: {lines[0] if lines else ''}"


if __name__ == "__main__":
    main(sys.argv[1])
