"""Lets vLLM's V2 model runner start on a machine without a GPU: its Triton kernels run under Triton's interpreter.

Python imports a module of this name by itself, in every process that finds it on its path. Triton's release has no
driver for CPUs, and vLLM looks for an active one; the interpreter (`TRITON_INTERPRET=1`) needs none.
"""

from __future__ import annotations

from types import SimpleNamespace

from triton.backends import backends

backends["cpu"] = SimpleNamespace(compiler=None, driver=SimpleNamespace(is_active=lambda: True))
