"""PE1xx: policies that are well formed and cannot mean what they say."""

from __future__ import annotations

from policyengine.language.codes.model import HEAD, POLICY, Code, policy, whole

_VLLM = "targets: [vllm]\n"
_TRTLLM = "targets: [trtllm]\n"


def _least(name: str, default: int) -> str:
    return (
        f"version: 1\npolicy: {name}\n{_VLLM}parameters:\n  min_len: {{type: integer, ge: 0, default: {default}}}\n"
        "rules:\n  long-enough: {min_tokens: {param: min_len}}\n"
    )


CODES: tuple[Code, ...] = (
    Code(
        "PE103",
        "forced-contains-banned",
        "error",
        "a forced text contains a phrase that a rule active with it bans",
        """The ban wins over everything, so the forced text could never be written whole, and the model would be led
        into a dead end. Force another text, or ban less.""",
        bad=policy(
            'opening: {force: {text: "About bluebird: ", at: start}}\nnames: {ban: {phrases: [bluebird]}}', _VLLM
        ),
        good=policy(
            'opening: {force: {text: "About our plans: ", at: start}}\nnames: {ban: {phrases: [bluebird]}}', _VLLM
        ),
    ),
    Code(
        "PE110",
        "duplicate-policy",
        "error",
        "two files give their policy the same name",
        """Requests, reports and metrics name a policy by its `policy:` key, so every policy of a set needs its own.""",
        bad=(
            (POLICY, HEAD + "rules:\n  a: {ban: {phrases: [bluebird]}}\n"),
            ("other.yaml", HEAD + "rules:\n  a: {ban: {phrases: [magpie]}}\n"),
        ),
        good=(
            (POLICY, HEAD + "rules:\n  a: {ban: {phrases: [bluebird]}}\n"),
            ("other.yaml", "version: 1\npolicy: other\nrules:\n  a: {ban: {phrases: [magpie]}}\n"),
        ),
    ),
    Code(
        "PE111",
        "parameter-type-conflict",
        "error",
        "two policies declare one parameter with two types",
        """A request passes a parameter once, by its name, and every policy that declares the name reads that value.
        Two types cannot both be served. Rename one of them.""",
        bad=(
            (POLICY, HEAD + "parameters:\n  n: {type: integer}\nrules:\n  a: {min_tokens: {param: n}}\n"),
            (
                "other.yaml",
                "version: 1\npolicy: other\nparameters:\n  n: {type: token_id}\nrules:\n"
                "  a: {force: {token_id: {param: n}, at: every}}\n",
            ),
        ),
        good=(
            (POLICY, HEAD + "parameters:\n  n: {type: integer}\nrules:\n  a: {min_tokens: {param: n}}\n"),
            (
                "other.yaml",
                "version: 1\npolicy: other\nparameters:\n  target: {type: token_id}\nrules:\n"
                "  a: {force: {token_id: {param: target}, at: every}}\n",
            ),
        ),
    ),
    Code(
        "PE112",
        "undeclared-parameter",
        "error",
        "a rule uses a parameter that its policy does not declare",
        """`{param: name}` stands for a value that the request passes. The policy's `parameters:` must declare it, with
        its type, so that requests can be checked.""",
        bad=policy("long-enough: {min_tokens: {param: min_len}}"),
        good=whole(
            HEAD + "parameters:\n  min_len: {type: integer, ge: 0, le: 4096}\n"
            "rules:\n  long-enough: {min_tokens: {param: min_len}}\n"
        ),
    ),
    Code(
        "PE113",
        "parameter-misfit",
        "error",
        "a parameter's type or limits do not fit where it is used",
        """`force.token_id` takes a `token_id`, `min_tokens` an `integer` of at least 0, a bias a `number` or `integer`
        from -100 to 100. Limits that a parameter leaves out are narrowed to what its use allows.""",
        bad=whole(
            HEAD + "parameters:\n  min_len: {type: token_id}\nrules:\n  long-enough: {min_tokens: {param: min_len}}\n"
        ),
        good=whole(
            HEAD + "parameters:\n  min_len: {type: integer}\nrules:\n  long-enough: {min_tokens: {param: min_len}}\n"
        ),
    ),
    Code(
        "PE114",
        "default-out-of-limits",
        "error",
        "a parameter's default or limits contradict its own limits",
        """A default is used where a request passes nothing, so it must be a value that a request could pass: within
        `ge` and `le`, one of `choices`, no longer than `max_length`.""",
        bad=whole(
            HEAD + "parameters:\n  n: {type: integer, ge: 1, default: 0}\nrules:\n  a: {min_tokens: {param: n}}\n"
        ),
        good=whole(
            HEAD + "parameters:\n  n: {type: integer, ge: 1, default: 1}\nrules:\n  a: {min_tokens: {param: n}}\n"
        ),
    ),
    Code(
        "PE115",
        "conflicting-forces",
        "error",
        "two rules that are active together force different tokens at one position",
        """One position holds one token. Remove one of the rules, or give them different positions.""",
        bad=policy("a: {force: {token_id: 128, at: 0}}\nb: {force: {token_id: 129, at: 0}}", _VLLM),
        good=policy("a: {force: {token_id: 128, at: 0}}\nb: {force: {token_id: 129, at: 1}}", _VLLM),
    ),
    Code(
        "PE116",
        "message-contains-banned",
        "error",
        "a replacement or message that is shown to the client contains a phrase that is banned there",
        """Nothing banned may appear in what the client gets, and a replacement or a closing message is part of it.
        Choose another text.""",
        bad=policy(
            'names: {ban: {phrases: [bluebird]}, action: {terminate: {message: "No word about bluebird."}}}', _TRTLLM
        ),
        good=policy(
            'names: {ban: {phrases: [bluebird]}, action: {terminate: {message: "No word about plans."}}}', _TRTLLM
        ),
    ),
    Code(
        "PE117",
        "conflicting-rewrites",
        "error",
        "two rules that are active together rewrite to upper and to lower case",
        """Text leaves in one case. Remove one of the rules, or make its policy `on_request`.""",
        bad=policy("loud: {rewrite: {to: upper}}\nsoft: {rewrite: {to: lower}}", _TRTLLM),
        good=policy("soft: {rewrite: {to: lower}}", _TRTLLM),
    ),
    Code(
        "PE118",
        "conflicting-defaults",
        "error",
        "two policies that are always active give one parameter different defaults",
        """A request that does not pass the parameter has one value for both. Give one default, or rename one.""",
        bad=((POLICY, _least("example", 16)), ("other.yaml", _least("other", 64))),
        good=((POLICY, _least("example", 16)), ("other.yaml", _least("other", 16))),
    ),
    Code(
        "PE119",
        "reserved-parameter",
        "error",
        "a parameter has the name of a key that requests use for something else",
        """`policies` selects policies and `policyengine_assigned` is set by the server. A parameter of
        that name could never be passed. Choose another name.""",
        bad=whole(HEAD + "parameters:\n  policies: {type: integer}\nrules:\n  a: {min_tokens: {param: policies}}\n"),
        good=whole(HEAD + "parameters:\n  least: {type: integer}\nrules:\n  a: {min_tokens: {param: least}}\n"),
    ),
    Code(
        "PE120",
        "irregular-regex",
        "error",
        "an expression that no automaton can read, in a rule that masks tokens",
        """A mask must know, before each token, which tokens would complete a match, and that takes an automaton. A
        back-reference, a look-ahead or a look-behind cannot be made into one. A text action (redact, terminate, block)
        takes any expression: it is then searched in the text, under a time limit.""",
        bad=policy(r"twice: {ban: {regex: ['(\w+) \1']}}", _VLLM),
        good=policy(r"twice: {ban: {regex: ['(\w+) \1']}, action: redact}", _TRTLLM),
    ),
    Code(
        "PE121",
        "nothing-allowed",
        "error",
        "rules that are active together leave nothing that the output could be",
        """Several `allow` rules hold at once, and bans win over them: choices that hold a banned phrase are left out,
        and so are those that another `allow` does not allow. If that leaves nothing, no answer could be written. Ban
        less, or allow more.""",
        bad=policy('verdict: {allow: {choices: ["yes", "no"]}}\nnames: {ban: {phrases: ["yes", "no"]}}', _VLLM),
        good=policy('verdict: {allow: {choices: ["yes", "no"]}}\nnames: {ban: {phrases: ["maybe"]}}', _VLLM),
    ),
    Code(
        "PE122",
        "forced-not-allowed",
        "error",
        "a forced text or token that an `allow` active with it does not allow",
        """Everything that an `allow` does not name is masked, and so what is forced could never be written. Allow it,
        or force something else.""",
        bad=policy('verdict: {allow: {choices: ["yes", "no"]}}\nopening: {force: {text: "So: ", at: start}}', _VLLM),
        good=policy(
            'verdict: {allow: {choices: ["So: yes", "So: no"]}}\nopening: {force: {text: "So: ", at: start}}', _VLLM
        ),
    ),
)
