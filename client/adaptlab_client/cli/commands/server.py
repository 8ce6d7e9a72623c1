"""`adaptlab server` and `adaptlab workers`: how the server is, and who works for it."""

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
)
SHARES = ("store", "state", "artifacts", "bytes", "least recently checked")


def health(context: typer.Context, output: OutputOption = Output.TABLE) -> None:
    """Check that the server and its database answer; exit with 69 or 75 if they do not."""
    with open_client(context) as client:
        client.server.alive()
        found = client.server.ready()
        say(f"{client.url} answers")
    if output is Output.TABLE:
        print(one_line(found.status))
    else:
        print_value(found, output, "status")


def capabilities(context: typer.Context, output: OutputOption = Output.TABLE) -> None:
    """Show the server's version, limits and plug-ins."""
    with open_client(context) as client:
        print_in_full(client.capabilities(), output, "version")


def storage(context: typer.Context, output: OutputOption = Output.TABLE) -> None:
    """Show how many bytes each store holds, and what is damaged or collected."""
    with open_client(context) as client:
        found = client.server.storage()
    if output in (Output.TABLE, Output.CSV):
        rows = (
            (one.store, one.state, one.artifacts, one.bytes, one.least_recently_checked)
            for one in found.shares
        )
        print_rows(SHARES, rows, output)
        say(f"unreferenced: {found.unreferenced} artifacts, {found.unreferenced_bytes} bytes")
    elif output is Output.ID:
        for store in dict.fromkeys(one.store for one in found.shares):
            print(one_line(store))
    else:
        print_value(found, output)


def workers(context: typer.Context, output: OutputOption = Output.TABLE) -> None:
    """List the workers and the queues they serve, live ones first."""
    with open_client(context) as client:
        found = client.server.workers()
    print_list(found, WORKERS, _row, output)


def application() -> typer.Typer:
    """The commands below `adaptlab server`."""
    return group(
        "server",
        "Show the server's health, capabilities and storage.",
        {"health": health, "capabilities": capabilities, "storage": storage},
    )


def _row(one: "WorkerView") -> list[object]:
    return [
        one.id, one.host, one.process_id, ", ".join(one.queues), one.live, one.started_at,
        one.heartbeat_at, one.unschedulable,
    ]  # fmt: skip
