"""Groups of commands, and the options that all commands have."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, cast

import typer

from adaptlab_client.cli.examples import EXAMPLES
from adaptlab_client.cli.printing.terminal import be_quiet, is_quiet
from adaptlab_client.cli.session import name_server

Run = Callable[..., None]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors on stderr.")]
UrlOption = Annotated[str | None, typer.Option("--url", hidden=True)]
ProjectOption = Annotated[str | None, typer.Option("--project", hidden=True)]
SERVER = {"url": UrlOption, "project": ProjectOption}


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
    app.command(path.rpartition(" ")[2], epilog=epilog)(_with_shared(command))


def _with_shared(command: Run) -> Run:
    """Return the command with the options that all commands have.

    These are `--quiet`, and for commands that ask a server `--url` and `--project`. Before the
    command's name they have the same effect; there they are described, so here the last two are
    hidden.
    """

    @functools.wraps(command)
    def run(*arguments: object, quiet: bool, **options: object) -> None:
        be_quiet(quiet or is_quiet())
        if asks:
            named = {name: cast("str | None", options.pop(name)) for name in of_server}
            context = cast("typer.Context", options["context"])
            name_server(context, named.get("url"), named.get("project"))
        command(*arguments, **options)

    own = inspect.signature(command)
    asks = "context" in own.parameters
    of_server = {name: kind for name, kind in SERVER.items() if name not in own.parameters}
    shared = {"quiet": QuietOption} | (of_server if asks else {})
    last = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=False if name == "quiet" else None,
            annotation=annotation,
        )
        for name, annotation in shared.items()
    ]
    # Typer reads a command's options from the signature and the annotations.
    run.__dict__["__signature__"] = own.replace(parameters=[*own.parameters.values(), *last])
    run.__annotations__ = {**command.__annotations__, **shared}
    return run


def _several() -> None:
    """Keep a group of one command a group."""
