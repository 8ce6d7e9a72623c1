"""`adaptlab uploads`: send, list, show, delete."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli import suggestions
from adaptlab_client.cli.groups import group
from adaptlab_client.cli.printing.terminal import Output, print_list, print_one, say
from adaptlab_client.cli.session import OutputOption, open_client

if TYPE_CHECKING:
    from adaptlab_answers.storage import UploadView

COLUMNS = ("id", "state", "bytes", "chunks", "there", "sha256", "expires")
UploadArgument = Annotated[
    str,
    typer.Argument(metavar="UPLOAD", help="Id of an upload.", autocompletion=suggestions.uploads),
]


def send(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="File to send.")],
    output: OutputOption = Output.TABLE,
) -> None:
    """Send a file in chunks; after an interruption, run it again to send the rest."""
    from adaptlab_client.cli.printing.progress import byte_bar  # loads rich, only needed here

    with open_client(context) as client, byte_bar(file.name) as report:
        upload = client.uploads.send(file, report=report)
    print_one(upload, COLUMNS, _row, output)


def list_uploads(context: typer.Context, output: OutputOption = Output.TABLE) -> None:
    """List your uploads that are unfinished or not used yet, oldest first."""
    with open_client(context) as client:
        print_list(client.uploads.list(), COLUMNS, _row, output)


def show(
    context: typer.Context, upload: UploadArgument, output: OutputOption = Output.TABLE
) -> None:
    """Show one upload and how much of it has arrived."""
    with open_client(context) as client:
        print_one(client.uploads.get(upload), COLUMNS, _row, output)


def delete(context: typer.Context, upload: UploadArgument) -> None:
    """Delete an upload; what was created from it stays."""
    with open_client(context) as client:
        client.uploads.delete(upload)
    say(f"deleted upload {upload}")


def application() -> typer.Typer:
    """Return the commands of `adaptlab uploads`."""
    return group(
        "uploads",
        "Send, list, show and delete uploads: files sent in chunks.",
        {"send": send, "list": list_uploads, "show": show, "delete": delete},
    )


def _row(entry: "UploadView") -> list[object]:
    return [
        entry.id, entry.state, entry.size_bytes, entry.chunks, len(entry.received), entry.sha256,
        entry.expires_at,
    ]  # fmt: skip
