"""The commands `up`, `down`, `drain`, `reload` and `demo`."""

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from adaptlab_client.transport.last_server import last_server
from adaptlab_stack.data_directory import DataDirectory
from adaptlab_stack.errors import StackError
from adaptlab_stack.stack import request, stop
from adaptlab_stack.up import WORKER_LEAVES, Programs, UpOptions, run_up
from adaptlab_stack.waiting import DRAIN_SIGNAL, RELOAD_SIGNAL

DEFAULT_DATA_DIR = Path(".adaptlab")
DRAIN_SECONDS = WORKER_LEAVES.seconds + 20
RELOAD_SECONDS = 900.0  # each process in turn can take more than a minute

DataDir = Annotated[
    Path,
    typer.Option("--data-dir", envvar="ADAPTLAB_DATA_DIR", help="Folder for all data."),
]
Port = Annotated[
    int | None,
    typer.Option(min=1, max=65535, help="Port of the API. Default: 8420, or a free port."),
]


DemoTask = Literal["digits", "text"]


def up(
    data_dir: DataDir = DEFAULT_DATA_DIR,
    host: Annotated[str, typer.Option(help="Address that the API listens on.")] = "127.0.0.1",
    port: Port = None,
    workers: Annotated[int, typer.Option(min=0, help="Number of worker processes.")] = 1,
    servers: Annotated[
        int, typer.Option(min=1, help="Number of API processes that share the address.")
    ] = 1,
    behind_proxy: Annotated[
        bool,
        typer.Option(
            "--behind-proxy",
            help="The API is behind a TLS proxy, so --host may be reachable by others.",
        ),
    ] = False,
    env_file: Annotated[
        Path | None,
        typer.Option(
            help="File of lines NAME=value with settings, which take precedence over the "
            "environment. `adaptlab reload` reads it again."
        ),
    ] = None,
) -> None:
    """Run the database, broker, API and workers on this machine until Ctrl-C."""
    try:
        options = UpOptions(data_dir, host, port, workers, behind_proxy, servers, env_file)
        run_up(options, Programs(), _report)
    except StackError as error:
        _fail(error)


def demo(
    data_dir: DataDir = DEFAULT_DATA_DIR,
    port: Port = None,
    exit_when_done: Annotated[
        bool, typer.Option("--exit/--no-exit", help="Stop the server at the end.")
    ] = False,
    task: Annotated[
        DemoTask,
        typer.Option(
            help="What is learned: digits by a model pretrained here, or texts by a published one. "
            "The latter and its data, 107 MB, come from the index of Python packages."
        ),
    ] = "digits",
) -> None:
    """Run a small real study and show its results."""
    # Imported here, so that `adaptlab up` does not load the drawing libraries of the demo.
    from adaptlab_stack.demo import run_demo
    from adaptlab_stack.text_demo import run_text_demo

    run = run_text_demo if task == "text" else run_demo
    try:
        run(data_dir=data_dir, port=port, exit_when_done=exit_when_done)
    except StackError as error:
        _fail(error)


def down(data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Stop the server that `adaptlab up` or `adaptlab demo` started here."""
    try:
        stopped = stop(data_dir)
    except StackError as error:
        _fail(error)
    else:
        typer.echo("stopped" if stopped else f"nothing is running in {data_dir}{_elsewhere()}")


def drain(data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Have the workers save their runs, give their jobs back and end.

    Only the workers of `adaptlab up` end; API, database and broker keep running, and jobs wait in
    their queues. A run has 20 seconds to save its state, from which another attempt resumes it.
    """
    try:
        request(data_dir, DRAIN_SIGNAL, DRAIN_SECONDS)
    except StackError as error:
        _fail(error)
    typer.echo("drained: no worker runs here, and jobs wait in their queues")


def reload(data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Restart the API, the workers and beat, one after the other, with present settings.

    Settings come from the file given to `adaptlab up --env-file`. No request is refused: those that
    the API has begun may take 60 seconds more. Runs save their state, and their jobs are resumed.
    Invalid settings are refused, and nothing is restarted.
    """
    try:
        request(data_dir, RELOAD_SIGNAL, RELOAD_SECONDS)
    except StackError as error:
        _fail(error)
    typer.echo("reloaded")


def application() -> typer.Typer:
    """Return the commands as one program."""
    commands = typer.Typer(no_args_is_help=True, add_completion=False)
    commands.command()(up)
    commands.command()(down)
    commands.command()(drain)
    commands.command()(reload)
    commands.command()(demo)
    return commands


def _elsewhere() -> str:
    """Return how to stop the user's last server, if it runs."""
    last = last_server(os.environ)
    if last is None or DataDirectory(last.directory).holder() is None:
        return ""
    return f"; your last server runs in {last.directory}: stop it with --data-dir"


def _report(line: str) -> None:
    typer.echo(line)


def _fail(error: StackError) -> None:
    typer.echo(f"error: {error}", err=True)
    raise typer.Exit(1) from error
