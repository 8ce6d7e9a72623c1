"""`adaptlab hub`: fetches of models and datasets, and your token of the hub."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli.groups import group
from adaptlab_client.cli.printing.fetches import COLUMNS, fetch_progress, row_of
from adaptlab_client.cli.printing.terminal import (
    Output,
    complain,
    one_line,
    print_in_full,
    print_list,
    print_one,
    say,
)
from adaptlab_client.cli.session import OutputOption, open_client
from adaptlab_client.cli.waiting import TimeoutOption

if TYPE_CHECKING:
    from adaptlab_answers.hub import HubFetchView, HubTokenView

PLAN_COLUMNS = (
    *("id", "source", "architecture", "parameters", "dtype", "files", "bytes", "licence", "gated"),
)
TOKEN_COLUMNS = ("hub", "stored", "user", "token", "role", "set")
FetchArgument = Annotated[
    str, typer.Argument(metavar="FETCH", help="Id of a fetch, from `adaptlab hub list`.")
]


def fetch(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the model folder on the server.")],
    source: Annotated[
        str, typer.Argument(metavar="hub:ORG/NAME[@REVISION]", help="Model on the hub.")
    ],
    output: OutputOption = Output.TABLE,
) -> None:
    """Have a model fetched into a model folder, without importing it."""
    with open_client(context) as client:
        print_one(client.hub.fetch(name, source, imports=False), COLUMNS, row_of, output)


def plan(
    context: typer.Context,
    source: Annotated[
        str, typer.Argument(metavar="hub:ORG/NAME[@REVISION]", help="Model on the hub.")
    ],
    timeout: TimeoutOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what a model is and how large, before any of its weights is fetched.

    See `adaptlab budgets solve --fetch` for the sizes of methods on it.
    """
    with open_client(context) as client:
        with fetch_progress(source) as report:
            view = client.hub.plan(source, timeout=timeout, on_progress=report)
        print_one(view, PLAN_COLUMNS, _plan_row, output)


def list_fetches(context: typer.Context, output: OutputOption = Output.TABLE) -> None:
    """List the fetches of the last 90 days, newest first."""
    with open_client(context) as client:
        print_list(client.hub.list(), COLUMNS, row_of, output)


def show(
    context: typer.Context, fetch_id: FetchArgument, output: OutputOption = Output.TABLE
) -> None:
    """Show one fetch, with its progress, plan and error."""
    with open_client(context) as client:
        print_in_full(client.hub.get(fetch_id), output, "id")


def cancel(
    context: typer.Context, fetch_id: FetchArgument, output: OutputOption = Output.TABLE
) -> None:
    """Cancel a fetch; what it has brought is deleted."""
    with open_client(context) as client:
        print_one(client.hub.cancel(fetch_id), COLUMNS, row_of, output)


def retry(
    context: typer.Context, fetch_id: FetchArgument, output: OutputOption = Output.TABLE
) -> None:
    """Try a failed or cancelled fetch again, or one that waits, at once."""
    with open_client(context) as client:
        print_one(client.hub.retry(fetch_id), COLUMNS, row_of, output)


def set_token(context: typer.Context, output: OutputOption = Output.TABLE) -> None:
    """Store your token of the hub, read from stdin; nobody can read it again.

    The hub is asked whose it is. It is used for your own fetches of what is private or gated.
    Create one that can only read.
    """
    text = typer.prompt("token", hide_input=True, err=True) if sys.stdin.isatty() else input()
    with open_client(context) as client:
        _print_token(client.hub.set_token(text.strip()), output)


def token(context: typer.Context, output: OutputOption = Output.TABLE) -> None:
    """Show whether you have stored a token of the hub, when, and whose it is."""
    with open_client(context) as client:
        _print_token(client.hub.token(), output)


def remove_token(context: typer.Context) -> None:
    """Delete your token of the hub."""
    with open_client(context) as client:
        client.hub.delete_token()
    say("deleted your token of the hub")


def application() -> typer.Typer:
    """Return the commands of `adaptlab hub`."""
    return group(
        "hub",
        "Fetch models and datasets from a hub by their names.",
        {
            "fetch": fetch,
            "plan": plan,
            "list": list_fetches,
            "show": show,
            "cancel": cancel,
            "retry": retry,
            "set-token": set_token,
            "token": token,
            "remove-token": remove_token,
        },
    )


def _plan_row(view: "HubFetchView") -> list[object]:
    assert view.plan is not None  # of a fetch that has succeeded
    planned = view.plan
    licence = planned.licence_name or planned.licence
    return [
        view.id, view.source, planned.architecture, planned.parameters, planned.dtype,
        len(planned.files), view.bytes_total, licence, planned.gated,
    ]  # fmt: skip


def _print_token(view: "HubTokenView", output: Output) -> None:
    print_one(
        view, ("hub", "stored", "user", "token", "role", "set"), _token_row, output, "endpoint"
    )
    if view.is_set and view.account is None:
        complain("The hub could not be asked whose token it is.")


def _token_row(view: "HubTokenView") -> list[object]:
    account = view.account
    whose = (account.user, account.token_name, account.role) if account else (None, None, None)
    return [one_line(view.endpoint), "yes" if view.is_set else "no", *whose, view.set_at]
