"""`adaptlab completion`: scripts that complete commands in a shell."""

import os
from enum import StrEnum
from typing import Annotated

import typer

# Typer contains these scripts, but has no public way to print one for a given shell.
from typer.completion import (
    completion_init,  # pyright: ignore[reportPrivateImportUsage]
    get_completion_script,  # pyright: ignore[reportPrivateImportUsage]
)

PROGRAM = "adaptlab"
VARIABLE = "_ADAPTLAB_COMPLETE"
"""Set by the shell if it requests completions instead of running a command."""


class Shell(StrEnum):
    """Supported shells."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="Shell: bash, zsh or fish.")],
) -> None:
    """Print a shell script that completes commands, options, ids and names.

    For bash, put `eval "$(adaptlab completion bash)"` into ~/.bashrc. For zsh, put the same with
    zsh into ~/.zshrc, after `compinit`. For fish, put `adaptlab completion fish | source` into
    ~/.config/fish/config.fish.
    """
    script = get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell.value)
    print(script)


def prepare() -> None:
    """Prepare for a shell's request for completions, if this is one."""
    if VARIABLE in os.environ:
        completion_init()
