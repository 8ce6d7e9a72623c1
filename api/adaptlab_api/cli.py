"""The command `adaptlab api`."""

from pathlib import Path
from typing import Annotated

import typer

from adaptlab.loading import uncollected

Host = Annotated[str, typer.Option(help="The address to listen at.")]
Inherited = Annotated[
    int | None,
    typer.Option("--fd", help="A listening socket that this process inherits, at that address."),
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")]
Pem = Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="A PEM file, for TLS.")]
BehindProxy = Annotated[
    bool,
    typer.Option(
        "--behind-proxy",
        help="A proxy in front does TLS, and says where requests come from (X-Forwarded-For).",
    ),
]


def serve(
    host: Host = "127.0.0.1",
    port: Port = 8000,
    certificate: Pem = None,
    key: Pem = None,
    behind_proxy: BehindProxy = False,
    inherited: Inherited = None,
) -> None:
    """Serve the HTTP API and the dashboard; settings come from ADAPTLAB_ variables.

    Beyond this machine only with --certificate and --key, or --behind-proxy.
    """
    from adaptlab_api.doors.listening import Listening, UnsafeAddress

    listening = Listening(host, port, certificate, key, behind_proxy)
    try:
        listening.check()
    except UnsafeAddress as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from error
    with uncollected():  # loading the server takes seconds
        from adaptlab_api.server import serve as run

    run(listening, inherited)
