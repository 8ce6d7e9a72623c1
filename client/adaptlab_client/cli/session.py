"""The client of a command, and the arguments that many commands share."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, cast

import typer

from adaptlab_client.cli import suggestions
from adaptlab_client.cli.printing.terminal import Output, say

if TYPE_CHECKING:
    from adaptlab_client.client import Client

OutputOption = Annotated[
    Output, typer.Option("--output", "-o", help="Format on stdout; `id` prints one id per line.")
]
JobArgument = Annotated[
    str,
    typer.Argument(metavar="JOB", help="Id of a job.", autocompletion=suggestions.jobs),
]
JobsArgument = Annotated[
    list[str],
    typer.Argument(metavar="JOB…", help="Ids of jobs.", autocompletion=suggestions.jobs),
]
BaseModelOption = Annotated[
    str | None,
    typer.Option(help="Name of a base model.", autocompletion=suggestions.base_models),
]


@dataclass(frozen=True, slots=True)
class NamedServer:
    """The server that the options name, or the default one; opened when called."""

    url: str | None
    project: str | None

    def __call__(self) -> "Client":
        """Return a client."""
        from adaptlab_client.client import Client  # loads httpx, which `--help` does not need
        from adaptlab_client.transport.connection import Retries

        return Client(self.url, project=self.project, retries=Retries(waits=cache(_say_fetching)))


def _say_fetching() -> None:
    say("The server fetches a dataset from the hub; `adaptlab hub list` shows its progress.")


def remember_server(context: typer.Context, url: str | None, project: str | None = None) -> None:
    """Store the function that opens the client, unless a test has set one."""
    if context.obj is None:
        context.obj = NamedServer(url, project)


def name_server(context: typer.Context, url: str | None, project: str | None) -> None:
    """Take the options after a command's name, which overrule those before it."""
    root = context.find_root()
    if isinstance(named := root.obj, NamedServer) and (url or project):
        root.obj = NamedServer(url or named.url, project or named.project)


def open_client(context: typer.Context) -> "Client":
    """Return a client for the server of this invocation."""
    connect = cast("Callable[[], Client]", context.find_root().obj)
    return connect()
