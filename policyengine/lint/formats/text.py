"""For people: each finding with its source line, and a summary."""

from __future__ import annotations

import re

from policyengine.language.diagnostics import Severity
from policyengine.language.render import render
from policyengine.lint.formats import summary
from policyengine.lint.run import Result

_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"
_COLOURS = {"error": "\x1b[1;31m", "warning": "\x1b[1;33m", "info": "\x1b[1;36m"}
_HEAD = re.compile(r"^(error|warning|info)(\[PE\d{3} [a-z-]+\])(:.*)$")
_CARETS = re.compile(r"^( *\| *)(\^+|-+)(.*)$")


def write(result: Result, level: Severity) -> str:
    """Plain text; see `painted`."""
    shown = render(result.diagnostics, result.sources)
    return f"{shown}\n\n{summary(result)}\n" if shown else f"{summary(result)}\n"


def painted(text: str) -> str:
    """The same for a terminal, in colours: severities, and what is underlined."""
    lines, colour = [], ""
    for line in text.split("\n"):
        if head := _HEAD.match(line):
            colour = _COLOURS[head[1]]
            line = f"{colour}{head[1]}{head[2]}{_PLAIN}{_BOLD}{head[3]}{_PLAIN}"
        elif carets := _CARETS.match(line):
            line = f"{carets[1]}{colour if carets[2][0] == '^' else _BOLD}{carets[2]}{carets[3]}{_PLAIN}"
        elif line.lstrip().startswith(("-->", ":::")):
            line = f"{_DIM}{line}{_PLAIN}"
        lines.append(line)
    return "\n".join(lines)
