"""Rules that the language takes, and ones that it refuses for their shape; each the only one of a policy.

The policy has the parameters t, n, w and s; see `schema_corpus`.
"""

from __future__ import annotations

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
    "{ban: {phrases: [a], gaps: punctuation, normalize: [confusables, marks]}}",
    "{ban: {phrases: [a b], gaps: letters}}",
    "{ban: {phrases: [a], except: [a b]}}",
    "{ban: {phrases_from: list.txt, except: ['no', a b], gaps: literal}}",
    "{bias: {phrases: {a b: 1}, gaps: letters, normalize: [confusables]}}",
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
    "{force: {text: a, at: end}}",
    "{force: {token_id: 1, at: end}}",
    "{force: {text: a, after: b c}}",
    "{force: {token_id: {param: t}, after: no}}",
    "{force: {text: {param: s}, at: start}}",
    # lengths, biases, rewrites
    "{min_tokens: 0}",
    "{min_tokens: 2147483647}",
    "{min_tokens: {param: n}}",
    "{bias: {phrases: {delve: -4, in conclusion: -2.5, no: 1, '42': 0, 12:30: 100}}}",
    "{bias: {phrases: {a: {param: w}}, match: prefix}}",
    "{bias: {phrases: {a: 1}, token_ids: {0: -100, 2147483647: 1e1}, case: sensitive}}",
    "{bias: {token_ids: {5: {param: w}}}}",
    *(f"{{rewrite: {{to: {to}}}}}" for to in ("upper", "lower", "nothing")),
    # what else a ban may hold
    "{ban: {regex: ['AKIA[0-9A-Z]{16}']}}",
    r"{ban: {regex: ['(?i)\\bsecret\\b', no, 'a|b', \"\\\\d\"]}, action: redact}",
    r"{ban: {regex: ['(\\w)\\1', 'a(?=b)']}, action: {terminate: leaked}}",
    "{ban: {scripts: [Han]}}",
    "{ban: {scripts: [Han, Old_Italic, Cyrillic]}, fallback: redact}",
    # allows
    "{allow: {choices: ['yes', no, \"two\\nlines\", ' ']}}",
    "{allow: {scripts: [Latin]}}",
    "{allow: {scripts: [Latin, Cyrillic]}, channel: all}",
    "{allow: {token_ids: [1, 2, 2]}}",
    # what every kind may have
    *(f"{{min_tokens: 1, channel: {channel}}}" for channel in ("all", "answer", "reasoning")),
    "{ban: {phrases: [a]}, channel: answer}",
    "{rewrite: {to: upper}, channel: reasoning}",
    "{min_tokens: 1, when: {model: ['acme-*', no]}}",
    "{min_tokens: 1, when: {vocabulary: [0123abcd, DEADBEEF, '01234567']}}",
    "{min_tokens: 1, when: {device: [cpu], model: [a], vocabulary: ['" + "0" * 64 + "']}}",
    *(
        f"{{min_tokens: 1, when: {{device: [{device}]}}}}"
        for device in ("cpu", "cuda", "hpu", "mps", "npu", "tpu", "xpu")
    ),
    "{rewrite: {to: upper}, when: {device: [cuda, cpu, cuda]}}",
    "{force: {token_id: 1, at: 0}, mode: enforce}",
    "{min_tokens: 1, mode: shadow}",
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
    "{ban: {phrases: [a], gaps: letter}}",
    "{ban: {phrases: [a], except: []}}",
    "{ban: {phrases: [a], except: ab}}",
    "{ban: {phrases: [a], except: [42]}}",
    "{ban: {phrases: [a], except: ['']}}",
    "{ban: {phrases: [a], except: }}",
    "{ban: {phrases: [a], exceptions: [ab]}}",
    "{ban: {except: [ab]}}",
    "{ban: {token_ids: [1], except: [ab]}}",
    "{bias: {phrases: {a: 1}, except: [ab]}}",
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
    # what else a ban may hold
    *(
        f"{{ban: {{regex: {value}}}}}"
        for value in ("", "a", "[]", "{a: b}", "[3]", "['']", r'["\bx"]', r'["a\nb"]', "[" + "a" * 4097 + "]")
    ),
    *(
        f"{{ban: {{scripts: {value}}}}}"
        for value in ("", "Han", "[]", "[han]", "[Hani]", "[Common]", "[Klingon]", "[3]")
    ),
    "{ban: {scripts: [Han, Han]}}",
    *(
        f"{{ban: {{{one}, {other}}}}}"
        for one in ("regex: [a]", "scripts: [Han]")
        for other in (
            "phrases: [a]",
            "phrases_from: list.txt",
            "token_ids: [1]",
            "match: word",
            "except: [a]",
            "gaps: letters",
        )
    ),
    "{ban: {regex: [a], scripts: [Han]}}",
    # allows
    *(
        f"{{allow: {value}}}"
        for value in (
            "",
            "[a]",
            "{}",
            "{choices: }",
            "{choices: []}",
            "{choices: a}",
            "{choices: [1]}",
            "{choices: ['']}",
        )
    ),
    "{allow: {choices: [a, a]}}",
    *(f"{{allow: {{scripts: {value}}}}}" for value in ("Latin", "[]", "[latin]", "[Common]", "[Latin, Latin]")),
    *(f"{{allow: {{token_ids: {value}}}}}" for value in ("1", "[]", "[-1]", "['1']", "[2147483648]")),
    "{allow: {choices: [a], scripts: [Latin]}}",
    "{allow: {choices: [a], token_ids: [1]}}",
    "{allow: {choices: [a], match: word}}",
    "{allow: {choices: [a]}, action: redact}",
    # rewrites
    *(
        f"{{rewrite: {value}}}"
        for value in ("upper", "{}", "{to: UPPER}", "{to: }", "{to: [upper]}", "{to: upper, at: 0}")
    ),
    # what every kind may have
    *(f"{{min_tokens: 1, channel: {channel}}}" for channel in ("thoughts", "All", "~", "[all]", "1")),
    *(f"{{min_tokens: 1, when: {value}}}" for value in ("cuda", "{}", "~", "{device: cuda}", "{device: []}")),
    *(f"{{min_tokens: 1, when: {{model: {value}}}}}" for value in ("a", "[]", "['']", "[' ']", "[1]", "~")),
    *(
        f"{{min_tokens: 1, when: {{vocabulary: {value}}}}}"
        for value in ("abcdef01", "[]", "[abc]", "[xyzxyzxyz]", "[12345678]", "['" + "0" * 65 + "']")
    ),
    *(f"{{min_tokens: 1, when: {{device: [{device}]}}}}" for device in ("gpu", "CUDA", "rocm", "0")),
    "{min_tokens: 1, when: {devices: [cpu]}}",
    *(f"{{min_tokens: 1, mode: {mode}}}" for mode in ("off", "true", "~", "[enforce]", "Shadow")),
)
