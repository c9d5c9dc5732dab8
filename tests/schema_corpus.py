"""Policies, project files and policy tests that the language takes, and ones that it refuses for their shape.

What is refused for its meaning alone (an undeclared parameter, a default out of its own limits) is not here: a JSON
Schema cannot say it.
"""

from __future__ import annotations

HEAD = "version: 1\npolicy: p\n"
PARAMETERS = (
    "parameters: {t: {type: token_id}, n: {type: integer, ge: 0}, w: {type: number}, s: {type: string}}\nrules:\n"
)
RULE = "rules: {a: {min_tokens: 1}}\n"

# -- rules, each the only one of a policy with the parameters t, n, w and s -------------------------------------------

GOOD_RULES = (
    # bans
    "{ban: {phrases: [a]}}",
    "{ban: {phrases: [no, on, 12:30, 1_000, 2024-01-01, <<, =]}}",
    "{ban: {phrases: ['42', '1e3', 'true', '~', '[INST]', ' leading', 'é', '使用', 'a\u00a0b']}}",
    "{ban: {phrases: [a, a]}}",
    "{ban: {phrases: [a], match: word}}",
    "{ban: {phrases: [a], match: prefix, case: sensitive, gaps: literal, normalize: [], word_end: exact}}",
    "{ban: {phrases: [a], match: substring, case: insensitive, gaps: spaces, word_end: eager}}",
    "{ban: {phrases: [a], normalize: [nfkc]}}",
    "{ban: {phrases: [a], normalize: [marks, invisible, nfkc, nfkc]}}",
    "{ban: {phrases_from: list.txt}}",
    "{ban: {phrases_from: ./list.txt, match: prefix}}",
    "{ban: {phrases: [a], phrases_from: list.txt}}",
    "{ban: {token_ids: [0]}}",
    "{ban: {token_ids: [1, 1, 2147483647, 0x10, 0o17]}}",
    # actions
    *(f"{{ban: {{phrases: [a]}}, action: {action}}}" for action in ("avoid", "redact", "terminate", "block")),
    *(f"{{ban: {{phrases: [a]}}, action: {{{action}: ''}}}}" for action in ("redact", "block")),
    "{ban: {phrases: [a]}, action: {terminate: leaked}}",
    "{ban: {phrases: [a]}, action: {terminate: {reason: leaked}}}",
    "{ban: {phrases: [a]}, action: {terminate: {message: ''}}}",
    "{ban: {phrases: [a]}, action: {terminate: {reason: leaked, message: Stopped.}}}",
    *(f"{{ban: {{phrases: [a]}}, fallback: {action}}}" for action in ("redact", "terminate", "block")),
    "{ban: {phrases: [a]}, fallback: {redact: x}}",
    "{ban: {phrases: [a]}, fallback: {terminate: {message: x}}}",
    "{ban: {phrases: [a]}, action: avoid, fallback: {block: x}}",
    "{ban: {token_ids: [1]}, action: avoid}",
    # forces
    "{force: {text: 'Answer: ', at: start}}",
    "{force: {text: ' ', at: 0}}",
    "{force: {text: no, at: 2147483647}}",
    "{force: {token_id: 0, at: every}}",
    "{force: {token_id: 5, at: start}}",
    "{force: {token_id: {param: t}, at: 3}}",
    # lengths, biases, rewrites
    "{min_tokens: 0}",
    "{min_tokens: 2147483647}",
    "{min_tokens: {param: n}}",
    "{bias: {phrases: {delve: -4, in conclusion: -2.5, no: 1, '42': 0, 12:30: 100}}}",
    "{bias: {phrases: {a: {param: w}}, match: prefix}}",
    "{bias: {phrases: {a: 1}, token_ids: {0: -100, 2147483647: 1e1}, case: sensitive}}",
    "{bias: {token_ids: {5: {param: w}}}}",
    *(f"{{rewrite: {{to: {to}}}}}" for to in ("upper", "lower", "nothing")),
    # what every kind may have
    *(
        f"{{min_tokens: 1, when: {{device: [{device}]}}}}"
        for device in ("cpu", "cuda", "hpu", "mps", "npu", "tpu", "xpu")
    ),
    "{rewrite: {to: upper}, when: {device: [cuda, cpu, cuda]}}",
    "{force: {token_id: 1, at: 0}, mode: enforce}",
    "{bias: {token_ids: {1: 1}}, mode: enforce, when: {device: [cpu]}}",
)

BAD_RULES = (
    "~",
    "[]",
    "ban",
    "3",
    "{}",
    "{when: {device: [cpu]}}",
    "{banned: {phrases: [a]}}",
    "{phrases: [a]}",
    "{ban: {phrases: [a]}, force: {text: a, at: start}}",
    "{min_tokens: 1, rewrite: {to: upper}, bias: {token_ids: {1: 1}}}",
    "{ban: {phrases: [a]}, unknown: 1}",
    # bans
    "{ban: }",
    "{ban: []}",
    "{ban: [a]}",
    "{ban: a}",
    "{ban: {}}",
    "{ban: {match: word}}",
    "{ban: {phrasess: [a]}}",
    "{ban: {phrases: }}",
    "{ban: {phrases: []}}",
    "{ban: {phrases: a}}",
    "{ban: {phrases: {a: 1}}}",
    *(f"{{ban: {{phrases: [a, {item}]}}}}" for item in ("42", "1e3", "true", "~", "[INST]", "{a: b}", "0123", ".inf")),
    *(
        f'{{ban: {{phrases: ["{item}"]}}}}'
        for item in ("", " ", r"\t", r"\u3000", r"\bword\b", r"a\nb", r"\0", r"\x85")
    ),
    "{ban: {phrases: [" + "a" * 4097 + "]}}",
    "{ban: {phrases: [a], match: words}}",
    "{ban: {phrases: [a], match: Word}}",
    "{ban: {phrases: [a], match: [word]}}",
    "{ban: {phrases: [a], match: }}",
    "{ban: {phrases: [a], case: true}}",
    "{ban: {phrases: [a], gaps: space}}",
    "{ban: {phrases: [a], normalize: nfkc}}",
    "{ban: {phrases: [a], normalize: [nfc]}}",
    "{ban: {phrases: [a], normalize: ~}}",
    "{ban: {phrases: [a], word_end: 1}}",
    "{ban: {phrases_from: }}",
    "{ban: {phrases_from: [list.txt]}}",
    "{ban: {phrases_from: 3}}",
    "{ban: {token_ids: []}}",
    "{ban: {token_ids: 3}}",
    "{ban: {token_ids: [-1]}}",
    "{ban: {token_ids: [2147483648]}}",
    "{ban: {token_ids: ['3']}}",
    "{ban: {token_ids: [1.5]}}",
    "{ban: {token_ids: [true]}}",
    "{ban: {token_ids: [1], phrases: [a]}}",
    "{ban: {token_ids: [1], phrases_from: list.txt}}",
    *(f"{{ban: {{token_ids: [1], {option}}}}}" for option in ("match: word", "case: sensitive", "normalize: []")),
    "{ban: {phrases: [a], action: redact}}",
    "{ban: {phrases: [a], fallback: redact}}",
    # actions
    "{ban: {phrases: [a]}, action: remove}",
    "{ban: {phrases: [a]}, action: Redact}",
    "{ban: {phrases: [a]}, action: [redact]}",
    "{ban: {phrases: [a]}, action: }",
    "{ban: {phrases: [a]}, action: {}}",
    "{ban: {phrases: [a]}, action: {avoid: x}}",
    "{ban: {phrases: [a]}, action: {remove: x}}",
    "{ban: {phrases: [a]}, action: {redact: x, block: y}}",
    "{ban: {phrases: [a]}, action: {redact: 3}}",
    "{ban: {phrases: [a]}, action: {redact: }}",
    "{ban: {phrases: [a]}, action: {terminate: ''}}",
    "{ban: {phrases: [a]}, action: {terminate: '  '}}",
    "{ban: {phrases: [a]}, action: {terminate: {}}}",
    "{ban: {phrases: [a]}, action: {terminate: {reason: ''}}}",
    "{ban: {phrases: [a]}, action: {terminate: {because: x}}}",
    "{ban: {phrases: [a]}, action: {terminate: [x]}}",
    "{ban: {phrases: [a]}, action: {block: {message: x}}}",
    "{ban: {phrases: [a]}, fallback: avoid}",
    "{ban: {phrases: [a]}, fallback: ~}",
    *(
        f"{{ban: {{phrases: [a]}}, action: {action}, fallback: redact}}"
        for action in ("redact", "block", "{redact: x}")
    ),
    *(f"{{ban: {{token_ids: [1]}}, action: {action}}}" for action in ("redact", "terminate", "block", "{block: x}")),
    "{ban: {token_ids: [1]}, fallback: redact}",
    *(
        f"{{{rule}, {key}: redact}}"
        for rule in ("min_tokens: 1", "rewrite: {to: upper}")
        for key in ("action", "fallback")
    ),
    "{force: {text: a, at: start}, action: avoid}",
    "{bias: {token_ids: {1: 1}}, fallback: terminate}",
    # forces
    "{force: {}}",
    "{force: a}",
    "{force: {text: a}}",
    "{force: {token_id: 1}}",
    "{force: {at: start}}",
    "{force: {text: a, token_id: 1, at: start}}",
    "{force: {text: '', at: start}}",
    "{force: {text: 3, at: start}}",
    "{force: {text: [a], at: start}}",
    "{force: {text: a, at: every}}",
    "{force: {text: a, at: begin}}",
    "{force: {text: a, at: -1}}",
    "{force: {text: a, at: '3'}}",
    "{force: {text: a, at: 1.5}}",
    "{force: {text: a, at: true}}",
    "{force: {text: a, at: }}",
    "{force: {text: a, at: [start]}}",
    "{force: {token_id: -1, at: every}}",
    "{force: {token_id: '1', at: every}}",
    "{force: {token_id: {}, at: every}}",
    "{force: {token_id: {param: 3}, at: every}}",
    "{force: {token_id: {param: t, default: 1}, at: every}}",
    "{force: {token_id: {params: t}, at: every}}",
    # lengths
    *(
        f"{{min_tokens: {value}}}"
        for value in ("-1", "1.5", "'1'", "true", "~", "[1]", "2147483648", "{}", "{param: }")
    ),
    # biases
    "{bias: {}}",
    "{bias: [a]}",
    "{bias: {phrases: {}}}",
    "{bias: {phrases: [a]}}",
    "{bias: {phrases: {a: }}}",
    "{bias: {phrases: {a: '1'}}}",
    "{bias: {phrases: {a: 100.1}}}",
    "{bias: {phrases: {a: -101}}}",
    "{bias: {phrases: {a: true}}}",
    "{bias: {phrases: {a: [1]}}}",
    "{bias: {phrases: {a: {param: w, min: 1}}}}",
    "{bias: {phrases: {'': 1}}}",
    "{bias: {phrases: {' ': 1}}}",
    '{bias: {phrases: {"a\\tb": 1}}}',
    "{bias: {token_ids: {}}}",
    "{bias: {token_ids: [1]}}",
    "{bias: {token_ids: {a: 1}}}",
    "{bias: {token_ids: {-1: 1}}}",
    "{bias: {token_ids: {1: x}}}",
    "{bias: {match: word}}",
    "{bias: {token_ids: {1: 1}, match: word}}",
    "{bias: {phrases: {a: 1}, match: never}}",
    # rewrites
    *(
        f"{{rewrite: {value}}}"
        for value in ("upper", "{}", "{to: UPPER}", "{to: }", "{to: [upper]}", "{to: upper, at: 0}")
    ),
    # what every kind may have
    *(f"{{min_tokens: 1, when: {value}}}" for value in ("cuda", "{}", "~", "{device: cuda}", "{device: []}")),
    *(f"{{min_tokens: 1, when: {{device: [{device}]}}}}" for device in ("gpu", "CUDA", "rocm", "0")),
    "{min_tokens: 1, when: {devices: [cpu]}}",
    *(f"{{min_tokens: 1, mode: {mode}}}" for mode in ("off", "true", "~", "[enforce]")),
    # not yet
    "{ban: {phrases: [a], except: [ab]}}",
    "{ban: {regex: ['a+']}}",
    "{ban: {scripts: [Han]}}",
    "{ban: {phrases: [a], gaps: punctuation}}",
    "{ban: {phrases: [a], gaps: letters}}",
    "{ban: {phrases: [a], normalize: [confusables]}}",
    "{ban: {phrases: [a]}, channel: answer}",
    "{min_tokens: 1, mode: shadow}",
    "{min_tokens: 1, channel: all}",
    "{allow: {choices: ['yes', 'no']}}",
    "{force: {text: a, at: end}}",
    "{force: {text: a, after: b}}",
    "{force: {text: {param: s}, at: start}}",
    "{min_tokens: 1, when: {model: ['a*']}}",
    "{min_tokens: 1, when: {vocabulary: abc}}",
)

# -- whole policies ---------------------------------------------------------------------------------------------------

GOOD_POLICIES = (
    *(f"{HEAD}{PARAMETERS}  a: {rule}\n" for rule in GOOD_RULES),
    HEAD + RULE,
    f"version: 1\npolicy: {'a' * 100}\n{RULE}",
    f"version: 1\npolicy: '0-9'\n{RULE}",
    *(HEAD + f"activation: {value}\n{RULE}" for value in ("always", "on_request")),
    *(HEAD + f"targets: [{value}]\n{RULE}" for value in ("vllm", "trtllm-llm", "trtllm, vllm, trtllm-llm")),
    *(HEAD + f"{key}: ''\n{RULE}" for key in ("description", "owner")),
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
    *(HEAD + f"mode: {value}\n{RULE}" for value in ("shadow", "on", "~", "1")),
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
)

BAD_PROJECTS = (
    "targets: [vllm]\n",
    "version: 2\n",
    *(f"version: 1\ntargets: {value}\n" for value in ("[]", "vllm", "[tpu]", "[vllm, vllm]", "~")),
    *(f"version: 1\npackage: {value}\n" for value in ("a-b", "9a", "''", "3", "~", "a.b", "a" * 101)),
    *(f"version: 1\nvariables: {value}\n" for value in ("[]", "~", "{a: 3}", "{a: }", "{9a: x}", "{'a b': x}")),
    *(f"version: 1\nmax_hold: {value}\n" for value in ("0", "-1", "1048577", "'1'", "1.5", "true", "~")),
    *(f"version: 1\n{key}: {{}}\n" for key in ("reasoning", "assignments", "lint", "rules", "policy", "unknown")),
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
