"""What lints look at: the policies, what compiling made of them, and their text."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from policyengine.compiler.work import Work
from policyengine.language import nodes
from policyengine.language.files import tests_in
from policyengine.language.policyset import Ban, Bias, Phrase, PhraseOptions, Policy, PolicySet, Rule, Span
from policyengine.language.source import Report, Source
from policyengine.runtime.program import Component, Program

if TYPE_CHECKING:
    from policyengine.automata.vocabulary import Vocabulary
    from policyengine.language.test_files import Test, TestFile
    from policyengine.lint.ignores import Ignore


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern of a component. `rule`: its rank, as in `Work.rules`; `number`: its id in the automaton."""

    component: Component
    number: int
    rule: int
    phrase: Phrase


@dataclass(eq=False)
class Checked:
    """Policies that compile, and everything that is known of them. Made once a check; what is asked for is kept.

    paths: what was given to check. project_file: as people see it; empty where there is none. left_out: the files
    that something is wrong with.
    """

    policies: PolicySet
    work: Work
    program: Program
    paths: Sequence[str | os.PathLike[str]] = ()
    project_file: str = ""
    vocabulary: Vocabulary | None = None
    ignores: Sequence[Ignore] = ()
    left_out: frozenset[str] = frozenset()
    _sources: dict[str, Source] = field(default_factory=dict)
    _trees: dict[str, nodes.Mapping | None] = field(default_factory=dict)

    @property
    def sources(self) -> Mapping[str, str]:
        """The text of every file, by its name: policies, lists of phrases, the project file."""
        return self.policies.sources

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The names of the files that may be looked into: those that nothing is wrong with."""
        return tuple(name for name in sorted(self.sources) if name not in self.left_out)

    @cached_property
    def yaml_files(self) -> frozenset[str]:
        """The names of the policies, and of the project file."""
        names = {policy.file for policy in self.policies.policies}
        return frozenset(names | ({self.project_file} if self.project_file else set()))

    def rules(self) -> Iterator[tuple[Policy, Rule]]:
        """Every rule with its policy, in the order of the files."""
        for policy in self.policies.policies:
            for rule in policy.rules:
                yield policy, rule

    def phrases(self) -> Iterator[tuple[Rule, Phrase, PhraseOptions]]:
        """Every phrase that is looked for: of bans, of biases and before a force; exceptions are not among them."""
        for _, rule in self.rules():
            body = rule.body
            if isinstance(body, Ban):
                for phrase in body.phrases:
                    yield rule, phrase, body.options
            elif isinstance(body, Bias):
                for phrase, _ in body.phrases:
                    yield rule, phrase, body.options

    def patterns(self, *uses: str) -> Iterator[Pattern]:
        """Every pattern of the components of these uses."""
        for component, phrases in zip(self.work.components, self.work.patterns, strict=True):
            if component.use in uses:
                for number, phrase in enumerate(phrases):
                    yield Pattern(component, number, component.rules[number], phrase)

    def name(self, rule: int) -> str:
        """`policy/rule` of a rank."""
        return self.work.name(self.work.sources[rule])

    def is_shared(self, file: str) -> bool:
        """Whether a file is a list of phrases that more than one rule may read, or one that could not be looked at."""
        if file in self.yaml_files:
            return False
        return bool(self.left_out) or self._readers[os.path.realpath(file)] > 1

    @cached_property
    def _readers(self) -> Counter[str]:
        """By the real path of a file: how many rules have phrases in it."""
        found: Counter[str] = Counter()
        for _, rule in self.rules():
            files = {phrase.span.file for phrase in rule.body.phrases} if isinstance(rule.body, Ban) else set()
            found.update({os.path.realpath(file) for file in files})
        return found

    def acts(self, rule: Rule) -> bool:
        """Whether a rule changes outputs at all; one that only watches does not."""
        source = next(one for one in self.work.sources if one.rule is rule)
        return self.work.together(source, source)

    def source(self, file: str) -> Source:
        """A file's text and its lines."""
        if file not in self._sources:
            self._sources[file] = Source(file, Path(file), self.sources[file])
        return self._sources[file]

    def place(self, span: Span) -> tuple[int, int]:
        """Where a span starts and ends in the text of its file, in code points."""
        lines = self.source(span.file).lines
        return lines.index(span.line, span.column), lines.index(span.end_line, span.end_column)

    def written(self, span: Span) -> str:
        """What stands in the file at a span."""
        start, end = self.place(span)
        return self.sources[span.file][start:end]

    def tree(self, file: str) -> nodes.Mapping | None:
        """The YAML of a file; None for other files. Composed when it is first asked for."""
        if file not in self._trees:
            is_yaml = file in self.yaml_files
            self._trees[file] = nodes.compose(self.source(file), Report()) if is_yaml else None
        return self._trees[file]

    def scalars(self, file: str) -> Iterator[tuple[nodes.Scalar, bool]]:
        """Every scalar of a YAML file, in order, and whether it is a key."""
        tree = self.tree(file)
        return _scalars(tree, False) if tree else iter(())

    @cached_property
    def tests(self) -> tuple[TestFile, ...]:
        """The test files beside the policies, as far as they can be read."""
        folders = {Path(path) for path in self.paths if os.path.isdir(path)}
        folders |= {Path(policy.file).parent for policy in self.policies.policies}
        paths = list(tests_in(sorted(folders)))
        if not paths:
            return ()

        from policyengine.language.test_files import read_tests

        found = (read_tests(path, Report()) for path in paths)
        return tuple(one for one in found if one is not None)

    @cached_property
    def tests_by_path(self) -> Mapping[str, Sequence[Test]]:
        """By the real path of a policy or folder: the tests of the files that name it."""
        found: dict[str, list[Test]] = {}
        for file in self.tests:
            for path in file.policies:
                found.setdefault(os.path.realpath(path), []).extend(file.tests)
        return found


def _scalars(node: nodes.Node, is_key: bool) -> Iterator[tuple[nodes.Scalar, bool]]:
    if isinstance(node, nodes.Scalar):
        yield node, is_key
    elif isinstance(node, nodes.Sequence):
        for item in node.items:
            yield from _scalars(item, False)
    elif isinstance(node, nodes.Mapping):
        for key, value in node.entries.values():
            yield key, True
            yield from _scalars(value, False)
