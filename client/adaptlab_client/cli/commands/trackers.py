"""`adaptlab trackers`: add, list, remove."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli.exits import UsageError
from adaptlab_client.cli.groups import group
from adaptlab_client.cli.printing.terminal import Output, print_list, print_one, say
from adaptlab_client.cli.session import OutputOption, open_client

if TYPE_CHECKING:
    from adaptlab_answers.trackers.views import TrackerView

COLUMNS = ("id", "project", "kind", "address", "experiment", "waiting", "last sent", "error")
KINDS = ("mlflow", "trackio")


def add(
    context: typer.Context,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="mlflow or trackio.")],
    server: Annotated[
        str, typer.Argument(metavar="URL", help="Address of the tracker, with https.")
    ],
    experiment: Annotated[
        str, typer.Option(help="Experiment of MLflow, or project of Trackio.")
    ] = "adaptlab",
    token: Annotated[
        str | None,
        typer.Option(metavar="-", help="`-` reads a token, or `user:password`, from stdin."),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Have the server send the project's studies to a tracker.

    They are sent as they run and end, and those from before too.
    You must be an admin of the project. Studies wait while the tracker does not answer.
    """
    if kind not in KINDS:
        raise UsageError(f"There is no kind {kind!r}. Use mlflow or trackio.")
    if token not in (None, "-"):
        raise UsageError("A token in a command can be read by others. Give `--token -`.")
    secret = None if token is None else _read()
    with open_client(context) as client:
        added = client.trackers.add(
            "mlflow" if kind == "mlflow" else "trackio", server, experiment=experiment, token=secret
        )
    print_one(added, COLUMNS, _row, output)


def list_trackers(context: typer.Context, output: OutputOption = Output.TABLE) -> None:
    """List the trackers of your projects, with their last errors."""
    with open_client(context) as client:
        print_list(client.trackers.list(), COLUMNS, _row, output)


def remove(
    context: typer.Context,
    tracker: Annotated[
        str, typer.Argument(metavar="ID", help="Id of a tracker, from `adaptlab trackers list`.")
    ],
) -> None:
    """Remove a tracker; what was sent to it stays there."""
    if not tracker.isdecimal():
        raise UsageError(f"{tracker!r} is not the id of a tracker. See `adaptlab trackers list`.")
    with open_client(context) as client:
        client.trackers.remove(int(tracker))
    say(f"removed tracker {tracker}")


def application() -> typer.Typer:
    """Return the commands of `adaptlab trackers`."""
    return group(
        "trackers",
        "Send studies to a board of yours, MLflow or Trackio.",
        {"add": add, "list": list_trackers, "remove": remove},
    )


def _read() -> str:
    text = typer.prompt("token", hide_input=True, err=True) if sys.stdin.isatty() else input()
    return text.strip()


def _row(entry: "TrackerView") -> list[object]:
    place = (entry.id, entry.project, entry.kind, entry.url, entry.experiment)
    return [*place, entry.waiting, entry.sent_at, entry.error]
