"""The commands `up`, `down` and `demo`."""

from pathlib import Path
from typing import Annotated

import typer

from adaptlab_stack.errors import StackError
from adaptlab_stack.stack import stop
from adaptlab_stack.up import Programs, UpOptions, run_up

DEFAULT_DATA_DIR = Path(".adaptlab")

DataDir = Annotated[
    Path,
    typer.Option("--data-dir", envvar="ADAPTLAB_DATA_DIR", help="Where everything is kept."),
]
Port = Annotated[
    int | None,
    typer.Option(min=1, max=65535, help="The API's port. Default: 8420, or a free one."),
]


def up(
    data_dir: DataDir = DEFAULT_DATA_DIR,
    host: Annotated[str, typer.Option(help="The address the API binds.")] = "127.0.0.1",
    port: Port = None,
    workers: Annotated[int, typer.Option(min=0, help="How many worker processes.")] = 1,
    servers: Annotated[
        int, typer.Option(min=1, help="How many API processes share the address.")
    ] = 1,
    behind_proxy: Annotated[
        bool,
        typer.Option("--behind-proxy", help="A proxy in front of a --host that others reach."),
    ] = False,
) -> None:
    """Run database, broker, API and workers on this machine until Ctrl-C."""
    try:
        options = UpOptions(data_dir, host, port, workers, behind_proxy, servers)
        run_up(options, Programs(), _report)
    except StackError as error:
        _fail(error)


def demo(
    data_dir: DataDir = DEFAULT_DATA_DIR,
    port: Port = None,
    exit_when_done: Annotated[
        bool, typer.Option("--exit/--no-exit", help="Stop the server at the end.")
    ] = False,
) -> None:
    """Run a small real study and show what came out."""
    # Imported here, so that `adaptlab up` does not pay for what only the demo draws with.
    from adaptlab_stack.demo import run_demo

    try:
        run_demo(data_dir=data_dir, port=port, exit_when_done=exit_when_done)
    except StackError as error:
        _fail(error)


def down(data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Stop what `adaptlab up` or `adaptlab demo` left running here."""
    try:
        stopped = stop(data_dir)
    except StackError as error:
        _fail(error)
    else:
        typer.echo("stopped" if stopped else f"nothing runs in {data_dir}")


def application() -> typer.Typer:
    """Both commands as one program."""
    commands = typer.Typer(no_args_is_help=True, add_completion=False)
    commands.command()(up)
    commands.command()(down)
    commands.command()(demo)
    return commands


def _report(line: str) -> None:
    typer.echo(line)


def _fail(error: StackError) -> None:
    typer.echo(f"error: {error}", err=True)
    raise typer.Exit(1) from error
