"""`adaptlab checkpoints`: list, show, download, export and import trained tensors."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adaptlab_client.cli import suggestions
from adaptlab_client.cli.exits import UsageError
from adaptlab_client.cli.groups import group
from adaptlab_client.cli.printing.terminal import Output, one_line, print_in_full, print_list, say
from adaptlab_client.cli.session import JobArgument, OutputOption, open_client
from adaptlab_client.cli.specs import read_choice
from adaptlab_client.cli.waiting import TimeoutOption, WaitOption, show_new_job

if TYPE_CHECKING:
    from adaptlab_answers.results import CheckpointView


class Format(StrEnum):
    """Formats of exported adapters."""

    PEFT = "peft"


COLUMNS = ("id", "kind", "replicate", "seed", "parameters", "bytes", "sha256")


def list_checkpoints(
    context: typer.Context, job: JobArgument, output: OutputOption = Output.TABLE
) -> None:
    """List the checkpoints of a job."""
    with open_client(context) as client:
        checkpoints = client.jobs.checkpoints(job)
    print_list(checkpoints, COLUMNS, _row, output)


def show(
    context: typer.Context,
    checkpoint: Annotated[int, typer.Argument(metavar="CHECKPOINT", help="Id of the checkpoint.")],
    output: OutputOption = Output.TABLE,
) -> None:
    """Show one checkpoint, without its tensors."""
    with open_client(context) as client:
        print_in_full(client.checkpoints.get(checkpoint), output)


def download(
    context: typer.Context,
    checkpoints: Annotated[
        list[str] | None, typer.Argument(metavar="[CHECKPOINT…]", help="Ids of checkpoints.")
    ] = None,
    job: Annotated[str | None, typer.Option(help="Download all checkpoints of this job.")] = None,
    to: Annotated[
        Path, typer.Option(help="Folder to write to, or a file name for a single checkpoint.")
    ] = Path(),
) -> None:
    """Download and verify safetensors files; interrupted downloads resume."""
    from adaptlab_client.cli.printing.progress import byte_bar  # loads rich, only needed here

    with open_client(context) as client:
        wanted: list[CheckpointView | str] = [*(checkpoints or ())]
        if job is not None:
            wanted += client.jobs.checkpoints(job)
        if not wanted:
            raise UsageError("Name checkpoints, or a --job that has checkpoints.")
        if len(wanted) > 1 or (job is not None and not to.suffix):
            to.mkdir(parents=True, exist_ok=True)
        for checkpoint in wanted:
            with byte_bar("checkpoint") as report:
                path = client.checkpoints.download(checkpoint, to, report=report)
            print(one_line(path))
            say(f"{path.stat().st_size} bytes, verified")


def export(
    context: typer.Context,
    checkpoint: Annotated[int, typer.Argument(metavar="CHECKPOINT", help="Id of the checkpoint.")],
    to: Annotated[
        Path | None, typer.Option(help="Folder to write to. Default: checkpoint-ID-peft.")
    ] = None,
    format: Annotated[  # noqa: A002 - the name of the option
        Format, typer.Option(help="Format of the folder.")
    ] = Format.PEFT,
) -> None:
    """Write an adapter to a folder that PEFT loads."""
    folder = to or Path(f"checkpoint-{checkpoint}-{format.value}")
    with open_client(context) as client:
        print(one_line(client.checkpoints.export(checkpoint, folder, format=format.value)))


def import_adapter(
    context: typer.Context,
    base_model: Annotated[
        str,
        typer.Argument(
            help="Name of the base model that the adapter was trained on.",
            autocompletion=suggestions.base_models,
        ),
    ],
    folder: Annotated[
        str,
        typer.Argument(
            metavar="ALIAS/PATH",
            help="PEFT folder below one of the server's model roots, or uploaded/NAME.",
        ),
    ],
    task: Annotated[
        str,
        typer.Option(
            help="Task to evaluate it on, as a name or YAML, '{name: add, k: 2}'.",
            autocompletion=suggestions.tasks,
        ),
    ],
    queue: Annotated[
        str | None, typer.Option(help="Queue of the workers that can read the folder.")
    ] = None,
    wait: WaitOption = False,
    timeout: TimeoutOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Import an adapter that PEFT has saved in a folder on the server."""
    members: dict[str, object] = {} if queue is None else {"resources": {"queue": queue}}
    chosen = read_choice(task)
    with open_client(context) as client:
        job = client.checkpoints.import_folder(base_model, folder, chosen, **members)
        show_new_job(client, job, output, wait=wait, timeout=timeout)


def application() -> typer.Typer:
    """Return the commands of `adaptlab checkpoints`."""
    return group(
        "checkpoints",
        "List, show, download, export and import trained tensors.",
        {
            "list": list_checkpoints,
            "show": show,
            "download": download,
            "export": export,
            "import": import_adapter,
        },
    )


def _row(checkpoint: "CheckpointView") -> list[object]:
    return [
        checkpoint.id,
        checkpoint.kind,
        checkpoint.replicate,
        checkpoint.seed,
        checkpoint.parameters,
        checkpoint.size,
        checkpoint.sha256,
    ]
