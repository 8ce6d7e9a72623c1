"""`adaptlab login`, `adaptlab logout` and `adaptlab whoami`."""

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli.exits import UsageError
from adaptlab_client.cli.printing.terminal import Output, one_line, print_table, print_value, say
from adaptlab_client.cli.session import OutputOption, open_client

if TYPE_CHECKING:
    from adaptlab_answers.people import Me

LONGEST = 200


def login(context: typer.Context) -> None:
    """Store a token for the server; it is prompted for without echo, or read from stdin."""
    from adaptlab_client.transport import credentials

    token = _read_token()
    with open_client(context) as client, client.as_holder_of(token) as holder:
        me = holder.me()
        path = credentials.keep(os.environ, client.url, token)
    until = (
        "with no expiry" if me.token.expires_at is None else f"until {me.token.expires_at:%Y-%m-%d}"
    )
    say(f"signed in to {client.url} as {one_line(me.user)}, {until}; token stored in {path}")
    if os.environ.get("ADAPTLAB_TOKEN"):
        say("ADAPTLAB_TOKEN is set and takes precedence; unset it to use this token.")


def logout(
    context: typer.Context,
    revoke: Annotated[
        bool, typer.Option("--revoke", help="Also revoke the token, wherever it is used.")
    ] = False,
) -> None:
    """Delete the token that `adaptlab login` stored for the server."""
    from adaptlab_client.transport import credentials

    with open_client(context) as client:
        token = credentials.forget(os.environ, client.url)
        if token is None:
            say(f"no token is stored for {client.url}")
            return
        if revoke:
            with client.as_holder_of(token) as holder:
                holder.tokens.revoke(holder.me().token.id)
    say(f"signed out of {client.url}" + (" and revoked the token" if revoke else ""))


def whoami(context: typer.Context, output: OutputOption = Output.TABLE) -> None:
    """Show your user, the rights of your token, your projects and your usage."""
    with open_client(context) as client:
        me = client.me()
    if output is Output.TABLE:
        print_table(("field", "value"), _facts(me))
    else:
        print_value(me, output, "user")


def _facts(me: "Me") -> Iterator[tuple[str, object]]:
    """Yield the most important facts, with their names."""
    token = me.token
    yield "user", f"{me.user}, an admin of the server" if me.is_admin else me.user
    yield "token", token.name
    yield "scopes", ", ".join(token.scopes)
    yield "expires", token.expires_at or "never"
    if token.project is not None:
        yield "only in the project", token.project
    yield "projects", ", ".join(f"{project.name} ({project.role})" for project in me.projects)
    if len(me.projects) > 1:
        yield "usual project", me.usual_project or "none; adaptlab projects use NAME"
    for invitation in me.invitations:
        yield "invitation", f"{invitation.project} ({invitation.role}); adaptlab projects accept"
    for queue in me.usage.queues:
        limit = "" if queue.most_hours is None else f" of {queue.most_hours:g}"
        hours = f"{queue.hours:.1f}{limit} hours in {me.usage.days} days"
        yield f"queue {queue.queue}", hours
    yield "stored bytes", me.usage.stored_bytes


def _read_token() -> str:
    if sys.stdin.isatty():
        typed = typer.prompt("Token", hide_input=True, err=True)
    else:
        typed = sys.stdin.read(LONGEST)
    token = str(typed).strip()
    if not token.isascii() or not token.isprintable() or not token:
        raise UsageError(
            "This is not a token. Create one with `adaptlab tokens create`, or ask an admin "
            "for one."
        )
    return token
