"""`adaptlab uploads`: send, list, show, delete."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli import suggestions
from adaptlab_client.cli.groups import group
from adaptlab_client.cli.session import OutputOption, open_client
from adaptlab_client.cli.terminal import Output, print_list, print_one, say

if TYPE_CHECKING:
    from adaptlab_answers.storage import UploadView

COLUMNS = ("id", "state", "bytes", "chunks", "there", "sha256", "expires")
UploadArgument = Annotated[
    str,
    typer.Argument(
        metavar="UPLOAD", help="Identity of an upload.", autocompletion=suggestions.uploads
    ),
]


def send(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="What to send.")],
    output: OutputOption = Output.TABLE,
) -> None:
    """Send a file in chunks; started again after a break, it sends what is still missing."""
    from adaptlab_client.cli.progress import byte_bar  # rich, loaded for those who wait

    with open_client(context) as client, byte_bar(file.name) as report:
        sent = client.uploads.send(file, report=report)
    print_one(sent, COLUMNS, _row, output)


def list_uploads(context: typer.Context, output: OutputOption = Output.TABLE) -> None:
    """List what you are sending, or have sent and not used yet, the oldest first."""
    with open_client(context) as client:
        print_list(client.uploads.list(), COLUMNS, _row, output)


def show(
    context: typer.Context, upload: UploadArgument, output: OutputOption = Output.TABLE
) -> None:
    """Show one upload: how much of it is there."""
    with open_client(context) as client:
        print_one(client.uploads.get(upload), COLUMNS, _row, output)


def delete(context: typer.Context, upload: UploadArgument) -> None:
    """Let go of an upload; what was made from it stays."""
    with open_client(context) as client:
        client.uploads.delete(upload)
    say(f"{upload} is gone")


def application() -> typer.Typer:
    """The commands below `adaptlab uploads`."""
    return group(
        "uploads",
        "Files too large for one request: send, list, show, delete.",
        {"send": send, "list": list_uploads, "show": show, "delete": delete},
    )


def _row(entry: "UploadView") -> list[object]:
    return [
        entry.id, entry.state, entry.size_bytes, entry.chunks, len(entry.received), entry.sha256,
        entry.expires_at,
    ]  # fmt: skip
