"""Groups of commands, such as those below `adaptlab jobs`."""

from collections.abc import Callable, Mapping

import typer


def group(purpose: str, commands: Mapping[str, Callable[..., None]]) -> typer.Typer:
    """Commands by name; `purpose` heads their help, which is shown where none is asked for."""
    app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help=purpose)
    for name, command in commands.items():
        app.command(name)(command)
    return app
