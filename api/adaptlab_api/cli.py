"""The command `adaptlab api`."""

from typing import Annotated

import typer

Host = Annotated[str, typer.Option(help="The address to listen at.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")]


def serve(host: Host = "127.0.0.1", port: Port = 8000) -> None:
    """Serve the HTTP API and the dashboard; settings come from ADAPTLAB_ variables."""
    from adaptlab_api.server import serve as run  # loading the server takes a second

    run(host, port)
