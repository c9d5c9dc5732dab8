"""Parameters: their types, their limits, and whether they fit where they are used."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from policyengine.language import Diagnostic, PolicySet

Said = Callable[..., list[tuple[str, str]]]


def policy(parameter: str, rule: str = "{ban: {phrases: [x]}}", name: str = "p") -> str:
    return f"version: 1\npolicy: {name}\nparameters:\n  x: {parameter}\nrules:\n  a: {rule}\n"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{type: token_id}", {"type": "token_id", "default": None}),
        ("{type: token_id, default: 7, description: which}", {"default": 7, "description": "which"}),
        ("{type: integer, ge: -5, le: 5, default: 0}", {"type": "integer", "ge": -5, "le": 5, "default": 0}),
        ("{type: number, ge: -0.5, le: 3, default: 1}", {"type": "number", "ge": -0.5, "le": 3, "default": 1}),
        ("{type: string}", {"type": "string", "max_length": None, "choices": None}),
        ("{type: string, max_length: 3, choices: [no, on], default: no}", {"choices": ("no", "on"), "default": "no"}),
    ],
)
def test_the_four_types(written: str, expected: dict[str, object], read: Callable[..., PolicySet]) -> None:
    """With limits, default and description."""
    found = read(policy(written)).policies[0].parameters["x"]
    assert found.name == "x"
    assert found.span.line == 4
    assert {key: getattr(found, key) for key in expected} == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{}", ("missing-key", "x")),
        ("{type: int}", ("invalid-value", "int")),
        ("{type: [integer]}", ("invalid-value", "[integer]")),
        ("{type: }", ("wrong-type", "type")),
        ("integer", ("wrong-type", "integer")),
        ("", ("wrong-type", "x")),
        ("{type: integer, max_length: 3}", ("unknown-key", "max_length")),
        ("{type: integer, min: 3}", ("unknown-key", "min")),
        ("{type: token_id, default: -1}", ("invalid-value", "-1")),
        ("{type: token_id, default: 2147483648}", ("invalid-value", "2147483648")),
        ("{type: integer, default: 1.5}", ("wrong-type", "1.5")),
        ("{type: integer, default: '1'}", ("wrong-type", "'1'")),
        ("{type: integer, default: true}", ("wrong-type", "true")),
        ("{type: integer, le: 99999999999999999999}", ("invalid-value", "99999999999999999999")),
        ("{type: integer, ge: 2, le: 1}", ("default-out-of-limits", "ge")),
        ("{type: integer, ge: 2, default: 1}", ("default-out-of-limits", "default")),
        ("{type: integer, le: 2, default: 3}", ("default-out-of-limits", "default")),
        ("{type: number, default: .inf}", ("invalid-value", ".inf")),
        ("{type: number, ge: .nan}", ("invalid-value", ".nan")),
        ("{type: number, le: 1e999}", ("invalid-value", "1e999")),
        ("{type: string, choices: []}", ("invalid-value", "[]")),
        ("{type: string, choices: [yes, 1]}", ("wrong-type", "1")),
        ("{type: string, choices: [a, a]}", ("invalid-value", "[a, a]")),
        ("{type: string, choices: [a], default: b}", ("default-out-of-limits", "default")),
        ("{type: string, max_length: 2, default: abc}", ("default-out-of-limits", "default")),
        ("{type: string, max_length: 2, choices: [abc]}", ("default-out-of-limits", "choices")),
        ("{type: string, max_length: 0}", ("invalid-value", "0")),
    ],
)
def test_wrong_declarations(written: str, expected: tuple[str, str], said: Said) -> None:
    """Each at its key or value, and nothing about the rules that use it."""
    assert said(policy(written, "{min_tokens: {param: x}}")) == [expected]


@pytest.mark.parametrize("name", ["1x", "a b", "policies", "policyengine_assigned", "é", "x" * 101])
def test_names_that_a_request_cannot_pass(name: str, errors: Callable[..., list[Diagnostic]]) -> None:
    """Or that mean something else there."""
    (one,) = errors(
        f"version: 1\npolicy: p\nparameters: {{{name}: {{type: integer}}}}\nrules: {{a: {{rewrite: {{to: upper}}}}}}\n"
    )
    assert one.name in ("invalid-value", "reserved-parameter")


@pytest.mark.parametrize(
    ("parameter", "rule", "limits"),
    [
        ("{type: token_id}", "{force: {token_id: {param: x}, at: every}}", (None, None)),
        ("{type: integer}", "{min_tokens: {param: x}}", (0, 2**31 - 1)),
        ("{type: integer, ge: 3}", "{min_tokens: {param: x}}", (3, 2**31 - 1)),
        ("{type: number}", "{bias: {token_ids: {1: {param: x}}}}", (-100, 100)),
        ("{type: integer, le: 5}", "{bias: {phrases: {y: {param: x}}}}", (-100, 5)),
        ("{type: number, ge: -100, le: 100}", "{bias: {phrases: {y: {param: x}}}}", (-100, 100)),
    ],
)
def test_limits_left_out_are_those_of_the_use(
    parameter: str, rule: str, limits: tuple[int | None, int | None], read: Callable[..., PolicySet]
) -> None:
    """So no request can pass a bias of 1e30 where the file could not say it."""
    found = read(policy(parameter, rule)).policies[0].parameters["x"]
    assert (found.ge, found.le) == limits


@pytest.mark.parametrize(
    ("parameter", "rule"),
    [
        ("{type: integer}", "{force: {token_id: {param: x}, at: every}}"),
        ("{type: token_id}", "{min_tokens: {param: x}}"),
        ("{type: number}", "{min_tokens: {param: x}}"),
        ("{type: string}", "{bias: {token_ids: {1: {param: x}}}}"),
        ("{type: token_id}", "{bias: {token_ids: {1: {param: x}}}}"),
        ("{type: integer, ge: -1}", "{min_tokens: {param: x}}"),
        ("{type: integer, default: -1}", "{min_tokens: {param: x}}"),
        ("{type: integer, le: -1}", "{min_tokens: {param: x}}"),
        ("{type: number, le: 100.5}", "{bias: {token_ids: {1: {param: x}}}}"),
        ("{type: number, default: 101}", "{bias: {token_ids: {1: {param: x}}}}"),
    ],
)
def test_a_parameter_that_does_not_fit(parameter: str, rule: str, errors: Callable[..., list[Diagnostic]]) -> None:
    """Said where it is used; the declaration is shown with it."""
    (one,) = errors(policy(parameter, rule))
    assert one.name == "parameter-misfit"
    assert (one.span.line, [label.span.line for label in one.labels]) == (6, [4])


@pytest.mark.parametrize(
    ("parameter", "rule", "message"),
    [
        (
            "{type: integer, default: 3000000000}",
            "{min_tokens: {param: x}}",
            "the default of `x` goes beyond what `min_tokens` takes: 0 to 2147483647",
        ),
        (
            "{type: integer, ge: -1}",
            "{min_tokens: {param: x}}",
            "the limits of `x` go beyond what `min_tokens` takes: 0 to 2147483647",
        ),
        (
            "{type: number, default: 101}",
            "{bias: {token_ids: {1: {param: x}}}}",
            "the default of `x` goes beyond what a bias takes: -100 to 100",
        ),
    ],
)
def test_a_misfit_says_what_fits(
    parameter: str, rule: str, message: str, errors: Callable[..., list[Diagnostic]]
) -> None:
    """In digits that can be copied."""
    assert [one.message for one in errors(policy(parameter, rule))] == [message]


def test_undeclared(said: Said) -> None:
    """At the name; every use."""
    rule = "{bias: {phrases: {y: {param: z}}, token_ids: {1: {param: zz}, 2: {param: x}}}}"
    assert said(policy("{type: number}", rule)) == [("undeclared-parameter", "z"), ("undeclared-parameter", "zz")]


def test_a_parameter_belongs_to_its_policy(said: Said) -> None:
    """Another file's declaration is not seen."""
    files = {
        "a.yaml": policy("{type: integer}"),
        "b.yaml": "version: 1\npolicy: q\nrules: {a: {min_tokens: {param: x}}}\n",
    }
    assert said(files) == [("undeclared-parameter", "x")]


def test_two_policies_share_a_name_only_with_one_type(
    errors: Callable[..., list[Diagnostic]], read: Callable[..., PolicySet]
) -> None:
    """Both places are shown."""
    files = {"a.yaml": policy("{type: integer}"), "b.yaml": policy("{type: number}", name="q")}
    (one,) = errors(files)
    assert one.name == "parameter-type-conflict"
    assert (one.span.file, one.labels[0].span.file) == ("b.yaml", "a.yaml")
    assert len(read({**files, "b.yaml": policy("{type: integer, le: 3}", name="q")}).policies) == 2


def test_two_policies_with_one_name(errors: Callable[..., list[Diagnostic]]) -> None:
    """Both places are shown, and a third gets its own."""
    text = policy("{type: integer}")
    first, second = errors({"a.yaml": text, "b/a.yaml": text, "c.yaml": text})
    assert {first.name, second.name} == {"duplicate-policy"}
    assert [one.span.file for one in (first, second)] == ["b/a.yaml", "c.yaml"]
    assert {one.labels[0].span.file for one in (first, second)} == {"a.yaml"}
