"""Starts vLLM's real OpenAI server on the CPU, as a user would, and stops everything it started."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from openai import AsyncOpenAI, OpenAI

ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
# A small machine: no compilation, and a memory check that tolerates neighbours.
FLAGS = ("--enforce-eager", "--dtype=float32", "--max-model-len=512", "--gpu-memory-utilization=0.4")
START_LIMIT = 240  # seconds; about 20 on a quiet machine
MODEL_NAME = "tiny"
V2_SITE = Path(__file__).with_name("v2_site")


class ServerFailedError(RuntimeError):
    """The server ended before it was ready; the text is its log."""


@dataclass(frozen=True)
class Server:
    """A running server."""

    base_url: str
    log_file: Path

    def client(self) -> OpenAI:
        """A client that neither retries nor waits for ever."""
        return OpenAI(base_url=f"{self.base_url}/v1", api_key="none", timeout=120, max_retries=0)

    def async_client(self) -> AsyncOpenAI:
        """The same for many requests at once."""
        return AsyncOpenAI(base_url=f"{self.base_url}/v1", api_key="none", timeout=120, max_retries=0)

    def log(self) -> str:
        """What the server wrote so far."""
        return self.log_file.read_text(errors="replace")

    def healthy(self) -> bool:
        """Whether the server and its engine answer."""
        try:
            with urllib.request.urlopen(f"{self.base_url}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def environment(python_path: Path | None, *, v2: bool = False) -> dict[str, str]:
    """The environment of an engine: the current one, offline, with `python_path` as its only PYTHONPATH.

    v2: the V2 model runner, whose kernels run under Triton's interpreter here (see `v2_site/sitecustomize.py`): slow,
    and the kernels of the engine itself, so answers must be few and short.
    """
    variables = {**os.environ, **ENVIRONMENT}
    variables.pop("PYTHONPATH", None)
    paths = [python_path] if python_path is not None else []
    if v2:
        paths.append(V2_SITE)
        variables |= {"VLLM_USE_V2_MODEL_RUNNER": "1", "TRITON_INTERPRET": "1"}
    if paths:
        variables["PYTHONPATH"] = os.pathsep.join(map(str, paths))
    return variables


def stop_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and all it started; it must lead its own process group."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            continue
        time.sleep(0.5)  # the engine's own process ends after the server's
    process.wait(timeout=15)


def run_to_end(command: Sequence[str], folder: Path, *, python_path: Path, limit: float) -> tuple[int | None, str]:
    """Run a command that starts an engine: its exit status (None: it ran past `limit` seconds) and what it wrote."""
    log_file = folder / "command.log"
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment(python_path), stdout=log, stderr=log, start_new_session=True
        )
        try:
            status: int | None = process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            stop_group(process)
    return status, log_file.read_text(errors="replace")


def compiled(policies: Path, build: Path, *options: str) -> Path:
    """The artifacts of a file or folder of policies, made by the command as a user would; returns their folder."""
    command = [sys.executable, "-m", "policyengine", "compile", str(policies), "-o", str(build), *options]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return build


@contextmanager
def running(
    model: Path, folder: Path, *, python_path: Path | None = None, flags: Sequence[str] = (), v2: bool = False
) -> Iterator[Server]:
    """A server on a free port, ready to answer. Its log and working directory are in `folder`. v2: as in `environment`.

    Raises ServerFailedError with the log if it does not become ready.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
        *(f"--model={model}", f"--served-model-name={MODEL_NAME}", "--host=127.0.0.1", f"--port={port}"),
        *FLAGS,
        *flags,
    ]
    log_file = folder / "server.log"
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment(python_path, v2=v2), stdout=log, stderr=log, start_new_session=True
        )
        server = Server(f"http://127.0.0.1:{port}", log_file)
        try:
            limit = time.monotonic() + START_LIMIT
            while not server.healthy():
                if process.poll() is not None or time.monotonic() > limit:
                    raise ServerFailedError(server.log())
                time.sleep(0.3)
            yield server
        finally:
            stop_group(process)
