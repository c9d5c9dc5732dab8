"""An engine's configuration file that its operator has already, with our keys added to it.

The file's own text stays as it is, comments and layout too: only lines (or, in flow style, entries) are put in. What
comes out is read again and compared with what was meant, so that a file which no insertion fits is refused and never
changed in meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from policyengine.compiler.artifacts import CONFIGS, Build
from policyengine.language.diagnostics import Diagnostic, Label, PolicyError, Severity, diagnostic, quoted, visible
from policyengine.language.policyset import Span
from policyengine.language.source import Report, Source, read, top
from policyengine.runtime.program import BanPlan, Program, RewritePlan

Sources = Mapping[str, str]

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# Values of a key of ours that serve as well as the one we would write.
_AS_GOOD = {"logprobs-mode": ("processed_logprobs", "processed_logits")}

_AFTER = "runs after the hook"


@dataclass(frozen=True, slots=True)
class Unsafe:
    """A setting under which policies do not hold, or not as people may think.

    when: of the setting's value and the program, whether it is one. help: what to do.
    """

    when: Callable[[Any, Program], bool]
    message: str
    help: str
    severity: Severity = "error"


def _is_on(value: Any, _: Program) -> bool:
    return bool(value)


def _changes_text(value: Any, program: Program) -> bool:
    """Whether a parser is named, and some rule of the hook changes text without ending the answer."""
    on_hook = [
        rule for rule in program.rules if rule.mode == "enforce" and "trtllm" in program.policies[rule.policy].targets
    ]
    return bool(value) and any(
        isinstance(rule.body, RewritePlan)
        or (isinstance(rule.body, BanPlan) and rule.body.text_action.kind == "redact")
        for rule in on_hook
    )


def _has_backend(value: Any, _: Program) -> bool:
    return isinstance(value, Mapping) and value.get("backend") is not None


_PARSER = Unsafe(
    _changes_text,
    f"this parser {_AFTER}: markup inside a redaction or a rewrite is not found by it",
    "use `terminate` where tools and reasoning are parsed, or keep to phrases that no markup holds",
    "warning",
)
_STAGES = Unsafe(
    _has_backend,
    "in disaggregated serving the hook runs in both stages, each on its own: a match across the two is not seen",
    "serve without disaggregation where policies must hold at the very start of an answer",
    "warning",
)

# By target and key, spelt as the engine spells it.
UNSAFE: Mapping[str, Mapping[str, Unsafe]] = {
    "trtllm": {
        "skip_tokenizer_init": Unsafe(
            _is_on, "without its tokenizer the engine has no text for the hook, and does not start", "remove it"
        ),
        "post_processor": Unsafe(
            _is_on, "an older name of `post_processor_hook`; only one hook runs", "remove it: the policies are the hook"
        ),
        "cache_transceiver_config": _STAGES,
        "reasoning_parser": _PARSER,
        "tool_parser": _PARSER,
    },
    "vllm": {
        "skip-tokenizer-init": Unsafe(
            _is_on, "policies need the model's tokenizer, and the engine does not start without it", "remove it"
        ),
    },
}


def unsafe_settings(target: str, setting: Callable[[str], Any], program: Program) -> Iterator[tuple[str, Unsafe]]:
    """The settings of a target, by key, under which policies do not hold. setting: of a key, its value or None."""
    for name, unsafe in UNSAFE[target].items():
        if unsafe.when(setting(name), program):
            yield name, unsafe


@dataclass(frozen=True, slots=True)
class Merged:
    """A file with our keys in it. found: what it holds that is worth a warning; sources: its text, for rendering."""

    content: bytes
    found: tuple[Diagnostic, ...]
    sources: Mapping[str, str]


def merged(made: Build, program: Program, files: Mapping[str, str]) -> tuple[Build, tuple[Diagnostic, ...], Sources]:
    """A build whose configurations are those of the given files (target to path) with its own keys added.

    Also returns what the files hold that is worth a warning, and their texts. Raises PolicyError as `merge` does, for
    all files together.
    """
    tree = dict(made.tree)
    found: list[Diagnostic] = []
    wrong: list[Diagnostic] = []
    sources: dict[str, str] = {}
    for target, path in files.items():
        name = CONFIGS[target][0]
        try:
            one = merge(made.tree[name], path, target, program)
        except PolicyError as error:
            wrong += error.diagnostics
            sources |= error.sources
            continue
        tree[name] = one.content
        found += one.found
        sources |= one.sources
    if wrong:
        raise PolicyError([*wrong, *found], sources)
    return replace(made, tree=tree), tuple(found), sources


def merge(ours: bytes, path: str, target: str, program: Program) -> Merged:
    """The file at a path with the configuration that a compile would write for a target.

    A list of ours is added to the end of the file's own. Raises PolicyError where the file cannot be read, says
    something else under a key of ours, or holds what no policy would survive.
    """
    report = Report()
    source = read(Path(path), visible(path), report)
    if source is None:
        raise PolicyError(report.diagnostics, report.sources)
    merger = _Merger(source, report, ours, target, program)
    content = merger.run()
    if content is None or any(one.severity == "error" for one in merger.found):
        raise PolicyError([*report.diagnostics, *merger.found], report.sources)
    return Merged(content.encode("utf-8"), tuple(merger.found), report.sources)


class _Merger:
    def __init__(self, source: Source, report: Report, ours: bytes, target: str, program: Program) -> None:
        self.found: list[Diagnostic] = []
        self._source, self._report, self._target, self._program = source, report, target, program
        self._text = source.text
        self._ours: dict[str, Any] = yaml.safe_load(ours)
        self._comments = "".join(line + "\n" for line in ours.decode("utf-8").splitlines() if line.startswith("#"))
        self._inserts: list[tuple[int, str]] = []  # place in the text, and what to put there

    def run(self) -> str | None:
        """The merged text; None where the file cannot be read as a mapping, which is reported."""
        try:
            root = yaml.compose(self._text, Loader=Loader)
            values = yaml.load(self._text, Loader=Loader)  # the safe loader, as in the engines
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            span = self._source.span(mark.index, mark.index + 1) if mark else top(self._source.name)
            self._report.add("yaml-syntax", visible(error.problem or "this is not YAML"), span)
            return None
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            self._report.add("yaml-syntax", visible(str(error).split("\n")[0]), top(self._source.name))
            return None
        if root is not None and not (isinstance(root, yaml.MappingNode) and isinstance(values, dict)):
            if values is not None:
                self._report.add("wrong-type", "an engine's configuration is a mapping", self._span(root))
                return None
            root = None
        entries = self._entries(root) if root is not None else {}
        self._look_for_unsafe(entries, values or {})
        wanted = dict(values or {})
        missing = {}
        for key, value in self._ours.items():
            entry = entries.get(key)
            if entry is None:
                missing[key] = wanted[key] = value
                continue
            name = entry[0].value
            theirs = wanted[name]
            if isinstance(value, list):
                wanted[name] = self._extend(entry, theirs, value)
            elif theirs != value and theirs not in _AS_GOOD.get(key, ()):
                self._conflict(entry, value)
        if missing:
            self._add(root, missing)
        return self._finished(wanted)

    def _entries(self, root: Any) -> dict[str, tuple[Any, Any]]:
        """Key to its nodes, by the engine's own spelling."""
        found: dict[str, tuple[Any, Any]] = {}
        for key, value in root.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            name = self._spelt(key.value)
            if name in found and name in {*self._ours, *UNSAFE[self._target]}:
                first = Label(self._span(found[name][0]), "first here")
                message = f"{quoted(key.value)} is written twice"
                self._find("config-conflict", message, self._span(key), "merge the two", labels=(first,))
            found.setdefault(name, (key, value))
        return found

    def _spelt(self, key: str) -> str:
        """vLLM takes hyphens and underscores alike."""
        return key.replace("_", "-") if self._target == "vllm" else key

    def _look_for_unsafe(self, entries: Mapping[str, tuple[Any, Any]], values: Mapping[Any, Any]) -> None:
        for name, unsafe in UNSAFE[self._target].items():
            entry = entries.get(name)
            if entry is not None and unsafe.when(values.get(entry[0].value), self._program):
                self._find("config-unsafe", unsafe.message, self._span(entry[0]), unsafe.help, unsafe.severity)

    def _conflict(self, entry: tuple[Any, Any], value: Any) -> None:
        what = f"{quoted(entry[0].value)} must be `{value}` for the policies to hold"
        self._find("config-conflict", what, self._span(entry[1]), "remove the key: it is written for you")

    def _find(
        self, name: str, message: str, span: Span, hint: str, severity: Severity | None = None, labels: Any = ()
    ) -> None:
        self.found.append(diagnostic(name, message, span, hint=hint, severity=severity, labels=labels))

    def _span(self, node: Any) -> Span:
        """A node's place; of a block that goes over several lines the first one."""
        start, end = node.start_mark, node.end_mark
        if end.line > start.line:
            line = self._source.lines[start.line + 1].rstrip()
            return Span(self._source.name, start.line + 1, start.column + 1, start.line + 1, len(line) + 1)
        return self._source.span(start.index, end.index)

    # -- putting text in -------------------------------------------------------------------------------------------

    def _extend(self, entry: tuple[Any, Any], theirs: Any, ours: list[Any]) -> list[Any]:
        """Add to a list of the file what it lacks of ours; returns the list that is meant."""
        node = entry[1]
        if isinstance(theirs, str):  # one name in place of a list
            more = [one for one in ours if one != theirs]
            if more:
                self._inserts += [(node.start_mark.index, "["), (node.end_mark.index, f", {_flow(more)}]")]
            return [theirs, *more]
        if not isinstance(theirs, list):
            self._conflict(entry, f"a list that holds {', '.join(map(str, ours))}")
            return ours
        more = [one for one in ours if one not in theirs]
        if more and node.flow_style:
            comma = ", " if node.value else ""
            at = node.value[-1].end_mark.index if node.value else node.start_mark.index + 1
            self._inserts.append((at, comma + _flow(more)))
        elif more:
            indent = " " * node.start_mark.column
            lines = "".join(f"{indent}- {_flow([one])}\n" for one in more)
            self._inserts.append(self._below(node.value[-1].end_mark, lines))
        return [*theirs, *more]

    def _below(self, mark: Any, lines: str) -> tuple[int, str]:
        """Whole lines below the one in which something ends."""
        # A block's end is where the next thing begins; what ends in a line of its own ends there.
        at = mark.index if mark.column == 0 else self._text.find("\n", mark.index) + 1
        if at <= 0 or (at == len(self._text) and not self._text.endswith("\n")):
            return len(self._text), "\n" + lines
        return at, lines

    def _add(self, root: Any, missing: Mapping[str, Any]) -> None:
        if root is not None and root.flow_style:
            text = "".join(f"{key}: {_value(value)}, " for key, value in missing.items())
            self._inserts.append((root.start_mark.index + 1, text if root.value else text[:-2]))
            return
        indent = " " * (root.value[0][0].start_mark.column if root is not None else 0)
        lines = "".join(f"{indent}{line}\n" for line in self._comments.splitlines())
        lines += "".join(f"{indent}{key}: {_value(value)}\n" for key, value in missing.items())
        closed = root is not None and self._text[root.end_mark.index :].startswith(("...", "---"))
        at = root.end_mark.index if closed else len(self._text)
        open_line = at > 0 and not self._text[:at].endswith("\n")
        gap = "\n" if open_line and all(place != at for place, _ in self._inserts) else ""
        self._inserts.append((at, gap + lines))

    def _finished(self, wanted: Mapping[Any, Any]) -> str | None:
        text = self._text
        # From the end, so that places stay true; what goes to one place keeps its order.
        ordered = sorted(self._inserts, key=lambda insert: insert[0])
        while ordered:
            place, added = ordered.pop()
            text = text[:place] + added + text[place:]
        if self.found and any(one.severity == "error" for one in self.found):
            return text
        try:
            read_again = yaml.load(text, Loader=Loader)
        except yaml.YAMLError:
            read_again = None
        if read_again != wanted:
            hint = "write the file as plain `key: value` lines, or copy our lines into it by hand"
            self._find(
                "config-conflict", "nothing can be added to this file as it is laid out", top(self._source.name), hint
            )
        return text


def _value(value: Any) -> str:
    return f"[{_flow(value)}]" if isinstance(value, list) else _scalar(value)


def _flow(values: list[Any]) -> str:
    return ", ".join(_scalar(value) for value in values)


def _scalar(value: Any) -> str:
    """A scalar as YAML of any version reads it: module paths with a colon in quotes."""
    text = str(value)
    return f'"{text}"' if ":" in text else text
