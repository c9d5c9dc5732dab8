"""A comment that ignores what is not found.

The finding was mended, the comment stands on another line, or it names something that cannot be ignored: errors cannot.
It would hide the next finding that comes to stand there. Remove it.

Wrong:

    rules:
      names: {ban: {phrases: [Sure]}}  # policyengine: ignore[edge-whitespace] only behind a space

Right:

    rules:
      names: {ban: {phrases: [Sure]}}
"""

from __future__ import annotations

from collections.abc import Iterator

from policyengine.language import codes
from policyengine.language.diagnostics import quoted
from policyengine.lint.checked import Checked
from policyengine.lint.ignores import Ignore
from policyengine.lint.model import Edit, Finding, Fix
from policyengine.lint.registry import LINTS, names
from policyengine.lint.removing import whole_line
from policyengine.lint.selection import near


def findings(checked: Checked) -> Iterator[Finding]:
    """One a name in a comment, and one a comment without names. What needs a vocabulary and had none may be there."""
    unasked = {one.name for one in LINTS if one.needs == "vocabulary" and checked.vocabulary is None}
    known = {text.lower(): name for pair in names().items() for text, name in ((pair[0], pair[1]), (pair[1], pair[1]))}
    for ignore in checked.ignores:
        if not ignore.names:
            hint = "name what is ignored: `# policyengine: ignore[name] reason`"
            yield Finding("this comment names nothing to ignore", ignore.span, hint)
        unused = [one for one in ignore.names if one not in ignore.used and known.get(one.lower()) not in unasked]
        for name in unused if ignore.reason else ():
            fix = _fix(checked, ignore) if len(unused) == len(ignore.names) and name == unused[0] else None
            meant = known.get(name.lower())
            if meant is None:
                yield Finding(f"there is no diagnostic {quoted(name)}", ignore.span, near(name), fix=fix)
            elif (code := codes.find(meant)) is not None and code.severity == "error":
                hint = "mend what it is about; only advice can be ignored"
                yield Finding(f"{quoted(meant)} is an error, and errors cannot be ignored", ignore.span, hint, fix=fix)
            else:
                yield Finding(f"there is no {quoted(meant)} here to ignore", ignore.span, "remove it", fix=fix)


def _fix(checked: Checked, ignore: Ignore) -> Fix:
    file, text = ignore.span.file, checked.sources[ignore.span.file]
    edit = whole_line(text, file, ignore.start, ignore.end, "")
    start = ignore.start
    while edit is None and text[start - 1] in " \t":
        start -= 1
    return Fix("removed a comment that ignored nothing", (edit or Edit(file, start, ignore.end),), safe=True)
