"""PE22x and PE23x: engines that are installed, and what they are told, as `policyengine doctor` finds them.

In an example, `requirements.txt` is what is installed, `command` what starts the engine in the folder above `build`,
`entry_points.txt` that of a bundle in it, `MODEL/config.json` the model's.
"""

from __future__ import annotations

from policyengine.language.codes.model import Code

_START = "PYTHONPATH=build vllm serve MODEL --config build/vllm/config.yaml"
_INSTALLED = (
    "entry_points.txt",
    "[vllm.general_plugins]\npolicy_bundle = policy_bundle.guard:guard\n\n"
    "[vllm.logits_processors]\npolicy_bundle = policy_bundle.vllm:PolicyLogitsProcessor\n",
)


def _requires(*lines: str) -> tuple[tuple[str, str], ...]:
    return (("requirements.txt", "".join(f"{line}\n" for line in lines)),)


def _command(text: str) -> tuple[tuple[str, str], ...]:
    return (("command", text + "\n"),)


CODES: tuple[Code, ...] = (
    Code(
        "PE220",
        "engine-too-old",
        "error",
        "an engine that is older than what policies need of it",
        """On vLLM a bundle is a logits processor for both of its model runners, which older versions do not have in
        this form; on TensorRT-LLM it is a hook that came with 1.3. The engine would not start, and older ones might
        start without the policies. Install a newer one.""",
        bad=_requires("vllm==0.31.2"),
        good=_requires("vllm==0.32.0"),
    ),
    Code(
        "PE221",
        "engine-unverified",
        "error",
        "an engine of a version with which this policyengine was not tried",
        """Engines change what they call and when, and a policy that is no longer called looks like one that never
        matches. So policies refuse to start on a minor version that they do not know. Install the version that is
        named, or a newer policyengine. If you have tried this one, say so with POLICYENGINE_ALLOW_VLLM=VERSION; the
        finding is a warning then, and it does not hold for the version after it.""",
        bad=_requires("vllm==0.99.0"),
        good=_requires("vllm==0.32.1"),
    ),
    Code(
        "PE222",
        "class-not-loadable",
        "error",
        "the class of the bundle cannot be loaded by the engine as it is started",
        """The engine imports the compiled package by its name, in each of its processes. It must be on their path: with
        the folder of the build in PYTHONPATH, or installed as a wheel; and policyengine must be installed beside the
        engine. The engine does not start otherwise.""",
        bad=_command("vllm serve MODEL --config build/vllm/config.yaml"),
        good=_command(_START),
    ),
    Code(
        "PE223",
        "not-activated",
        "error",
        "nothing tells the engine to run the policies",
        """A compiled package is inert until an engine is told of it: by the configuration that `compile` writes, by an
        option, or by entry points (`compile --activate installed`). This engine would start and serve without the
        policies. Start it with the configuration.""",
        bad=_command("PYTHONPATH=build vllm serve MODEL"),
        good=_command(_START),
    ),
    Code(
        "PE224",
        "config-not-read",
        "error",
        "a configuration file that vLLM does not read",
        """vLLM 0.32 looks for `--config` as a word of its own. Of `--config=FILE` it reads no file and says nothing, so
        that it starts without the policies. Write two words.""",
        bad=_command("PYTHONPATH=build vllm serve MODEL --config=build/vllm/config.yaml"),
        good=_command(_START),
    ),
    Code(
        "PE225",
        "processors-replaced",
        "error",
        "an option of the command line takes the place of the list that names the policies",
        """vLLM does not join `--logits-processors` of the command line with the list of its configuration file: the
        command line's takes its place, and the policies of the file are gone. Name all of them in one place.""",
        bad=_command(f"{_START} --logits-processors acme.penalties:Penalties"),
        good=_command(
            f"{_START} --logits-processors acme.penalties:Penalties policy_bundle.vllm:PolicyLogitsProcessor"
        ),
    ),
    Code(
        "PE226",
        "raw-logprobs",
        "warning",
        "logprobs are taken before the policies, so that requests for them are refused",
        """By default vLLM takes logprobs from before the logits processors, and the alternatives would show what is
        banned. Requests that ask for alternatives and run under a ban are answered with an error then. The
        configuration that `compile` writes sets `logprobs-mode: processed_logprobs`.""",
        bad=_command("PYTHONPATH=build vllm serve MODEL --logits-processors policy_bundle.vllm:PolicyLogitsProcessor"),
        good=_command(_START),
    ),
    Code(
        "PE227",
        "speculative-decoding",
        "error",
        "speculative decoding in vLLM's V1 model runner, which runs no policies then",
        """Under speculative decoding the V1 model runner refuses processors that are named and leaves out, without a
        word, those that came through entry points. Start without it, or with the V2 model runner.""",
        bad=_command(
            f"VLLM_USE_V2_MODEL_RUNNER=0 {_START} "
            """--speculative-config '{"method": "ngram", "num_speculative_tokens": 4}'"""
        ),
        good=_command(f"VLLM_USE_V2_MODEL_RUNNER=0 {_START}"),
    ),
    Code(
        "PE228",
        "pooling-model",
        "error",
        "a model that generates no text, for which vLLM runs no processors",
        """Embedding, classification and reward models are served without sampling. vLLM does not start where a
        processor is named for one; a bundle that is installed (`--activate installed`) refuses too, since it would not
        run. Serve such a model from an environment without policies.""",
        bad=_command(f"{_START} --runner pooling"),
        good=_command(_START),
    ),
    Code(
        "PE229",
        "diffusion-model",
        "error",
        "a model whose sampler calls no logits processor",
        """Models that write many places of a text at once (diffusion) are sampled by code of their own in vLLM, which
        calls no logits processor: the policies would never be asked. The engine does not start with policies.""",
        bad=(*_command(_START), ("MODEL/config.json", '{"canvas_length": 256}\n')),
        good=(*_command(_START), ("MODEL/config.json", "{}\n")),
    ),
    Code(
        "PE230",
        "unsupported-device",
        "error",
        "a device on which vLLM loads no policies",
        """On TPUs vLLM loads no custom logits processors, and does not say so. The policies would be named and never
        run. Serve the model on another device.""",
        bad=_requires("vllm==0.32.0", "tpu-inference==0.32.0"),
        good=_requires("vllm==0.32.0"),
    ),
    Code(
        "PE231",
        "tokens-not-told",
        "error",
        "policies that are installed and not named, where vLLM tells chosen tokens only to those that are named",
        """With async scheduling, which is the default, the V1 model runner repairs the list of chosen tokens only if a
        processor is named in the configuration. One that came through an entry point alone would not know what was
        written, and refuses to start. Name it as well, or turn async scheduling off.""",
        bad=(
            _INSTALLED,
            *_command(
                "VLLM_USE_V2_MODEL_RUNNER=0 PYTHONPATH=build vllm serve MODEL --logprobs-mode processed_logprobs"
            ),
        ),
        good=(_INSTALLED, *_command(f"VLLM_USE_V2_MODEL_RUNNER=0 {_START}")),
    ),
    Code(
        "PE232",
        "plugin-filtered",
        "warning",
        "VLLM_PLUGINS keeps the guard of an installed bundle from running",
        """A bundle that is installed has a guard among vLLM's general plugins, which stops an engine that would leave
        the policies out. VLLM_PLUGINS names the plugins that vLLM loads, and the guard is not among them. The policies
        themselves are loaded all the same; nothing tells of it where they are not. Add the package's name.""",
        bad=(_INSTALLED, *_command(f"VLLM_PLUGINS=lora_filesystem_resolver {_START}")),
        good=(_INSTALLED, *_command(f"VLLM_PLUGINS=lora_filesystem_resolver,policy_bundle {_START}")),
    ),
    Code(
        "PE233",
        "requests-not-checked",
        "error",
        "a front end of vLLM that asks no policy about a request",
        """vLLM's Rust front end calls nothing that is written in Python: no request is checked against its policies,
        wrong parameters are answered with an empty text in place of an error, stop strings are not held back, and no
        middleware runs. Start without VLLM_USE_RUST_FRONTEND.""",
        bad=_command(f"VLLM_USE_RUST_FRONTEND=1 {_START}"),
        good=_command(_START),
    ),
    Code(
        "PE234",
        "other-build",
        "error",
        "another build of the same name lies where the engine looks first",
        """The engine imports the package by its name, and takes the first of that name on its path: an older folder, or
        a wheel that is installed. It would serve with other policies than those of the build that was asked about.""",
        bad=_command("PYTHONPATH=old vllm serve MODEL --config build/vllm/config.yaml"),
        good=_command(_START),
    ),
    Code(
        "PE235",
        "workers-not-told",
        "error",
        "policies that are installed and not named, where workers start in an environment of their own",
        """Ray does not give the PYTHONPATH of the server to its workers before they start, and another machine has its
        own. A worker that does not find the package there finds no entry point either, and runs without the policies. A
        class that is named and cannot be imported stops the worker. Name it as well.""",
        bad=(
            _INSTALLED,
            *_command(
                "PYTHONPATH=build vllm serve MODEL --logprobs-mode processed_logprobs "
                "--distributed-executor-backend ray"
            ),
        ),
        good=(_INSTALLED, *_command(f"{_START} --distributed-executor-backend ray")),
    ),
)
