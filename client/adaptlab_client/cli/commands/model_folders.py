"""`adaptlab model-folders`: list, show, upload and delete."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli import suggestions
from adaptlab_client.cli.groups import group
from adaptlab_client.cli.printing.terminal import (
    Output,
    one_line,
    print_in_full,
    print_list,
    print_one,
    say,
)
from adaptlab_client.cli.session import OutputOption, open_client

if TYPE_CHECKING:
    from adaptlab_answers.models import ModelFolderView

COLUMNS = ("name", "folder", "kind", "architecture", "parameters", "files", "bytes")
NameArgument = Annotated[
    str,
    typer.Argument(
        help="Name of an uploaded model folder.", autocompletion=suggestions.model_folders
    ),
]


def list_folders(context: typer.Context, output: OutputOption = Output.TABLE) -> None:
    """List the uploaded folders of models and adapters."""
    with open_client(context) as client:
        print_list(client.model_folders.list(), COLUMNS, _row, output, "name")


def show(context: typer.Context, name: NameArgument, output: OutputOption = Output.TABLE) -> None:
    """Show one uploaded folder with its files."""
    with open_client(context) as client:
        print_in_full(client.model_folders.get(name), output, "name")


def upload(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the model folder on the server.")],
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            exists=True,
            file_okay=False,
            help="Folder of a model in the Hugging Face layout, or of a PEFT adapter.",
        ),
    ],
    output: OutputOption = Output.TABLE,
) -> None:
    """Upload a model or an adapter; after an interruption, run it again to send the rest.

    The configuration, the weights and the tokeniser of a published model are sent, or the two files
    of a PEFT adapter. Other files are not needed. Import the model or the adapter afterwards, from
    the folder uploaded/NAME.
    """
    from adaptlab_client.cli.printing.progress import byte_bar  # loads rich, only needed here

    with ExitStack() as stack:
        client = stack.enter_context(open_client(context))
        bar = stack.enter_context(byte_bar(folder.name))
        entry = client.model_folders.upload(
            name, folder, report=lambda _, done, size: bar(done, size)
        )
    print_one(entry, COLUMNS, _row, output, "name")
    if entry.kind == "adapter":
        say(f"import it with: adaptlab checkpoints import BASE_MODEL {entry.folder} --task TASK")
    else:
        say(f"import it with: adaptlab base-models import {one_line(name)} {entry.folder}")


def delete(context: typer.Context, name: NameArgument) -> None:
    """Delete an uploaded folder that no base model or unfinished job needs."""
    with open_client(context) as client:
        client.model_folders.delete(name)
    say(f"deleted model folder {one_line(name)}")


def application() -> typer.Typer:
    """Return the commands of `adaptlab model-folders`."""
    return group(
        "model-folders",
        "Upload models and adapters to a server that cannot read their folder.",
        {"list": list_folders, "show": show, "upload": upload, "delete": delete},
    )


def _row(entry: "ModelFolderView") -> list[object]:
    return [
        entry.name, entry.folder, entry.kind, entry.architecture or entry.family,
        entry.parameters, len(entry.files), entry.size_bytes,
    ]  # fmt: skip
