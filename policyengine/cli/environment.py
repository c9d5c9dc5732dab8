"""Options from the environment: `POLICYENGINE_COMMAND_OPTION`, as in `POLICYENGINE_CHECK_FORMAT=github`."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup, TyperOption


class Commands(TyperGroup):
    """The commands, each of whose options may also be given by an environment variable."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command by its name."""
        command = super().get_command(ctx, cmd_name)
        for parameter in command.params if command is not None else ():
            if isinstance(parameter, TyperOption):
                parameter.envvar, parameter.show_envvar = variable(cmd_name, parameter), False
        return command


def variable(command: str, option: TyperOption) -> str:
    """The variable of an option, by its long name."""
    name = max(option.opts, key=len).lstrip("-")
    return f"POLICYENGINE_{command}_{name}".upper().replace("-", "_")


__all__ = ["Commands", "variable"]
