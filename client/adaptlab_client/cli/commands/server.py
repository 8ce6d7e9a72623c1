"""`adaptlab server` and `adaptlab workers`."""

from typing import TYPE_CHECKING

import typer

from adaptlab_client.cli.groups import group
from adaptlab_client.cli.printing.terminal import (
    Output,
    one_line,
    print_in_full,
    print_list,
    print_rows,
    print_value,
    say,
)
from adaptlab_client.cli.session import OutputOption, open_client

if TYPE_CHECKING:
    from adaptlab_answers.server import WorkerView

WORKERS = (
    "id",
    "host",
    "process",
    "queues",
    "live",
    "since",
    "heard of",
    "takes no jobs because",
    "GPUs",
)
SHARES = ("store", "state", "artifacts", "bytes", "least recently checked")


def health(context: typer.Context, output: OutputOption = Output.TABLE) -> None:
    """Check that the server and its database answer; exit with 69 or 75 if they do not."""
    with open_client(context) as client:
        client.server.alive()
        readiness = client.server.ready()
        say(f"{client.url} answers")
    if output is Output.TABLE:
        print(one_line(readiness.status))
    else:
        print_value(readiness, output, "status")


def capabilities(context: typer.Context, output: OutputOption = Output.TABLE) -> None:
    """Show the server's version, limits and plug-ins."""
    with open_client(context) as client:
        print_in_full(client.capabilities(), output, "version")


def storage(context: typer.Context, output: OutputOption = Output.TABLE) -> None:
    """Show how many bytes each store holds, and what is damaged or collected."""
    with open_client(context) as client:
        status = client.server.storage()
    if output in (Output.TABLE, Output.CSV):
        rows = (
            (share.store, share.state, share.artifacts, share.bytes, share.least_recently_checked)
            for share in status.shares
        )
        print_rows(SHARES, rows, output)
        say(f"unreferenced: {status.unreferenced} artifacts, {status.unreferenced_bytes} bytes")
    elif output is Output.ID:
        for store in dict.fromkeys(share.store for share in status.shares):
            print(one_line(store))
    else:
        print_value(status, output)


def workers(context: typer.Context, output: OutputOption = Output.TABLE) -> None:
    """List the workers and the queues they serve, live ones first."""
    with open_client(context) as client:
        views = client.server.workers()
    print_list(views, WORKERS, _row, output)


def application() -> typer.Typer:
    """Return the commands of `adaptlab server`."""
    return group(
        "server",
        "Show the server's health, capabilities and storage.",
        {"health": health, "capabilities": capabilities, "storage": storage},
    )


def _row(view: "WorkerView") -> list[object]:
    gpus = () if view.load is None else view.load.gpus
    return [
        view.id, view.host, view.process_id, ", ".join(view.queues), view.live, view.started_at,
        view.heartbeat_at, view.unschedulable, ", ".join(gpu.name for gpu in gpus),
    ]  # fmt: skip
