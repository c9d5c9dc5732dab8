"""PE0xx: what a file may hold. 006 to 008 are kept for lints of white space, odd characters and swallowed comments."""

from __future__ import annotations

from policyengine.language.codes.model import HEAD, POLICY, Code, policy, whole

_BAN = "rules:\n  names: {ban: {phrases: [bluebird]}}\n"

CODES: tuple[Code, ...] = (
    Code(
        "PE001",
        "yaml-syntax",
        "error",
        "the file is not YAML",
        """The place is where the parser gave up; the mistake is often a little before it. Text that starts with one of
        `@`, `%` or a backtick, or that holds `: `, needs quotes.""",
        bad=policy("names: {ban: {phrases: [@home]}}"),
        good=policy("names: {ban: {phrases: ['@home']}}"),
    ),
    Code(
        "PE002",
        "invalid-encoding",
        "error",
        "the file is not UTF-8",
        """Files are read as strict UTF-8, so that what is banned does not depend on a machine's settings. Save the file
        as UTF-8. A byte order mark is allowed.""",
        bad=policy("names: {ban: {phrases: [caf\udce9]}}"),
        good=policy("names: {ban: {phrases: [café]}}"),
    ),
    Code(
        "PE003",
        "duplicate-key",
        "error",
        "a key is written twice in one mapping",
        """Many YAML readers keep the last one without a word, and half of the policy is gone. Merge the two.""",
        bad=policy("names:\n  ban: {phrases: [bluebird]}\n  ban: {phrases: [magpie]}"),
        good=policy("names:\n  ban: {phrases: [bluebird, magpie]}"),
    ),
    Code(
        "PE004",
        "yaml-feature",
        "error",
        "an anchor, alias, tag or directive",
        """What a reviewer reads must be what is enforced where it is read: nothing in a policy refers to another place
        of the file or changes a value's type. As text, quote it.""",
        bad=policy("names:\n  ban:\n    phrases:\n    - !important"),
        good=policy("names:\n  ban:\n    phrases:\n    - '!important'"),
    ),
    Code(
        "PE005",
        "unquoted-phrase",
        "error",
        "a phrase that YAML does not read as text",
        """`42`, `1e3`, `true`, `~` and `[INST]` are a number, a number, a truth value, nothing and a list to a YAML 1.2
        reader. Quote the phrase; nothing is guessed. `no`, `on`, `12:30`, `1_000` and dates are text as they stand.""",
        bad=policy("tags: {ban: {phrases: [[INST], 42]}}"),
        good=policy("tags: {ban: {phrases: ['[INST]', '42']}}"),
    ),
    Code(
        "PE009",
        "several-documents",
        "error",
        "a file holds more than one YAML document",
        """One file is one policy, so that a policy's file and name are found from each other.""",
        bad=whole(HEAD + _BAN + "---\n" + HEAD + _BAN),
        good=whole(HEAD + _BAN),
    ),
    Code(
        "PE010",
        "unknown-key",
        "error",
        "a key that the language does not have at this place",
        """A key that is ignored is a rule that is not enforced. The help names the nearest key there is.""",
        bad=policy("names: {ban: {phrasess: [bluebird]}}"),
        good=policy("names: {ban: {phrases: [bluebird]}}"),
    ),
    Code(
        "PE011",
        "missing-key",
        "error",
        "a key that must be there is not",
        """Every policy has `version`, `policy` and `rules`; every rule one key that says what it does.""",
        bad=whole("version: 1\n" + _BAN),
        good=whole(HEAD + _BAN),
    ),
    Code(
        "PE012",
        "wrong-type",
        "error",
        "a value of another type than its key takes",
        """Nothing is converted: a number in quotes is text, and `1` is not `true`.""",
        bad=policy('long-enough: {min_tokens: "64"}'),
        good=policy("long-enough: {min_tokens: 64}"),
    ),
    Code(
        "PE013",
        "invalid-value",
        "error",
        "a value that its key does not take",
        """The type is right and the value is not: a word that is not one of the choices, a number out of range, NaN or
        an infinity, a name with other characters than it may have.""",
        bad=policy("tone: {bias: {phrases: {delve: .nan}}}"),
        good=policy("tone: {bias: {phrases: {delve: -4}}}"),
    ),
    Code(
        "PE014",
        "conflicting-keys",
        "error",
        "keys that exclude each other, or one without the one it belongs to",
        """A ban holds phrases or token ids; phrase options belong to phrases; `fallback` belongs to the action `avoid`,
        because the other actions act on text already.""",
        bad=policy("reserved: {ban: {token_ids: [128], match: prefix}}"),
        good=policy("reserved: {ban: {token_ids: [128]}}"),
    ),
    Code(
        "PE015",
        "empty-file",
        "error",
        "a file without content",
        """An empty policy enforces nothing; it is often a file that was not saved or not checked out.""",
        bad=whole("# to do\n"),
        good=whole(HEAD + _BAN),
    ),
    Code(
        "PE016",
        "unreadable-file",
        "error",
        "a file or directory that cannot be read",
        """A policy that is named and cannot be read must not look like one that is not there.""",
        bad=policy("names: {ban: {phrases_from: lists/gone.txt}}"),
        good=(*policy("names: {ban: {phrases_from: lists/names.txt}}"), ("lists/names.txt", "bluebird\n")),
    ),
    Code(
        "PE017",
        "over-limit",
        "error",
        "a file, list, phrase or nesting beyond the limits",
        """The limits keep one file from taking a build machine down; they lie far above what policies need.""",
        bad=policy("names: {ban: {phrases: " + "[" * 40 + "x" + "]" * 40 + "}}"),
        good=policy("names: {ban: {phrases: [x]}}"),
    ),
    Code(
        "PE018",
        "invalid-character",
        "error",
        "a character that a file may not hold as it is",
        """NUL and other control characters, and the line breaks that YAML 1.1 and 1.2 read differently (U+0085, U+2028,
        U+2029), are refused wherever they stand: they hide what a reviewer does not see. Remove them; where text needs
        one, write it as an escape in double quotes.""",
        bad=whole(HEAD + "# a comment\u2028" + _BAN),
        good=whole(HEAD + "# a comment\n" + _BAN),
    ),
    Code(
        "PE019",
        "empty-phrase",
        "error",
        "a phrase with nothing to match",
        """An empty phrase would match everywhere. One that holds only white space or characters that do not show is
        refused under any options, since nobody who reads the policy can see what it means; and so is one that holds
        only what its `normalize` drops.""",
        bad=policy('names: {ban: {phrases: [""]}}'),
        good=policy("names: {ban: {phrases: [bluebird]}}"),
    ),
    Code(
        "PE020",
        "control-character",
        "error",
        "a phrase or pattern with a control character",
        """It is nearly always an escape that was meant for something else: in double quotes YAML reads `\\b` as a
        backspace. Use single quotes. A space in a phrase matches tabs and line breaks too.""",
        bad=policy(r'names: {ban: {phrases: ["\bword\b"]}}'),
        good=policy("names: {ban: {phrases: [word], match: word}}"),
    ),
    Code(
        "PE021",
        "not-yet-supported",
        "error",
        "a part of the language that this version does not enforce yet",
        """It is refused and never ignored: a policy that compiles is a policy that holds.""",
        bad=whole(HEAD + "activation: assigned\n" + _BAN),
        good=whole(HEAD + _BAN),
    ),
    Code(
        "PE022",
        "no-policies",
        "error",
        "the paths hold no policy",
        """A directory means every `*.yaml` and `*.yml` below it except `*.test.yaml`, `policyengine.yaml` and hidden
        ones. The exit code is 3, so that a wrong path in CI does not pass as clean.""",
        bad=(("policy.txt", HEAD + _BAN),),
        good=whole(HEAD + _BAN),
    ),
    Code(
        "PE023",
        "project-conflict",
        "error",
        "policies that are loaded together lie under different project files",
        """One set has one `policyengine.yaml`: the nearest one beside its policies or above. Load the parts
        separately, or keep one project file above them all.""",
        bad=(
            ("a/" + POLICY, HEAD + _BAN),
            ("a/policyengine.yaml", "version: 1\n"),
            ("b/" + POLICY, "version: 1\npolicy: other\n" + _BAN.replace("bluebird", "magpie")),
        ),
        good=(
            ("a/" + POLICY, HEAD + _BAN),
            ("policyengine.yaml", "version: 1\n"),
            ("b/" + POLICY, "version: 1\npolicy: other\n" + _BAN.replace("bluebird", "magpie")),
        ),
    ),
    Code(
        "PE024",
        "invalid-regex",
        "error",
        "a regular expression that cannot be read, or that matches the empty text",
        """Expressions are in the syntax of Python's `re`, with `\\p{Han}` for classes of Unicode. One that matches the
        empty text would match everywhere. The caret stands below the character that the message is about, where the
        value is written on one line without escapes of YAML.""",
        bad=policy("keys: {ban: {regex: ['AKIA[0-9A-Z{16}']}, action: terminate}"),
        good=policy("keys: {ban: {regex: ['AKIA[0-9A-Z]{16}']}, action: terminate}"),
    ),
)
