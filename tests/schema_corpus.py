"""Policies, project files and policy tests that the language takes, and ones that it refuses for their shape.

What is refused for its meaning alone (an undeclared parameter, a default out of its own limits) is not here: a JSON
Schema cannot say it.
"""

from __future__ import annotations

from tests.schema_rules import BAD_RULES, GOOD_RULES

HEAD = "version: 1\npolicy: p\n"
PARAMETERS = (
    "parameters: {t: {type: token_id}, n: {type: integer, ge: 0}, w: {type: number}, s: {type: string}}\nrules:\n"
)
RULE = "rules: {a: {min_tokens: 1}}\n"

# -- whole policies ---------------------------------------------------------------------------------------------------

GOOD_POLICIES = (
    *(f"{HEAD}{PARAMETERS}  a: {rule}\n" for rule in GOOD_RULES),
    HEAD + RULE,
    f"version: 1\npolicy: {'a' * 100}\n{RULE}",
    f"version: 1\npolicy: '0-9'\n{RULE}",
    *(HEAD + f"activation: {value}\n{RULE}" for value in ("always", "on_request")),
    *(HEAD + f"targets: [{value}]\n{RULE}" for value in ("vllm", "trtllm-llm", "trtllm, vllm, trtllm-llm")),
    *(HEAD + f"{key}: ''\n{RULE}" for key in ("description", "owner")),
    HEAD + "mode: shadow\n" + RULE,
    HEAD + "description: |\n  Two\n  lines.\nowner: no\nmode: enforce\n" + RULE,
    HEAD + "parameters: {}\n" + RULE,
    *(
        HEAD + f"parameters: {{p: {value}}}\n" + RULE
        for value in (
            "{type: token_id}",
            "{type: token_id, default: 0, description: ''}",
            "{type: token_id, default: 2147483647}",
            "{type: integer}",
            "{type: integer, ge: -5, le: 5, default: 0}",
            "{type: integer, default: 9007199254740992}",
            "{type: number}",
            "{type: number, ge: -0.5, le: 1, default: 0.25}",
            "{type: string}",
            "{type: string, default: '', max_length: 1}",
            "{type: string, choices: ['yes', no, '3'], default: no}",
        )
    ),
    *(HEAD + f"parameters: {{{name}: {{type: number}}}}\n" + RULE for name in ("_", "a-b", "A9", "a" * 100)),
    *(HEAD + f"rules: {{{name}: {{min_tokens: 1}}}}\n" for name in ("no", "-", "_x", "9a", "a.b-c_d", "A" * 100)),
)

BAD_POLICIES = (
    *(f"{HEAD}{PARAMETERS}  a: {rule}\n" for rule in BAD_RULES),
    HEAD,
    "policy: p\n" + RULE,
    "version: 1\n" + RULE,
    RULE,
    *(f"version: {value}\npolicy: p\n{RULE}" for value in ("2", "'1'", "0", "true", "~", "[1]", "1.5", "one")),
    *(
        f"version: 1\npolicy: {value}\n{RULE}"
        for value in ("''", "A", "a b", "a_b", "é", "3", "~", "[a]", "a/b", "a" * 101, "true")
    ),
    *(HEAD + f"rules: {value}\n" for value in ("{}", "[]", "~", "a", "3", "[{min_tokens: 1}]")),
    *(HEAD + f"rules: {{{name}: {{min_tokens: 1}}}}\n" for name in ("''", "'a b'", ".a", "a/b", "é", "a" * 101)),
    *(HEAD + f"activation: {value}\n{RULE}" for value in ("never", "Always", "true", "~", "[always]", "assigned")),
    *(HEAD + f"targets: {value}\n{RULE}" for value in ("[]", "vllm", "~", "[vlm]", "[vllm, vllm]", "[1]", "{vllm: 1}")),
    *(
        HEAD + f"{key}: {value}\n{RULE}"
        for key in ("description", "owner")
        for value in ("3", "true", "~", "[a]", "{}")
    ),
    *(HEAD + f"mode: {value}\n{RULE}" for value in ("Shadow", "on", "~", "1")),
    *(HEAD + f"{key}: 1\n{RULE}" for key in ("Policy", "rule", "unknown", "lint", "variables", "reasoning")),
    *(
        HEAD + f"parameters: {value}\n" + RULE
        for value in ("[]", "~", "a", "{p: }", "{p: integer}", "{p: []}", "{p: {}}")
    ),
    *(
        HEAD + f"parameters: {{p: {value}}}\n" + RULE
        for value in (
            "{type: int}",
            "{type: }",
            "{type: [integer]}",
            "{default: 3}",
            "{type: token_id, default: -1}",
            "{type: token_id, default: '3'}",
            "{type: token_id, ge: 0}",
            "{type: token_id, default: }",
            "{type: integer, default: 0.5}",
            "{type: integer, ge: '0'}",
            "{type: integer, le: ~}",
            "{type: integer, max_length: 3}",
            "{type: integer, default: 9007199254740993}",
            "{type: integer, default: true}",
            "{type: number, default: '1'}",
            "{type: number, choices: [1]}",
            "{type: string, default: 3}",
            "{type: string, max_length: 0}",
            "{type: string, max_length: 65537}",
            "{type: string, choices: []}",
            "{type: string, choices: [1]}",
            "{type: string, choices: [a, a]}",
            "{type: string, choices: abc}",
            "{type: string, ge: 0}",
            "{type: string, description: 3}",
            "{type: string, required: true}",
        )
    ),
    *(
        HEAD + f"parameters: {{{name}: {{type: number}}}}\n" + RULE
        for name in ("''", "9a", "'a b'", "a.b", "é", "policies", "policyengine_assigned", "a" * 101)
    ),
)

# -- project files ----------------------------------------------------------------------------------------------------

GOOD_PROJECTS = (
    "version: 1\n",
    "version: 1\ntargets: [vllm]\n",
    "version: 1\ntargets: [vllm, trtllm, trtllm-llm]\npackage: acme_rules\nmax_hold: 1\n",
    "version: 1\nmax_hold: 1048576\n",
    "version: 1\nvariables: {}\n",
    "version: 1\nvariables: {name: no, _x: '', a-b: 'two words'}\n",
    "version: 1\nreasoning: {start: <think>, end: </think>}\n",
    'version: 1\nreasoning: {start: "<|channel|>analysis\\n", end: no}\n',
    "version: 1\nlint: {select: [PE1xx, no-owner], ignore: [pe101], fail_level: info}\n",
    "version: 1\nlint: {}\n",
)

BAD_PROJECTS = (
    "targets: [vllm]\n",
    "version: 2\n",
    *(f"version: 1\ntargets: {value}\n" for value in ("[]", "vllm", "[tpu]", "[vllm, vllm]", "~")),
    *(f"version: 1\npackage: {value}\n" for value in ("a-b", "9a", "''", "3", "~", "a.b", "a" * 101)),
    *(f"version: 1\nvariables: {value}\n" for value in ("[]", "~", "{a: 3}", "{a: }", "{9a: x}", "{'a b': x}")),
    *(f"version: 1\nmax_hold: {value}\n" for value in ("0", "-1", "1048577", "'1'", "1.5", "true", "~")),
    *(
        f"version: 1\nreasoning: {value}\n"
        for value in (
            *("{}", "~", "<think>", "[a, b]", "{start: a}", "{end: b}", "{start: '', end: b}", "{start: ' ', end: b}"),
            *("{start: 1, end: b}", "{start: a, end: b, name: c}", "{start: " + "a" * 101 + ", end: b}"),
        )
    ),
    *(f"version: 1\n{key}: {{}}\n" for key in ("assignments", "rules", "policy", "unknown")),
    *(
        f"version: 1\nlint: {value}\n"
        for value in (
            "~",
            "[]",
            "{select: []}",
            "{ignore: PE101}",
            "{fail_level: fatal}",
            "{level: error}",
            "{select: [1]}",
        )
    ),
)

# -- policy tests -----------------------------------------------------------------------------------------------------

_TESTS = "version: 1\npolicies: [p.yaml]\n"

GOOD_TESTS = (
    "version: 1\n"
    "policies: [brand-safety.yaml]\n"
    "tests:\n"
    "  codename-is-caught: {text: 'We call it Project  Titan.', verdict: terminate, output: 'We call it ',"
    " rules: [brand-safety/codenames]}\n"
    "  plain-talk: {chunks: [Tit, anic], request: {}, verdict: pass}\n",
    *(
        _TESTS + f"tests: {{a: {{text: a, verdict: {verdict}}}}}\n"
        for verdict in ("pass", "redact", "terminate", "block", "rewrite")
    ),
    _TESTS + "tests: {a: {text: '', verdict: pass, output: '', rules: []}}\n",
    _TESTS + "tests: {a: {chunks: ['', no], verdict: pass, todo: 'needs confusables'}}\n",
    _TESTS + "tests: {a: {text: a, verdict: pass, request: {policies: [x], n: 3, t: [1], u: ~}}}\n",
    "version: 1\npolicies: [., ../a/b.yaml]\ntests: {a.b: {text: a, verdict: block, rules: [p/a, q/b.c]}}\n",
)

BAD_TESTS = (
    _TESTS,
    "version: 1\ntests: {a: {text: a, verdict: pass}}\n",
    "policies: [p.yaml]\ntests: {a: {text: a, verdict: pass}}\n",
    *(
        f"version: 1\npolicies: {value}\ntests: {{a: {{text: a, verdict: pass}}}}\n"
        for value in ("[]", "p.yaml", "[3]", "['']")
    ),
    *(
        _TESTS + f"tests: {value}\n"
        for value in ("{}", "[]", "~", "{a: }", "{a: b}", "{'a b': {text: a, verdict: pass}}")
    ),
    _TESTS + "unknown: 1\ntests: {a: {text: a, verdict: pass}}\n",
    *(
        _TESTS + f"tests: {{a: {case}}}\n"
        for case in (
            "{}",
            "{text: a}",
            "{verdict: pass}",
            "{text: a, chunks: [a], verdict: pass}",
            "{text: a, verdict: passed}",
            "{text: a, verdict: avoid}",
            "{text: a, verdict: }",
            "{text: 3, verdict: pass}",
            "{text: , verdict: pass}",
            "{chunks: a, verdict: pass}",
            "{chunks: [], verdict: pass}",
            "{chunks: [1], verdict: pass}",
            "{text: a, verdict: pass, output: 3}",
            "{text: a, verdict: pass, rules: p/a}",
            "{text: a, verdict: pass, rules: [a]}",
            "{text: a, verdict: pass, rules: [P/a]}",
            "{text: a, verdict: pass, rules: [p/a/b]}",
            "{text: a, verdict: pass, request: []}",
            "{text: a, verdict: pass, request: }",
            "{text: a, verdict: pass, todo: ''}",
            "{text: a, verdict: pass, todo: true}",
            "{text: a, verdict: pass, expected: pass}",
        )
    ),
)
