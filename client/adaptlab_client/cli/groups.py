"""Groups of commands, and the option that all commands have."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from adaptlab_client.cli.examples import EXAMPLES
from adaptlab_client.cli.printing.terminal import be_quiet, is_quiet

Run = Callable[..., None]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors on stderr.")]


def group(name: str, purpose: str, commands: Mapping[str, Run]) -> typer.Typer:
    """Return a group of commands; `purpose` is the first line of its help."""
    app = typer.Typer(name=name, no_args_is_help=True, rich_markup_mode=None, help=purpose)
    app.callback()(_several)
    for word, command in commands.items():
        add(app, f"{name} {word}", command)
    return app


def add(app: typer.Typer, path: str, command: Run) -> None:
    """Add a command to `app`; `path` is its words after `adaptlab`."""
    lines = "\n".join(f"  {line}" for line in EXAMPLES.get(path, ()))
    epilog = f"\b\nExamples:\n{lines}" if lines else None  # \b: keeps the line breaks
    app.command(path.rpartition(" ")[2], epilog=epilog)(_with_quiet(command))


def _with_quiet(command: Run) -> Run:
    """Return the command with `--quiet` as its last option.

    Before the command's name it has the same effect.
    """

    @functools.wraps(command)
    def run(*arguments: object, quiet: bool, **options: object) -> None:
        be_quiet(quiet or is_quiet())
        command(*arguments, **options)

    own = inspect.signature(command)
    last = inspect.Parameter(
        "quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=QuietOption
    )
    # Typer reads a command's options from the signature and the annotations.
    run.__dict__["__signature__"] = own.replace(parameters=[*own.parameters.values(), last])
    run.__annotations__ = {**command.__annotations__, "quiet": QuietOption}
    return run


def _several() -> None:
    """Keep a group of one command a group."""
