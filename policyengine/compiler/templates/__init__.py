"""The texts of generated files, as Jinja2 templates beside this module."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined


def render(template: str, **values: Any) -> bytes:
    """A template with its values, as UTF-8."""
    return _environment().get_template(template).render(**values).encode("utf-8")


def _cell(text: str) -> str:
    """Text inside a cell of a Markdown table: on one line, nothing of it read as Markdown or HTML."""
    line = " ".join(text.split())
    for sign in ("\\", "|", "`", "*", "_", "[", "]", "<", ">"):
        line = line.replace(sign, "\\" + sign)
    return line


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_source),
        undefined=StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        newline_sequence="\n",
    )
    environment.filters["cell"] = _cell
    return environment


def _source(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
