"""Regular expressions as a policy writes them: checked when they are read, with the place inside the pattern."""

from __future__ import annotations

import re
import warnings
from functools import lru_cache

from policyengine.automata.regex_errors import ExpressionError, NotRegularError, TooLargeError
from policyengine.language import limits
from policyengine.language.diagnostics import quoted
from policyengine.language.nodes import Scalar
from policyengine.language.phrases import CONTROL
from policyengine.language.policyset import Expression, Span
from policyengine.language.reading import Reading

_ESCAPES = {"\t": "\\t", "\n": "\\n", "\v": "\\v", "\f": "\\f", "\r": "\\r", "\b": "\\b"}


def read_expression(node: Scalar, text: str, reading: Reading, *, masks: bool) -> Expression | None:
    """An expression at `node`, its variables replaced; None where it cannot be used, which is reported.

    masks: whether tokens are masked by it, for which it must be regular.
    """
    span = node.span(reading.source)
    if not text:
        reading.report.add("invalid-regex", "the expression is empty", span, hint="remove it, or write what to match")
        return None
    if len(text) > limits.EXPRESSION_LENGTH.default:
        message = f"more than {limits.EXPRESSION_LENGTH.default:,} {limits.EXPRESSION_LENGTH.unit}"
        reading.report.add("over-limit", message, span, hint=limits.EXPRESSION_LENGTH.reason)
        return None
    control = CONTROL.search(text)
    if control:
        message = f"{quoted(text)} holds the control character U+{ord(control[0]):04X}"
        reading.report.add("control-character", message, span, hint=control_hint(control[0]))
        return None
    error = _problem(text)
    if error is None:
        return Expression(text, span, regular=True)
    if not isinstance(error, NotRegularError):
        code = "over-limit" if isinstance(error, TooLargeError) else "invalid-regex"
        place = _place(node, text, error.position, reading)
        reading.report.add(code, f"{quoted(text)}: {error.message}", place, hint=error.hint or None)
        return None
    if masks:
        message = f"{quoted(text)} is not regular, so that no token can be masked for it: {error.message}"
        hint = error.hint or "use a text action: redact, terminate or block"
        reading.report.add("irregular-regex", message, _place(node, text, error.position, reading), hint=hint)
        return None
    return _irregular(node, text, reading)


@lru_cache(maxsize=4096)
def _problem(text: str) -> ExpressionError | None:
    """What keeps an expression from being compiled."""
    from policyengine.automata.regex_dfa import Expressions  # most policies hold no expression, and load sooner

    try:
        Expressions.compile([text])
    except ExpressionError as error:
        return error
    return None


def _irregular(node: Scalar, text: str, reading: Reading) -> Expression | None:
    import regex

    if _expanded(text) > limits.EXPRESSION_EXPANDED.default:
        message = f"more than {limits.EXPRESSION_EXPANDED.default:,} {limits.EXPRESSION_EXPANDED.unit}"
        reading.add("over-limit", message, node, hint=limits.EXPRESSION_EXPANDED.reason)
        return None
    odd = _ODD.search(text)
    if odd:
        message = f"{quoted(text)}: {quoted(odd[0])} is no syntax of Python's `re`, and would mean something else here"
        hint = "put a backslash before the first character if it stands for itself"
        reading.report.add("invalid-regex", message, _place(node, text, odd.start(), reading), hint=hint)
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about syntax that may mean something else in a later release
            compiled = regex.compile(text)
            # It knows more than the language promises: what `re` refuses is refused, `\p{...}` aside.
            re.compile(_PROPERTY.sub(r"\\d", text))
    except (re.error, regex.error) as error:
        place = _place(node, text, getattr(error, "pos", None) or 0, reading)
        reading.report.add("invalid-regex", f"{quoted(text)}: {getattr(error, 'msg', error)}", place)
        return None
    except (ValueError, OverflowError, RecursionError, MemoryError) as error:
        reading.add("invalid-regex", f"{quoted(text)}: {error}", node)
        return None
    if compiled.fullmatch(""):
        hint = "let it match at least one character"
        reading.add("invalid-regex", f"{quoted(text)} matches the empty text, which stands everywhere", node, hint=hint)
        return None
    return Expression(text, node.span(reading.source), regular=False)


_PROPERTY = re.compile(r"\\[pP]\{[^{}]*\}")
# What `regex` reads as errors that a match may have, or as a class of POSIX, and `re` as characters.
_ODD = re.compile(r"(?<!\\)(?:(?<!\\[pPN])\{[^{}]*[eids<][^{}]*\}|\[\[:\^?\w+:\])")
_TIMES = re.compile(r"\{([0-9]*)(?:,([0-9]*))?\}")
_SET = re.compile(r"\[\^?\]?(?:[^\]\\]|\\.)*\]?", re.DOTALL)


def _expanded(text: str) -> int:
    """About how many characters a pattern has with its counted repeats written out, which is what compiling does."""
    totals, last, at = [0], 0, 0  # by open group: the parts before the last one; and the size of that
    while at < len(text):
        times = _TIMES.match(text, at)
        if times:
            last *= max([1, *(int(digits[:9]) for digits in times.groups() if digits)])
            at = times.end()
            continue
        if text[at] == ")" and len(totals) > 1:
            last += totals.pop()
            at += 1
            continue
        totals[-1] += last
        last = 1
        if text[at] == "(":
            totals.append(0)
            last = 0
        in_set = _SET.match(text, at)
        at = in_set.end() if in_set else at + 1 + (text[at] == "\\")
    return sum(totals) + last


def control_hint(control: str) -> str:
    """What to write in a pattern in place of a control character."""
    if control == "\b":
        return "in double quotes YAML reads `\\b` as a backspace; use single quotes"
    escape = _ESCAPES.get(control, f"\\x{ord(control):02x}")
    return f"write `{escape}` in single quotes, which YAML leaves as it is"


def _place(node: Scalar, text: str, position: int, reading: Reading) -> Span:
    """One character of a pattern, where it stands in the file as it is; else the whole value."""
    whole = node.span(reading.source)
    raw = reading.source.text[node.start.index : node.end.index]
    quotes = 1 if node.style else 0
    inner = raw[quotes : len(raw) - quotes]
    if node.style == "'":
        position += text[:position].count("'")
        inner = inner.replace("''", "'")
    if inner != text or whole.line != whole.end_line or position > len(text) + raw.count("''"):
        return whole
    column = whole.column + quotes + position
    return Span(whole.file, whole.line, column, whole.line, column + 1)
