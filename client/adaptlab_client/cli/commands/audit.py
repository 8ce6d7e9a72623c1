"""`adaptlab audit`: list the audit log."""

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli.groups import group
from adaptlab_client.cli.printing.terminal import Output, print_list
from adaptlab_client.cli.session import OutputOption, open_client

if TYPE_CHECKING:
    from adaptlab_answers.people import AuditView

AUDIT = ("at", "who", "token", "from", "action", "object", "status")


def list_entries(
    context: typer.Context,
    actor: Annotated[str | None, typer.Option(help="Only entries by this user.")] = None,
    action: Annotated[
        str | None, typer.Option(help="Only this action, such as cancel_job.")
    ] = None,
    of: Annotated[
        str | None, typer.Option("--object", help="Only entries about this id or name.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="From this time on, such as 2026-01-31T12:00Z.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Up to this time.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of entries.")] = 50,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the actions that were done or refused, newest first (admins only)."""
    query = {"actor": actor, "action": action, "object": of, "since": since, "until": until}
    with open_client(context) as client:
        entries = islice(client.audit.list({**query, "page_size": min(limit, 200)}), limit)
        print_list(entries, AUDIT, _entry, output)


def application() -> typer.Typer:
    """Return the commands of `adaptlab audit`."""
    about = "The audit log: actions that were done or refused on the server."
    return group("audit", about, {"list": list_entries})


def _entry(entry: "AuditView") -> list[object]:
    actor = (entry.actor, entry.token_id, entry.address)
    return [entry.at, *actor, entry.action, entry.object, entry.status]
