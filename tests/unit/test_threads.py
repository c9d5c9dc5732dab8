"""Threads: which matches are found where, by hand, and as what."""

from __future__ import annotations

import pytest

from policyengine.automata.folding import FoldSpec
from policyengine.automata.gap_phrases import Gaps
from policyengine.automata.threads import BEFORE, NOW, ThreadAutomaton

SPEC = FoldSpec(collapse=False)


def automaton(*phrases: str, gaps: Gaps, match: str = "word", exceptions: tuple[str, ...] = ()) -> ThreadAutomaton:
    return ThreadAutomaton.from_phrases(
        SPEC,
        phrases,
        gaps=gaps,
        left_edge=[match != "substring"] * len(phrases),
        right_edge=[match == "word"] * len(phrases),
        eager=[True] * len(phrases),
        exceptions=exceptions,
    )


def found(threads: ThreadAutomaton, text: str) -> list[tuple[str, int]]:
    """Every match as it is reported: its text, and how many characters were read by then (the end counts as one)."""
    state, spans, result = threads.START, list[tuple[int, int]](), []
    for at, ch in enumerate(text):
        (symbol,) = threads.folding.table[ch]
        reading = threads.read(state, threads.anchored.column(symbol))

        def span(thread: int, end: int, at: int = at, spans: list[tuple[int, int]] = spans) -> tuple[int, int]:
            start = at if thread < 0 else spans[thread][0]
            return start, at + 1 if end == NOW else at if end == BEFORE else spans[thread][1]

        result += [(span(hit.thread, hit.end), at + 1) for hit in reading.hits]
        spans = [span(kept.thread, kept.end) for kept in reading.kept]
        state = reading.state
    for hit in threads.at_end(state):
        start, end = spans[hit.thread]
        result.append(((start, len(text) if hit.end == BEFORE else end), len(text) + 1))
    return [(text[start:end], when) for (start, end), when in result]


@pytest.mark.parametrize(
    ("gaps", "match", "phrases", "exceptions", "text", "expected"),
    [
        pytest.param("spaces", "word", ["in the"], [], "in \n the.", [("in \n the", 9)], id="a run of white space"),
        pytest.param("spaces", "word", ["in the"], [], "in-the", [], id="spaces: nothing else stands for it"),
        pytest.param("punctuation", "word", ["in the"], [], "in, the", [("in, the", 8)], id="punctuation in a gap"),
        pytest.param("punctuation", "word", ["in the"], [], "inthe", [], id="a gap is not empty"),
        pytest.param("punctuation", "word", ["in the"], [], "i-n the", [], id="punctuation: not between letters"),
        pytest.param("letters", "word", ["in the"], [], "i.n - t_he", [("i.n - t_he", 11)], id="between letters"),
        pytest.param("letters", "word", ["in"], [], "i.n.n", [("i.n", 4)], id="letters: none twice"),
        pytest.param("letters", "word", ["in"], [], "i.ne", [], id="letters: the edge is still asked for"),
        pytest.param("letters", "substring", ["in"], [], "xi..ny", [("i..n", 5)], id="letters: anywhere"),
        pytest.param("letters", "prefix", ["a-b"], [], "a-b a b a--b", [("a-b", 3), ("a--b", 12)], id="written out"),
        pytest.param("literal", "substring", ["a"], ["ba"], "a ba", [("a", 1)], id="except: inside"),
        pytest.param("literal", "substring", ["a"], ["ab"], "ab ac", [("a", 5)], id="except: told apart later"),
        pytest.param("literal", "substring", ["a"], ["ab"], "a", [("a", 2)], id="except: until the end"),
        pytest.param("literal", "substring", ["ab"], ["bc"], "abc", [("ab", 2)], id="except: it overlaps only"),
        pytest.param("literal", "substring", ["a"], ["a"], "aa", [], id="except: itself"),
        pytest.param("spaces", "word", ["rice"], ["rice bowl"], "rice  bowl", [], id="except: with a gap"),
        pytest.param("spaces", "word", ["rice"], ["rice bowl"], "rice bowls", [("rice", 10)], id="except: of a word"),
        pytest.param(
            *("letters", "substring", ["._"], ["_a._."], "._ _._.", [("._", 2), ("._ _", 4), ("._ _._", 6)]),
            id="of matches with one end, the earliest",
        ),
    ],
)
def test_matches(
    gaps: Gaps, match: str, phrases: list[str], exceptions: list[str], text: str, expected: list[tuple[str, int]]
) -> None:
    threads = automaton(*phrases, gaps=gaps, match=match, exceptions=tuple(exceptions))
    assert found(threads, text) == expected


@pytest.mark.parametrize(
    ("expression", "text", "expected"),
    [
        pytest.param("ab*", "xabb", [("a", 2), ("ab", 3), ("abb", 4)], id="at each place where it may end"),
        pytest.param("a[bc]*d", "aabcd", [("abcd", 5)], id="the earliest start that still stands"),
        pytest.param("^a", "aa", [("a", 1)], id="the start of the output"),
        pytest.param("a$", "aa", [("a", 3)], id="the end of the output"),
        pytest.param(r"a\b", "aa a", [("a", 3), ("a", 5)], id="an edge shows with the next symbol, or the end"),
        pytest.param(r"a.\b", "a- a-", [("a-", 2), ("a-", 5)], id="an edge that nothing can follow without"),
        pytest.param(r"a.\b", "ab a", [("ab", 3)], id="the same expression where it must be waited for"),
        pytest.param(r"\Ba", "ba a", [("a", 2)], id="no edge"),
    ],
)
def test_expressions(expression: str, text: str, expected: list[tuple[str, int]]) -> None:
    assert found(ThreadAutomaton.from_expressions([expression]), text) == expected
