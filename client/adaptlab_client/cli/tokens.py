"""`adaptlab tokens`: create, list, revoke."""

from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli.exits import UsageFault
from adaptlab_client.cli.groups import group
from adaptlab_client.cli.session import OutputOption, open_client
from adaptlab_client.cli.terminal import Output, one_line, print_list, print_value, say

if TYPE_CHECKING:
    from adaptlab_answers.people import TokenView

COLUMNS = ("id", "name", "user", "scopes", "project", "job", "state", "expires", "last used")


def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="What it is for, to know it again in the list.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(help="read, submit, worker or admin; repeatable. Default: read and submit."),
    ] = None,
    only_project: Annotated[
        str | None, typer.Option(help="The only project that it opens; else all of the user's.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="Whose it is; for admins. Default: you.")] = None,
    days: Annotated[int, typer.Option(min=1, max=365, help="After how many days it expires.")] = 90,
    never_expires: Annotated[
        bool, typer.Option("--never-expires", help="For a service; for admins.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make a token and print its text on stdout; it cannot be had again."""
    with open_client(context) as client:
        made = client.tokens.create(
            name,
            scope or ("read", "submit"),
            project=only_project,
            user=user,
            expires_in_days=None if never_expires else days,
        )
    if output is not Output.TABLE:
        print_value(made, output)
        return
    until = "for good" if made.expires_at is None else f"until {made.expires_at:%Y-%m-%d}"
    say(f"token {made.id} of {one_line(made.user)}, {until}; this is the only time it is shown:")
    print(one_line(made.token))


def list_tokens(
    context: typer.Context,
    user: Annotated[str | None, typer.Option(help="Only of this user; for admins.")] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List tokens, newest first: yours, or as an admin everybody's."""
    with open_client(context) as client:
        print_list(client.tokens.list(user), COLUMNS, _row, output)


def revoke(
    context: typer.Context,
    identities: Annotated[list[str], typer.Argument(metavar="ID…", help="From the list.")],
    output: OutputOption = Output.TABLE,
) -> None:
    """End tokens for good, and everything that was opened with them."""
    if wrong := [identity for identity in identities if not identity.isdecimal()]:
        raise UsageFault(f"{wrong[0]!r} is no id of a token; `adaptlab tokens list` shows them.")
    with open_client(context) as client:
        ended = [client.tokens.revoke(int(identity)) for identity in identities]
    print_list(ended, COLUMNS, _row, output)


def application() -> typer.Typer:
    """The commands below `adaptlab tokens`."""
    return group(
        "tokens",
        "What opens the server: create, list, revoke.",
        {"create": create, "list": list_tokens, "revoke": revoke},
    )


def _row(entry: "TokenView") -> list[object]:
    scopes = ", ".join(entry.scopes)
    expires, used = entry.expires_at or "never", entry.last_used_at or "never"
    opens = (scopes, entry.project, entry.job)
    return [entry.id, entry.name, entry.user, *opens, entry.state, expires, used]
