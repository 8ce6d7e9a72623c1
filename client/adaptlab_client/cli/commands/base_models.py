"""`adaptlab base-models`: list, show, import, export, share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli import suggestions
from adaptlab_client.cli.exits import UsageError
from adaptlab_client.cli.groups import group
from adaptlab_client.cli.printing.fetches import COLUMNS as FETCH_COLUMNS
from adaptlab_client.cli.printing.fetches import fetch_progress
from adaptlab_client.cli.printing.fetches import row_of as fetch_row
from adaptlab_client.cli.printing.terminal import (
    Output,
    one_line,
    print_in_full,
    print_list,
    print_one,
    say,
)
from adaptlab_client.cli.session import OutputOption, open_client
from adaptlab_client.cli.waiting import TimeoutOption, WaitOption, show_new_job

if TYPE_CHECKING:
    from adaptlab_answers.models import BaseModelView

COLUMNS = ("name", "state", "family", "task", "parameters", "replicates", "job")
NameArgument = Annotated[
    str, typer.Argument(help="Name of a base model.", autocompletion=suggestions.base_models)
]
OtherArgument = Annotated[str, typer.Argument(metavar="PROJECT", help="Name of the project.")]


def list_base_models(context: typer.Context, output: OutputOption = Output.TABLE) -> None:
    """List the base models on the server."""
    with open_client(context) as client:
        print_list(client.base_models.list(), COLUMNS, _row, output, "name")


def show(context: typer.Context, name: NameArgument, output: OutputOption = Output.TABLE) -> None:
    """Show one base model."""
    with open_client(context) as client:
        print_in_full(client.base_models.get(name), output, "name")


def import_model(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the new base model.")],
    folder: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER",
            help="ALIAS/PATH below one of the server's model roots, uploaded/NAME, or "
            "hub:ORG/NAME[@REVISION].",
        ),
    ],
    queue: Annotated[
        str | None, typer.Option(help="Queue of the workers that can read the folder.")
    ] = None,
    wait: WaitOption = False,
    timeout: TimeoutOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Import a published model from a folder on the server, or a hub, as a base model.

    The server fetches a model of a hub first, and then submits the import.
    """
    if folder.startswith(("/", ".", "~")):
        raise UsageError(
            f"{folder} is a folder of this machine. `adaptlab model-folders upload {name} "
            f"{folder}` sends it; then import uploaded/{name}."
        )
    members: dict[str, object] = {} if queue is None else {"resources": {"queue": queue}}
    with open_client(context) as client:
        if folder.startswith("hub:"):
            fetch = client.hub.fetch(name, folder, members)
            if not wait:
                print_one(fetch, FETCH_COLUMNS, fetch_row, output)
                return
            with fetch_progress(folder) as report:
                fetched = client.hub.wait(fetch.id, timeout=timeout, on_progress=report)
            job = client.jobs.get(str(fetched.job_id))
            show_new_job(client, job, output, wait=wait, timeout=timeout)
            return
        job = client.base_models.import_folder(name, folder, **members)
        show_new_job(client, job, output, wait=wait, timeout=timeout)


def export(
    context: typer.Context,
    name: NameArgument,
    folder: Annotated[Path, typer.Argument(help="Folder to write to.")],
    replicate: Annotated[int, typer.Option(help="Replicate of a model trained here.")] = 0,
) -> None:
    """Write a base model to a folder that transformers loads."""
    from adaptlab_client.cli.printing.progress import byte_bar  # loads rich, only needed here

    with open_client(context) as client, byte_bar(name) as report:
        client.base_models.export(name, folder, replicate=replicate, report=report)
    print(one_line(folder))


def share(
    context: typer.Context,
    name: NameArgument,
    other: OtherArgument,
    output: OutputOption = Output.TABLE,
) -> None:
    """Share a base model with another project of yours, which can then adapt it."""
    with open_client(context) as client:
        print_one(client.base_models.share(name, other), COLUMNS, _row, output, "name")


def take_back(context: typer.Context, name: NameArgument, other: OtherArgument) -> None:
    """Stop sharing a base model with a project that does not need it."""
    with open_client(context) as client:
        client.base_models.take_back(name, other)
    say(f"took base model {one_line(name)} back from {one_line(other)}")


def application() -> typer.Typer:
    """Return the commands of `adaptlab base-models`."""
    return group(
        "base-models",
        "List, show, import, export and share the base models that jobs adapt.",
        {
            "list": list_base_models,
            "show": show,
            "import": import_model,
            "export": export,
            "share": share,
            "take-back": take_back,
        },
    )


def _row(entry: "BaseModelView") -> list[object]:
    task = entry.task.get("name") if entry.task else None
    return [
        entry.name, entry.state, entry.family.get("name"), task, entry.parameters,
        entry.replicates, entry.job_id,
    ]  # fmt: skip
