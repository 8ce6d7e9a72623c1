"""`adaptlab tokens`: create, list, revoke."""

from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli.exits import UsageError
from adaptlab_client.cli.groups import group
from adaptlab_client.cli.printing.terminal import Output, one_line, print_list, print_value, say
from adaptlab_client.cli.session import OutputOption, open_client

if TYPE_CHECKING:
    from adaptlab_answers.people import TokenView

COLUMNS = ("id", "name", "user", "scopes", "project", "job", "state", "expires", "last used")


def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name that identifies the token in lists.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help="Scope: read, submit, worker, metrics or admin. Repeatable. Default: read, submit."
        ),
    ] = None,
    only_project: Annotated[
        str | None,
        typer.Option(help="Limit the token to this project. Default: all projects of the user."),
    ] = None,
    user: Annotated[
        str | None, typer.Option(help="User of the token (admins only). Default: you.")
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=365, help="Days until the token expires.")] = 90,
    never_expires: Annotated[
        bool, typer.Option("--never-expires", help="Never expire, for a service (admins only).")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Create a token and print it on stdout; it is shown only once."""
    with open_client(context) as client:
        token = client.tokens.create(
            name,
            scope or ("read", "submit"),
            project=only_project,
            user=user,
            expires_in_days=None if never_expires else days,
        )
    if output is not Output.TABLE:
        print_value(token, output)
        return
    until = "with no expiry" if token.expires_at is None else f"until {token.expires_at:%Y-%m-%d}"
    say(f"token {token.id} of {one_line(token.user)}, {until}. It is shown only once:")
    print(one_line(token.token))


def list_tokens(
    context: typer.Context,
    user: Annotated[
        str | None, typer.Option(help="Only tokens of this user (admins only).")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List your tokens, or as an admin everybody's, newest first."""
    with open_client(context) as client:
        print_list(client.tokens.list(user), COLUMNS, _row, output)


def revoke(
    context: typer.Context,
    identities: Annotated[
        list[str], typer.Argument(metavar="ID…", help="Ids of tokens, from `adaptlab tokens list`.")
    ],
    output: OutputOption = Output.TABLE,
) -> None:
    """Revoke tokens and end the sessions that use them."""
    if invalid := [identity for identity in identities if not identity.isdecimal()]:
        raise UsageError(f"{invalid[0]!r} is not the id of a token. See `adaptlab tokens list`.")
    with open_client(context) as client:
        revoked = [client.tokens.revoke(int(identity)) for identity in identities]
    print_list(revoked, COLUMNS, _row, output)


def application() -> typer.Typer:
    """Return the commands of `adaptlab tokens`."""
    return group(
        "tokens",
        "Create, list and revoke access tokens.",
        {"create": create, "list": list_tokens, "revoke": revoke},
    )


def _row(entry: "TokenView") -> list[object]:
    scopes = ", ".join(entry.scopes)
    expires, used = entry.expires_at or "never", entry.last_used_at or "never"
    opens = (scopes, entry.project, entry.job)
    return [entry.id, entry.name, entry.user, *opens, entry.state, expires, used]
